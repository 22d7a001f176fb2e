"""Threads of every kind and workers of a DataLoader: each call on the thread that makes it."""

import _thread
import concurrent.futures
import os
import threading
import warnings

import torch
import torch.nn.functional as F
from attempts import attempt, mark
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset

warnings.simplefilter("ignore")
torch.set_num_threads(1)
x = torch.ones(2, 3)


class PassOn(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def work(label):
    mark(label)
    for number in range(3):
        torch.add(x, number)
        F.relu(x) + 1
        x[0].sum().item()
        torch.ops.aten.neg(x)
    with PassOn():
        F.softmax(x, 1)
    with torch.no_grad():
        (x.clone().requires_grad_() * 2).sum()
    (x.clone().requires_grad_() * 2).sum().backward()
    try:
        x.view(7)
    except RuntimeError:
        mark(f"{label} after a failure")
    torch.neg(x)


def joined(*threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


joined(threading.Thread(target=work, args=("thread",)))
joined(*[threading.Thread(target=work, args=(f"one of several {number}",)) for number in range(4)])
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    list(pool.map(work, ["pool 1", "pool 2"]))
lock = _thread.allocate_lock()
lock.acquire()
_thread.start_new_thread(lambda: (work("low level"), lock.release()), ())
lock.acquire()
timer = threading.Timer(0, work, ("timer",))
joined(timer)


def inner():
    joined(threading.Thread(target=work, args=("thread of a thread",)))
    work("thread with a thread")


joined(threading.Thread(target=inner))


def under_a_mode():
    with PassOn():
        joined(threading.Thread(target=work, args=("thread under a mode",)))
    mark("after the thread under a mode")


under_a_mode()


def in_a_call():
    """A thread that is started, and waited for, inside a recorded call."""

    def callback(value):
        joined(threading.Thread(target=work, args=("thread in a call",)))
        return value

    torch.ones(1).apply_(callback)


attempt("a call with a thread", in_a_call)


class Data(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        mark(f"item {index}")
        return torch.full((2,), index) + F.relu(x).sum()


def begin(worker):
    mark(f"worker {worker}")
    torch.neg(x)


for batch in DataLoader(
    Data(), batch_size=2, num_workers=2, worker_init_fn=begin, multiprocessing_context="fork"
):
    pass
mark("after the workers")
torch.neg(x)

pid = os.fork()
if pid == 0:
    work("a forked process")
    os._exit(0)
os.waitpid(pid, 0)
work("the main thread at the end")
mark("end of threads")
