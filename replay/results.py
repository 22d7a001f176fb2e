"""What a call returned beside what it returned when it was recorded: their metadata."""

import contextlib
import fnmatch
import re

import torch

from replay import calling


class Results:
    def __init__(self, rules, device):
        self.device = device  # that all tensors went to, in place of their own
        self.strides = True  # whether the trace tells them
        self.by_values = _globs(rules["sizes by values"])
        self.by_state = _globs(rules["results by state"])
        self.outputs_by_state = rules["outputs by state"]
        self.by_conjugation = _globs(rules["strides by conjugation"])
        self.by_negation = _globs(rules["strides by negation"])
        # Whether arguments may have been conjugated or negative, in a way that strides show.
        self.conjugated = self.negated = False

    def is_by_state(self, target):
        return bool(self.by_state.fullmatch(target.key))

    def outputs_aside(self, target):
        """The numbers of those results by which a call can't be told from the recorded one."""
        return self.outputs_by_state.get(target.key, ()) if target.schema is not None else ()

    def difference(self, target, recorded, returned, values_known):
        """In words; empty: there is none. `recorded` and `returned`: lists of values."""
        # A class is recorded by its __init__, which returns nothing.
        if self.is_by_state(target) or isinstance(target.function, type):
            return ""
        sizes = values_known or not (
            torch.Tag.dynamic_output_shape in target.tags or self.by_values.fullmatch(target.key)
        )
        if len(recorded) != len(returned):
            return f"{len(returned)} values, recorded {len(recorded)}"
        self.conjugated = bool(self.by_conjugation.fullmatch(target.key))
        self.negated = bool(self.by_negation.fullmatch(target.key))
        aside = self.outputs_aside(target)
        for i, (plain, value) in enumerate(zip(recorded, returned)):
            if i in aside:
                continue
            where = "result" if len(recorded) == 1 else f"result {i}"
            difference = self._compare(plain, value, sizes, where)
            if difference:
                return difference
        return ""

    def compare_call(self, target, args, kwargs, recorded, result, values_known):
        """The returned values, and their difference. Where dtypes show that an operator's tensor
        was a number, it is called with that."""
        returned = returned_values(target, result)
        difference = self.difference(target, recorded, returned, values_known)
        if difference and "torch." in difference and target.schema is not None:
            numbers = calling.as_numbers(args, kwargs)
            if numbers is not None:
                with contextlib.suppress(Exception):  # it takes no numbers
                    again = returned_values(target, target.function(*numbers[0], **numbers[1]))
                    if not self.difference(target, recorded, again, values_known):
                        return again, ""
        return returned, difference

    def _compare(self, plain, value, sizes, where):
        kind, found = kind_of_plain(plain), kind_of(value)
        if kind is None:
            return ""
        if kind != found:
            return f"{where}: {found}, recorded {kind}"
        if kind == "Tensor":
            return self._compare_tensors(plain, value, sizes, where)
        if kind in ("list", "tuple", "torch.Size", "dict"):
            return self._compare_items(plain, value, sizes, where)
        if kind == "device":
            return self._compare_devices(plain["value"], value, where)
        if kind in ("dtype", "layout", "memory_format") and plain["value"] != str(value):
            return f"{where}: {value}, recorded {plain['value']}"
        return ""

    def _compare_items(self, plain, value, sizes, where):
        if not sizes:
            return ""
        items = plain["value"]
        # Of a long one the first items were recorded.
        whole = len(items) + plain.get("cut", 0)
        if whole != len(value):
            return f"{where}: {len(value)} items, recorded {whole}"
        if isinstance(value, torch.Size):
            if any(type(size) is int and size != ours for size, ours in zip(items, value)):
                return f"{where}: {list(value)}, recorded {items}"
            return ""
        if isinstance(value, dict):
            pairs = list(items.values() if isinstance(items, dict) else (pair[1] for pair in items))
            items, value = pairs, list(value.values())
        for i, (inner, part) in enumerate(zip(items, value)):
            difference = self._compare(inner, part, sizes, f"{where}[{i}]")
            if difference:
                return difference
        return ""

    def _compare_tensors(self, plain, tensor, sizes, where):
        dtype, layout = str(tensor.dtype), str(tensor.layout)
        if plain["dtype"] != dtype:
            return f"{where}: {dtype}, recorded {plain['dtype']}"
        recorded_layout = plain.get("layout", "torch.strided")
        if recorded_layout not in (layout, "torch.unknown"):
            return f"{where}: {layout}, recorded {recorded_layout}"
        difference = self._compare_devices(plain["device"], tensor.device, where)
        if difference:
            return difference
        shape = plain.get("shape")
        if shape is None or tensor.is_nested:
            return ""
        if len(shape) != tensor.dim():
            return f"{where}: {tensor.dim()} dimensions, recorded {len(shape)}"
        if not sizes or not all(type(size) is int for size in shape):
            return ""
        if shape != list(tensor.shape):
            return f"{where}: shape {list(tensor.shape)}, recorded {shape}"
        if not self.strides or layout != "torch.strided" or self.device is not None or 0 in shape:
            return ""
        if self.negated or (self.conjugated and tensor.is_complex()):
            return ""
        stride = plain.get("stride") or contiguous(shape)
        if any(
            size > 1 and ours != theirs and type(theirs) is int
            for size, ours, theirs in zip(shape, tensor.stride(), stride)
        ):
            return f"{where}: stride {list(tensor.stride())}, recorded {stride}"
        return ""

    def _compare_devices(self, name, device, where):
        try:
            recorded = torch.device(name)
        except RuntimeError:
            return ""
        allowed = {_plain_device(recorded)}
        if self.device is not None:
            allowed.add(_plain_device(self.device))
        if _plain_device(device) in allowed:
            return ""
        return f"{where}: on {device}, recorded {name}"


def _globs(names):
    return re.compile("|".join(fnmatch.translate(name) for name in names))


def _plain_device(device):
    return device.type, device.index or 0


def contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return strides[::-1]


def returned_values(target, result):
    """As they are recorded: of an operator each value that it returns, of a function the one
    object."""
    if target.schema is None:
        return [result]
    count = len(target.schema.returns)
    if count == 0:
        return []
    return [result] if count == 1 else list(result)


_KINDS = {
    "torch.Tensor": "Tensor",
    "torch.dtype": "dtype",
    "torch.device": "device",
    "torch.layout": "layout",
    "torch.memory_format": "memory_format",
    "torch.Size": "torch.Size",
    "list": "list",
    "tuple": "tuple",
    "set": "set",
    "dict": "dict",
    "int": "int",
    "float": "float",
    "complex": "complex",
    "str": "str",
    "slice": "slice",
}


def kind_of_plain(plain):
    """None: it tells too little to be compared."""
    if not isinstance(plain, dict):
        return kind_of(plain)
    kind = plain.get("type")
    if kind == "torch.Tensor" and plain.get("defined", True) is False:
        return "None"
    return _KINDS.get(kind)


def kind_of(value):
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return "Tensor"
    for kind, name in (
        (torch.Size, "torch.Size"),
        (torch.dtype, "dtype"),
        (torch.device, "device"),
        (torch.layout, "layout"),
        (torch.memory_format, "memory_format"),
        (bool, "bool"),
        (tuple, "tuple"),
    ):
        if isinstance(value, kind):
            return name
    return type(value).__name__
