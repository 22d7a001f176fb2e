"""torch.compile under tracing: the same graphs, and only the program's calls recorded."""

import functools
import re

import pytest

from dialects.torch.testing.trace_testing import trace, untraced

pytestmark = [pytest.mark.torch, pytest.mark.slow]

BACKENDS = ["eager", "aot_eager", "inductor"]
EAGERLY = ["torch.relu", "torch.nn.functional.relu", "torch.norm", "torch.Tensor.sum"]
# Kernels are compiled once, but no graphs are cached: that would change the counters.
ENV = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}


def plain(backend):
    return untraced("compiling.py", backend, env=ENV)


@functools.cache
def traced(backend, levels):
    return trace("compiling.py", backend, levels=levels, env=ENV)


def run(backend, levels="1,2"):
    return traced(backend, levels).check()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", ["1,2", "0,1,2", "3,4"])
def test_same_graphs_breaks_and_results(backend, levels):
    assert run(backend, levels).stdout == plain(backend).check().stdout
    assert "'unique_graphs'" in plain(backend).stdout


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", ["1,2", "0,1,2"])
def test_what_pytorch_calls_while_compiling_is_not_recorded(backend, levels):
    first = run(backend, levels).section("first call")
    second = run(backend, levels).section("second call")
    assert [call.text for call in first] == [call.text for call in second]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", ["1,2", "0,1,2"])
def test_what_pytorch_calls_for_the_backward_graph_is_not_recorded(backend, levels):
    first = run(backend, levels).section("first backward")
    second = run(backend, levels).section("second backward")
    assert [call.text for call in first] == [call.text for call in second]
    # The backward graph itself is called back.
    level_1 = [call for call in first if call.level == 1]
    within = {None: False}
    for call in first:
        within[call.number] = within.get(call.parent, False) or call.level == 1
    outermost = [call.api for call in level_1 if not within.get(call.parent, False)]
    assert outermost == ["torch.Tensor.backward"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_level_0_around_compiling(backend):
    for section in ("before", "after", "in a thread", "at the end"):
        apis = run(backend, "0,1,2").section_apis(section, 0)
        assert apis[:2] == ["torch.relu", "torch.nn.functional.relu"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_are_recorded_around_compiling(backend):
    for section in ("before", "after", "at the end"):
        assert run(backend).section_apis(section, 1)[:4] == EAGERLY
        assert run(backend).section_apis(section, 2)[:2] == ["aten::relu", "aten::relu"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_calls_are_recorded_on_other_threads(backend):
    assert run(backend).section_apis("in a thread", 1)[:4] == EAGERLY
    assert run(backend).section_apis("in a thread after", 1) == EAGERLY * 2


def test_a_compiled_graph_of_a_backend_that_fuses_nothing_is_seen():
    apis = run("eager").section_apis("second call", 2)
    assert "aten::native_layer_norm" in apis
    assert "aten::addmm" in apis


def test_a_graph_break():
    first = run("eager").section_apis("graph break's first call", 2)
    assert first == ["aten::sin", "aten::cos"]
    assert run("eager").section_apis("graph break's second call", 2) == first


@pytest.mark.parametrize("backend", BACKENDS)
def test_fused_kernels_are_named_as_not_seen(backend):
    (sentence,) = [each for each in run(backend).run["not_seen"] if "torch.compile" in each]
    assert "fused" in sentence


def test_without_compile_nothing_is_said_of_it():
    assert trace("import torch\ntorch.ones(1)").check().run["not_seen"] == []


def without_stamps(log):
    return re.sub(r"(?m)^([A-Z]\d{4}) [0-9:.]+ \d+ ", r"\1 ", log)


@pytest.mark.parametrize("levels", ["1", "2", "0,1,2", "3,4"])
def test_the_same_nodes(levels):
    ran = trace("compiled_nodes.py", levels=levels, env=ENV).check()
    expected = untraced("compiled_nodes.py", env=ENV).check()
    assert ran.stdout.splitlines() == expected.stdout.splitlines()
    assert without_stamps(ran.program_stderr) == without_stamps(expected.stderr)
