"""Compares the metadata of what a call returned with the record."""

import fnmatch
import re
import types

import torch

from replay import arguments


class Results:
    def __init__(self, rules, device):
        self.device = device  # replaces the recorded devices of all tensors
        self.strides = True  # whether the trace records them
        self.by_values = _globs(rules["sizes by values"])
        self.by_structure = _globs(rules["sizes by structure"])
        self.by_state = _globs(rules["results by state"])
        self.outputs_by_state = rules["outputs by state"]
        self.by_conjugation = _globs(rules["strides by conjugation"])
        self.by_negation = _globs(rules["strides by negation"])
        # Whether arguments may have been conjugated or negative in a way that changes strides.
        self.conjugated = self.negated = False
        self.structured = True

    def is_by_state(self, target):
        return bool(self.by_state.fullmatch(target.key))

    def outputs_aside(self, target):
        """The numbers of those results that are not comparable with the recorded ones."""
        return self.outputs_by_state.get(target.key, ()) if target.schema is not None else ()

    def sizes_are_told(self, target, values_known, specs):
        """Whether the known facts about a call's arguments determine the sizes of its results."""
        if self.by_structure.fullmatch(target.key):
            return False
        return values_known or not (
            torch.Tag.dynamic_output_shape in target.tags
            or self.by_values.fullmatch(target.key)
            or any(not spec.shape and spec.is_integer() and not spec.is_known for spec in specs)
        )

    def difference(self, target, recorded, returned, sizes):
        """The difference in words, empty if there is none. `recorded` and `returned`: lists of
        values."""
        # A class is recorded by its __init__, which returns nothing.
        if self.is_by_state(target) or isinstance(target.function, type):
            return ""
        if len(recorded) != len(returned):
            return f"{len(returned)} values, recorded {len(recorded)}"
        self.conjugated = bool(self.by_conjugation.fullmatch(target.key))
        self.negated = bool(self.by_negation.fullmatch(target.key))
        self.structured = not self.by_structure.fullmatch(target.key)
        aside = self.outputs_aside(target)
        for i, (plain, value) in enumerate(zip(recorded, returned)):
            if i in aside:
                continue
            where = "result" if len(recorded) == 1 else f"result {i}"
            difference = self._compare(plain, value, sizes, where)
            if difference:
                return difference
        return ""

    def _compare(self, plain, value, sizes, where):
        kind, found = kind_of_plain(plain), kind_of(value)
        if kind is None:
            return ""
        if kind != found:
            return f"{where}: {_shown(found)}, recorded {_shown(kind)}"
        if kind == "torch.Tensor":
            return self._compare_tensors(plain, value, sizes, where)
        if kind in ("list", "tuple", "torch.Size", "dict"):
            return self._compare_items(plain, value, sizes, where)
        if kind == "torch.device":
            return self._compare_devices(plain["value"], value, where)
        named = kind in ("torch.dtype", "torch.layout", "torch.memory_format")
        if named and plain["value"] != str(value):
            return f"{where}: {value}, recorded {plain['value']}"
        return ""

    def _compare_items(self, plain, value, sizes, where):
        if not sizes:
            return ""
        items = plain["value"]
        # Only the first items of a long list were recorded.
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
        # For wrapper tensors, the recorder doesn't read the layout.
        if recorded_layout not in (layout, "torch.unknown") and not tensor.is_nested:
            return f"{where}: {layout}, recorded {recorded_layout}"
        difference = self._compare_devices(plain["device"], tensor.device, where)
        if difference:
            return difference
        shape = plain.get("shape")
        if shape is None or tensor.is_nested or not self.structured:
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
        stride = plain.get("stride") or arguments.contiguous(shape)
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


def _shown(kind):
    return kind if kind == "torch.Size" else kind.removeprefix("torch.")


def _globs(names):
    return re.compile("|".join(fnmatch.translate(name) for name in names))


def _plain_device(device):
    return device.type, device.index or 0


def returned_values(target, result):
    """The values as they are recorded: each return value of an operator, the single object of a
    function."""
    if target.schema is None:
        return [result]
    count = len(target.schema.returns)
    if count == 0:
        return []
    return [result] if count == 1 else list(result)


def kind_of_plain(plain):
    """None: the description has too little to compare."""
    if not isinstance(plain, dict):
        return kind_of(plain)
    kind = plain.get("type")
    if kind == "torch.Tensor" and plain.get("defined", True) is False:
        return "None"
    return None if kind in ("symbol", "deep") else kind


# As in the recorder (dialects/python/describe/value_describer.h): the first matching type in its
# order, so that subclasses get the same kind.
_KINDS = (
    (type(None), "None"),
    (bool, "bool"),
    (torch.dtype, "torch.dtype"),
    (torch.device, "torch.device"),
    (torch.Size, "torch.Size"),
    (torch.Tensor, "torch.Tensor"),
    ("numpy.ndarray", "numpy.ndarray"),
    ("numpy.generic", "numpy.generic"),
    (int, "int"),
    (float, "float"),
    (complex, "complex"),
    (str, "str"),
    (bytes, "bytes"),
    (tuple, "tuple"),
    (list, "list"),
    (dict, "dict"),
    (frozenset, "frozenset"),
    (set, "set"),
    (slice, "slice"),
    (type(...), "ellipsis"),
    ((torch.SymInt, torch.SymFloat, torch.SymBool), "symbol"),
    (torch.layout, "torch.layout"),
    (torch.memory_format, "torch.memory_format"),
    (torch.Generator, "torch.Generator"),
    ((torch.UntypedStorage, torch.TypedStorage), "torch.UntypedStorage"),
    (type, "type"),
    (
        (
            types.FunctionType,
            types.BuiltinFunctionType,
            types.MethodType,
            types.MethodDescriptorType,
            types.WrapperDescriptorType,
            types.MethodWrapperType,
        ),
        "function",
    ),
    (range, "range"),
)


def kind_of(value):
    of = type(value)
    bases = {f"{base.__module__}.{base.__qualname__}" for base in of.__mro__}
    for kind, name in _KINDS:
        if kind in bases if isinstance(kind, str) else issubclass(of, kind):
            return name
    return "object"
