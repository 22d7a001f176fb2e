"""Captured programs (export, AOTInductor, TorchScript), higher-order operators, functorch."""

import functools

import pytest

from dialects.torch.testing.trace_testing import trace

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@functools.cache
def run():
    return trace("captured.py", "package.pt2").check()


def apis(name, level):
    return run().section_apis(name, level)


def graphs(name):
    return [api for api in apis(name, 3) if api.startswith("Compiled graph")]


def test_an_exported_program_calls_what_the_module_calls():
    assert apis("exported", 2) == apis("eager", 2)
    assert "torch.ops.aten.linear.default" in apis("exported", 1)


def test_torchscript_is_seen_by_its_operators():
    assert apis("scripted", 2).count("aten::relu") == 2
    assert apis("jit-traced", 2) == ["aten::sin", "aten::mul.Scalar"]
    assert apis("scripted", 1) == apis("jit-traced", 1) == []


# PyTorch may call the body itself first, to see what it returns.
@pytest.mark.parametrize(
    ("name", "operator", "times"),
    [("cond", "cond", 1), ("while", "while_loop", 3), ("map", "map_impl", 3), ("scan", "scan", 3)],
)
def test_a_higher_order_operator_and_what_it_calls(name, operator, times):
    section = run().section(name)
    (outer,) = [call for call in section if call.api == f"torch.ops.higher_order.{operator}"]
    inside = [call.api for call in section if call.level == 2 and call.parent == outer.number]
    assert inside.count("aten::sin") >= times
    assert "aten::cos" not in inside


def test_flex_attention():
    assert len(graphs("flex")) == 1
    assert "aten::_safe_softmax" in apis("flex", 2)


def test_vmap_is_one_example_for_level_1_and_the_batch_for_level_2():
    shapes = {
        call.level: call.args[0]["shape"]
        for call in run().section("vmap")
        if call.api.endswith("sin")
    }
    assert shapes == {1: [4], 2: [3, 4]}


def test_gradients_of_functorch():
    assert apis("grad", 2)[-2:] == ["aten::cos", "aten::mul.Tensor"]
    cosine = [call for call in run().section("vmap of grad") if call.api == "aten::cos"]
    assert [call.args[0]["shape"] for call in cosine] == [[3, 4]]


def test_a_package_of_aotinductor_is_marked_and_what_it_hides_is_named():
    assert run().stdout == "True\n" * 2
    assert graphs("package") == ["Compiled graph AOTInductor"] * 2
    assert graphs("library") == ["Compiled graph AOTInductor"]
    (sentence,) = [each for each in run().run["not_seen"] if "AOTInductor" in each]
    assert "kernels" in sentence
