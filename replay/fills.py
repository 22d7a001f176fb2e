"""Contents of the tensors that are made: by rules.yaml, from the sizes of the other arguments.

A rule names a kind of content below and its parameters. A kind returns how values are drawn; an
elementwise kind may draw a whole storage, of which the tensor is a view.
"""

import fnmatch
import re

import torch

from replay.arguments import Packed, TensorSpec, product

_ALIASES = {"input": "self", "tensor": "self", "tensors": "self", "A": "self"}


class Draw:
    def __init__(self, function, elementwise=False):
        self.function = function  # (shape, dtype, generator) -> tensor
        self.elementwise = elementwise


def uniform(low, high):
    def draw(shape, dtype, generator):
        if dtype.is_complex:
            parts = torch.rand((*shape, 2), generator=generator, dtype=dtype.to_real())
            return torch.view_as_complex(parts) * (high - low) + low
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        return torch.rand(shape, generator=generator, dtype=wide) * (high - low) + low

    return Draw(draw, elementwise=True)


def integers(low, high):
    """Integers below `high`; `low` if there are none."""
    low, high = int(low), max(int(high), int(low) + 1)
    # Within int64: larger values, which uint64 has, by the same bits.
    if low >= 2**63:
        low, high = low - 2**64, high - 2**64
    low, high = max(low, -(2**63)), min(high, 2**63 - 1)

    def draw(shape, dtype, generator):
        if high <= low + 1:
            return torch.full(shape, low)
        return torch.randint(low, high, shape, generator=generator)

    return Draw(draw, elementwise=True)


def constant(value):
    return Draw(
        lambda shape, dtype, generator: torch.full(shape, value, dtype=torch.float64),
        elementwise=True,
    )


def choice(values):
    def draw(shape, dtype, generator):
        return torch.tensor(values)[torch.randint(0, len(values), shape, generator=generator)]

    return Draw(draw, elementwise=True)


def default(dtype):
    if dtype == torch.bool:
        return integers(0, 2)
    if dtype.is_floating_point or dtype.is_complex:
        return _NORMAL
    return integers(1, 5)


def _draw_normal(shape, dtype, generator):
    if dtype == torch.complex32:
        dtype = torch.complex64
    elif dtype.is_floating_point and dtype != torch.float64:
        dtype = torch.float32
    return torch.randn(shape, generator=generator, dtype=dtype)


_NORMAL = Draw(_draw_normal, elementwise=True)


def given(contents):
    def draw(shape, dtype, generator):
        if not contents:
            return torch.zeros(shape, dtype=dtype)
        # In memory allocated by torch: its alignment can affect the last bits of results.
        given = torch.frombuffer(memoryview(contents), dtype=torch.uint8).clone()
        return given.view(dtype).view(shape)

    return Draw(draw)


def partition(total, parts):
    """`parts` lengths with that sum, the larger ones first."""
    each, more = divmod(max(0, total), max(1, parts))
    return [each + (i < more) for i in range(parts)]


class Call:
    """The bound arguments of a call, for the kinds that look at them."""

    def __init__(self, arguments):
        self.arguments = dict(arguments)
        for name, value in arguments.items():
            self.arguments.setdefault(_ALIASES.get(name, name), value)

    def get(self, names, kind=None):
        for name in names if isinstance(names, list) else [names]:
            value = self.arguments.get(name)
            if (
                isinstance(value, (list, tuple))
                and value
                and kind is TensorSpec
                and isinstance(value[0], TensorSpec)
            ):
                value = value[0]
            if value is not None and (kind is None or isinstance(value, kind)):
                return value
        return None

    def number(self, what, otherwise=0):
        """A literal, the value of an argument, or {size: [of, dim]}, {numel: of}, and so on."""
        if isinstance(what, bool) or what is None:
            return otherwise
        if isinstance(what, (int, float)):
            return what
        if isinstance(what, str):
            value = self.get(what, (int, float))
            return otherwise if value is None else value
        if "size" in what:
            of, dim = what["size"]
            spec = self.get(of, TensorSpec)
            dim = self.number(dim, None)
            if spec is None:
                return otherwise
            if dim is None:
                return spec.numel
            if not spec.shape:
                return 1
            return spec.shape[dim] if -len(spec.shape) <= dim < len(spec.shape) else otherwise
        if "numel" in what:
            spec = self.get(what["numel"], TensorSpec)
            return otherwise if spec is None else spec.numel
        if "product" in what:
            sizes = self.get(what["product"], (list, tuple))
            return (
                otherwise
                if sizes is None
                else product(size for size in sizes if isinstance(size, int))
            )
        return otherwise


# Each kind: (call, spec, parameters of the rule) -> Draw, or None if it doesn't apply.


def _uniform(call, spec, rule):
    return uniform(call.number(rule["low"]), call.number(rule["high"], 1))


def _integers(call, spec, rule):
    return integers(call.number(rule.get("low", 0)), call.number(rule["high"], 1))


def _divisor(call, spec, rule):
    """Integers within the recorded range, but not 0."""
    least, most = spec.range or (1, 1)
    if not spec.is_integer() or not least <= 0 <= most or least == most:
        return None
    drawn = integers(least, most + 1)

    def draw(shape, dtype, generator):
        values = drawn.function(shape, dtype, generator)
        return values.masked_fill(values == 0, most or least)

    return Draw(draw)


def _index(call, spec, rule):
    if spec.dtype in (torch.bool,):
        return None
    return integers(
        call.number(rule.get("low", 0)), call.number({"size": [rule["into"], rule.get("dim")]}, 1)
    )


def _classes(call, spec, rule):
    """Class numbers: the classes are the second dimension, or the only one."""
    of = call.get(rule["of"], TensorSpec)
    if of is None or not spec.is_integer():
        return None
    return integers(rule.get("low", 0), of.shape[1] if len(of.shape) > 1 else (of.shape or (1,))[0])


def _sorted(call, spec, rule):
    return Draw(
        lambda shape, dtype, generator: (
            torch.sort(
                (default if rule.get("of") != "unit" else lambda _: uniform(0, 1))(dtype)
                .function(shape, dtype, generator)
                .to(torch.float64)
                + (torch.arange(shape[-1]) * 2 if shape and rule.get("strictly") else 0)
            ).values
        )
    )


def _sorted_index(call, spec, rule):
    draw = _index(call, spec, rule)
    if not spec.shape:
        return integers(1, 3)
    return Draw(
        lambda shape, dtype, generator: torch.sort(draw.function(shape, dtype, generator)).values
    )


def _permutation(call, spec, rule):
    return Draw(lambda shape, dtype, generator: torch.rand(shape, generator=generator).argsort(-1))


def _pivots(call, spec, rule):
    """LAPACK's pivots: the i-th, from 1, is at least i."""
    return Draw(
        lambda shape, dtype, generator: torch.arange(1, (shape or (1,))[-1] + 1).expand(shape)
    )


def _offsets(call, spec, rule):
    """The beginnings of bags: rising from 0, at most the number of indices."""
    indices = call.get(rule["of"], TensorSpec)
    total = indices.numel if indices is not None else 0
    last = call.get("include_last_offset") is True

    def draw(shape, dtype, generator):
        offsets = torch.sort(torch.randint(0, total + 1, shape, generator=generator)).values
        if offsets.numel():
            offsets.view(-1)[0] = 0
            if last:
                offsets.view(-1)[-1] = total
        return offsets

    return Draw(draw)


def _lengths(call, spec, rule):
    """Lengths with the given sum; small ones if there is none."""
    total = call.number(rule["sum"], None)
    if total is None:
        return integers(1, 3)

    def draw(shape, dtype, generator):
        row = partition(int(total), (shape or (1,))[-1])
        return torch.tensor(row).expand(shape) if shape else torch.tensor(int(total))

    return Draw(draw)


def _batch_sizes(call, spec, rule):
    """Batch sizes of packed sequences: how many sequences reach each step; the first is their
    number."""
    total, sequences = call.number(rule["sum"], 0), call.number(rule.get("first"), None)
    if sequences is None and spec.range is not None:
        sequences = spec.range[1]

    def draw(shape, dtype, generator):
        first = [sequences] if sequences is not None else []
        return torch.tensor(first + partition(total - sum(first), shape[0] - len(first)))

    return Draw(draw) if len(spec.shape) == 1 and spec.shape[0] else None


def _packed(call, spec, rule):
    """The parts of a PackedSequence: data, batch sizes, two orders."""
    parts = call.get(rule["of"], Packed) or ()
    if spec in parts[2:]:
        return _permutation(call, spec, rule)
    if spec in parts[1:2]:
        orders = [part.numel for part in parts[2:] if part is not None]
        total = parts[0].shape[0] if parts[0].shape else 0
        return _batch_sizes(call, spec, {"sum": total, "first": orders[0] if orders else None})
    return None


def _segment_offsets(call, spec, rule):
    total = int(call.number(rule["sum"], 0))

    def draw(shape, dtype, generator):
        ends = torch.tensor([0] + partition(total, max(0, shape[-1] - 1))).cumsum(0)
        return ends.expand(shape)

    return Draw(draw)


def _falling(call, spec, rule):
    """Lengths of sequences, longest first."""
    longest = max(1, int(call.number(rule["high"], 1)))

    def draw(shape, dtype, generator):
        lengths = (
            torch.randint(1, longest + 1, shape, generator=generator).sort(descending=True).values
        )
        if lengths.numel():
            lengths[0] = longest
        return lengths

    return Draw(draw)


def _target_lengths(call, spec, rule):
    """For a CTC loss: sum to all targets if these are in one row, else fit into each row."""
    targets, steps = call.get("targets", TensorSpec), call.get("log_probs", TensorSpec)
    if targets is None or steps is None or not steps.shape:
        return None
    if len(targets.shape) == 1 and spec.shape:
        return _lengths(call, spec, {"sum": targets.numel})
    return integers(1, min((targets.shape or (1,))[-1], steps.shape[0] // 2) + 1)


def _matrix(call, spec, rule, make):
    if len(spec.shape) < 2 or not (spec.dtype.is_floating_point or spec.dtype.is_complex):
        return None

    def draw(shape, dtype, generator):
        values = _draw_normal(shape, dtype, generator)
        if shape[-1] == shape[-2]:
            values = make(values, torch.eye(shape[-1], dtype=values.dtype) * max(1, shape[-1]))
        return values

    return Draw(draw)


def _positive_definite(call, spec, rule):
    return _matrix(call, spec, rule, lambda values, much: values @ values.mH + much)


def _lower(call, spec, rule):
    return _matrix(call, spec, rule, lambda values, much: values.tril(-1) + much)


def _well_conditioned(call, spec, rule):
    return _matrix(call, spec, rule, lambda values, much: values + 2 * much)


def _simplex(call, spec, rule):
    return Draw(
        lambda shape, dtype, generator: torch.rand(shape, generator=generator).add(0.01).softmax(-1)
    )


def _plane(call, spec, rule):
    """Positions in the last dimensions of another tensor, or within given sizes."""
    of = call.get(rule["of"])
    if isinstance(of, TensorSpec):
        rank = len(spec.shape) if rule.get("rank") == "own" else rule.get("rank", 2)
        of = of.shape[max(0, len(of.shape) - rank) :]
    sizes = product(of) if isinstance(of, (list, tuple)) else 1
    if not rule.get("distinct"):
        return integers(0, sizes)
    rank = rule.get("rank", 2)
    inner = product(spec.shape[max(0, len(spec.shape) - rank) :])
    return Draw(
        lambda shape, dtype, generator: (
            (torch.arange(product(shape)) % max(1, inner)).reshape(shape) % max(1, sizes)
        )
    )


def _storage_for(call, spec, rule):
    """A view may extend beyond its base tensor, within the storage."""
    size, stride = call.get("size", (list, tuple)), call.get("stride", (list, tuple))
    offset = call.get("storage_offset", int) or 0
    if size and stride and len(size) == len(stride) and 0 not in size:
        if all(isinstance(part, int) and part >= 0 for part in (*size, *stride)):
            spec.storage = offset + 1 + sum((a - 1) * b for a, b in zip(size, stride))
    elif size is not None and 0 not in size:
        spec.storage = offset + 1
    return None


def _coordinates(call, spec, rule):
    """A column for each element of a sparse tensor; a row holds the indices of one dimension."""
    sizes = call.get("size", (list, tuple))
    if sizes is None:
        return integers(0, 2)

    def draw(shape, dtype, generator):
        rows = [
            torch.randint(0, max(1, size), shape[1:], generator=generator)
            for size in sizes[: shape[0]]
        ]
        return torch.stack(rows) if rows else torch.zeros(shape, dtype=torch.int64)

    return Draw(draw)


def _compressed(call, spec, rule):
    """The ends of each row's elements in a sparse tensor."""
    plain = call.get(rule["plain"], TensorSpec)
    total = plain.shape[-1] if plain is not None and plain.shape else 0
    return _segment_offsets(call, spec, {"sum": total})


def _plain_indices(call, spec, rule):
    """Plain indices of a sparse tensor with compressed rows: rising within each row."""
    compressed = call.get(rule["compressed"], TensorSpec)
    rows = max(0, compressed.shape[-1] - 1) if compressed is not None and compressed.shape else 1

    def draw(shape, dtype, generator):
        row = [i for length in partition(shape[-1], rows) for i in range(length)]
        return torch.tensor(row, dtype=torch.int64).expand(shape)

    return Draw(draw)


def _masked(count):
    def draw(shape, dtype, generator):
        mask = torch.zeros(product(shape), dtype=torch.bool)
        mask[torch.randperm(product(shape), generator=generator)[:count]] = True
        return mask.reshape(shape)

    return Draw(draw)


def _mask_for(call, spec, rule):
    """A mask that selects no more places than there are values."""
    source, into = call.get(rule["source"], TensorSpec), call.get("self", TensorSpec)
    if source is None or into is None:
        return None
    times = max(1, into.numel // max(1, spec.numel))
    return _masked(min(spec.numel, source.numel // times))


def _advanced_index(call, spec, rule):
    """Indices for x[...] and its operators, for all index tensors together."""
    into, index = call.get("self", TensorSpec), call.get(rule["index"])
    if into is None:
        return None
    entries = list(index) if isinstance(index, (list, tuple)) else [index]
    taken = [_dims_taken(entry) for entry in entries]
    dim, sizes, masks, lengths = 0, into.shape, [], []
    for entry, dims in zip(entries, taken):
        if entry is ...:
            dim = max(dim, len(sizes) - sum(taken[entries.index(entry) + 1 :]))
        elif isinstance(entry, TensorSpec) and entry.dtype in (torch.bool, torch.uint8):
            masks.append(entry)
        elif isinstance(entry, TensorSpec):
            entry.fill = integers(0, sizes[dim] if dim < len(sizes) else 1)
            lengths.append((entry.shape or (1,))[-1])
        elif isinstance(entry, list):
            lengths.append(len(entry))
        dim += dims
    values = call.get(["values", "value", "2"], TensorSpec)
    rest = max(0, len(sizes) - dim)
    if values is not None and len(values.shape) > rest:
        lengths.append(values.shape[-1 - rest])
    longer = [length for length in lengths if length != 1]
    for mask in masks:
        mask.fill = _masked(min(mask.numel, longer[0])) if longer else default(torch.bool)
        if not longer and (lengths and len(lengths) > (values is not None) or len(masks) > 1):
            mask.fill = _masked(1)
    return spec.fill


def _dims_taken(entry):
    if entry is None or entry is ... or isinstance(entry, bool):
        return 0
    if isinstance(entry, TensorSpec) and entry.dtype in (torch.bool, torch.uint8):
        return len(entry.shape)
    return 1


KINDS = {
    "uniform": _uniform,
    "integers": _integers,
    "constant": lambda call, spec, rule: constant(rule["value"]),
    "choice": lambda call, spec, rule: choice(rule["values"]),
    "divisor": _divisor,
    "index": _index,
    "classes": _classes,
    "sorted": _sorted,
    "sorted index": _sorted_index,
    "permutation": _permutation,
    "pivots": _pivots,
    "offsets": _offsets,
    "lengths": _lengths,
    "batch sizes": _batch_sizes,
    "packed": _packed,
    "segment offsets": _segment_offsets,
    "target lengths": _target_lengths,
    "falling lengths": _falling,
    "positive definite": _positive_definite,
    "lower triangular": _lower,
    "well conditioned": _well_conditioned,
    "simplex": _simplex,
    "plane index": _plane,
    "storage": _storage_for,
    "coordinates": _coordinates,
    "compressed indices": _compressed,
    "plain indices": _plain_indices,
    "mask for": _mask_for,
    "advanced index": _advanced_index,
}


class Fills:
    def __init__(self, rules):
        self.exact = {}  # rules by key
        self.globs = []
        for rule in rules["fills"]:
            for name in rule["ops"]:
                if any(c in name for c in "*?["):
                    self.globs.append((re.compile(fnmatch.translate(name)), rule))
                else:
                    self.exact.setdefault(name, []).append(rule)
        self.by_key = {}

    def assign(self, key, arguments):
        """Gives each tensor among the bound arguments of a call the fill of the first rule that
        applies to it."""
        rules = self.by_key.get(key)
        if rules is None:
            rules = self.exact.get(key, []) + [
                rule for glob, rule in self.globs if glob.fullmatch(key)
            ]
            self.by_key[key] = rules
        if not rules:
            return
        call = Call(arguments)
        for rule in rules:
            for name in rule["args"]:
                for spec in specs_in(call.arguments.get(name)):
                    if spec.fill is None:
                        spec.fill = KINDS[rule["fill"]](call, spec, rule)

    @staticmethod
    def _draw_of(spec):
        if spec.contents is not None:
            return given(spec.contents)
        if spec.range is not None:
            least, most = spec.range
            # A rule for all elements together outweighs their range.
            if least == most or spec.fill is None or spec.fill.elementwise:
                return integers(least, most + 1)
        return spec.fill or default(spec.dtype)

    def is_elementwise(self, spec):
        return self._draw_of(spec).elementwise

    def values(self, spec, shape, generator):
        """A contiguous tensor of the shape, on the CPU."""
        dtype = spec.dtype
        draw = self._draw_of(spec)
        if _ONLY_BITS.fullmatch(str(dtype)):
            width = (*shape, dtype.itemsize)
            return torch.randint(0, 256, width, generator=generator, dtype=torch.uint8).view(dtype)[
                ..., 0
            ]
        return draw.function(shape, dtype, generator).to(dtype).contiguous()


# Dtypes without conversions: their bytes are drawn.
_ONLY_BITS = re.compile(r"torch\.(bits\w+|float4\w*|u?int[1-7])")


def specs_in(value):
    if isinstance(value, TensorSpec):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from specs_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from specs_in(item)
