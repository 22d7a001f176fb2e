"""A program with function modes and subclasses of its own, which print what they see."""

import torch
import torch.nn.functional as F
from marks import mark
from torch.overrides import TorchFunctionMode


class Log(TorchFunctionMode):
    def __init__(self, name):
        self.name = name

    def __torch_function__(self, func, types, args=(), kwargs=None):
        print(self.name, getattr(func, "__name__", func), len(args), sorted(kwargs or {}))
        return func(*args, **(kwargs or {}))


class Replace(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.add:
            return "replaced"
        if func is torch.sub:
            raise ValueError("no subtraction")
        if func is torch.mul:
            return torch.div(*args) + 1
        return func(*args, **(kwargs or {}))


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("Sub", func.__name__, [each.__name__ for each in types])
        return super().__torch_function__(func, types, args, kwargs)


class Opaque:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("Opaque", func.__name__, [each.__name__ for each in types])
        return 42


class Refuses:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


x = torch.ones(2, 3)
mark("mode")
with Log("outer"):
    F.relu(x)
    x + 1
    with Log("inner"):
        torch.add(x, other=x)
        F.softmax(x, dim=1)
        x.shape
    torch.ones(2)
mark("replacing mode")
with Replace():
    print(torch.add(x, 1))
    try:
        torch.sub(x, 1)
    except ValueError as error:
        print(error)
    print(torch.mul(x, x))
mark("default device")
with torch.device("meta"):
    print(torch.ones(2).device)
mark("subclass")
sub = x.as_subclass(Sub)
print(type(sub + 1), type(torch.cat([sub, x])), type(F.relu(sub)), type(sub.sum()), sub.shape)
mark("subclass without")
with torch._C.DisableTorchFunctionSubclass():
    print(type(sub + 1), type(torch.relu(sub)))
mark("all disabled")
with torch._C.DisableTorchFunction():
    print(type(sub + 1), type(torch.relu(sub)))
mark("opaque")
print(torch.add(Opaque(), 1), F.relu(Opaque()), x + Opaque(), torch.cat([Opaque()]))
mark("refusing")
for call in (lambda: torch.add(Refuses(), 1), lambda: F.relu(Refuses()), lambda: x + Refuses()):
    try:
        call()
    except TypeError as error:
        print(str(error).splitlines()[0])
mark("mode and subclass")
with Log("mode"):
    sub * 2
    torch.neg(sub)
mark("mode stack")
print(torch.overrides.is_tensor_method_or_property(torch.Tensor.add))
print(torch.overrides.resolve_name(torch.Tensor.add), torch.overrides.resolve_name(F.relu))
print(torch.add.__name__, torch.Tensor.add.__doc__[:20], torch.Tensor.shape)
mark("end")
