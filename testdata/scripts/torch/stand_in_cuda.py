"""Calls with tensors of stand_in_cuda.cpp's, whose library is the first argument: the second one makes a NaN.

The second argument says when the NaN is known: `later`, or at the `end`.
"""

import ctypes
import sys

import torch

torch.ops.load_library(sys.argv[1])
library = ctypes.CDLL(sys.argv[1])
ops = torch.ops.stand_in

one, minus = ops.make(1.0), ops.make(-1.0)
ops.log(one)
library.hold_work()
nan = ops.log(minus)
spread = ops.log(nan)  # kept: its memory is read later
print("goes on", flush=True)
library.release_work()
if sys.argv[2] == "later":
    try:
        ops.log(one)
    except FloatingPointError as error:
        print(error)
    ops.log(one)
