"""Calls from threads of every kind, counts known."""

import _thread
import threading
from concurrent.futures import ThreadPoolExecutor

early_may_go = threading.Event()
early_is_done = threading.Event()


def early():
    """A thread that is there before torch is."""
    early_may_go.wait()
    with torch.inference_mode():
        torch.add(x, 1)
    torch.sin(x)
    early_is_done.set()


threading.Thread(target=early, daemon=True).start()

import torch
import torch.nn.functional as F
from marks import mark

x = torch.ones(2, 3)
leaf = torch.ones(2, requires_grad=True)

early_may_go.set()
early_is_done.wait()


def run(kind, work=None):
    mark(kind)
    for _ in range(100):
        torch.cos(x)
        F.relu(x)
    if work is not None:
        work()


def start(*args):
    thread = threading.Thread(target=run, args=args)
    thread.start()
    return thread


start("thread").join()
for thread in [start("several threads") for _ in range(4)]:
    thread.join()


class Subclassed(threading.Thread):
    def run(self):
        run("thread subclass")


subclassed = Subclassed()
subclassed.start()
subclassed.join()
with ThreadPoolExecutor(2) as pool:
    list(pool.map(run, ["pool"] * 8))

done = _thread.allocate_lock()
done.acquire()


def low_level(kind):
    run(kind)
    done.release()


for begin in (_thread.start_new_thread, _thread.start_new):
    begin(low_level, ("low-level thread",))
    done.acquire()

(leaf * 2).sum().backward()
loss = (leaf * 2).sum()
start("backward", loss.backward).join()


def nested():
    start("thread of a thread").join()


start("outer thread", nested).join()
timer = threading.Timer(0.01, run, ["timer"])
timer.start()
timer.join()


def fails():
    run("failing thread")
    torch.add(x, torch.ones(7))


threading.excepthook = lambda arguments: print(arguments.exc_type.__name__)
failing = threading.Thread(target=fails)
failing.start()
failing.join()

daemon_is_done = threading.Event()


def daemon():
    run("daemon thread")
    daemon_is_done.set()
    threading.Event().wait()


threading.Thread(target=daemon, daemon=True).start()
daemon_is_done.wait()
print(leaf.grad.tolist())
mark("end")
