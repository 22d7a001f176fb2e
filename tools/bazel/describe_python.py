"""Describes the Python environment that runs this file: its version, torch, libpython.

Usage: PYTHON describe_python.py          one JSON object, for torch_configure.bzl
       PYTHON describe_python.py --key    the pair's name, e.g. py3.11.7-torch2.13.0+cpu
       PYTHON describe_python.py --embeddable    exit code 0 if a program can embed it

The key names the folder that a runtime is installed in; the executable computes the
same name from the same files. torch is not imported: that takes seconds and would
start its threads. A problem is one sentence on stderr and exit code 1.
"""

# Only what --key needs is imported here: it runs before every `run` with a chosen Python.
import os
import re
import sys


def python_version():
    return "%d.%d.%d" % sys.version_info[:3]


def torch_version():
    """The version that torch's metadata folder is named after, or None without torch."""
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            match = re.match(r"torch-(.+)\.(?:dist|egg)-info$", name)
            if match:
                return match.group(1)
    return None


def pair_key():
    return "py%s-torch%s" % (python_version(), torch_version() or "none")


def find_libpython():
    """The shared libpython, or None: a Python may be built without one."""
    import sysconfig

    variables = sysconfig.get_config_vars()
    version = variables.get("LDVERSION") or "%d.%d" % sys.version_info[:2]
    names = ["libpython%s.so.1.0" % version, "libpython%s.so" % version]
    folders = [
        variables.get("LIBDIR"),
        os.path.join(sys.base_prefix, "lib"),
        os.path.join(variables.get("LIBDIR") or "", variables.get("MULTIARCH") or ""),
        variables.get("LIBPL"),
    ]
    for folder in filter(None, folders):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
    return None


def find_include():
    """The folder of Python.h; exits where there is none."""
    import sysconfig

    include = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(include, "Python.h")):
        sys.exit("%s has no headers: %s/Python.h is missing" % (where(), include))
    return include


def uses_old_cxx_abi(torch_dir):
    """True where torch was built with the C++ library's strings of before 2015.

    c10 takes std::string all over its interface, and the new ABI's mangled names hold
    "cxx11".
    """
    with open(os.path.join(torch_dir, "lib", "libc10.so"), "rb") as library:
        return b"__cxx11" not in library.read()


def where():
    return "%s (Python %s)" % (sys.executable, python_version())


def describe_python():
    include = find_include()
    libpython = find_libpython()
    if libpython is None:
        sys.exit("%s has no shared libpython, which the runtime embeds" % where())
    return {
        "executable": sys.executable,
        "include": include,
        "libpython": libpython,
        "python_version": python_version(),
    }


def describe():
    import importlib.util

    description = describe_python()
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or torch_version() is None:
        sys.exit("%s has no torch" % where())
    torch_dir = os.path.dirname(spec.origin)
    if uses_old_cxx_abi(torch_dir):
        sys.exit("torch %s in %s was built with the old C++ ABI" % (torch_version(), where()))
    return dict(
        description,
        key=pair_key(),
        torch_dir=torch_dir,
        torch_version=torch_version(),
    )


def main():
    if sys.argv[1:] == ["--key"]:
        print(pair_key())
    elif sys.argv[1:] == ["--embeddable"]:
        describe_python()
    else:
        import json

        print(json.dumps(describe(), indent=2))


if __name__ == "__main__":
    main()
