"""Forks in the middle of everything."""

import os
import threading

import torch
from marks import mark, show

x = torch.ones(2, 3)
for _ in range(100):
    torch.sin(x)
mark("parent")


def child(code, calls):
    for _ in range(calls):
        torch.cos(x)
    if code == 3:
        grandchild = os.fork()
        if grandchild == 0:
            for _ in range(7):
                torch.tan(x)
            os._exit(0)
        os.waitpid(grandchild, 0)
    os._exit(code)


def fork(code, calls):
    pid = os.fork()
    if pid == 0:
        child(code, calls)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


print(fork(0, 10), fork(5, 20), fork(3, 30), fork(0, 0))


def other_thread():
    # It runs none of PyTorch's own code, which may not be forked in the middle.
    while not stop.is_set():
        show("busy", 1)


stop = threading.Event()
busy = threading.Thread(target=other_thread)
busy.start()
print([fork(0, 5) for _ in range(5)])
stop.set()
busy.join()
thread_forks = threading.Thread(target=lambda: print(fork(0, 40)))
thread_forks.start()
thread_forks.join()


class InTheMiddle(torch.autograd.Function):
    """Forks while calls of levels 1 and 2 are open."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        print(fork(0, 6))
        return gradient


InTheMiddle.apply(torch.ones(1, requires_grad=True)).backward()
mark("parent again")
for _ in range(100):
    torch.sin(x)
mark("end")
