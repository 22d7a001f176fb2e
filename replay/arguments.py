"""Makes arguments from their descriptions: first checks and measures them, then allocates.

A TensorSpec holds what a trace records of a tensor. Nothing is allocated before all sizes of a call
are known to be below the limits.
"""

import base64
import re

import torch

from .names import Skip

MAX_DEPTH = 64
MAX_ITEMS = 1_000_000

DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
LAYOUTS = {str(value): value for value in vars(torch).values() if isinstance(value, torch.layout)}
MEMORY_FORMATS = {
    str(value): value for value in vars(torch).values() if isinstance(value, torch.memory_format)
}
QUANTIZED = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}
_COMPRESSED = {torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}
TYPES = {
    "int": int,
    "float": float,
    "bool": bool,
    "complex": complex,
    "str": str,
    "torch.Tensor": torch.Tensor,
}
# As text: PaddleAPITest writes these in quotes, and marks values that it could not write.
_WORDS = {**DTYPES, **LAYOUTS, **MEMORY_FORMATS}
_UNWRITTEN = re.compile(r"<(Unserializable|Truncated): .*")
_NUMPY_NAME = re.compile(r"(bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128))")


class TensorSpec:
    """A tensor to be made. `fill`: its kind of contents, (name, parameters), see fills.py."""

    def __init__(self, shape, dtype, device, stride, layout):
        self.shape = shape
        self.dtype = dtype
        self.device = device
        self.stride = stride  # None: contiguous
        self.layout = layout
        self.subclass = ""
        self.requires_grad = False
        self.fill = None
        self.storage = 0  # the least number of elements it needs
        self.range = None  # recorded: (least, most)
        self.number = None  # in a sequence
        self.contents = None  # recorded: its elements in row-major order, as bytes

    @property
    def numel(self):
        return product(self.shape)

    # The number of elements of its storage.
    @property
    def extent(self):
        if self.stride is None or 0 in self.shape:
            needed = self.numel
        else:
            needed = 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.stride))
        return max(needed, self.storage)

    @property
    def nbytes(self):
        return self.extent * max(1, self.dtype.itemsize)

    # Whether its contents are recorded, not chosen here.
    @property
    def is_known(self):
        return (
            self.contents is not None
            or self.numel == 0
            or (self.range is not None and self.range[0] == self.range[1])
        )

    def is_integer(self):
        return not (
            self.dtype.is_floating_point or self.dtype.is_complex or self.dtype == torch.bool
        )


class Packed(tuple):
    """The parts of a PackedSequence, which is recorded as a tuple."""


class StorageSpec:
    def __init__(self, device, nbytes):
        self.device = device
        self.nbytes = nbytes


class GeneratorSpec:
    def __init__(self, device):
        self.device = device


class ArraySpec:
    def __init__(self, shape, dtype):
        self.shape = shape
        self.dtype = dtype
        self.nbytes = product(shape) * 16


def product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


class Parser:
    """Converts descriptions as JSON (docs/TEXT.md) to values and specs."""

    def __init__(self, names, device=None):
        self.names = names
        self.device = device  # replaces the recorded devices of all tensors
        self.specs = []

    def parse(self, plain, depth=0):
        if depth > MAX_DEPTH:
            raise Skip("an argument is nested too deeply")
        if isinstance(plain, str) and _UNWRITTEN.match(plain):
            raise Skip("an argument was not written: " + plain[:80])
        if plain is None or isinstance(plain, (bool, int, float, str)):
            return plain
        if isinstance(plain, list):
            return [self.parse(item, depth + 1) for item in plain]
        kind = plain.get("type")
        if not isinstance(kind, str):
            raise Skip("an argument's description isn't valid")
        if "cut" in plain:
            raise Skip("an argument was cut when it was recorded")
        reader = self._READERS.get(kind)
        if reader is None:
            raise Skip(f"an argument is of a kind that can't be made: {kind[:80]}")
        try:
            return reader(self, plain, depth)
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            said = f"it has no {error}" if isinstance(error, KeyError) else error
            raise Skip(
                f"an argument's description can't be read ({kind[:80]}): {said}"[:200]
            ) from None

    def read_texts(self, key, args, kwargs, returned):
        """Converts devices recorded as text, packed sequences recorded as tuples, and text that
        a call which returned must have received as dtypes, layouts, memory formats."""
        if returned:
            args[:] = [self._read_word(value) for value in args]
            kwargs.update((name, self._read_word(value)) for name, value in kwargs.items())
        if isinstance(kwargs.get("device"), str):
            kwargs["device"] = self._device_of(kwargs["device"])
        if key == "to" and len(args) > 1 and isinstance(args[1], str):
            args[1] = self._device_of(args[1])
        if key in self.names.of_packed and args and type(args[0]) is tuple:
            args[0] = Packed(args[0])
        if "cdata" in kwargs:
            raise Skip("it takes memory by its address")
        pinned = key in self.names.of_accelerators or kwargs.get("pin_memory") is True
        if pinned and not has_accelerator():
            raise Skip("it needs an accelerator, and there is none here")

    def move(self, target, args, kwargs):
        """The call to make: `x.cuda()` becomes `x.to("cuda")`, with the replacement of all
        devices."""
        if target.key not in self.names.devices:
            return target, args, kwargs
        device = self._device_of(target.key)
        if self.device is None or not args:
            return target, args, kwargs
        return self.names.resolve("torch.Tensor.to"), [args[0], device], {}

    @staticmethod
    def _read_word(value):
        return _WORDS.get(value, value) if isinstance(value, str) else value

    def _items(self, plain, depth):
        items = plain["value"]
        if not isinstance(items, list):
            raise ValueError("expected a list")
        return [self.parse(item, depth + 1) for item in items]

    def _dict(self, plain, depth):
        content = plain["value"]
        pairs = content.items() if isinstance(content, dict) else content
        return {self.parse(key, depth + 1): self.parse(value, depth + 1) for key, value in pairs}

    def _tensor(self, plain, depth):
        if plain.get("defined", True) is False:
            return None
        spec = TensorSpec(
            self._shape(plain["shape"]),
            self._named(DTYPES, plain["dtype"], "dtype"),
            self._device_of(plain["device"]),
            None,
            self._named(LAYOUTS, plain.get("layout", "torch.strided"), "layout"),
        )
        if plain.get("stride") is not None:
            spec.stride = self._shape(plain["stride"])
            if len(spec.stride) != len(spec.shape):
                raise ValueError("shape and stride differ in rank")
        spec.subclass = str(plain.get("subclass", ""))
        spec.requires_grad = plain.get("requires_grad", False) is True
        spec.number = plain.get("id")
        self.specs.append(spec)
        return spec

    @staticmethod
    def _shape(sizes):
        if sizes is None:
            raise Skip("the shape of a nested tensor isn't known")
        if len(sizes) > 64:
            raise Skip("a tensor has more than 64 dimensions")
        for size in sizes:
            if size == "SymInt":
                raise Skip("a size was symbolic")
            if isinstance(size, bool) or not isinstance(size, int):
                raise Skip("a size is missing")
            if not 0 <= size < 2**63:
                raise Skip("a size or stride is negative or beyond 64 bits")
        return tuple(sizes)

    @staticmethod
    def _named(table, name, what):
        if name == "torch.unknown":
            raise Skip(f"a tensor's {what} isn't known")
        if name not in table:
            raise Skip(f"this torch has no {what} {str(name)[:80]}")
        return table[name]

    def _device_of(self, name):
        if self.device is not None and name != "meta":
            return self.device
        if name == "unknown":
            raise Skip("a tensor's device isn't known (--device cpu replays it on the CPU)")
        try:
            device = torch.device(name)
        except RuntimeError:
            raise Skip(f"this torch has no device {str(name)[:80]}") from None
        check_device(device)
        return device

    def _symbol(self, plain, depth):
        unknown = {"*": "an argument was forgotten (*)", "...": "its arguments aren't known"}
        raise Skip(unknown.get(plain.get("value"), "a number was symbolic"))

    def _object(self, plain, depth):
        stand_in = self.names.object(plain.get("value"))
        if stand_in is not None:
            return stand_in
        raise Skip(
            "an argument is an object, of which only the type is known: "
            + str(plain.get("value"))[:80]
        )

    def _type(self, plain, depth):
        name = plain["value"]
        if name in TYPES:
            return TYPES[name]
        found = self.names.resolve(name).function
        if not isinstance(found, type):
            raise Skip("an argument recorded as a type is none")
        return found

    def _array(self, plain, depth):
        if not _NUMPY_NAME.fullmatch(plain["dtype"]):
            raise Skip("a NumPy array of such a dtype can't be made")
        spec = ArraySpec(self._shape(plain["shape"]), plain["dtype"])
        self.specs.append(spec)
        return spec

    def _scalar(self, plain, depth):
        import numpy

        if not _NUMPY_NAME.fullmatch(plain["dtype"]):
            raise Skip("a NumPy number of such a dtype can't be made")
        if "int" in plain["dtype"]:
            raise Skip("the value of a NumPy integer isn't recorded")
        return numpy.dtype(plain["dtype"]).type(1)

    def _storage(self, plain, depth):
        spec = StorageSpec(self._device_of(plain["device"]), int(plain["nbytes"]))
        self.specs.append(spec)
        return spec

    def _complex(self, plain, depth):
        return complex(*(self.parse(part, depth + 1) for part in plain["value"]))

    def _int(self, plain, depth):
        if len(plain["value"]) > 1000:
            raise Skip("an int has too many digits")
        return int(plain["value"])

    _READERS = {
        "list": _items,
        "tuple": lambda self, plain, depth: tuple(self._items(plain, depth)),
        "set": lambda self, plain, depth: set(self._items(plain, depth)),
        "frozenset": lambda self, plain, depth: frozenset(self._items(plain, depth)),
        "torch.Size": lambda self, plain, depth: torch.Size(self._items(plain, depth)),
        "slice": lambda self, plain, depth: slice(*self._items(plain, depth)),
        "range": lambda self, plain, depth: range(*self._items(plain, depth)),
        "dict": _dict,
        "ellipsis": lambda self, plain, depth: ...,
        "complex": _complex,
        "int": _int,
        "float": lambda self, plain, depth: float(plain["value"]),
        "bytes": lambda self, plain, depth: plain["value"].encode("latin-1"),
        "str": lambda self, plain, depth: plain["value"],
        "torch.Tensor": lambda self, plain, depth: self._tensor(plain, depth),
        "torch.dtype": lambda self, plain, depth: self._named(DTYPES, plain["value"], "dtype"),
        "torch.device": lambda self, plain, depth: self._device_of(plain["value"]),
        "torch.layout": lambda self, plain, depth: self._named(LAYOUTS, plain["value"], "layout"),
        "torch.memory_format": lambda self, plain, depth: self._named(
            MEMORY_FORMATS, plain["value"], "memory format"
        ),
        "torch.Generator": lambda self, plain, depth: GeneratorSpec(
            self._device_of(plain["device"])
        ),
        "torch.UntypedStorage": _storage,
        "function": lambda self, plain, depth: self.names.resolve(plain["value"]).function,
        "type": _type,
        "numpy.ndarray": _array,
        "numpy.generic": _scalar,
        "symbol": _symbol,
        "object": _object,
        "deep": lambda self, plain, depth: self._object(
            {"value": "a container nested too deeply"}, depth
        ),
    }


def attach(specs, notes):
    """Gives tensors, in the order in which they were parsed, what was recorded of them as well
    as their metadata."""
    tensors = [spec for spec in specs if isinstance(spec, TensorSpec)]
    for note in notes:
        if note["position"] >= len(tensors):
            continue
        spec = tensors[note["position"]]
        if "min" in note:
            spec.range = (int(note["min"]), int(note["max"]))
        if "contents" in note:
            contents = note["contents"]
            spec.contents = base64.b64decode(contents) if isinstance(contents, str) else contents
            if len(spec.contents) != spec.numel * spec.dtype.itemsize:
                raise Skip("a tensor's recorded contents don't fit it")


def check_device(device):
    if not device_is_here(device):
        raise Skip(f"there is no {device} here (--device cpu replays it on the CPU)")


def device_is_here(device):
    if device.type in ("cpu", "meta"):
        return True
    backend = getattr(torch, device.type, None)
    try:
        return bool(
            backend and backend.is_available() and (device.index or 0) < backend.device_count()
        )
    except Exception:
        return False


def has_accelerator():
    return getattr(torch, "accelerator", torch.cuda).is_available()


def measure(specs, max_bytes):
    """The bytes of all inputs; raises Skip beyond the limit."""
    total = sum(spec.nbytes for spec in specs)
    if total > max_bytes:
        raise Skip(f"its inputs take {about(total)} or more, beyond --max-bytes")
    return total


def about(nbytes):
    """The next lower power of two, so that skipped calls of many sizes share few reasons."""
    power = min(max(nbytes, 1).bit_length() - 1, 69)
    return f"{1 << power % 10} {('bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB')[power // 10]}"


class Builder:
    """Makes values from specs."""

    def __init__(self, fills, generator, seed):
        self.fills = fills
        self.generator = generator
        self.seed = seed

    def build(self, value):
        if isinstance(value, TensorSpec):
            return self._tensor(value)
        if isinstance(value, torch.Size):
            return value
        if isinstance(value, Packed):
            return torch.nn.utils.rnn.PackedSequence(*map(self.build, value))
        if isinstance(value, (list, tuple, set, frozenset)):
            return type(value)(self.build(item) for item in value)
        if isinstance(value, dict):
            return {key: self.build(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self.build(item) for item in (value.start, value.stop, value.step)))
        if isinstance(value, GeneratorSpec):
            return torch.Generator(value.device).manual_seed(self.seed)
        if isinstance(value, StorageSpec):
            return torch.UntypedStorage(value.nbytes, device=value.device).fill_(0)
        if isinstance(value, ArraySpec):
            import numpy

            return numpy.ones(value.shape, value.dtype)
        return value

    def _tensor(self, spec):
        if spec.device.type == "meta":
            tensor = torch.empty(spec.extent, dtype=spec.dtype, device="meta")
            tensor = (
                tensor.as_strided(spec.shape, spec.stride)
                if spec.stride
                else tensor.view(spec.shape)
            )
        elif spec.layout != torch.strided:
            tensor = self._unstrided(spec)
        elif spec.dtype in QUANTIZED:
            plain = TensorSpec(
                spec.shape, QUANTIZED[spec.dtype], spec.device, spec.stride, spec.layout
            )
            plain.contents = spec.contents
            tensor = torch._make_per_tensor_quantized_tensor(self._strided(plain), 0.1, 0)
        else:
            tensor = self._strided(spec)
        # Autograd must not see a view: a view can't be detached in place.
        return self._as_argument(spec, tensor.data)

    def _as_argument(self, spec, tensor):
        if spec.subclass == "torch.nn.parameter.Parameter":
            return torch.nn.Parameter(tensor, requires_grad=spec.requires_grad)
        if spec.subclass == "torch.nn.parameter.Buffer":
            return torch.nn.Buffer(tensor)
        if not spec.requires_grad or not (spec.dtype.is_floating_point or spec.dtype.is_complex):
            return tensor
        tensor.requires_grad_()
        return tensor

    def _strided(self, spec):
        extent = spec.extent
        if spec.stride is None and extent == spec.numel:
            return self.fills.values(spec, spec.shape, self.generator).to(spec.device)
        # Elementwise kinds are drawn for the whole storage.
        if self.fills.is_elementwise(spec):
            storage = self.fills.values(spec, (extent,), self.generator)
        else:
            values = self.fills.values(spec, spec.shape, self.generator).reshape(-1)
            at = torch.arange(extent).as_strided(spec.shape, spec.stride or contiguous(spec.shape))
            # By bytes, since not every dtype supports this assignment.
            storage = torch.zeros(extent, spec.dtype.itemsize, dtype=torch.uint8)
            storage[at.reshape(-1)] = values.view(torch.uint8).view(-1, spec.dtype.itemsize)
            storage = storage.view(spec.dtype).view(-1)
        return storage.to(spec.device).as_strided(spec.shape, spec.stride or contiguous(spec.shape))

    def _unstrided(self, spec):
        dense = TensorSpec(spec.shape, spec.dtype, torch.device("cpu"), None, torch.strided)
        dense.fill = spec.fill
        values = self.fills.values(dense, spec.shape, self.generator)
        if spec.layout == torch.sparse_coo:
            tensor = values.to_sparse()
        elif spec.layout in _COMPRESSED:
            blocks = None
            if spec.layout in (torch.sparse_bsr, torch.sparse_bsc):
                blocks = tuple(2 if size % 2 == 0 and size else 1 for size in spec.shape[-2:])
            tensor = values.to_sparse(layout=spec.layout, blocksize=blocks)
        elif spec.layout == torch._mkldnn:
            tensor = values.to_mkldnn()
        else:
            raise Skip(f"a tensor of layout {spec.layout} can't be made")
        return tensor.to(spec.device)


def contiguous(shape):
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(1, size)
    return tuple(reversed(strides))
