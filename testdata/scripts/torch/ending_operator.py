"""Ends while a daemon thread is inside an operator that waits in Python."""

import threading
import time

import torch

began = threading.Event()


class Waiting(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        began.set()
        while True:
            time.sleep(0.0001)


class LetsThreadsRun:
    def __del__(self):
        for _ in range(30):
            time.sleep(0.01)


threading.Thread(target=lambda: torch.add(Waiting(torch.ones(2)), 1), daemon=True).start()
began.wait()
at_the_end = LetsThreadsRun()
print("end", flush=True)
