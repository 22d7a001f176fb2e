"""Launches work on the device of stand_in_cupti.c, whose library is the first argument."""

import ctypes
import os
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
INT, LONG, TEXT = ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p
library.stand_in_launch.argtypes = [INT, INT, INT, LONG, LONG, TEXT, INT, INT]

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.distributed.fake_pg import FakeStore

KERNEL, COPY = 10, 1
# They live as long as the process.
NCCL = ctypes.c_char_p(b"ncclDevKernel_AllReduce_Sum_f32_RING_LL")
NAME, TRITON = ctypes.c_char_p(b"a_kernel<float>"), ctypes.c_char_p(b"triton_poi_fused_sin_0")

ops = torch.library.Library("stand_in", "DEF")
ops.define("launch(Tensor x, int ns) -> Tensor")
ops.define("copy(Tensor x, int ns) -> Tensor")
ops.define("replay(Tensor x) -> Tensor")
ops.define("fused(Tensor x) -> Tensor")
ops.define("look(Tensor x) -> Tensor")


def launch(x, ns):
    library.stand_in_launch(KERNEL, 0, 7, ns, 0, NAME, 1, 0)
    return x.clone()


def copy(x, ns):
    library.stand_in_launch(COPY, 1, 8, ns, 4096, None, 1, 0)
    return x.clone()


def replay(x):
    library.stand_in_launch(KERNEL, 0, 7, 4000, 0, NAME, 3, 0)
    return x.clone()


def fused(x):
    library.stand_in_launch(KERNEL, 0, 7, 6000, 0, TRITON, 1, 1)
    return x.clone()


def look(x):
    print(library.stand_in_enabled(), library.stand_in_depth())
    return x.clone()


for function in (launch, copy, replay, fused, look):
    ops.impl(function.__name__, function, "CPU")
x = torch.ones(2)


def all_reduce(tensors, group, op, sparse=None, waits=True, timeout=-1):
    library.stand_in_launch(KERNEL, 0, 20, 9000, 0, NCCL, 1, 1)
    return torch.ops.c10d.broadcast_(tensors, group, 0, 0, waits, timeout)


c10d = torch.library.Library("c10d", "IMPL")
c10d.impl("allreduce_", all_reduce, "CPU", allow_override=True)
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)

copied = threading.Event()


def copy_and_stay():
    for _ in range(100):
        torch.ops.stand_in.copy(x, 5000)
    copied.set()
    threading.Event().wait()


torch.ops.stand_in.look(x)
torch.ops.stand_in.launch(x, 1000)
torch.ops.stand_in.copy(x, 500)
library.stand_in_launch(KERNEL, 0, 7, 77, 0, NAME, 1, 0)  # in no call
with profile(activities=[ProfilerActivity.CPU]) as profiled:
    torch.ops.stand_in.look(x)
    torch.ops.stand_in.launch(x, 1)  # not seen
print(sorted((event.key, event.count) for event in profiled.key_averages()))
torch.ops.stand_in.look(x)
threading.Thread(target=copy_and_stay, daemon=True).start()
copied.wait()
ended = threading.Thread(target=torch.ops.stand_in.copy, args=(x, 7))
ended.start()
ended.join()
torch.ops.stand_in.replay(x)
torch.ops.stand_in.fused(x)
dist.all_reduce(torch.ones(250))
for _ in range(10_000):
    torch.ops.stand_in.launch(x, 3000)
if (child := os.fork()) == 0:
    torch.ops.aten.neg(x)  # a forked process has no device
    os._exit(0)
os.waitpid(child, 0)
torch.ops.stand_in.launch(x, 0)  # doesn't end
library.stand_in_drop(2)
torch.ops.stand_in.launch(x, 2000)
library.stand_in_hold(1)
library.stand_in_launch(
    KERNEL, 0, 7, 77, 0, NAME, 400_000, 0
)  # in no call, more than there is room for
library.stand_in_hold(0)
print("end")
