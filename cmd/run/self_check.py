"""Calls that each level must record: counted in KnownCalls of self_check.cc."""

import signal
import sys
import threading

signal.alarm(300)
import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

print("torch is imported", flush=True)
signal.alarm(60)


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Wrapping(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return args[0].inner


# As many calls as CPython needs to specialize every instruction.
def often(tensor):
    for _ in range(1000):
        torch.sin(tensor)
        torch.nn.Identity()(tensor)
        tensor.requires_grad  # noqa: B018


# A default device set by a sitecustomize would be a mode, under which calls nest.
torch.set_default_device(None)
x = torch.ones(3)
often(x)
torch.cos(x)
with Passing():
    torch.tan(x)
torch.exp(Wrapping(x))
thread = threading.Thread(target=torch.tanh, args=(x,))
thread.start()
thread.join()
sys.exit(0)
