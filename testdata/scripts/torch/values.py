"""Shows level 1 a value of every kind."""

import collections
import dataclasses
import enum
import functools
import math
import operator

import numpy as np
import torch
from marks import show
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

# Python's own values.
show("none", None)
show("true", True)
show("false", False)
show("int", 1)
show("zero", 0)
show("negative int", -(2**63))
show("big int", 2**64)
show("negative big int", -(10**40))
show("long int", 2**4096 - 1)
show("huge int", 1 << 40000)
show("huge negative int", -(1 << 10_000_000))
show("float", 0.1)
show("small float", 1e-12)
show("inf", math.inf)
show("negative inf", -math.inf)
show("nan", math.nan)
show("negative zero", -0.0)
show("complex", complex(1, -0.0))
show("string", 'two\n"lines" \u00e9 \U0001f600 \x00')
show("empty string", "")
show("dtype's name", "float32")
show("surrogate", "a\udc80b")
show("long string", "x" * 5000)
show("long string of wide characters", "a" + "\u00e9" * 2000)
show("bytes", b"\x00ab\xff")
show("long bytes", b"y" * 3000)
show("bytearray", bytearray(b"ab"))
show("list", [1, "a", None])
show("empty list", [])
show("tuple", (1, (2, [3])))
show("empty tuple", ())
show("long list", list(range(5000)))
show("dict", {"a": 1, "b": [2]})
show("dict with other keys", {1: True, (2, 3): None})
show("ordered dict", collections.OrderedDict(a=1))
show("default dict", collections.defaultdict(list, a=1))
show("set", {3, 1, 2})
show("frozenset", frozenset(["a"]))
show("slice", slice(None, 2, None))
show("slice of many", (slice(1, None, 2), None, ..., 0))
show("ellipsis", ...)
show("range", range(0, 10, 3))
deep = None
for _ in range(100):
    deep = [deep]
show("deep list", deep)
endless = []
endless.append(endless)
show("list in itself", endless)

Point = collections.namedtuple("Point", "x y")
show("named tuple", Point(1, 2))


@dataclasses.dataclass
class Data:
    x: int = 1


show("dataclass", Data())
show("dataclass type", Data)


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Text(str, enum.Enum):
    A = "a"


class Flag(enum.Flag):
    A = 1


show("enum", Color.RED)
show("int enum", Number.ONE)
show("string enum", Text.A)
show("flag", Flag.A)


class Outer:
    class Inner:
        pass

    def method(self):
        pass


show("object", Outer.Inner())
show("plain object", object())
show("type", Outer.Inner)
show("builtin type", int)
show("tensor type", torch.Tensor)


def function():
    pass


show("function", function)
show("lambda", lambda: None)
show("method", Outer().method)
show("builtin function", len)
show("builtin method", [].append)
show("operator", operator.add)
show("partial", functools.partial(function, 1))
show("torch function", torch.nn.functional.relu)
show("torch C function", torch.add)
show("torch method", torch.Tensor.add)
show("module", torch.nn.Linear(1, 1))
show("generator object", (i for i in ()))
show("iterator", iter([1]))

# PyTorch's values.
show("dtype", torch.float16)
show("complex dtype", torch.complex64)
show("device", torch.device("cpu"))
show("device with index", torch.device("cuda", 1))
show("layout", torch.sparse_coo)
show("strided", torch.strided)
show("memory format", torch.channels_last)
show("size", torch.Size([2, 3]))
show("generator", torch.Generator())
show("default generator", torch.default_generator)
show("untyped storage", torch.ones(2, 3).untyped_storage())
show("typed storage", torch.ones(2, 3).storage())
show("finfo", torch.finfo(torch.float32))
show("enum of C++", torch.distributed.ReduceOp.MAX)
show("the same, made in C++", torch.distributed.ReduceOp(torch.distributed.ReduceOp.MAX).op)
show("a copy", torch._C._profiler.RecordScope(int(torch._C._profiler.RecordScope.USER_SCOPE)))
show("reduction", torch.distributed.ReduceOp(torch.distributed.ReduceOp.MIN))
show("reduction with a factor", torch.distributed._make_nccl_premul_sum(2.0))
show("object of C++", torch.distributed.AllreduceOptions())
show("script module", torch.jit.script(torch.nn.ReLU()))
show("operator packet", torch.ops.aten.add)
show("operator overload", torch.ops.aten.add.Tensor)

# Tensors.
show("tensor", torch.ones(2, 3))
show("0-d tensor", torch.tensor(1))
show("0-size tensor", torch.ones(0, 3))
show("tensor that requires grad", torch.ones(2, requires_grad=True))
show("non-leaf", torch.ones(2, requires_grad=True) * 2)
show("parameter", torch.nn.Parameter(torch.ones(2, 3)))
show("frozen parameter", torch.nn.Parameter(torch.ones(2), requires_grad=False))
show("buffer", torch.nn.Buffer(torch.ones(2)))
show("transposed", torch.ones(2, 3).t())
show("expanded", torch.ones(1, 3).expand(2, 3))
show("channels last", torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last))
for name in "bool uint8 int8 int16 int32 int64 float16 bfloat16 float64".split():
    show(name, torch.ones(1, dtype=getattr(torch, name)))
for name in "complex32 complex64 complex128 float8_e4m3fn float8_e5m2 uint16 uint32".split():
    show(name, torch.empty(1, dtype=getattr(torch, name)))
show("conjugated", torch.ones(2, dtype=torch.complex64).conj())
show("negated view", torch.ones(2, dtype=torch.complex64).conj().imag)
show("tensors", [torch.ones(1), torch.nn.Parameter(torch.ones(2)), None])
show("meta", torch.ones(2, 3, device="meta"))
show("coo", torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2)))
dense = torch.eye(4)
show("csr", dense.to_sparse_csr())
show("csc", dense.to_sparse_csc())
show("bsr", dense.to_sparse_bsr((2, 2)))
show("bsc", dense.to_sparse_bsc((2, 2)))
show("mkldnn", dense.to_mkldnn())
show("quantised", torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.quint8))
parts = [torch.ones(2, 3), torch.ones(4, 3)]
show("nested", torch.nested.nested_tensor(parts))
show("jagged", torch.nested.nested_tensor(parts, layout=torch.jagged))
show("functional", torch._to_functional_tensor(torch.ones(2)))


class Sub(torch.Tensor):
    pass


show("subclass", torch.ones(2).as_subclass(Sub))
show("subclass that requires grad", torch.ones(2, requires_grad=True).as_subclass(Sub))

with FakeTensorMode() as mode:
    show("fake", torch.empty(2, 3))
    show("fake on another device", torch.empty(2, device="cuda:1"))
symbolic = FakeTensorMode(shape_env=ShapeEnv()).from_tensor(torch.ones(3, 4))
show("symbolic sizes", symbolic)
show("symbolic int", symbolic.shape[0])
show("symbolic size", symbolic.shape)
show("symbolic bool", symbolic.shape[0] > 17)
show("symbolic float", torch.sym_float(symbolic.shape[0]))
print(len(symbolic.fake_mode.shape_env.guards))


def batched(x):
    show("batched", x)
    return x


torch.func.vmap(batched)(torch.ones(2, 3))
torch.func.grad(lambda x: (show("grad-tracking", x), x.sum())[1])(torch.ones(3))

# numpy's values.
show("array", np.ones((2, 3), dtype=np.float32))
show("0-d array", np.array(1))
show("strings in an array", np.array(["a"]))
show("objects in an array", np.array([object()]))
show("structured array", np.zeros(2, dtype=[("a", "i4")]))
show("numpy float", np.float32(1.5))
show("numpy double", np.float64(1.5))
show("numpy int", np.int64(1))
show("numpy bool", np.bool_(True))
show("numpy string", np.str_("a"))
show("numpy dtype", np.dtype("float32"))
show("array subclass", np.ma.masked_array([1, 2]))
