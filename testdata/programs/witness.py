"""Runs a script under a witness that shares no code with torchtrace, and writes what it saw.

    witness.py modes FOLDER SCRIPT [ARGS...]     a TorchFunctionMode and a TorchDispatchMode
    witness.py functions FOLDER SCRIPT [ARGS...] a TorchFunctionMode alone
    witness.py told FOLDER SCRIPT [ARGS...]      the same on every thread, getters and failures too
    witness.py dispatched FOLDER SCRIPT [ARGS...] a TorchDispatchMode alone, on every thread
    witness.py counts FOLDER SCRIPT [ARGS...]    every RecordFunction, and calls of Python functions

The modes write FOLDER/modes-PID.jsonl, one line for each call as it begins:
[level, api, args, kwargs], in the JSON form of docs/TEXT.md. `told` writes FOLDER/told-PID.jsonl,
one line for each call as it ends: [thread, api, args, kwargs, whether it raised]. `dispatched`
writes FOLDER/dispatched-PID.jsonl, for each call as it begins: [thread, api, args, kwargs]. A
program can also `install` one of these two itself. The others write FOLDER/operators.jsonl, the
program's operators on the main thread as PyTorch's own profiler tells them: [depth, name, shapes].
`counts` writes FOLDER/functions.json: {name: calls} of the functions and methods of torch that
Python called.
"""

import _thread
import atexit
import collections
import enum
import functools
import json
import math
import os
import runpy
import sys
import threading

import torch
import torch.utils._device
from torch.overrides import TorchFunctionMode, resolve_name
from torch.utils._python_dispatch import TorchDispatchMode

# ---- Values in the JSON form ----

SCALARS = (type(None), bool, int, str)


def name_of_type(kind):
    module = kind.__dict__.get("__module__", kind.__module__)
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def describe_tensor(tensor):
    described = {"type": "torch.Tensor", "shape": None}
    if not (tensor.is_nested and type(tensor) is torch.Tensor):
        described["shape"] = [
            "SymInt" if isinstance(size, torch.SymInt) else int(size) for size in tensor.shape
        ]
    described["dtype"] = str(tensor.dtype)
    described["device"] = str(tensor.device)
    if tensor.layout not in (torch.strided, torch.jagged):
        described["layout"] = str(tensor.layout)
    elif described["shape"] is not None and not tensor.is_contiguous():
        described["stride"] = list(tensor.stride())
    if type(tensor) is not torch.Tensor:
        described["subclass"] = name_of_type(type(tensor))
    if tensor.requires_grad:
        described["requires_grad"] = True
    return described


def describe_dict(value):
    items = value.items()
    if all(type(key) is str for key in value):
        return {"type": "dict", "value": {key: describe(item) for key, item in items}}
    return {"type": "dict", "value": [[describe(key), describe(item)] for key, item in items]}


def describe_function(value):
    value = getattr(value, "__func__", value)
    module = getattr(value, "__module__", None)
    if module is None and hasattr(value, "__objclass__"):
        return f"{name_of_type(value.__objclass__)}.{value.__name__}"
    if value.__qualname__.startswith("_VariableFunctionsClass."):
        module = "torch._C"
    return value.__qualname__ if module in (None, "builtins") else f"{module}.{value.__qualname__}"


def describe(value):
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return describe_tensor(value)
    if kind in SCALARS:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"type": "float", "value": repr(value)}
    if kind is complex:
        return {"type": "complex", "value": [describe(value.real), describe(value.imag)]}
    if isinstance(value, (torch.Size, list, tuple)):
        name = (
            "torch.Size" if kind is torch.Size else "list" if isinstance(value, list) else "tuple"
        )
        return {"type": name, "value": [describe(item) for item in value]}
    if isinstance(value, dict):
        return describe_dict(value)
    if kind is slice:
        parts = [value.start, value.stop, value.step]
        return {"type": "slice", "value": [describe(part) for part in parts]}
    if value is Ellipsis:
        return {"type": "ellipsis", "value": "..."}
    for shown in (torch.dtype, torch.layout, torch.memory_format, torch.device):
        if kind is shown:
            return {"type": f"torch.{shown.__name__}", "value": str(value)}
    if kind is torch.Generator:
        return {"type": "torch.Generator", "device": str(value.device)}
    if kind in (torch.UntypedStorage, torch.TypedStorage):
        return {
            "type": "torch.UntypedStorage",
            "device": str(value.device),
            "nbytes": value.nbytes(),
        }
    if kind.__module__ == "numpy":
        if hasattr(value, "strides") and kind.__name__ == "ndarray":
            return {
                "type": "numpy.ndarray",
                "shape": list(value.shape),
                "dtype": value.dtype.type.__name__,
            }
        return {"type": "numpy.generic", "dtype": kind.__name__}
    if isinstance(value, type):
        return {"type": "type", "value": name_of_type(value)}
    if kind.__name__ in ("function", "builtin_function_or_method", "method"):
        return {"type": "function", "value": describe_function(value)}
    # A member of an enumeration, from Python or pybind11.
    name = name_of_type(kind)
    if isinstance(value, enum.Enum):
        name += f".{value._name_}"
    for member, (entry, *_) in kind.__dict__.get("__entries", {}).items():
        if entry == value:
            name += f".{member}"
            break
    # The name that its ranks share.
    if name == "torch.distributed.distributed_c10d.ProcessGroup":
        name += f".{value.group_name}"
    return {"type": "object", "value": name}


# ---- Names of level 1 ----

PUBLIC = {
    name: eval(name, {"torch": torch})
    for name in (
        "torch",
        "torch.Tensor",
        "torch.nn.functional",
        "torch.linalg",
        "torch.fft",
        "torch.special",
        "torch.sparse",
        "torch.nested",
        "torch.signal.windows",
        "torch.nn.init",
        "torch.func",
        "torch.autograd",
        "torch.masked",
    )
}


@functools.cache
def public_names():
    """{id: name} of functions, by their shortest public names."""
    best = {}
    for order, (namespace, home) in enumerate(PUBLIC.items()):
        for own in dir(home):
            found = getattr(home, own, None)
            if callable(found) and not isinstance(found, type):
                name = f"{namespace}.{own}"
                # Python 2's division.
                old = own in ("__idiv__", "__rdiv__")
                ranked = (own.startswith("_"), name.count("."), old, len(name), order, name)
                best[id(found)] = min(best.get(id(found), ranked), ranked)
    return {function: name for function, (*_, name) in best.items()}


def function_name(func):
    """The shortest public name."""
    own = getattr(func, "__name__", "")
    if type(func).__name__ == "method-wrapper":
        described = func.__self__
        owner = getattr(described, "fget", described)
        return f"torch.Tensor.{owner.__name__}.{own}"
    if isinstance(func, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return f"torch.ops.{func}"
    if isinstance(func, type):
        return name_of_type(func)
    if isinstance(func, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{func.name()}"
    found = public_names().get(id(func))
    if found is None and func.__qualname__.startswith("_VariableFunctionsClass."):
        found = f"torch.{own}"
    found = found or resolve_name(func)
    return found or describe_function(func)


# ---- The modes ----


class Journal:
    """Appends to a file for each process: a forked worker exits without closing files."""

    def __init__(self, folder, name="modes"):
        self.folder = folder
        self.name = name
        self.pid = None
        self.file = None

    def row(self, first, api, args, kwargs):
        with torch._C.DisableTorchFunction():
            return [
                first,
                api,
                [describe(value) for value in args],
                {name: describe(value) for name, value in (kwargs or {}).items()},
            ]

    def write_row(self, row):
        if self.pid != os.getpid():
            self.pid = os.getpid()
            path = os.path.join(self.folder, f"{self.name}-{self.pid}.jsonl")
            self.file = open(path, "a", buffering=1, encoding="utf-8")
        self.file.write(json.dumps(row) + "\n")

    def write(self, level, api, args, kwargs):
        self.write_row(self.row(level, api, args, kwargs))


class FunctionWitness(TorchFunctionMode):
    def __init__(self, journal):
        super().__init__()
        self.journal = journal

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = function_name(func)
        if not name.endswith(".__get__"):
            self.journal.write(1, name, args, kwargs)
        return func(*args, **(kwargs or {}))


class Told(TorchFunctionMode):
    """Writes every call that it sees, including getters, when the call ends: these never nest."""

    def __init__(self, journal):
        super().__init__()
        self.journal = journal
        self.refused = threading.local()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        row = self.journal.row(threading.get_native_id(), function_name(func), args, kwargs)
        # PyTorch retries an operator in Python that returned NotImplemented.
        again, self.refused.row = row == getattr(self.refused, "row", None), None
        raised = True
        try:
            result = func(*args, **(kwargs or {}))
            raised = False
        finally:
            if not again:
                self.journal.write_row([*row, raised])
        if result is NotImplemented:
            self.refused.row = row
        return result

    def stay_at_the_bottom(self):
        """Makes a default device, which goes to the bottom of the stack too, go above this mode."""
        cls = torch.utils._device.DeviceContext
        cls.__enter__ = self.as_without_this(cls.__enter__)
        cls.__exit__ = self.as_without_this(cls.__exit__)

    def as_without_this(self, method):
        def call(*args):
            others = pop_modes()
            there = self in others
            push_modes(mode for mode in others if mode is not self)
            try:
                return method(*args)
            finally:
                push_modes([*[self] * there, *pop_modes()])

        return call


def pop_modes():
    """Removes all modes from the stack and returns them, the one at the bottom first."""
    modes = [
        torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())
    ]
    return modes[::-1]


def push_modes(modes):
    for mode in modes:
        torch._C._push_on_torch_function_stack(mode)


class DispatchWitness(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, journal, of_thread=False):
        super().__init__()
        self.journal = journal
        self.of_thread = of_thread

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        first = threading.get_native_id() if self.of_thread else 2
        self.journal.write(first, func.name(), args, kwargs)
        # The mode's own call of the operator is not a call of the program.
        with torch._C.DisableTorchFunction():
            return func(*args, **(kwargs or {}))


def on_every_thread(mode):
    """Puts the mode at the bottom of the mode stacks of threads that start from now on."""
    start = _thread.start_new_thread

    def start_new_thread(function, args, *kwargs):
        def run(*args, **kwargs):
            with mode:
                return function(*args, **kwargs)

        return start(run, args, *kwargs)

    _thread.start_new_thread = threading._start_new_thread = start_new_thread


def install(kind, folder):
    """The mode that writes `told` or `dispatched`, on for this thread and those that start later.
    Returns it."""
    if kind == "told":
        mode = Told(Journal(folder, kind))
        mode.stay_at_the_bottom()
    else:
        mode = DispatchWitness(Journal(folder, kind), of_thread=True)
    on_every_thread(mode)
    return mode.__enter__()


# ---- The counts ----


class Functions:
    """Counts calls of Python by function name, with the interpreter's profile hook."""

    def __init__(self):
        self.names = {}
        for namespace, home in reversed(PUBLIC.items()):
            for own in dir(home):
                found = getattr(home, own, None)
                if callable(found):
                    self.names[getattr(found, "__code__", None) or id(found)] = f"{namespace}.{own}"
        self.calls = collections.Counter()
        self.codes = collections.Counter()

    def hook(self, frame, event, argument):
        if event == "call":
            self.codes[frame.f_code] += 1
        elif event == "c_call":
            owner = argument.__self__
            if isinstance(owner, torch.Tensor):
                self.calls[f"torch.Tensor.{argument.__name__}"] += 1
            else:
                own = f"{argument.__module__}.{argument.__qualname__}"
                self.calls[self.names.get(id(argument), own)] += 1

    def totals(self):
        for code, calls in self.codes.items():
            if code in self.names:
                self.calls[self.names[code]] += calls
        return self.calls


class MarkInferenceMode:
    """Marks inference mode in the profile: operators are dispatched differently inside it."""

    def __enter__(self):
        cls = torch.inference_mode
        self.enter, self.leave = cls.__enter__, cls.__exit__

        def enter(mode):
            mode.mark = torch.profiler.record_function(f"inference_mode {mode.mode}")
            with torch._C.DisableTorchFunction():
                mode.mark.__enter__()
            return self.enter(mode)

        def leave(mode, *error):
            self.leave(mode, *error)
            with torch._C.DisableTorchFunction():
                mode.mark.__exit__(*error)

        cls.__enter__, cls.__exit__ = enter, leave

    def __exit__(self, *error):
        torch.inference_mode.__enter__, torch.inference_mode.__exit__ = self.enter, self.leave


def nested(events):
    """(depth, event) in program order, from their start and end times."""
    ends = []
    for event in sorted(events, key=lambda each: (each.start_ns(), -each.end_ns())):
        while ends and ends[-1] <= event.start_ns():
            ends.pop()
        yield len(ends), event
        ends.append(event.end_ns())


def write_profile(profile, folder):
    events = [event for event in profile.kineto_results.events() if event.start_ns() > 0]
    main = next(event.start_thread_id() for event in events)
    with open(os.path.join(folder, "operators.jsonl"), "w", encoding="utf-8") as out:
        for depth, event in nested(e for e in events if e.start_thread_id() == main):
            name = event.name()
            if event.overload_name():
                name += "." + event.overload_name()
            out.write(json.dumps([depth, name, event.shapes()]) + "\n")


def start_profile(folder):
    """PyTorch's profiler, from now to the end of this process."""
    from torch._C._profiler import _ExperimentalConfig

    config = _ExperimentalConfig(capture_overload_names=True)
    profile = torch.autograd.profiler.profile(record_shapes=True, experimental_config=config)

    def finish():
        profile.__exit__(None, None, None)
        write_profile(profile, folder)

    profile.__enter__()
    atexit.register(finish)


def start_counting(folder):
    """The interpreter's profile hook, from now to the end of this process."""
    functions = Functions()

    def finish():
        sys.setprofile(None)
        with open(os.path.join(folder, "functions.json"), "w", encoding="utf-8") as out:
            json.dump(functions.totals(), out)

    atexit.register(finish)
    sys.setprofile(functions.hook)


def main():
    kind, folder = sys.argv[1:3]
    sys.argv = sys.argv[3:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))

    def run():
        runpy.run_path(sys.argv[0], run_name="__main__")

    if kind in ("told", "dispatched"):
        mode = install(kind, folder)
        try:
            run()
        finally:
            mode.__exit__(None, None, None)
        return
    start_profile(folder)
    if kind == "counts":
        with MarkInferenceMode():
            start_counting(folder)
            run()
    elif kind == "functions":
        with MarkInferenceMode(), FunctionWitness(Journal(folder)):
            run()
    else:
        journal = Journal(folder)
        with FunctionWitness(journal), DispatchWitness(journal):
            run()


if __name__ == "__main__":
    main()
