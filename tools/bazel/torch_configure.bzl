"""torch_configure: a Python environment's headers, libpython and torch as @local_torch.

The Python is $PYTHON_BIN_PATH, else the workspace's .venv, else python3 on PATH. A folder on
$PYTHONPATH may hold another torch, or its headers alone (tools/lib/torch_headers.py).
"""

# The module is loaded into a process that has imported torch already. Naming torch's
# libraries without a path makes the loader take those, and puts their symbols in the
# module's scope: Python loads them RTLD_LOCAL, so leaving them undefined would not do.
_BUILD = """
package(default_visibility = ["//visibility:public"])

# Python.h alone, for a module that a running Python loads.
cc_library(
    name = "python_headers",
    hdrs = glob(["python_include/**/*.h"]),
    includes = ["python_include"],
)

# For a test that embeds Python. Without a shared libpython it does not link.
cc_library(
    name = "python",
    linkopts = {link_libpython},
    deps = [":python_headers"],
)

# The copy in torch's wheel: another pybind11 has other internals, and both would meet
# in one process.
cc_library(
    name = "pybind11",
    hdrs = glob(["torch_include/pybind11/**/*.h"]),
    includes = ["torch_include"],
    deps = [":python_headers"],
)

# For a module that is loaded after torch.
cc_library(
    name = "torch",
    hdrs = glob(
        ["torch_include/**/*.h", "torch_include/**/*.hpp"],
        exclude = ["torch_include/google/**"],
    ),
    defines = ["NDEBUG"],
    includes = [
        "torch_include",
        "torch_include/torch/csrc/api/include",
    ],
    linkopts = [
        "-Lexternal/local_torch/torch_lib",
        "-ltorch_python",
        "-ltorch",
        "-ltorch_cpu",
        "-lc10",
    ],
    deps = [":python_headers"],
)

# For a test that uses torch from C++ without a Python program around it.
cc_library(
    name = "torch_for_tests",
    testonly = True,
    linkopts = ["-Wl,-rpath,'{torch_dir}/lib'"],
    deps = [
        ":python",
        ":torch",
    ],
)

# Which environment this is, for tests: #include "local_torch/environment.h"
cc_library(
    name = "environment",
    hdrs = ["local_torch/environment.h"],
    includes = ["."],
)
"""

_ENVIRONMENT_H = """// The Python environment that the build was configured for.
#ifndef LOCAL_TORCH_ENVIRONMENT_H_
#define LOCAL_TORCH_ENVIRONMENT_H_

namespace local_torch {{

inline constexpr char kPythonExecutable[] = "{executable}";
inline constexpr char kPythonVersion[] = "{python_version}";

}}  // namespace local_torch

#endif  // LOCAL_TORCH_ENVIRONMENT_H_
"""

def _impl(ctx):
    root = ctx.path(Label("//:WORKSPACE")).dirname
    python = ctx.os.environ.get("PYTHON_BIN_PATH", "")
    if not python:
        venv = root.get_child(".venv").get_child("bin").get_child("python3")
        python = str(venv) if venv.exists else ctx.which("python3")
    script = ctx.path(Label("//tools/bazel:describe_python.py"))
    result = ctx.execute([python, "-B", script])
    if result.return_code:
        fail("torch_configure: " + (result.stderr.strip() or "cannot run %s" % python))
    info = json.decode(result.stdout)

    # In place of a digest of the whole of torch: where torch lies in the workspace's own
    # .venv, Bazel watches this file and configures again when another torch is installed.
    prefix = str(root) + "/"
    if info["torch_dir"].startswith(prefix):
        ctx.path(Label("//:" + info["torch_dir"][len(prefix):] + "/version.py"))

    link_libpython = []
    if info["libpython"]:
        folder, _, file = info["libpython"].rpartition("/")
        name = file[len("lib"):].split(".so")[0]
        ctx.symlink(info["libpython"], "lib/lib%s.so" % name)
        link_libpython = [
            "-Lexternal/local_torch/lib",
            "-l" + name,
            "-Wl,-rpath,'%s'" % folder,
        ]
    ctx.symlink(info["include"], "python_include")
    ctx.symlink(info["torch_dir"] + "/include", "torch_include")
    ctx.symlink(info["torch_dir"] + "/lib", "torch_lib")
    ctx.file("local_torch/environment.h", _ENVIRONMENT_H.format(**info))
    ctx.file("BUILD", _BUILD.format(
        link_libpython = repr(link_libpython),
        torch_dir = info["torch_dir"],
    ))

torch_configure = repository_rule(
    implementation = _impl,
    environ = [
        "PYTHON_BIN_PATH",
        "PYTHONPATH",
    ],
    local = True,
)
