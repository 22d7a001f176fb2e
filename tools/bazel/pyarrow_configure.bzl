"""pyarrow_configure: Arrow's C++ libraries and headers, as pyarrow's wheel brings them, as @pyarrow.

The Python is $PYTHON_BIN_PATH, else the workspace's .venv, else python3 on PATH. Nothing
asks for this repository but the module that writes Parquet.
"""

_BUILD = """
package(default_visibility = ["//visibility:public"])

# The libraries are named by their version: another pyarrow has another interface.
cc_library(
    name = "parquet",
    hdrs = glob([
        "pyarrow_include/arrow/**/*.h",
        "pyarrow_include/parquet/**/*.h",
    ]),
    includes = ["pyarrow_include"],
    linkopts = [
        "-Lexternal/pyarrow/lib",
        "-l:libparquet.so.{version}",
        "-l:libarrow.so.{version}",
        "-Wl,-rpath,'{folder}'",
    ],
)
"""

def _impl(ctx):
    root = ctx.path(Label("//:WORKSPACE")).dirname
    python = ctx.os.environ.get("PYTHON_BIN_PATH", "")
    if not python:
        venv = root.get_child(".venv").get_child("bin").get_child("python3")
        python = str(venv) if venv.exists else ctx.which("python3")
    script = ctx.path(Label("//tools/bazel:describe_pyarrow.py"))
    result = ctx.execute([python, "-B", script])
    if result.return_code:
        fail("pyarrow_configure: " + (result.stderr.strip() or "cannot run %s" % python))
    info = json.decode(result.stdout)
    ctx.symlink(info["include"], "pyarrow_include")
    for library in ["libparquet", "libarrow"]:
        name = "%s.so.%s" % (library, info["version"])
        ctx.symlink("%s/%s" % (info["folder"], name), "lib/" + name)
    ctx.file("BUILD", _BUILD.format(**info))

pyarrow_configure = repository_rule(
    implementation = _impl,
    environ = ["PYTHON_BIN_PATH"],
    local = True,
)
