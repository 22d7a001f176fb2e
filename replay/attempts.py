"""Makes a call and compares it with its record. If they differ, it is made again under other
conditions: a trace doesn't record autocast, default dtype or device, deterministic mode, or that
some tensors were numbers. The arguments and results of the call hint at these.
"""

import contextlib
import functools
import time

import torch

from replay import arguments, calling, program, results


class NothingToChange(Exception):
    """Another attempt would make the same call."""


class Attempt:
    """How a call ended: `returned` are its values, `error` the exception that it raised."""

    def __init__(self, seconds, returned=None, error=None, difference=""):
        self.seconds = seconds
        self.returned = returned
        self.error = error
        self.difference = difference
        self.how = ""  # the changed conditions, empty for the call as recorded

    def is_as_recorded(self, raised):
        if self.error is None:
            return not raised and not self.difference
        return raised == "an exception" or raised.rpartition(".")[2] in calling.kinds(self.error)

    def answer(self):
        if self.error is None:
            return {
                "result": "ok",
                "seconds": self.seconds,
                "difference": self.difference,
                "reason": self.how,
            }
        if calling.out_of_memory(self.error):
            return {"result": "skipped", "reason": calling.NO_MEMORY}
        return {
            "result": "raised",
            "raised": calling.kinds(self.error),
            "reason": calling.said(self.error),
            "seconds": self.seconds,
        }


class Attempts:
    """Attempts at one call. `outputs`: the record of its results, or None."""

    def __init__(self, replay, config, target, outputs, sizes, seed):
        self.replay = replay
        self.raised = config.get("raised", "")
        self.level = config["level"]
        self.target = target
        self.outputs = outputs
        self.sizes = sizes  # whether the arguments determine those of results
        self.seed = seed
        replay.results.strides = config.get("strides", True)

    def make(self, made, around, make_again):
        """`made` holds (args, kwargs) and is emptied, so that they need memory no longer than
        the first attempt. `around` is the context of each attempt. `make_again` makes its
        arguments again, or raises NothingToChange; None: the call changes them. Raises Refused."""
        tensors = [(tensor.device, tensor.dtype) for tensor in tensors_in(made)]
        began = time.perf_counter()
        first = self._one(*made.pop(), around, contextlib.nullcontext())
        if make_again is None or first.is_as_recorded(self.raised):
            return first
        if first.error is not None and calling.out_of_memory(first.error):
            return first
        for how, change, inside in self._others(tensors, first):
            if time.perf_counter() - began > self.replay.options["timeout"]:
                break
            self.replay.allow_again()
            with contextlib.suppress(NothingToChange, calling.Refused, *_NOT_SO):
                other = self._one(*change(make_again), around, inside)
                if other.is_as_recorded(self.raised):
                    other.how = how
                    return other
        return first

    def _one(self, args, kwargs, around, inside):
        torch.manual_seed(self.seed)
        began = time.perf_counter()
        try:
            with self.replay.guard, around(), inside:
                result = self.target.function(*args, **kwargs)
            calling.synchronize(result)
        except Exception as error:
            return Attempt(time.perf_counter() - began, error=error)
        seconds = time.perf_counter() - began
        if self.outputs is None:
            return Attempt(seconds, results.returned_values(self.target, result))
        with self.replay.guard, around():
            returned = results.returned_values(self.target, result)
            difference = self.replay.results.difference(
                self.target, self.outputs, returned, self.sizes
            )
        return Attempt(seconds, returned, difference=difference)

    def _others(self, tensors, first):
        """Yields (description, maker of its arguments, context) for each possible condition."""
        if self.raised:
            if first.error is None:
                yield "with deterministic algorithms", as_they_are, deterministic()
                for how, change in (*_OTHER_TENSORS.items(), *_QUANTISED):
                    yield how, mapped(change), contextlib.nullcontext()
                if self.level != 2:
                    yield from autocasts(tensors, [])
                for value in (0, -1, 1):
                    yield f"with {value} in tensors", filled(value), contextlib.nullcontext()
            return
        recorded = [plain for plain in program.tensors_in(self.outputs or []) if "dtype" in plain]
        if self.target.schema is not None and "torch." in first.difference:
            yield "with numbers in place of tensors", numbers, contextlib.nullcontext()
        # Level 2 is below autocast.
        if self.level != 2:
            yield from autocasts(tensors, recorded)
        if any(dtype in arguments.QUANTIZED for _, dtype in tensors):
            for how, change in _QUANTISED:
                yield how, mapped(change), contextlib.nullcontext()
        if first.error is not None:
            yield _NOT_COALESCED, mapped(not_coalesced), contextlib.nullcontext()
            return
        default = torch.get_default_dtype()
        for dtype in dtypes_in(recorded):
            if dtype.is_floating_point and dtype.itemsize > 1 and dtype != default:
                yield f"with {dtype} as the default dtype", as_they_are, default_dtype(dtype)
        # At other levels the recorded calls include the default device.
        if self.level == 0:
            for name in {plain["device"] for plain in recorded}:
                yield f"with {name} as the default device", as_they_are, self._device(name)

    def _device(self, name):
        if self.replay.device is None:
            with contextlib.suppress(RuntimeError):
                device = torch.device(name)
                arguments.check_device(device)
                return device
        return contextlib.nullcontext()


def as_they_are(make):
    return make()


def numbers(make):
    return calling.as_numbers(*make())


def filled(value):
    """The unknown contents of tensors may be why a call raised."""
    return lambda make: make(value)


def mapped(change):
    changed = False

    def of(value):
        nonlocal changed
        if isinstance(value, torch.Tensor):
            other = change(value)
            changed |= other is not value
            return other
        if type(value) in (list, tuple):
            return type(value)(map(of, value))
        return value

    def made(make):
        args, kwargs = make()
        args, kwargs = of(args), {name: of(value) for name, value in kwargs.items()}
        if not changed:
            raise NothingToChange
        return args, kwargs

    return made


def not_coalesced(tensor):
    return tensor.detach()._coalesced_(False) if tensor.layout == torch.sparse_coo else tensor


def not_a_leaf(tensor):
    return tensor.view_as(tensor) if tensor.layout == torch.strided else tensor


def per_channel(axis, zero, tensor):
    if not tensor.is_quantized:
        return tensor
    scales = torch.full((tensor.shape[axis],), 0.1)
    zeros = torch.zeros_like(scales, dtype=zero)
    return torch._make_per_channel_quantized_tensor(tensor.int_repr(), scales, zeros, axis)


_NOT_COALESCED = "with sparse tensors that are not coalesced"
# Properties of tensors that may be why a call raised.
_OTHER_TENSORS = {
    _NOT_COALESCED: not_coalesced,
    "with conjugated views": lambda tensor: tensor.conj() if tensor.is_complex() else tensor,
    "with negative views": lambda tensor: tensor if tensor.is_quantized else tensor._neg_view(),
    "with views": not_a_leaf,
}
_QUANTISED = [
    (f"quantised along dimension {axis}", functools.partial(per_channel, axis, zero))
    for axis in range(4)
    for zero in (torch.int64, torch.float32)
]
# Not all tensors can have these properties.
_NOT_SO = (RuntimeError, TypeError, IndexError)


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def dtypes_in(recorded):
    """The dtypes of described tensors; a complex dtype as that of its real parts."""
    found = {}
    for plain in recorded:
        dtype = arguments.DTYPES.get(plain["dtype"])
        if dtype is not None:
            found[dtype.to_real() if dtype.is_complex else dtype] = True
    return list(found)


def autocasts(tensors, recorded):
    floating = [(device, dtype) for device, dtype in tensors if dtype.is_floating_point]
    if not floating:
        return
    device = floating[0][0].type
    known = {*dtypes_in(recorded), *(dtype for _, dtype in floating)}
    lower = [dtype for dtype in (torch.bfloat16, torch.float16) if dtype in known]
    for dtype in lower or [torch.bfloat16 if device == "cpu" else torch.float16]:
        try:
            context = torch.autocast(device, dtype)
        except RuntimeError:  # the device has no autocast
            return
        yield f"under autocast to {dtype}", as_they_are, context


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic():
    try:
        torch._C._set_deterministic_algorithms(True)
        yield
    finally:
        torch._C._set_deterministic_algorithms(False)
