"""Prints all that a program can ask about how it was started."""

import gc
import os
import signal
import sys
import threading
import warnings

print("argv", sys.argv)
print("orig_argv", sys.orig_argv)
print("path", sys.path)
print("executable", sys.executable, sys._base_executable)
print("prefixes", sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)
print("flags", sys.flags)
print("xoptions", sys._xoptions, "warnoptions", sys.warnoptions)
print("main", __name__, globals().get("__file__"), __package__, __doc__, __builtins__)
print("loader", type(__loader__).__name__, "spec", __spec__)
print("main module", sys.modules["__main__"].__dict__ is globals(), sorted(globals()))
print("modules", sorted(name for name in sys.modules))
print("meta_path", [str(f).split(" at ")[0] for f in sys.meta_path], len(sys.path_hooks))
print("filters", warnings.filters)
print("signals", [(s, str(signal.getsignal(s))) for s in sorted(signal.valid_signals())])
print("blocked", sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
print("threads", threading.active_count(), threading.current_thread().name)
print("frame", sys._getframe().f_back, sys.getrecursionlimit(), sys.getswitchinterval())
print("streams", sys.stdin, sys.stdout, sys.stderr)
print("buffering", sys.stdout.line_buffering, sys.stdout.write_through, sys.stderr.line_buffering)
print("encodings", sys.getfilesystemencoding(), sys.getdefaultencoding(), sys.stdout.encoding)
print("hooks", sys.excepthook is sys.__excepthook__, sys.gettrace(), sys.getprofile())
print("gc", gc.isenabled(), gc.get_threshold(), gc.callbacks)
print("bytecode", sys.dont_write_bytecode, sys.pycache_prefix)
print("environment", sorted(item for item in os.environ.items() if item[0] != "_"))
print("cwd", os.getcwd(), "umask", os.umask(0o22))
with open(os.devnull) as file:
    print("first free descriptor", file.fileno())
with open("/proc/self/comm") as file:
    print("process name", file.read())
