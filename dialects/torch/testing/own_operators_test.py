"""Operators that the program registers while it runs, in Python and in C++."""

import json

import pytest

from dialects.torch.testing.trace_testing import extension, tool, trace

pytestmark = [pytest.mark.torch, pytest.mark.slow]

IN_PYTHON = """
import torch
@torch.library.custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x.roll(1)
@torch.library.triton_op("mine::triple", mutates_args={})
def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3
library = torch.library.Library("mine", "FRAGMENT")
library.define("rolled(Tensor x, int n=2) -> Tensor")
library.impl("rolled", lambda x, n=2: x.roll(n), "CPU")
x = torch.ones(2)
twice(x)
torch.ops.mine.twice(x)
triple(x)
torch.ops.mine.rolled(x, n=3)
torch.ops.mine.rolled.default(x)
"""


def calls(run, level):
    """Those of the program's operators: names and arguments."""
    spaces = ("mine::", "torch.ops.mine.")
    return [
        (call.api, call.args[1:], call.kwargs)
        for call in run.level(level)
        if call.api.startswith(spaces)
    ]


def test_in_python(tmp_path):
    """Level 0 has no name for them when it starts; levels 1 and 2 see them."""
    run = trace(IN_PYTHON, levels="0,1,2").check()
    assert calls(run, 1) == [
        ("torch.ops.mine.twice.default", [], {}),
        ("torch.ops.mine.twice", [], {}),
        ("torch.ops.mine.triple.default", [], {}),
        ("torch.ops.mine.rolled", [], {"n": 3}),
        ("torch.ops.mine.rolled.default", [], {}),
    ]
    assert calls(run, 2) == [
        ("mine::twice", [], {}),
        ("mine::twice", [], {}),
        ("mine::triple", [], {}),
        ("mine::rolled", [3], {}),
        ("mine::rolled", [], {}),
    ]
    schemas = {api: text for api, text in run.run["schemas"].items() if api.startswith("mine::")}
    assert schemas == {
        "mine::twice": "mine::twice(Tensor x) -> Tensor",
        "mine::triple": "mine::triple(Tensor x) -> Tensor",
        "mine::rolled": "mine::rolled(Tensor x, int n=2) -> Tensor",
    }
    assert not any("mine" in api for api in run.apis(0))
    assert run.apis(0).count("torch.Tensor.roll") == 4
    names = tmp_path / "names.txt"
    names.write_text("mine::twice\ntorch.ops.mine.rolled\n?mine::never\n")
    coverage = tool("apis", "coverage", run.folder, "--list", names, "--format", "json")
    assert [(row["api"], row.get("calls", 0)) for row in json.loads(coverage)["apis"]] == [
        ("mine::twice", 2),
        ("torch.ops.mine.rolled", 2),
        ("mine::never", 0),
    ]


IN_CPP = """
#include <ATen/ATen.h>
#include <torch/library.h>
at::Tensor Times(const at::Tensor& x, int64_t n) { return at::mul(x, at::Scalar(n)); }
at::Tensor Sum(const at::Tensor& x) { return at::add(x, x); }
TORCH_LIBRARY(mine, library) {
  library.def("times(Tensor x, int n=2) -> Tensor");
  library.def("sum", &Sum);
}
TORCH_LIBRARY_IMPL(mine, CPU, library) { library.impl("times", &Times); }
"""
LOADS = """
import ctypes, torch
x = torch.ones(2)
{load}
torch.ops.mine.times(x)
torch.ops.mine.times.default(x, 3)
torch.ops.mine.sum(x)
"""


@pytest.mark.parametrize("load", ["ctypes.CDLL", "torch.ops.load_library"])
def test_in_cpp(load):
    library = str(extension(IN_CPP))
    run = trace(LOADS.format(load=f"{load}({library!r})"), levels="1,2").check()
    assert calls(run, 1) == [
        ("torch.ops.mine.times", [], {}),
        ("torch.ops.mine.times.default", [3], {}),
        ("torch.ops.mine.sum", [], {}),
    ]
    assert calls(run, 2) == [("mine::times", [], {}), ("mine::times", [3], {})]
    assert run.apis(2)[-1] == "aten::add.Tensor"  # of which mine::sum consists
    assert run.run["schemas"]["mine::times"] == "mine::times(Tensor x, int n=2) -> Tensor"
