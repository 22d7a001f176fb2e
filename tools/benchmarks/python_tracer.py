"""A tracer in plain Python that records the same as torchtrace, in the usual way: modes of
PyTorch's two protocols convert each argument into dicts and lists before the call, and append the
call to a list.
"""

import time

import torch
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode


def describe_tensor(tensor):
    """A tensor's metadata; defaults are left out."""
    described = {
        "type": "torch.Tensor",
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
    }
    if tensor.layout is not torch.strided:
        described["layout"] = str(tensor.layout)
    elif not tensor.is_contiguous():
        described["stride"] = list(tensor.stride())
    if tensor.requires_grad:
        described["requires_grad"] = True
    if type(tensor) is not torch.Tensor:
        described["subclass"] = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
    return described


def describe(value):
    """A value as YAML can represent it."""
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {str(key): describe(item) for key, item in value.items()}
    if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format)):
        return str(value)
    return {"type": f"{type(value).__module__}.{type(value).__qualname__}"}


def record(calls, level, api, func, args, kwargs):
    """Appends the call, makes it, and records how it ended."""
    call = {
        "level": level,
        "api": api,
        "args": [describe(arg) for arg in args],
        "kwargs": {key: describe(value) for key, value in kwargs.items()},
        "enter": time.perf_counter_ns(),
    }
    calls.append(call)
    try:
        return func(*args, **kwargs)
    except BaseException as error:
        call["raised"] = type(error).__qualname__
        raise
    finally:
        call["leave"] = time.perf_counter_ns()


class FunctionTracer(TorchFunctionMode):
    """Level 1."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls
        self.names = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = self.names.get(func)
        if name is None:
            name = self.names[func] = resolve_name(func) or repr(func)
        if name.endswith(".__get__"):  # torchtrace leaves these out, too
            return func(*args, **(kwargs or {}))
        return record(self.calls, 1, name, func, args, kwargs or {})


class DispatchTracer(TorchDispatchMode):
    """Level 2."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return record(self.calls, 2, str(func), func, args, kwargs or {})
