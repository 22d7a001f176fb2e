"""Allocates on a device of stand_in_c10_cuda.cpp, whose library is the first argument.

The second one says how: `later` initialises it after torch is imported, `before` before that, and
allocates; `other` has other allocators than PyTorch's, on the CPU too; `nameless` one of an
unknown class.
"""

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

how = sys.argv[2]
for name in ("libc10.so", "libtorch_cpu.so"):
    path = Path(importlib.util.find_spec("torch").origin).parent / "lib" / name
    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
cuda = ctypes.CDLL(sys.argv[1])
cuda.stand_in_allocate.argtypes = cuda.stand_in_free.argtypes = [ctypes.c_size_t]
cuda.stand_in_allocate.restype = ctypes.c_size_t
cuda.stand_in_begin(how == "other", how == "nameless")
held = []
if how == "before":
    cuda.stand_in_init()
    held += [cuda.stand_in_allocate(300), cuda.stand_in_allocate(1000)]
elif how == "other":
    cuda.stand_in_own_cpu_allocator()

import torch

ops = torch.library.Library("stand_in", "DEF")
ops.define("take(Tensor x, int bytes) -> Tensor")
ops.define("give(Tensor x) -> Tensor")


def take(x, bytes):
    held.append(cuda.stand_in_allocate(bytes))
    return x.clone()


def give(x):
    cuda.stand_in_free(held.pop())
    return x.clone()


for function in (take, give):
    ops.impl(function.__name__, function, "CPU")
x = torch.ones(2)
if how == "later":
    cuda.stand_in_init()
    torch.ops.stand_in.take(x, 700)
    torch.ops.stand_in.take(x, 100)
    torch.ops.stand_in.give(x)
    torch.ops.stand_in.take(x, 50)
    if os.fork() == 0:
        torch.ones(3)
        sys.exit()
    os.wait()
elif how == "before":
    torch.ops.stand_in.give(x)
    torch.ops.stand_in.take(x, 2000)
    cuda.stand_in_own_cpu_allocator()
    torch.ones(100)
print(cuda.stand_in_trackers())
