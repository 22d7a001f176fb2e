"""Writes down what a program leaves, for a comparison of two runs of it.

A program imports this first. It writes into the folder $FIDELITY_OUTCOME, from every process:
results.jsonl, [label, digest] of each result; ends.jsonl, [process, facts] of each process at its
end. Where $FIDELITY_WITNESS names a witness of testdata/programs/witness.py, it also turns that on.

It calls no operator of torch and no function that a mode could see.
"""

import argparse
import atexit
import collections
import contextlib
import ctypes
import gc
import hashlib
import json
import os
import random
import re
import signal
import sys
import threading

import numpy
import torch
from attempts import mark

FOLDER = os.environ["FIDELITY_OUTCOME"]

if "FIDELITY_WITNESS" in os.environ:
    import witness

    witness.install(os.environ["FIDELITY_WITNESS"], FOLDER)


def _write(name, row):
    """One line in one system call, by a new descriptor: forked processes and those that closed
    all descriptors write too."""
    file = os.open(f"{FOLDER}/{name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, json.dumps(row).encode() + b"\n")
    os.close(file)


def seed(number):
    random.seed(number)
    numpy.random.seed(number)
    torch.manual_seed(number)


def one_by_one(items):
    """The items, with the garbage of each collected after it: finalizers call nowhere else."""
    gc.disable()
    gc.freeze()
    for item in items:
        yield item
        gc.collect()


def part_of(items):
    """Those that the command line asks for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", default="0/1")
    part, parts = map(int, parser.parse_args().part.split("/"))
    return items[part::parts]


# ---- Labels ----


class _Place(threading.local):
    """Where the thread is: the blocks it was started in, and how often it had each label."""

    def __init__(self):
        self.prefix = ""
        self.seen = collections.Counter()


_place = _Place()


@contextlib.contextmanager
def inside(prefix):
    """Labels of this thread begin with this: what runs on several threads or in several processes
    has labels of its own on each."""
    outer, _place.prefix = _place.prefix, prefix
    try:
        yield
    finally:
        _place.prefix = outer


def where(label):
    """The label with its place, different each time."""
    label = f"{_place.prefix}{label}"
    _place.seen[label] += 1
    times = _place.seen[label]
    return label if times == 1 else f"{label}#{times}"


# ---- Results ----


def digest_of(value):
    """A text that is equal for what is equal to the last bit."""
    if isinstance(value, torch.Tensor):
        return _digest_of_tensor(value)
    if isinstance(value, numpy.ndarray):
        return f"numpy {value.dtype} {value.shape} {value.strides} {_hash(value.tobytes())}"
    if isinstance(value, dict):
        return {str(key): digest_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(digest_of, value)]
    if isinstance(value, BaseException):
        # PyTorch's error for an operator that a backend lacks lists its keys and its kernels.
        text = re.sub(r"\bFake, (?=Python\b)", "", without_addresses(str(value)))
        text = re.sub(r"(?m)^\w+: torchtrace \[kernel\]\n", "", text)
        return f"{type(value).__name__}: {text}"
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, (bool, int, str, complex)):
        return repr(value)
    return type(value).__name__


def without_addresses(text):
    return re.sub(r"0x[0-9a-f]{6,}", "0x...", text)


def _hash(data):
    return hashlib.sha256(data).hexdigest()[:16]


def _digest_of_tensor(tensor):
    facts = [type(tensor).__name__]
    for fact in (
        lambda: str(tensor.dtype),
        lambda: list(map(str, tensor.shape)),
        lambda: list(map(str, tensor.stride())),
        lambda: str(tensor.storage_offset()),
        lambda: [tensor.layout, tensor.device, tensor.is_conj(), tensor.is_neg()],
        lambda: [tensor.requires_grad, tensor.is_leaf, tensor.is_inference(), tensor._version],
        lambda: type(tensor.grad_fn).__name__,
        lambda: _hash(_elements(tensor)),
    ):
        try:
            with torch._C.DisableTorchFunction():
                facts.append(str(fact()))
        except Exception as error:  # sparse, nested and functorch's tensors
            facts.append(type(error).__name__)
    return " ".join(facts)


def _elements(tensor):
    """The bytes of the elements, in their order."""
    if tensor.numel() == 0 or tensor.device.type != "cpu":
        return b""
    width = tensor.element_size()
    storage = tensor.untyped_storage()
    if not storage.data_ptr():
        raise ValueError("a tensor without memory")
    memory = (ctypes.c_char * storage.nbytes()).from_address(storage.data_ptr())
    strides = [step * width for step in tensor.stride()]
    offset = tensor.storage_offset() * width
    return numpy.ndarray(tuple(tensor.shape), f"V{width}", memory, offset, strides).tobytes()


def keep(label, value):
    """A result of the program."""
    _write("results", [where(label), digest_of(value)])


def attempt(label, call, *arguments):
    """Makes the call in a section of this name, and keeps its result or how it failed."""
    label = where(label)
    mark(label)
    try:
        result = call(*arguments)
    except Exception as error:
        mark(f"failed: {type(error).__name__}")
        _write("results", [label, digest_of(error)])
        return None
    _write("results", [label, digest_of(result)])
    return result


# ---- Ends ----


def _memory_kb():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def _compiler_counts():
    """Dynamo's counters, and how often each of its phases ran."""
    if "torch._dynamo.utils" not in sys.modules:
        return {}
    utils = sys.modules["torch._dynamo.utils"]
    counts = {name: dict(counter) for name, counter in utils.counters.items()}
    phases = {name: len(times) for name, times in utils.compilation_time_metrics.items()}
    return {"counters": {str(k): {str(a): b for a, b in v.items()} for k, v in counts.items()}} | {
        "phases": phases
    }


def _facts():
    gc.collect()
    tensors = collections.Counter(
        type(each).__name__ for each in gc.get_objects() if issubclass(type(each), torch.Tensor)
    )
    return {
        "random numbers of torch": _hash(_elements(torch.get_rng_state())),
        "random numbers of numpy": _hash(repr(numpy.random.get_state()).encode()),
        "random numbers of Python": _hash(repr(random.getstate()).encode()),
        "compiler": _compiler_counts(),
        "modules": sorted(sys.modules),
        "live tensors": tensors,
        "threads": sorted(re.sub(r"\d+", "N", each.name) for each in threading.enumerate()),
        "descriptors": sorted(os.listdir("/proc/self/fd"), key=int),
        "signals": [
            without_addresses(repr(signal.getsignal(each))) for each in signal.valid_signals()
        ],
        "environment": {
            name: value for name, value in os.environ.items() if not name.startswith("FIDELITY")
        },
        "folder": os.getcwd(),
        "interpreter": [
            repr(sys.gettrace()),
            repr(sys.getprofile()),
            sys.getrecursionlimit(),
            sys.getswitchinterval(),
            gc.isenabled(),
            gc.get_threshold(),
            sys.path,
            sys.argv,
            [without_addresses(repr(each)) for each in sys.meta_path],
            without_addresses(repr(sys.excepthook)),
        ],
        "settings of torch": [
            str(torch.get_default_dtype()),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(),
            torch._C._is_torch_function_enabled(),
        ],
        "memory": _memory_kb(),
    }


def end(process):
    """This process ends here. A process that ends by os._exit calls it itself."""
    atexit.unregister(end)
    mark(where(f"end of {process}"))
    with torch._C.DisableTorchFunction():
        _write("ends", [process, _facts()])


atexit.register(end, os.environ.get("FIDELITY_PROCESS", "main"))
