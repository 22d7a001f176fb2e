"""Finds and loads the runtime library and the native module that stands on it.

The runtime library of this Python and torch lies beside the package, as tools/torchtrace
builds it, or within, as a wheel brings it. A program that `torchtrace run` started has
one in its process already: that one is taken, wherever it came from.
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
    """The runtime library that is loaded, or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            if line.endswith("/" + _LIBRARY + "\n"):
                return line.split(None, 5)[5].rstrip("\n")
    return None


def _runtimes():
    """The folders that hold a runtime library, by their name: py3.11.7-torch2.13.0+cpu."""
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
    runtimes = _runtimes()
    python = "py%d.%d.%d-" % sys.version_info[:3]
    torch = package_version("torch")
    wanted = python + "torch" + torch
    for name, folder in runtimes.items():
        # A Python without torch takes any runtime of its version.
        if name == wanted or (not torch and name.startswith(python)):
            return os.path.join(folder, _LIBRARY)
    this = "Python %d.%d.%d" % sys.version_info[:3] + (f" with torch {torch}" if torch else "")
    have = "the runtimes here are for " + ", ".join(runtimes) if runtimes else "there is no runtime"
    raise ImportError(
        f"torchtrace was not built for this {this}: {have}; `tools/torchtrace run --python "
        f"{sys.executable} ...` or `tools/wheel {sys.executable}` builds it"
    )


def _load():
    library = _in_process() or _find()
    # Its symbols are for the native module and for the hooks, which are loaded later.
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
