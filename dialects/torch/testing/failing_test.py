"""A call that fails is recorded with its exception's type, and the ones around it are right."""

import functools

import pytest

from dialects.torch.testing.trace_testing import trace, untraced

pytestmark = pytest.mark.torch

UNUSUAL = "__main__.Unusual"

# Section: the API that raised at level 1 and its exception; the same at level 2.
RAISED = {
    "shapes": ("torch.add", "RuntimeError", "aten::add.Tensor", "RuntimeError"),
    "in place": ("torch.Tensor.add_", "RuntimeError", "aten::add_.Tensor", "RuntimeError"),
    "python function": (
        "torch.nn.functional.layer_norm",
        "RuntimeError",
        "aten::native_layer_norm",
        "RuntimeError",
    ),
    "python check": ("torch.nn.functional.dropout", "ValueError", None, None),
    "cross entropy": (
        "torch.nn.functional.cross_entropy",
        "IndexError",
        "aten::nll_loss_forward",
        "IndexError",
    ),
    "index": ("torch.Tensor.__getitem__", "IndexError", None, None),
    "index of a tensor": (
        "torch.Tensor.__getitem__",
        "IndexError",
        "aten::index.Tensor",
        "IndexError",
    ),
    "not implemented": (
        "torch.Tensor.cholesky",
        "RuntimeError",
        "aten::cholesky",
        "RuntimeError",
    ),
    "linear algebra": (
        "torch.linalg.inv",
        "torch._C._LinAlgError",
        "aten::_linalg_check_errors",
        "torch._C._LinAlgError",
    ),
    "backward": ("torch.Tensor.backward", "RuntimeError", None, None),
    "second backward": ("torch.Tensor.backward", "RuntimeError", None, None),
    "own function": ("torch.Tensor.backward", UNUSUAL, None, None),
    "hook": ("torch.Tensor.backward", UNUSUAL, None, None),
    "own subclass": ("torch.Tensor.add", UNUSUAL, "aten::add.Tensor", UNUSUAL),
    "own operator": ("torch.ops.failing.broken.default", UNUSUAL, "failing::broken", UNUSUAL),
    "memory": ("torch.empty", "RuntimeError", "aten::empty.memory_format", "RuntimeError"),
    "meta item": ("torch.Tensor.item", "RuntimeError", "aten::_local_scalar_dense", "RuntimeError"),
}


@functools.cache
def run():
    return trace("failing.py")


def failing():
    return run().check()


def raised(section, level):
    """(API, exception) of the section's calls that raised."""
    calls = failing().section(section, level)
    return [(call.api, call.exception) for call in calls if call.outcome == "raised"]


@pytest.mark.parametrize("section", RAISED)
def test_raised(section):
    api, exception, operator, operator_exception = RAISED[section]
    expected = [(api, exception)] if exception else []
    assert raised(section, 1) == expected
    expected = [(operator, operator_exception)] if operator_exception else []
    assert raised(section, 2) == expected


@pytest.mark.parametrize("section", RAISED)
def test_calls_after_a_failure_are_right(section):
    function, operator = failing().section(section + " after")
    assert (function.api, function.parent, function.outcome) == ("torch.neg", None, "returned")
    assert (operator.api, operator.parent, operator.outcome) == (
        "aten::neg",
        function.number,
        "returned",
    )


def test_every_call_ended():
    assert {call.outcome for call in failing().calls} == {"returned", "raised"}


def test_the_program_saw_the_same_exceptions():
    assert failing().stdout == untraced("failing.py").check().stdout
