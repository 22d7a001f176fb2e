"""A dispatch mode that writes down each call it sees, as JSON, in its own way.

Independent of torchtrace: it reads arguments through Python. Tests compare the two.
"""

import json
import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def number(value):
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else {"type": "int", "value": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"type": "float", "value": str(value)}
    if isinstance(value, complex):
        return {"type": "complex", "value": [value.real, value.imag]}
    return {"type": "symbol", "value": type(value).__name__}


def tensor(value):
    if type(value).__name__ == "FakeTensor":
        device = "meta"
    else:
        device = str(value.device)
    form = {"type": "torch.Tensor", "dtype": str(value.dtype), "device": device}
    if value.is_nested and value.layout is torch.strided:
        form["shape"] = None
    else:
        form["shape"] = [size if isinstance(size, int) else "SymInt" for size in value.shape]
        strided = value.layout is torch.strided
        if strided and not value.is_contiguous():
            form["stride"] = list(value.stride())
    if value.layout is not torch.strided:
        form["layout"] = str(value.layout)
    if value.requires_grad:
        form["requires_grad"] = True
    return form


def script_object(value):
    """A process group has its name behind its type."""
    from torch.distributed import distributed_c10d

    try:
        group = distributed_c10d.ProcessGroup.unbox(value)
    except (AttributeError, RuntimeError):
        return "torch.ScriptObject"
    return f"torch.distributed.distributed_c10d.ProcessGroup.{group.group_name}"


def plain(value):
    """The JSON form of docs/TEXT.md."""
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return {"type": "list", "value": [plain(each) for each in value]}
    if isinstance(value, torch.Generator):
        return {"type": "torch.Generator", "device": str(value.device)}
    for kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
        if isinstance(value, kind):
            return {"type": f"torch.{kind.__name__}", "value": str(value)}
    if isinstance(value, torch.ScriptObject):
        return {"type": "object", "value": script_object(value)}
    return number(value)


def name(func):
    schema = func._schema
    return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")


class Witness(TorchDispatchMode):
    """While it is on, appends each call's [api, args, kwargs] to `calls`."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        keywords = {key: plain(value) for key, value in kwargs.items()}
        call = [name(func), [plain(value) for value in args], keywords]
        self.calls.append(json.dumps(call, sort_keys=True))
        return func(*args, **kwargs)

    def write(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.calls) + "\n")
