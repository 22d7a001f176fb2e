import sys

from . import sub

print("main", __name__, __package__, __spec__.name, sys.argv, sys.path[0], sub.name)
if sys.argv[1:] == ["fail"]:
    raise ValueError("in a module")
if sys.argv[1:] == ["interrupt"]:
    raise KeyboardInterrupt
if sys.argv[1:] == ["exit"]:
    sys.exit(9)
