"""Many Python frames, and then recursion in C that takes most of what a thread's stack has untraced.
Arguments: how many of each."""

import functools
import resource
import sys

import torch
import torch.nn.functional as F

FRAMES, CALLS = map(int, sys.argv[1:])
x = torch.ones(2)
sys.setrecursionlimit(10**6)


def call(function):
    return function()


def down(count):
    if count:
        return down(count - 1)
    F.relu(x)
    torch.add(x, 1)
    chain = functools.partial(str, "back")
    for _ in range(CALLS):
        chain = functools.partial(call, chain)
    result = chain()
    F.gelu(x)
    return result


print(resource.getrlimit(resource.RLIMIT_STACK)[0], down(FRAMES))
