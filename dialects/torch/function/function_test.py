"""Level 1: every call of an API is recorded, under its public name, and nothing changes."""

import functools
import inspect
from collections import Counter

import pytest
import torch

from dialects.torch.testing.trace_testing import tagged, tensor, trace, untraced

pytestmark = pytest.mark.torch

CALLS = 300  # of each API in functions.py
PYTHON_APIS = {
    "torch.nn.functional.relu": CALLS,
    "torch.nn.functional.layer_norm": CALLS,
    "torch.nn.functional.cross_entropy": CALLS,
    "torch.Tensor.backward": CALLS,
    "torch.norm": CALLS,
    "torch.nn.functional.softmax": CALLS,
    "torch.nn.functional.dropout": CALLS,
    "torch.Tensor.norm": CALLS,
    "torch.split": CALLS,
    "torch.nn.functional.mse_loss": CALLS,
}
CPP_APIS = {
    "torch.add": CALLS,
    "torch.relu": CALLS,
    "torch.matmul": CALLS,
    "torch.nn.functional.linear": CALLS,
    "torch.cat": CALLS,
    "torch.Tensor.sum": CALLS,
    "torch.Tensor.view": CALLS,
    "torch.Tensor.mul": CALLS,
    "torch.Tensor.__getitem__": CALLS,
    "torch.ones": CALLS,
}
KEYWORD_APIS = {
    "torch.nn.functional.relu": CALLS,
    "torch.nn.functional.layer_norm": CALLS,
    "torch.nn.functional.softmax": CALLS,
    "torch.norm": CALLS,
    "torch.add": CALLS,
    "torch.sum": CALLS,
    "torch.Tensor.view": CALLS,
    "torch.cat": CALLS,
    "torch.ones": CALLS,
    "torch.Tensor.sum": CALLS,
}
NESTED_APIS = {
    "torch.abs": 1000,
    "torch.neg": 1200,
    "torch.sin": 400,
    "torch.nn.functional.silu": 400,
}

NAMES = {
    "linear": "torch.nn.functional.linear",
    "sum": "torch.Tensor.sum",
    "norm": "torch.norm",
    "plus": "torch.Tensor.add",
    "reflected plus": "torch.Tensor.add",
    "reflected minus": "torch.Tensor.__rsub__",
    "matmul": "torch.Tensor.matmul",
    "getitem": "torch.Tensor.__getitem__",
    "setitem": "torch.Tensor.__setitem__",
    "equal": "torch.Tensor.__eq__",
    "power": "torch.Tensor.__rpow__",
    "bool": "torch.Tensor.__bool__",
    "float": "torch.Tensor.__float__",
    "len": "torch.Tensor.__len__",
    "repr": "torch.Tensor.__repr__",
    "contains": "torch.Tensor.__contains__",
    "format": "torch.Tensor.__format__",
    "numpy": "torch.Tensor.numpy",
    "in place": "torch.Tensor.add_",
    "out": "torch.add",
    "static method": "torch.Tensor.add",
    "factory": "torch.randn",
    "tensor": "torch.tensor",
    "fft": "torch.fft.fft",
    "linalg": "torch.linalg.norm",
    "special": "torch.special.gammaln",
    "module": "torch.nn.functional.linear",
    "operator": "torch.ops.aten.add.Tensor",
    "default operator": "torch.ops.aten.relu.default",
    "operator packet": "torch.ops.aten.add",
    "set_grad_enabled": "torch._C._set_grad_enabled",
    "cond": "torch.ops.higher_order.cond",
    "embedding": "torch.nn.functional.embedding",
    "einsum": "torch.einsum",
    "stack": "torch.stack",
    "grad.__set__": "torch.Tensor.grad.__set__",
    "requires_grad.__set__": "torch.Tensor.requires_grad.__set__",
    "data.__set__": "torch.Tensor.data.__set__",
    "own function": "__main__.public",
}

GETTERS = {
    "torch.Tensor.shape.__get__": 50,
    "torch.Tensor.dtype.__get__": 50,
    "torch.Tensor.device.__get__": 50,
    "torch.Tensor.grad.__get__": 50,
    "torch.Tensor.requires_grad.__get__": 50,
    "torch.Tensor.is_leaf.__get__": 50,
    "torch.Tensor.T.__get__": 50,
    "torch.Tensor.data.__get__": 50,
    "torch.Tensor.ndim.__get__": 50,
}
ALTERNATING_GETTERS = {
    "torch.Tensor.shape.__get__": 50,
    "torch.Tensor.dtype.__get__": 50,
    "torch.Tensor.is_leaf.__get__": 66,
    "torch.Tensor.device.__get__": 34,
}


@functools.cache
def functions(levels):
    return trace("functions.py", levels=levels)


@functools.cache
def names():
    return trace("names.py", levels="1")


@functools.cache
def names_with_getters():
    return trace("names.py", levels="1", options=["--include-getters"])


@functools.cache
def own_modes():
    return trace("own_modes.py", levels="1,2")


def counts(run, section):
    return Counter(run.section_apis(section, 1))


@pytest.mark.parametrize("levels", ["1", "1,2"])
@pytest.mark.parametrize("after", ["", " after compiling"])
def test_all_of_many_calls(levels, after):
    run = functions(levels)
    assert counts(run, "python" + after) == PYTHON_APIS
    assert counts(run, "c++" + after) == CPP_APIS
    assert counts(run, "keywords" + after) == KEYWORD_APIS


def test_calls_inside_functions_and_modules():
    assert counts(functions("1"), "nested") == NESTED_APIS


def test_keywords_stay_keywords():
    calls = {call.api: call for call in functions("1").section("keywords", 1)}
    x = tensor(2, 3)
    # PyTorch's own Python code passes its first arguments on by place.
    assert calls["torch.nn.functional.relu"].args == [x]
    assert calls["torch.nn.functional.relu"].kwargs == {"inplace": False}
    assert calls["torch.add"].kwargs == {"input": x, "other": x, "alpha": 2}
    assert calls["torch.add"].args == []
    assert calls["torch.nn.functional.layer_norm"].args == [x, tagged("tuple", [3])]
    assert calls["torch.nn.functional.layer_norm"].kwargs["eps"] == 1e-12
    assert calls["torch.Tensor.sum"].kwargs == {"dim": 0}


@pytest.mark.parametrize("section", NAMES)
def test_name(section):
    assert NAMES[section] in names().section_apis(section, 1)


def test_lambdas_and_new_functions():
    assert counts(names(), "lambdas") == {"__main__.odd": 100, "__main__.even": 100}


def test_getters_are_left_out_and_counted():
    assert counts(names(), "getters") == {}
    assert counts(names(), "alternating getters") == {}
    assert names().run["excluded_getters"] >= 650
    every = [api for api in names().apis(1) if api.endswith("__get__")]
    assert not every


def test_getters_on_demand():
    assert counts(names_with_getters(), "getters") == GETTERS


def test_getters_read_alternately_have_their_own_names():
    assert counts(names_with_getters(), "alternating getters") == ALTERNATING_GETTERS


def test_getters_only_add():
    with_getters = [
        call.text for call in names_with_getters().level(1) if not call.api.endswith("__get__")
    ]
    assert with_getters == [call.text for call in names().level(1)]


def test_own_modes_and_subclasses_work_the_same():
    assert own_modes().stdout == untraced("own_modes.py").check().stdout


def test_calls_behind_an_own_mode():
    apis = own_modes().section_apis("mode", 1)
    assert [api for api in apis if not api.startswith("builtins")] == [
        "torch.nn.functional.relu",
        "torch.Tensor.add",
        "torch.add",
        "torch.nn.functional.softmax",
        "torch.ones",
    ]


def test_what_an_own_mode_makes_of_a_call():
    assert "torch.add" not in own_modes().section_apis("replacing mode", 1)
    assert "torch.sub" not in own_modes().section_apis("replacing mode", 1)
    assert "torch.div" in own_modes().section_apis("replacing mode", 1)


def test_calls_of_a_subclass():
    apis = own_modes().section_apis("subclass", 1)
    for api in ("torch.Tensor.add", "torch.cat", "torch.nn.functional.relu", "torch.Tensor.sum"):
        assert api in apis


def test_calls_while_torch_functions_are_disabled():
    for section in ("subclass without", "all disabled"):
        apis = own_modes().section_apis(section, 1)
        assert [api for api in apis if not api.endswith("__repr__")] == [
            "torch.Tensor.add",
            "torch.relu",
        ]


def test_calls_with_objects_that_are_no_tensors():
    apis = own_modes().section_apis("opaque", 1)
    assert [api for api in apis if api != "torch.Tensor.__repr__"] == [
        "torch.add",
        "torch.nn.functional.relu",
        "torch.Tensor.add",
        "torch.cat",
    ]


def test_refused_calls_raise_type_error():
    calls = own_modes().section("refusing", 1)
    assert [(call.api, call.exception) for call in calls] == [
        ("torch.add", "TypeError"),
        ("torch.nn.functional.relu", "TypeError"),
        # It returns NotImplemented, and Python raises the error.
        ("torch.Tensor.add", None),
    ]


def test_classes_are_named():
    assert "type" not in names().apis(1)


@functools.cache
def called_back():
    return trace("called_back.py", levels="1", options=["--formats", "trace.txt"]).check()


BACKWARD = "torch.Tensor.backward"
GRAD = "torch.autograd.grad"

# What is inside a call of level 1, by the section's name.
CALLED_BACK = {
    "hook": [(BACKWARD, "torch.neg")],
    "grad": [(GRAD, "torch.mul")],
    "post accumulate": [(BACKWARD, "torch.neg")],
    "own function": [(BACKWARD, "torch.nn.functional.relu")],
    "vmap": [(GRAD, "torch.nn.functional.relu")],
    "checkpoint": [(BACKWARD, "torch.cos")],
    "twice": [(GRAD, "torch.sin"), (BACKWARD, "torch.sin")],
    "saved": [(BACKWARD, "torch.neg")] * 2,
    "module": [(BACKWARD, "torch.neg")],
    "callback": [(BACKWARD, "torch.tan")],
    "failing": [(BACKWARD, "torch.neg")],
    "overridable": [("__main__.overridable", "torch.abs")],
    "fake": [],
    "in thread": [(BACKWARD, "torch.neg")],
}


def test_what_a_backward_pass_calls_of_python_stands_within_it():
    by_number = {call.number: call for call in called_back().calls}
    found = {
        name: [
            (by_number[call.parent].api, call.api) for call in section if call.parent is not None
        ]
        for name, section in called_back().sections.items()
    }
    # What checkpoint itself calls.
    own = ("torch._C._set_grad_enabled", "torch.device")
    found["checkpoint"] = [pair for pair in found["checkpoint"] if pair[1] not in own]
    assert {name: found[name] for name in CALLED_BACK} == CALLED_BACK
    assert (BACKWARD, "torch.cos") in found["reentrant"]
    # Which older versions of torch don't hand on.
    if "handle_torch_function" in inspect.getsource(torch.autograd.backward):
        assert (BACKWARD, "torch.autograd.backward") in found["reentrant"]
    # Autograd's own threads too, which it uses when backward passes are nested.
    deep = [call.api for call in called_back().calls if call.api in ("torch.cos", "torch.tan")]
    assert (deep.count("torch.cos"), deep.count("torch.tan")) == (71 + 4, 71 + 1)
    assert found["after"] == [] and called_back().section_apis("after", 1) == ["torch.neg"]


MADE = """
torch.Tensor(2, 3)
torch.Tensor(list[1.0, 2.0])
torch.LongTensor(list[1])
torch.FloatTensor(2, 3)
torch.HalfTensor()
torch.from_numpy(ndarray([2], "float64"))
torch.frombuffer(object("bytearray"), dtype=torch.int32)
torch.from_dlpack(Tensor([2], "float32"))
torch.nn.Parameter(Tensor([2], "float32"), requires_grad=False)
torch.nn.Parameter()
torch.nn.Buffer(Tensor([2], "float32"), persistent=False)
torch.nn.UninitializedParameter()
torch.nested.nested_tensor(list[Tensor([2], "float32"), Tensor([3], "float32")])
torch.range(0, 2)
torch.Tensor.set_(Tensor([2], "float32"))
torch.Tensor.as_subclass(Tensor([2], "float32"), type("torch.nn.parameter.Parameter"))
marks.mark("in a mode")
torch.nn.Parameter(Tensor([2], "float32"))
marks.mark("subclass")
torch.Tensor(list[1.0, 2.0])
torch.Tensor(2, 3)
torch.Tensor._make_subclass(type("__main__.Below"), Tensor([2], "float32"))
torch.nn.Parameter(Tensor([1], "float32"))
torch.nn.Parameter(Tensor([2, 2], "float32"))
torch.nn.Parameter(Tensor([2], "float32"))
"""


def test_what_makes_tensors():
    lines = (called_back().folder / "api_trace.txt").read_text().splitlines()
    made = lines[lines.index('marks.mark("made")') + 1 : lines.index('marks.mark("end")')]
    others = ("torch.ones", "torch.empty", "torch.nn.init", "torch.Tensor.dim", "torch.Tensor.size")
    made = [line for line in made if not line.startswith(others)]
    assert made == MADE.strip().splitlines()
    assert called_back().stdout == untraced("called_back.py").check().stdout


STARS = """
torch.broadcast_tensors()
torch.broadcast_tensors(Tensor([2], "float32"))
torch.atleast_1d()
torch.atleast_2d(list[Tensor([2], "float32")])
torch.cartesian_prod(Tensor([2], "float32"), Tensor([2], "float32"))
torch.block_diag()
torch.meshgrid(list[Tensor([2], "float32")], indexing="ij")
torch.chain_matmul(Tensor([2, 2], "float32"), out=Tensor([2, 2], "float32"))
"""

STARRED = """
import torch
a, b = torch.ones(2), torch.ones(2, 2)
torch.broadcast_tensors(), torch.broadcast_tensors(a), torch.atleast_1d(), torch.atleast_2d([a])
torch.cartesian_prod(a, a), torch.block_diag(), torch.meshgrid([a], indexing="ij")
torch.chain_matmul(b, out=torch.empty(2, 2))
"""


def test_any_number_of_arguments_is_written_as_called():
    run = trace(STARRED, levels="1", options=["--formats", "trace.txt"]).check()
    lines = (run.folder / "api_trace.txt").read_text().splitlines()
    makers = ("torch.ones", "torch.empty")
    assert [line for line in lines if not line.startswith(makers)] == STARS.strip().splitlines()


RENAMED = """
import torch

class Own(torch.Tensor):
    pass

own, parameter = torch.ones(2).as_subclass(Own), torch.nn.Parameter(torch.ones(2))
for name in ("Own", "Other", "Own"):
    Own.__qualname__ = torch.nn.Parameter.__qualname__ = name
    torch.relu(own), torch.neg(parameter), torch.neg(parameter)

def make(device):
    try:
        torch.empty(1, device=torch.device(device))
    except Exception:
        pass

make("privateuseone"), make("privateuseone:1"), make("privateuseone:1")
torch.utils.rename_privateuse1_backend("npu")
make("npu"), make("npu:1")
"""


def test_what_the_program_renames():
    calls = trace(RENAMED, levels="1").check().calls
    own = [call.args[0]["subclass"] for call in calls if call.api == "torch.relu"]
    parameter = [call.args[0]["subclass"] for call in calls if call.api == "torch.neg"]
    names = ["Own", "Other", "Own"]
    assert own == [f"__main__.{name}" for name in names]
    assert parameter == [f"torch.nn.parameter.{name}" for name in names for _ in range(2)]
    devices = [call.kwargs["device"]["value"] for call in calls if call.api == "torch.empty"]
    assert devices == ["privateuseone"] + ["privateuseone:1"] * 2 + ["npu", "npu:1"]
