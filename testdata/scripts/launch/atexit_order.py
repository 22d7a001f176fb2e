"""Exit functions, threads and finalizers, in python's order."""

import atexit
import sys
import threading
import time
import weakref


class Thing:
    def __del__(self):
        print("__del__", self.name)


def late():
    time.sleep(0.2)
    print("thread ends; main is", sys.modules["__main__"].__name__, "marker" in globals())


def failing():
    raise ValueError("in an exit function")


marker = True
thing = Thing()
thing.name = "global"
atexit.register(print, "first")
atexit.register(failing)
atexit.register(print, "second")
weakref.finalize(thing, print, "finalize")
threading.Thread(target=late).start()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("callbacks", atexit._ncallbacks())
if sys.argv[1:] == ["run"]:
    atexit._run_exitfuncs()
    atexit.register(print, "registered after a run")
elif sys.argv[1:] == ["clear"]:
    atexit._clear()
    atexit.register(print, "registered after a clear")
print("callbacks", atexit._ncallbacks())
atexit.register(sys.exit, 5)
atexit.register(lambda: atexit.register(print, "registered at exit"))
print("body ends")
