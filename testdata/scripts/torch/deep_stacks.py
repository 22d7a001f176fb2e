"""Many Python frames, and then recursion in C, as deep as a thread's stack allows untraced."""

import functools
import sys

import torch
import torch.nn.functional as F

sys.setrecursionlimit(10**6)
x = torch.ones(2)
FRAMES = int(sys.argv[1])
reached = []


class Nested:
    """Each level of repr() is C: an object's slot and a list's."""

    def __init__(self, inner):
        self.inner = inner


def nested_list(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


def down(count):
    if count:
        return down(count - 1)
    F.relu(x)
    torch.add(x, 1)
    sys.setrecursionlimit(FRAMES + 9000)
    try:
        repr(nested_list(50000))
    except RecursionError:
        reached.append("repr")
    try:
        functools.reduce(lambda a, b: a, [1, 2])
        chain = functools.partial(int)
        for _ in range(7000):
            chain = functools.partial(Call(), chain)
        chain()
    except RecursionError:
        reached.append("partial")
    F.gelu(x)
    return "back"


class Call:
    def __call__(self, function):
        return function()


print(down(FRAMES), reached)
