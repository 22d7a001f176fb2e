"""Describes the Python environment that runs this file: its version, torch, libpython.

Usage: PYTHON describe_python.py          one JSON object, for torch_configure.bzl
       PYTHON describe_python.py --key    what is built for it, e.g. py3.11-torch2.13
       PYTHON describe_python.py --embeddable    exit code 0 if the tests can embed it, too

The key is Python's minor version and torch's era (dialects/torch/versions/eras.txt): the
names of the runtime's folder and of the module in it, which the executable and the runtime
compute likewise. torch is not imported: that takes seconds and would start its threads. A
problem is one sentence on stderr and exit code 1.
"""

# Imports only what --key needs, since it runs before every `run` with a chosen Python.
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


def minor(version):
    """(2, 13) of "2.13.0+cpu"."""
    return tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", version).groups())


def table(path):
    """The rows of a table in this checkout, as lists of words."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, path)) as lines:
        return [line.split() for line in lines if not line.startswith("#")]


def torch_era(version):
    """The first minor version of torch's era; exits where torch is older than all."""
    eras = table("dialects/torch/versions/eras.txt")
    fitting = [first for first, _ in eras if minor(first) <= minor(version)]
    if not fitting:
        sys.exit(
            "torch %s in %s is too old: torchtrace traces torch %s to %s"
            % (version, where(), eras[0][0], eras[-1][1])
        )
    return fitting[-1]


def check_python():
    """Exits if this Python can't be traced, with the executable's error."""
    ((first, last),) = table("tracer/launch/python_versions.txt")
    if sys.implementation.name != "cpython":
        trouble = sys.implementation.name
    elif not minor(first) <= sys.version_info[:2] <= minor(last):
        trouble = "Python " + python_version()
    elif "t" in sys.abiflags:
        trouble = "a free-threaded Python %s, which has no GIL" % python_version()
    else:
        return
    sys.exit(
        "%s is %s; torchtrace traces CPython %s to %s" % (sys.executable, trouble, first, last)
    )


def pair_key():
    check_python()
    torch = torch_version()
    return "py%d.%d-torch%s" % (*sys.version_info[:2], torch_era(torch) if torch else "none")


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


def where():
    return "%s (Python %s)" % (sys.executable, python_version())


def describe_python():
    check_python()
    return {
        "executable": sys.executable,
        "include": find_include(),
        "libpython": find_libpython(),
        "python_version": python_version(),
    }


def describe():
    import importlib.util

    description = describe_python()
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None or torch_version() is None:
        sys.exit("%s has no torch" % where())
    torch_dir = os.path.dirname(spec.origin)
    pair_key()
    return dict(description, torch_dir=torch_dir)


def main():
    if sys.argv[1:] == ["--key"]:
        print(pair_key())
    elif sys.argv[1:] == ["--embeddable"]:
        if describe_python()["libpython"] is None:
            sys.exit("%s has no shared libpython, which tests embed" % where())
    else:
        import json

        print(json.dumps(describe(), indent=2))


if __name__ == "__main__":
    main()
