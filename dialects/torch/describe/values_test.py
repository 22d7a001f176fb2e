"""How values are described: every kind of argument, and none by calling its methods."""

import functools
import json

import pytest

from dialects.torch.testing.trace_testing import tagged, tensor, trace, untraced

pytestmark = pytest.mark.torch


def described(kind, *items):
    return tagged(kind, list(items))


def float_value(text):
    return tagged("float", text)


def cut(kind, value, left_out):
    return tagged(kind, value, cut=left_out)


def deep(depth):
    return described("list", deep(depth - 1)) if depth else tagged("deep", "...")


def an_object(name):
    return tagged("object", name)


def a_function(name):
    return tagged("function", name)


def subclass(name, *shape, **more):
    return tensor(*shape, subclass=name, **more)


FAKE = "torch._subclasses.fake_tensor.FakeTensor"
REDUCE_OP = "torch.distributed.distributed_c10d.ReduceOp"
RED_OP_TYPE = "torch._C._distributed_c10d.ReduceOp.RedOpType"
PARAMETER = "torch.nn.parameter.Parameter"
GRAD = {"requires_grad": True}

PYTHON_VALUES = {
    "none": None,
    "true": True,
    "false": False,
    "int": 1,
    "zero": 0,
    "negative int": -(2**63),
    "big int": tagged("int", str(2**64)),
    "negative big int": tagged("int", str(-(10**40))),
    "long int": tagged("int", str(2**4096 - 1)),
    "huge int": tagged("int", "40001 bits"),
    "huge negative int": tagged("int", "-10000001 bits"),
    "float": 0.1,
    "small float": 1e-12,
    "inf": float_value("inf"),
    "negative inf": float_value("-inf"),
    "nan": float_value("nan"),
    "negative zero": -0.0,
    "complex": tagged("complex", [1.0, -0.0]),
    "string": 'two\n"lines" \u00e9 \U0001f600 \x00',
    "empty string": "",
    "dtype's name": "float32",
    "surrogate": {"type": "str", "escaped": "a\\udc80b"},
    "long string": cut("str", "x" * 1024, 3976),
    "long string of wide characters": cut("str", "a" + "\u00e9" * 511, 2978),
    "bytes": tagged("bytes", "\x00ab\xff"),
    "long bytes": cut("bytes", "y" * 1024, 1976),
    "bytearray": an_object("bytearray"),
    "list": described("list", 1, "a", None),
    "empty list": described("list"),
    "tuple": described("tuple", 1, described("tuple", 2, described("list", 3))),
    "empty tuple": described("tuple"),
    "long list": cut("list", list(range(1024)), 3976),
    "dict": tagged("dict", {"a": 1, "b": described("list", 2)}),
    "dict with other keys": described("dict", [1, True], [described("tuple", 2, 3), None]),
    "ordered dict": tagged("dict", {"a": 1}),
    "default dict": tagged("dict", {"a": 1}),
    "set": described("set", 1, 2, 3),
    "frozenset": described("frozenset", "a"),
    "slice": described("slice", None, 2, None),
    "slice of many": described(
        "tuple", described("slice", 1, None, 2), None, tagged("ellipsis", "..."), 0
    ),
    "ellipsis": tagged("ellipsis", "..."),
    "range": described("range", 0, 10, 3),
    "deep list": deep(12),
    "list in itself": deep(12),
    "named tuple": described("tuple", 1, 2),
    "dataclass": an_object("__main__.Data"),
    "dataclass type": tagged("type", "__main__.Data"),
    "enum": an_object("__main__.Color.RED"),
    "int enum": 1,
    "string enum": "a",
    "flag": an_object("__main__.Flag.A"),
    "object": an_object("__main__.Outer.Inner"),
    "plain object": an_object("object"),
    "type": tagged("type", "__main__.Outer.Inner"),
    "builtin type": tagged("type", "int"),
    "tensor type": tagged("type", "torch.Tensor"),
    "function": a_function("__main__.function"),
    "lambda": a_function("__main__.<lambda>"),
    "method": a_function("__main__.Outer.method"),
    "builtin function": a_function("len"),
    "builtin method": a_function("list.append"),
    "operator": a_function("_operator.add"),
    "partial": an_object("functools.partial"),
    "torch function": a_function("torch.nn.functional.relu"),
    "module": an_object("torch.nn.modules.linear.Linear"),
    "generator object": an_object("generator"),
    "iterator": an_object("list_iterator"),
}

TORCH_VALUES = {
    "dtype": tagged("torch.dtype", "torch.float16"),
    "complex dtype": tagged("torch.dtype", "torch.complex64"),
    "device": tagged("torch.device", "cpu"),
    "device with index": tagged("torch.device", "cuda:1"),
    "layout": tagged("torch.layout", "torch.sparse_coo"),
    "strided": tagged("torch.layout", "torch.strided"),
    "memory format": tagged("torch.memory_format", "torch.channels_last"),
    "size": described("torch.Size", 2, 3),
    "generator": {"type": "torch.Generator", "device": "cpu"},
    "default generator": {"type": "torch.Generator", "device": "cpu"},
    "untyped storage": {"type": "torch.UntypedStorage", "device": "cpu", "nbytes": 24},
    "typed storage": {"type": "torch.UntypedStorage", "device": "cpu", "nbytes": 24},
    "finfo": an_object("torch.finfo"),
    "enum of C++": an_object(f"{RED_OP_TYPE}.MAX"),
    "the same, made in C++": an_object(f"{RED_OP_TYPE}.MAX"),
    "a copy": an_object("torch._C._profiler.RecordScope.USER_SCOPE"),
    "reduction": an_object(f"{REDUCE_OP}.MIN"),
    "reduction with a factor": an_object(f"{REDUCE_OP}.PREMUL_SUM"),
    "object of C++": an_object("torch.distributed.distributed_c10d.AllreduceOptions"),
    "script module": an_object("torch.jit._script.RecursiveScriptModule"),
    "operator packet": an_object("torch._ops.OpOverloadPacket"),
    "operator overload": an_object("torch._ops.OpOverload"),
    "symbolic int": tagged("symbol", "SymInt"),
    "symbolic size": described("torch.Size", *[tagged("symbol", "SymInt")] * 2),
    "symbolic bool": tagged("symbol", "SymBool"),
    "symbolic float": tagged("symbol", "SymFloat"),
}

TENSORS = {
    "tensor": tensor(2, 3),
    "0-d tensor": tensor(dtype="int64"),
    "0-size tensor": tensor(0, 3),
    "tensor that requires grad": tensor(2, **GRAD),
    "non-leaf": tensor(2, **GRAD),
    "parameter": subclass(PARAMETER, 2, 3, **GRAD),
    "frozen parameter": subclass(PARAMETER, 2),
    "buffer": tensor(2),
    "transposed": tensor(3, 2, stride=[1, 3]),
    "expanded": tensor(2, 3, stride=[0, 1]),
    "channels last": tensor(1, 2, 3, 4, stride=[24, 1, 8, 2]),
    **{
        name: tensor(1, dtype=name)
        for name in (
            "bool uint8 int8 int16 int32 int64 float16 bfloat16 float64 complex32 complex64"
            " complex128 float8_e4m3fn float8_e5m2 uint16 uint32"
        ).split()
    },
    "conjugated": tensor(2, dtype="complex64"),
    "negated view": tensor(2, stride=[2]),
    "tensors": described("list", tensor(1), subclass(PARAMETER, 2, **GRAD), None),
    "meta": tensor(2, 3, device="meta"),
    "coo": tensor(2, 2, layout="torch.sparse_coo"),
    "csr": tensor(4, 4, layout="torch.sparse_csr"),
    "csc": tensor(4, 4, layout="torch.sparse_csc"),
    "bsr": tensor(4, 4, layout="torch.sparse_bsr"),
    "bsc": tensor(4, 4, layout="torch.sparse_bsc"),
    "mkldnn": tensor(4, 4, layout="torch._mkldnn"),
    "quantised": tensor(2, 3, dtype="quint8"),
    "nested": {**tensor(), "shape": None},
    "jagged": subclass("torch.nested._internal.nested_tensor.NestedTensor", 2, "SymInt", 3),
    "functional": tensor(2),
    "subclass": subclass("__main__.Sub", 2),
    "subclass that requires grad": subclass("__main__.Sub", 2, **GRAD),
    "fake": subclass(FAKE, 2, 3),
    "fake on another device": subclass(FAKE, 2, device="cuda:1"),
    "symbolic sizes": subclass(FAKE, "SymInt", "SymInt"),
    "batched": tensor(3),
    "grad-tracking": tensor(3, **GRAD),
}

NUMPY_VALUES = {
    "array": {"type": "numpy.ndarray", "shape": [2, 3], "dtype": "float32"},
    "0-d array": {"type": "numpy.ndarray", "shape": [], "dtype": "int64"},
    "strings in an array": {"type": "numpy.ndarray", "shape": [1], "dtype": "str_"},
    "objects in an array": {"type": "numpy.ndarray", "shape": [1], "dtype": "object_"},
    "structured array": {"type": "numpy.ndarray", "shape": [2], "dtype": "void"},
    "numpy float": {"type": "numpy.generic", "dtype": "float32"},
    "numpy double": {"type": "numpy.generic", "dtype": "float64"},
    "numpy int": {"type": "numpy.generic", "dtype": "int64"},
    "numpy string": "a",
    "array subclass": {"type": "numpy.ndarray", "shape": [2], "dtype": "int64"},
}

VALUES = {**PYTHON_VALUES, **TORCH_VALUES, **TENSORS, **NUMPY_VALUES}

HOSTILE_VALUES = {
    "object": an_object("hostile.Plain"),
    "object that hides everything": an_object("hostile.Everything"),
    "type with a metaclass": tagged("type", "hostile.WithMeta"),
    "object of a type with a metaclass": an_object("hostile.Out.Strange"),
    "list": described("list", 1, 2),
    "tuple": described("tuple", 1, 2),
    "dict": tagged("dict", {"a": 1}),
    "string": "text",
    "bytes": tagged("bytes", "text"),
    "int": 7,
    "float": 0.5,
    "complex": tagged("complex", [0.0, 1.0]),
    "set": described("set", 1, 2),
    "frozen set": described("frozenset", 1, 2),
    "keys": described("dict", [an_object("__main__.Hashed"), 1]),
    "members": described("set", an_object("__main__.Hashed")),
    "enum": an_object("__main__.Color.RED"),
    "slots": an_object("__main__.Slots"),
    "renamed function": a_function("__main__.function"),
    "tensor": subclass("__main__.Tensor", 2, 3),
    "own sizes": subclass("__main__.Policy", 2, 3),
}


@functools.cache
def run(script):
    return trace(script, levels="1,2")


def traced(script):
    return run(script).check()


@functools.cache
def shown(script):
    """The values given to `show`, by label."""
    return {call.args[0]: call.args[1] for call in traced(script).of("marks.show")}


def same(value, expected):
    assert json.dumps(value, sort_keys=True) == json.dumps(expected, sort_keys=True)


@pytest.mark.parametrize("label", VALUES)
def test_value(label):
    same(shown("values.py")[label], VALUES[label])


def test_every_value_has_an_expectation():
    labels = {"torch C function", "torch method", "numpy bool", "numpy dtype"}
    assert set(shown("values.py")) == set(VALUES) | labels


def test_c_functions_have_names():
    assert shown("values.py")["torch C function"]["value"].endswith(".add")
    assert shown("values.py")["torch method"]["value"].endswith(".add")


def test_describing_adds_no_guard():
    assert traced("values.py").stdout == untraced("values.py").check().stdout


def test_what_is_cut_is_counted():
    # Two huge ints, two long strings, long bytes, a long list, a deep list and a list in itself.
    assert traced("values.py").run["capped"] == {"calls": 8, "configs": 8}


def test_text_form_says_what_is_cut():
    lines = (traced("values.py").folder / "api_trace.txt").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith('marks.show("long string", ')]
    assert line.endswith('x"...+3976)')


@pytest.mark.parametrize("label", HOSTILE_VALUES)
def test_hostile_value(label):
    same(shown("hostile_values.py")[label], HOSTILE_VALUES[label])


def test_hostile_values_are_not_asked():
    plain = untraced("hostile_values.py").check()
    assert traced("hostile_values.py").stdout == plain.stdout
    assert plain.stdout.splitlines()[0] == "[]"
    assert plain.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("levels", ["0", "1,2"])
def test_describing_leaves_nothing_in_values(levels):
    plain = untraced("passive_values.py").check().stdout.splitlines()
    assert plain[:2] == ["sizes stay True", "dictionaries of a parameter []"]
    assert trace("passive_values.py", levels=levels).check().stdout.splitlines()[:2] == plain[:2]


def test_no_finalizer_changes_what_is_described():
    of_level_0 = trace("passive_values.py", levels="0").check()
    (call,) = of_level_0.of("torch.nn.functional.relu")
    assert len(call.args[0]["value"]) == 300
    assert of_level_0.stdout == untraced("passive_values.py").check().stdout


ALL_NOTES = ("--outputs", "--ids", "--values", "64KB", "--int-ranges=all")


@pytest.mark.parametrize("options", [(), ALL_NOTES], ids=["usual", "all"])
def test_no_tensor_ends_the_recording(options):
    of_all = trace("odd_tensors.py", levels="0,1,2,4", options=options).check()
    lost = [of_all.run[key] for key in ("stopped", "cut", "not_seen", "dropped")]
    assert lost == [[], {}, [], {}]
    shown = {call.args[0]: call.args[1] for call in of_all.level(1) if call.api == "marks.show"}
    assert of_all.stdout == f"True {len(shown)}\n"
    same(shown["symbolic bool"], subclass(FAKE, "SymInt", "SymInt", dtype="bool"))
    functional = tensor("SymInt", "SymInt", dtype="bool", device="meta")
    same(shown["functional symbolic"], functional)
    same(shown["own sizes"], subclass("__main__.OwnSizes", 3, 4, dtype="int64"))
    for level, name in enumerate(["torch.Tensor.sum"] * 2 + ["aten::sum"] * 3):
        assert level == 3 or of_all.section_apis("sums", level).count(name) == 100


ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.FileStore("store", 1), rank=0, world_size=1)
dist.all_reduce(torch.ones(3, dtype=torch.int32), op=dist.ReduceOp.MAX)
dist.all_reduce(torch.ones(3, dtype=torch.int32), op=dist.ReduceOp(dist.ReduceOp.BXOR))
os._exit(0)
"""


def test_reductions_have_names():
    traced = trace(ALL_REDUCE, levels="1,2,4").check()
    of_python = [f"{RED_OP_TYPE}.MAX", f"{REDUCE_OP}.BXOR"]
    of_operators = [f"{REDUCE_OP}.MAX", f"{REDUCE_OP}.BXOR"]
    by_level = {
        1: [call.kwargs.get("op") for call in traced.level(1) if call.api.endswith(".all_reduce")],
        2: [call.args[2] for call in traced.level(2) if call.api == "c10d::allreduce_"],
        4: [call.args[2] for call in traced.level(4) if call.api == "c10d::allreduce_"],
    }
    assert by_level[1] == [an_object(name) for name in of_python]
    assert by_level[2] == by_level[4] == [an_object(name) for name in of_operators]
