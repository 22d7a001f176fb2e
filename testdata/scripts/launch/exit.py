"""Exits in the way that its argument says."""

import atexit
import os
import sys

atexit.register(print, "atexit: first registered, runs last")
atexit.register(lambda: print("atexit: last registered, runs first"))


class Odd:
    def __str__(self):
        return "an odd object"


class Failing:
    def __str__(self):
        raise ValueError("no text")


class OwnExit(SystemExit):
    pass


def raise_(error):
    raise error


WAYS = {
    "end": lambda: None,
    "none": lambda: sys.exit(),
    "zero": lambda: sys.exit(0),
    "int": lambda: sys.exit(7),
    "big": lambda: sys.exit(300),
    "huge": lambda: sys.exit(1 << 70),
    "negative": lambda: sys.exit(-3),
    "true": lambda: sys.exit(True),
    "text": lambda: sys.exit("a last word"),
    "bytes": lambda: sys.exit(b"bytes"),
    "float": lambda: sys.exit(2.5),
    "tuple": lambda: sys.exit((3, 4)),
    "odd": lambda: sys.exit(Odd()),
    "failing": lambda: sys.exit(Failing()),
    "own": lambda: raise_(OwnExit(9)),
    "builtin": lambda: exit(4),
    "quit": lambda: quit(5),
    "nested": lambda: raise_(SystemExit(SystemExit(6))),
    "_exit": lambda: os._exit(8),
    "_exit_big": lambda: os._exit(300),
    "_exit_negative": lambda: os._exit(-1),
    "_exit_named": lambda: os._exit(status=3),
    "_exit_true": lambda: os._exit(True),
    "_exit_bad": lambda: os._exit("1"),
    "_exit_bad_name": lambda: os._exit(code=1),
    "_exit_two": lambda: os._exit(1, 2),
    "_exit_huge": lambda: os._exit(1 << 70),
    "error": lambda: raise_(ValueError("uncaught")),
    "interrupt": lambda: raise_(KeyboardInterrupt()),
    "own_interrupt": lambda: raise_(type("Stop", (KeyboardInterrupt,), {})()),
    "chained": lambda: raise_(RuntimeError("outer")) if not os else chained(),
    "group": lambda: raise_(ExceptionGroup("several", [ValueError(1), TypeError(2)])),
    "syntax": lambda: compile("a b", "there.py", "exec"),
    "recursion": lambda: recurse(),
    "import": lambda: __import__("a_module_that_is_not_there"),
    "closed_stdout": lambda: os.close(1),
    "excepthook": lambda: (
        setattr(sys, "excepthook", lambda *e: print("hook", e[0])),
        raise_(KeyError(1)),
    ),
}


def chained():
    try:
        raise_(ValueError("inner"))
    except ValueError as error:
        raise RuntimeError("outer") from error


def recurse():
    recurse()


print("body")
print("on stderr", file=sys.stderr)
WAYS[sys.argv[1]]()
