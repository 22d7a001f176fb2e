"""Dynamo's frame evaluation and torchtrace's, in all orders. Argument: the level of the traces."""

import ctypes
import sys

import torch
import torch.nn.functional as F
import torchtrace

level = int(sys.argv[1])
x = torch.ones(2, 3)
slot = ctypes.pythonapi._PyInterpreterState_GetEvalFrameFunc
slot.restype = ctypes.c_void_p
slot.argtypes = [ctypes.c_void_p]
interpreter = ctypes.pythonapi.PyInterpreterState_Get
interpreter.restype = ctypes.c_void_p


def evaluator():
    return slot(interpreter())


def own_library(address):
    """Whether the address lies in one of torchtrace's libraries."""
    for line in open("/proc/self/maps"):
        begin, end = (int(each, 16) for each in line.split()[0].split("-"))
        if begin <= address < end:
            return "torchtrace" in line.rsplit("/", 1)[-1]
    return False


def traced(name):
    # In a program of its own: under `run` it would join the run's trace.
    with torchtrace.trace(output=f"out-{name.replace(' ', '-')}", levels=[level], formats="none"):
        F.relu(x)
        torch.norm(x)
        F.softmax(x, 1)
    print(name, own_library(evaluator()))


plain = evaluator()
traced("first")
print(evaluator() == plain)


def breaking(tensor):
    tensor = tensor + 1
    torch._dynamo.graph_break()
    return F.relu(tensor)


torch._dynamo.graph_break()
traced("after graph_break")
compiled = torch.compile(breaking, backend="eager")
compiled(x)
traced("after compiling")
with torchtrace.trace(output="out-around", levels=[level], formats="none"):
    F.relu(x)
    compiled(x)
    torch.compile(lambda tensor: F.gelu(tensor) + 2, backend="eager")(x)
    F.softmax(x, 1)
print("around", own_library(evaluator()))


def tracing(tensor):
    """Has Dynamo's evaluation in the slot as the trace begins, and as it ends."""
    tensor = tensor + 1
    torch._dynamo.graph_break()
    traced("in a compiled function")
    return F.relu(tensor)


def opening(tensor):
    """The trace begins in a compiled function and ends elsewhere."""
    tensor = tensor + 1
    torch._dynamo.graph_break()
    torchtrace.start(output="out-begun-in-a-compiled-function", levels=[level], formats="none")
    return F.relu(tensor)


def closing(tensor):
    tensor = tensor + 1
    torch._dynamo.graph_break()
    torchtrace.stop()
    return F.relu(tensor)


torch.compile(tracing, backend="eager")(x)
print("after a trace in a compiled function", own_library(evaluator()))
traced("after a trace in a compiled function")
torch.compile(opening, backend="eager")(x)
F.relu(x)
torch.norm(x)
torchtrace.stop()
print("begun in a compiled function", own_library(evaluator()))
torchtrace.start(output="out-ended-in-a-compiled-function", levels=[level], formats="none")
F.relu(x)
torch.compile(closing, backend="eager")(x)
print("ended in a compiled function", own_library(evaluator()))
torch._dynamo.reset()
traced("after reset")
with torch._dynamo.config.patch(verbose=False):
    traced("in a patch")
traced("last")
print(own_library(evaluator()))
