"""Describes the pyarrow of the environment that runs this file.

Usage: PYTHON describe_pyarrow.py       one JSON object, for pyarrow_configure.bzl
       PYTHON describe_pyarrow.py --version   the number that its libraries carry, e.g. 2600

The number names the module that is built with it. pyarrow is not imported: that takes a
second. A problem is one sentence on stderr and exit code 1.
"""

import importlib.util
import os
import re
import sys


def describe():
    spec = importlib.util.find_spec("pyarrow")
    if spec is None or spec.origin is None:
        sys.exit("%s has no pyarrow: %s -m pip install pyarrow" % (sys.executable, sys.executable))
    folder = os.path.dirname(spec.origin)
    matches = [re.match(r"libparquet\.so\.(\d+)$", name) for name in os.listdir(folder)]
    versions = [match.group(1) for match in matches if match]
    include = os.path.join(folder, "include")
    if not versions or not os.path.isdir(include):
        sys.exit("%s holds no libparquet.so or no headers: it is not the one of PyPI" % folder)
    return {"folder": folder, "include": include, "version": versions[0]}


def main():
    if sys.argv[1:] == ["--version"]:
        print(describe()["version"])
    else:
        import json

        print(json.dumps(describe(), indent=2))


if __name__ == "__main__":
    main()
