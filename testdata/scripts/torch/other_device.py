"""Calls on a device of other_device.cpp's, whose library is the argument."""

import sys
import types

import torch
from torch.utils._python_dispatch import TorchDispatchMode

torch.ops.load_library(sys.argv[1])

device = types.ModuleType("torch.privateuseone")
device._is_in_bad_fork = lambda: False
device.current_device = lambda: 0
torch._register_device_module("privateuseone", device)


class Log(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func)
        return func(*args, **(kwargs or {}))


x = torch.tensor([[1.0, 2.0, 3.0], [4.0, float("nan"), 6.0]]).to("privateuseone")
if sys.argv[2:] == ["nan"]:
    (x[0] - 4).log()
x.add(1)
x.t().mul(2)
x[:, 1:].neg()
torch.ones(2, dtype=torch.int64).to("privateuseone").sum()
x.view(6)
torch.empty(3, device="privateuseone").sqrt()
with Log(), torch.inference_mode():
    x.sin()
with torch.autograd.profiler.profile() as profiler:
    x.cos()
print([(event.key, event.count) for event in profiler.key_averages()])
print(torch.vmap(torch.exp)(x).cpu())
torch.zeros(3, dtype=torch.float64, device="privateuseone")
x.log()
print(x.cpu())
