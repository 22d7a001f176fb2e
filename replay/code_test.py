"""Names, modes and code of calls: the parts of the Python program that nothing calls."""

import base64

import pytest

yaml = pytest.importorskip("yaml")
torch = pytest.importorskip("torch")

from replay import code, names, program  # noqa: E402
from tools.testing import whole_tool as tool  # noqa: E402

pytestmark = pytest.mark.torch

RULES = {
    **yaml.safe_load((tool.ROOT / "replay/rules.yaml").read_text()),
    "callable": yaml.safe_load((tool.ROOT / "replay/callable.yaml").read_text()),
}


@pytest.fixture(scope="module")
def resolver():
    return names.Names(RULES, names.IN_PROGRAM)


@pytest.mark.parametrize(
    "api, kind, name",
    [
        ("torch.add", "function", "torch.add"),
        ("torch.nn.functional.relu", "function", "torch.nn.functional.relu"),
        ("torch.Tensor.view", "method", "view"),
        ("torch.Tensor.T.__get__", "getter", "T"),
        ("torch.Tensor.data.__set__", "setter", "data"),
        ("aten::add.Tensor", "overload", "torch.ops.aten.add.Tensor"),
        ("aten::random_.from", "overload", "torch.ops.aten.random_.from"),
        ("aten::mm", "overload", "torch.ops.aten.mm.default"),
        ("torch.ops.aten.add.Tensor", "overload", "torch.ops.aten.add.Tensor"),
        ("torch.ops.aten.add", "overload", "torch.ops.aten.add"),
        ("torch._VF.lstm", "function", "torch._VF.lstm"),
        ("torch.manual_seed", "function", "torch.manual_seed"),
    ],
)
def test_apis_are_called_as_their_kind_is(resolver, api, kind, name):
    target = resolver.resolve(api)
    assert (target.kind, target.name) == (kind, name)


@pytest.mark.parametrize(
    "api",
    (
        "os.system torch.load torch.hub.load torch.Tensor.__reduce_ex__ torch..add torch. torch "
        "add torch.utils.cpp_extension.load torch.add(__import__('os').system('x')) torch.lambda "
        "torch.os.system torch.nn.Module.f.__get__ __get__ c10d::allreduce_ aten:: aten::a::b "
        "evil::add torch.ops.evil.add torch.ops.aten torch.ops. "
        "torch.ops.aten.add.Tensor.x "
        "torch.os torch.PyTorchFileWriter torch._from_blob torch.Tensor.system "
        "torch.Tensor.os.__get__ "
        "torch.Tensor.__class__.__get__ torch.Tensor.untyped_storage torch.cond torch.jit "
        "torch._C._jit_compile torch.jit.script"
    ).split()
    + ["", "torch.add\nimport os", "aten::add.x\ny", "torch.ops.aten.add.x\ny"],
)
def test_what_is_not_torchs_own_and_harmless_is_refused(resolver, api):
    assert not resolver.may_call(api)


@pytest.mark.parametrize(
    "name", ["a b", "a=1, b", "lambda", "__debug__", "cdata", "\uff43data", ""]
)
def test_a_name_that_no_argument_has(resolver, name):
    # Python takes a wide c in an identifier for a c.
    step = {"api": "torch.neg", "args": [1], "kwargs": {name: 1}}
    with pytest.raises(names.Skip):
        program.read_step(resolver, program.StepReader, step)


def tensor(dtype="float32", **more):
    plain = {"type": "torch.Tensor", "shape": [2], "dtype": f"torch.{dtype}", "device": "cpu"}
    return {**plain, **more}


@pytest.mark.parametrize(
    "api, taken, made, level, expected",
    [
        ("torch.mm", "float32", "bfloat16", 1, ("cpu", torch.bfloat16)),
        ("torch.nn.functional.linear", "float32", "float16", 0, ("cpu", torch.float16)),
        ("torch.nn.functional.mse_loss", "float16", "float32", 1, ("cpu", torch.float16)),
        ("torch.mm", "float32", "float32", 1, None),
        ("torch.mm", "bfloat16", "bfloat16", 1, None),
        ("torch.mm", "float64", "bfloat16", 1, None),
        ("torch.Tensor.type_as", "float32", "bfloat16", 1, None),
        ("aten::mm", "float32", "bfloat16", 2, None),
    ],
)
def test_results_tell_what_autocast_chose(api, taken, made, level, expected):
    config = {"level": level, "api": api, "args": [tensor(taken), tensor(taken)], "kwargs": {}}
    assert program.autocast_of(config, [tensor(made)]) == expected
    assert program.autocast_of(config, [tensor(made), tensor("float64")]) is None
    dtype = {"type": "torch.dtype", "value": "torch.float16"}
    assert program.autocast_of({**config, "kwargs": {"dtype": dtype}}, [tensor(made)]) is None


def test_few_numbers_are_the_recorded_ones():
    cases = code.Cases(RULES)
    for count in (1024, 1025):
        contents = base64.b64encode(bytes(4 * count)).decode()
        config = {"level": 1, "api": "torch.logdet", "args": [tensor(shape=[count])], "kwargs": {}}
        config |= {"notes": [{"position": 0, "contents": contents}], "raised": ""}
        cases.add({"config": config, "text": "x", "calls": 1})
    assert 'torch.logdet(tensor((1024,), torch.float32, contents="AAAA' in cases.cases[0]
    assert "torch.logdet(tensor((1025,), torch.float32))" in cases.cases[1]


def test_a_view_of_a_dtype_that_is_no_name_is_left_out(resolver):
    base = {"level": 1, "kwargs": {}, "modules": [], "text": "x", "sources": []}
    odd = {"dtype": "float32; x", "id": 1, "kind": "view", "base": 0, "shift": 0}
    steps = [
        {**base, "call": 0, "api": "torch.zeros", "args": [3], "result": [tensor(id=0)]},
        {**base, "call": 1, "api": "torch.neg", "args": [tensor(id=1)], "sources": [tensor(**odd)]},
    ]
    steps[1]["args"][0]["dtype"] = "torch.float32; x"
    about = {"level": 1, "label": "t", "prelude": "", "steps": 2, "other_processes": 0, "opened": 0}
    about |= {"never_returned": 0, "without_result": 0, "without_id": 0}
    about |= {"outcome": {"results": [], "asked": False, "others": []}}
    script = code.Script(steps, resolver, about)
    (note,) = script.all_notes()
    assert note == "python: 1 call left out: this torch has no dtype torch.float32; x"
    text = "".join(script.text())
    assert "def program():\n    t0 = torch.zeros(3)  # call 0\n    # left out: call 1" in text
