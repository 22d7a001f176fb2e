"""Forked children that end in every way; each way is the parent's to see."""

import atexit
import os
import signal
import sys
import threading


def child(what):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        what()
    return os.waitpid(pid, 0)[1]


def abort():
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    os.abort()


print("os._exit", child(lambda: os._exit(3)))
print("SIGTERM", child(lambda: os.kill(os.getpid(), signal.SIGTERM)))
print("SIGKILL", child(lambda: os.kill(os.getpid(), signal.SIGKILL)))
atexit.register(
    lambda: print(
        "exit function in", "the parent" if os.getpid() == parent else "a child", flush=True
    )
)
parent = os.getpid()
sys.stdout.flush()
# A child that returns from the whole program.
if os.fork() == 0:
    threading.Thread(target=print, args=("thread of the child",)).start()
    sys.exit(4)
print("child that leaves", os.wait()[1])
if os.fork() == 0:
    raise ValueError("in the child")
print("child that raises", os.wait()[1])
