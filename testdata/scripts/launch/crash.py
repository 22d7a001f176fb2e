"""Crashes in C."""

import ctypes
import os
import resource
import sys

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print("before", flush=True)
if sys.argv[1] == "segv":
    ctypes.string_at(0)
elif sys.argv[1] == "abort":
    os.abort()
elif sys.argv[1] == "stack":
    resource.setrlimit(
        resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1])
    )
    sys.setrecursionlimit(1 << 30)

    class Deep:
        def __getattr__(self, name):
            return getattr(self, name)

    Deep().x
elif sys.argv[1] == "exit":
    ctypes.CDLL(None).exit(6)
elif sys.argv[1] == "_exit":
    ctypes.CDLL(None)._exit(6)
elif sys.argv[1] == "fatal":
    ctypes.pythonapi.Py_FatalError(b"a fatal error")
elif sys.argv[1] == "dup":
    os.close(2)
    os.kill(os.getpid(), 15)
