"""Level 2: the operators below autograd, as an independent dispatch mode sees them."""

import functools
import json
from collections import Counter

import pytest

from dialects.torch.testing.trace_testing import tagged, tensor, trace, untraced

pytestmark = pytest.mark.torch


@functools.cache
def witnessed(levels):
    """operators.py: its trace, and what its own dispatch mode saw."""
    run = trace("operators.py", "witness.jsonl", levels=levels).check()
    lines = (run.folder.parent / "work" / "witness.jsonl").read_text().splitlines()
    return run, lines


@functools.cache
def dispatching_run(levels):
    return trace("dispatching.py", levels=levels)


def dispatching(levels="1,2"):
    return dispatching_run(levels).check()


def operators(section, levels="1,2"):
    return dispatching(levels).section_apis(section, 2)


def contained_in_order(wanted, among):
    """The first of `wanted` that `among` lacks after the ones before it, or None."""
    position = 0
    for index, each in enumerate(wanted):
        try:
            position = among.index(each, position) + 1
        except ValueError:
            return index, each, among[position : position + 3]
    return None


def test_contained_in_order():
    assert contained_in_order("ac", list("abc")) is None
    assert contained_in_order("ca", list("abc")) == (1, "a", [])


def witnessed_calls(levels):
    run, _ = witnessed(levels)
    calls = []
    inside = False
    for call in run.calls:
        if call.api == "marks.mark":
            inside = call.args[0] in ("witness", "optimizer")
        elif call.level == 2 and inside:
            calls.append(call.text)
    return calls


def test_every_call_that_a_dispatch_mode_sees():
    _, lines = witnessed("1,2")
    assert len(lines) > 400
    assert len({json.loads(line)[0] for line in lines}) > 150
    assert contained_in_order(lines, witnessed_calls("1,2")) is None


def test_no_call_that_a_dispatch_mode_does_not_see():
    _, lines = witnessed("1,2")
    extra = Counter(witnessed_calls("1,2")) - Counter(lines)
    # Tensor._make_subclass, which makes a Parameter, hides its detach from modes: the script makes
    # an LSTM, which has four parameters.
    assert sum(extra.values()) == 4
    assert {json.loads(call)[0] for call in extra} == {"aten::detach"}


def test_level_2_alone_is_the_same():
    both = [call.text for call in witnessed("1,2")[0].level(2)]
    alone, lines = witnessed("2")
    assert [call.text for call in alone.level(2)] == both
    assert alone.level(1) == []
    assert lines == witnessed("1,2")[1]


def alone():
    """What operators.py calls without its own mode."""
    return witnessed("1,2")[0].section("alone", 2)


def first(api, *args):
    """The first call of an operator, or the first whose arguments begin with `args`."""
    for call in alone():
        if call.api == api and call.args[: len(args)] == list(args):
            return call
    raise AssertionError(f"no {api}{args}")


def test_wrapped_numbers_are_numbers():
    added = [call.args[1] for call in alone() if call.api == "aten::add.Tensor"]
    assert 1 in added and 1e-12 in added and tagged("complex", [0.0, 1.0]) in added
    assert 2**63 - 1 in added
    assert tensor() in added
    scaled = [json.dumps(call.args[1]) for call in alone() if call.api == "aten::mul.Tensor"]
    assert "true" in scaled and "-0.0" in scaled


def test_default_arguments_are_left_out():
    (with_alpha, without) = [
        call.kwargs for call in alone() if call.api == "aten::add.Tensor" and call.args[1] == X
    ][:2]
    assert with_alpha == {"alpha": 2} and without == {}
    assert first("aten::sum").args == [X]
    assert first("aten::max_pool2d_with_indices").args[1:] == [tagged("list", [2, 2])]


X = tensor(2, 3)


def test_enums_are_names():
    dtypes = [call.kwargs.get("dtype") for call in alone() if call.api == "aten::zeros"]
    assert tagged("torch.dtype", "torch.float16") in dtypes
    layouts = [call.kwargs.get("layout") for call in alone() if call.api == "aten::zeros"]
    assert tagged("torch.layout", "torch.sparse_coo") in layouts
    formats = [call.kwargs.get("memory_format") for call in alone()]
    assert tagged("torch.memory_format", "torch.channels_last") in formats


def test_a_generator_by_its_device():
    generators = [call.kwargs.get("generator") for call in alone()]
    assert {"type": "torch.Generator", "device": "cpu"} in generators


def test_arguments_are_described_before_the_call():
    resized = first("aten::resize_")
    assert resized.args == [tensor(0), tagged("list", [3, 5])]


def test_backward():
    apis = operators("backward itself")
    assert apis[0] == "aten::ones_like"
    assert Counter(apis)["aten::mm"] == 2
    assert "aten::threshold_backward" in apis


def test_custom_function():
    assert "aten::cos" in operators("custom function")


def test_checkpoint_recomputes():
    assert operators("checkpoint").count("aten::sin") == 2


def test_tensor_hooks():
    assert operators("hooks").count("aten::tanh") == 1


def test_calls_inside_a_subclass():
    calls = dispatching().section("subclass", 2)
    assert [call.api for call in calls if call.api != "aten::detach"] == [
        "aten::add.Tensor",
        "aten::exp",
        "aten::cos",
        "aten::sin",
        "aten::add.Tensor",
    ]
    outer = calls[0].number
    assert {call.parent for call in calls[1:]} == {outer}
    assert operators("subclass method")[-1] == "aten::neg"


def test_own_dispatch_modes_see_the_same():
    plain = untraced("dispatching.py").check()
    for levels in ("1", "1,2"):
        assert dispatching(levels).stdout == plain.stdout


def test_calls_under_an_own_dispatch_mode():
    assert operators("two dispatch modes") == ["aten::add.Tensor"]
    assert operators("own dispatch mode")[:2] == ["aten::t", "aten::mm"]
    apis = operators("mode that changes calls")
    assert apis[:2] == ["aten::neg", "aten::mul.Tensor"]
    assert "aten::add.Tensor" not in apis


def test_calls_under_a_mode_with_a_subclass():
    apis = operators("mode and subclass")
    assert apis.count("aten::sin") == apis.count("aten::exp") == 1


def test_flop_counter():
    assert operators("flop counter").count("aten::mm") == 3


def test_fake_tensors():
    apis = operators("fake tensors")
    assert apis.count("aten::mm") >= 1


def test_transforms():
    assert operators("vmap").count("aten::sin") == 1
    assert {"aten::sin", "aten::cos"} <= set(operators("grad"))
    assert operators("jvp").count("aten::sin") == 1
    assert "aten::sin" in operators("forward mode")
    assert "aten::add.Tensor" in operators("functionalize")
    assert "aten::addmm" in operators("functional call")


def test_inference_mode_keeps_composite_operators():
    assert operators("inference mode") == ["aten::linear"]


def test_no_grad():
    assert operators("no grad")[-1] == "aten::mm"


def test_autocast():
    apis = operators("autocast")
    assert apis.count("aten::_to_copy") == 2
    assert apis[-1] == "aten::mm"


def test_scripted_functions():
    apis = operators("script")
    assert apis.count("aten::relu") == 4
    assert operators("traced").count("aten::relu") == 1


def test_custom_operators_show_their_inner_calls():
    outer, inner = dispatching().section("custom operator", 2)
    assert (outer.api, outer.args, outer.kwargs) == ("testing::double_it", [X], {})
    assert inner.api == "aten::mul.Tensor"
    assert inner.args == [X, 2]
    assert inner.parent == outer.number


def test_custom_operators_with_arguments():
    (call,) = [
        call
        for call in dispatching().section("custom operator with arguments", 2)
        if call.api == "testing::double_it"
    ]
    assert call.args == [X, 3, "b"]
    assert operators("custom operator by its own name").count("testing::double_it") == 1
    assert operators("custom operator and backward").count("testing::double_it") == 1


def test_library_operators():
    call = dispatching().section("library operator", 2)[0]
    assert call.api == "testing::scale"
    assert call.args == [X, 2]
    assert call.kwargs == {
        "dtype": tagged("torch.dtype", "torch.float16"),
        "more": tagged("list", [X, X]),
    }


def test_composite_library_operators():
    assert operators("composite operator")[-2:] == ["aten::cos", "aten::sin"]


def test_replaced_kernels():
    assert "aten::digamma" in operators("replaced kernel")


def test_redefined_operators_use_the_new_schema():
    calls = [
        call
        for call in dispatching().section("redefined operator", 2)
        if call.api == "testing2::thing"
    ]
    assert [call.kwargs for call in calls] == [{}, {"how": 4}]


def test_higher_order_operators():
    assert operators("cond").count("aten::sin") >= 1


def test_calls_go_on_after_everything():
    assert operators("last") == ["aten::sin"]
    assert dispatching().apis(2)[-1] == "aten::sin"


def test_level_1_alone_has_no_operators():
    assert dispatching("1").level(2) == []
    assert [call.text for call in dispatching("1").level(1)] == [
        call.text for call in dispatching().level(1)
    ]


def test_a_level_1_call_owns_its_operators():
    (call,) = dispatching().section("last", 1)
    (operator,) = dispatching().section("last", 2)
    assert operator.parent == call.number
