"""Finds and loads the runtime library and the native module, which needs it.

The runtime library of this Python is beside the package, where tools/torchtrace builds it, or in
it, where a wheel installs it. A program that `torchtrace run` started already has one in its
process: that one is used, wherever it came from.
"""

import ctypes
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys

_LIBRARY = "libtorchtrace_runtime.so"
_HERE = os.path.dirname(os.path.abspath(__file__))


def package_version(package):
    """The version of an installed distribution, without importing it; "" for none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _in_process():
    """The path of the loaded runtime library, or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            if line.endswith("/" + _LIBRARY + "\n"):
                return line.split(None, 5)[5].rstrip("\n")
    return None


def _runtimes():
    """The folders with a runtime library, by name: py3.11."""
    found = {}
    if os.path.isfile(os.path.join(_HERE, "..", _LIBRARY)):
        folder = os.path.dirname(_HERE)
        return {os.path.basename(folder): folder}
    inside = os.path.join(_HERE, "runtime")
    for name in sorted(os.listdir(inside)) if os.path.isdir(inside) else ():
        if os.path.isfile(os.path.join(inside, name, _LIBRARY)):
            found[name] = os.path.join(inside, name)
    return found


def _find():
    # The names of runtimes contain only the version.
    if sys.implementation.name != "cpython" or "t" in sys.abiflags:
        raise ImportError("torchtrace traces only CPython with the GIL")
    runtimes = _runtimes()
    wanted = "py%d.%d" % sys.version_info[:2]
    if wanted in runtimes:
        return os.path.join(runtimes[wanted], _LIBRARY)
    have = "the runtimes here are for " + ", ".join(runtimes) if runtimes else "there is no runtime"
    raise ImportError(
        "torchtrace was not built for this Python %d.%d.%d: " % sys.version_info[:3] + f"{have}; "
        f"`tools/torchtrace run --python {sys.executable} ...` or `tools/wheel --python "
        f"{sys.executable}` builds it"
    )


def _load():
    library = _in_process() or _find()
    # The native module and the hooks, which are loaded later, need its symbols.
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    beside = os.path.dirname(library)
    for path in (
        os.path.join(beside, "torchtrace_native.so"),
        os.path.join(_HERE, "torchtrace_native.so"),
    ):
        if os.path.isfile(path):
            break
    loader = importlib.machinery.ExtensionFileLoader("torchtrace._native", path)
    spec = importlib.util.spec_from_file_location("torchtrace._native", path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules["torchtrace._native"] = module
    return module


native = _load()
