"""Shows values that a tracer could change by looking at them, and tells what became of them."""

import gc
import sys

import torch
from marks import show

finalized = []


class Cycle:
    def __init__(self, items):
        self.own = self
        self.items = items

    def __del__(self):
        finalized.append(len(self.items))
        self.items.clear()


def fresh(*parts):
    return "".join(parts)


text = fresh("caf", "\u00e9", "\u20ac")
Named = type(fresh("Nam", "\u00e9"), (), {"__module__": fresh("m", "\u20ac")})
strings = (text, Named.__qualname__, Named.__module__)
sizes = [sys.getsizeof(each) for each in strings]
named = Named()
show("wide characters", strings)
show("object with a wide name", named)
print("sizes stay", [sys.getsizeof(each) for each in strings] == sizes)

parameter = torch.nn.Parameter(torch.ones(2))
show("parameter", parameter)
torch.add(parameter, 1)
dicts = [each for each in gc.get_referents(parameter) if isinstance(each, dict)]
print("dictionaries of a parameter", dicts)

items = ["a\udc80", 1 << 100, range(3), named, len, parameter] * 50
gc.collect()
gc.disable()
for _ in range(10):
    Cycle(items)
gc.set_threshold(1)
gc.enable()
try:
    torch.nn.functional.relu(items)
except TypeError:
    print("finalized while it was called", finalized[0])
