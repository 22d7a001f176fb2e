"""torch.compile under tracing: the same graphs, and only the program's calls recorded."""

import functools
import json
import re

import pytest

from dialects.torch.testing.trace_testing import SCRIPTS, tool, trace, untraced
from python.module_testing import python

pytestmark = [pytest.mark.torch, pytest.mark.slow]

BACKENDS = ["eager", "aot_eager", "inductor"]
LEVELS = ["1,2", "0,1,2", "3,4"]
READ = LEVELS[:2]  # at level 3 there are a million frames of Dynamo's
EAGERLY = ["torch.relu", "torch.nn.functional.relu", "torch.norm", "torch.Tensor.sum"]
# Kernels are compiled once, but no graphs are cached: that would change the counters.
ENV = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
# In one process: most of the time goes by until Dynamo is there.
PROGRAM = ("one_by_one.py", "compiling.py", *BACKENDS, ",", "compiled_nodes.py")


def plain():
    return untraced(*PROGRAM, env=ENV).check()


@functools.cache
def traced(levels):
    return trace(*PROGRAM, levels=levels, env=ENV)


def run(levels="1,2"):
    return traced(levels).check()


def printed(text, script):
    """What a script printed, without the times and processes of log lines."""
    (part,) = re.findall(rf"(?ms)^---- {script}\n(.*?)(?=^---- |\Z)", text)
    return re.sub(r"(?m)^([A-Z]\d{4}) [0-9:.]+ \d+ ", r"\1 ", part).splitlines()


@pytest.mark.parametrize("levels", LEVELS)
def test_same_graphs_breaks_and_results(levels):
    expected = printed(plain().stdout, "compiling.py")
    assert printed(run(levels).stdout, "compiling.py") == expected
    assert sum("'unique_graphs'" in line for line in expected) == len(BACKENDS)


@pytest.mark.parametrize("levels", LEVELS)
def test_the_same_nodes(levels):
    script = "compiled_nodes.py"
    assert printed(run(levels).stdout, script) == printed(plain().stdout, script)
    assert printed(run(levels).program_stderr, script) == printed(plain().stderr, script)


def section(levels, backend, name):
    return run(levels).section(f"{backend}: {name}")


def texts(calls):
    """All but what marks the work of torch.compile."""
    return [call.text for call in calls if call.level != 3]


def section_apis(levels, backend, name, level):
    return run(levels).section_apis(f"{backend}: {name}", level)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", READ)
def test_what_pytorch_calls_while_compiling_is_not_recorded(backend, levels):
    first = section(levels, backend, "first call")
    second = section(levels, backend, "second call")
    assert texts(first) == texts(second)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", READ)
def test_what_pytorch_calls_for_the_backward_graph_is_not_recorded(backend, levels):
    first = section(levels, backend, "first backward")
    second = section(levels, backend, "second backward")
    assert texts(first) == texts(second)
    # The backward graph itself is called back.
    level_1 = [call for call in first if call.level == 1]
    within = {None: False}
    for call in first:
        within[call.number] = within.get(call.parent, False) or call.level == 1
    outermost = [call.api for call in level_1 if not within.get(call.parent, False)]
    assert outermost == ["torch.Tensor.backward"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_level_0_around_compiling(backend):
    for name in ("before", "after", "in a thread", "at the end"):
        apis = section_apis("0,1,2", backend, name, 0)
        assert apis[:2] == ["torch.relu", "torch.nn.functional.relu"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", READ)
def test_calls_are_recorded_around_compiling(backend, levels):
    for name in ("before", "after", "at the end"):
        assert section_apis(levels, backend, name, 1)[:4] == EAGERLY
        assert section_apis(levels, backend, name, 2)[:2] == ["aten::relu", "aten::relu"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", READ)
def test_calls_are_recorded_on_other_threads(backend, levels):
    assert section_apis(levels, backend, "in a thread", 1)[:4] == EAGERLY
    assert section_apis(levels, backend, "in a thread after", 1) == EAGERLY * 2


def test_a_compiled_graph_of_a_backend_that_fuses_nothing_is_seen():
    apis = section_apis("1,2", "eager", "second call", 2)
    assert "aten::native_layer_norm" in apis
    assert "aten::addmm" in apis


def test_a_graph_break():
    first = section_apis("1,2", "eager", "graph break's first call", 2)
    assert first == ["aten::sin", "aten::cos"]
    assert section_apis("1,2", "eager", "graph break's second call", 2) == first


@pytest.mark.parametrize("levels", LEVELS)
def test_fused_kernels_are_named_as_not_seen(levels):
    (sentence,) = [each for each in run(levels).run["not_seen"] if "torch.compile" in each]
    assert "fused" in sentence


def test_without_compile_nothing_is_said_of_it():
    assert trace("import torch\ntorch.ones(1)").check().run["not_seen"] == []


def graph_calls(backend, name, levels="1,2"):
    """Each with its outermost calls."""
    return [call.api for call in section(levels, backend, name) if call.level == 3]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("levels", READ)
def test_compilations_and_runs_of_graphs_are_calls(backend, levels):
    calls = functools.partial(graph_calls, backend, levels=levels)
    assert calls("first call") == ["Compiling graph 0/0: function", "Compiled graph 0/0: function"]
    assert calls("second call") == ["Compiled graph 0/0: function"]
    assert calls("in a thread") == ["Compiled graph 0/0: function"] * 2
    assert calls("other shape")[:3] == [
        "Compiling graph 0/1: function",
        "Recompiled graph 0/1: function",
        "Compiled graph 0/1: function",
    ]
    assert calls("before") == calls("after") == calls("at the end") == []


@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("levels", READ)
def test_backward_graphs(backend, levels):
    calls = functools.partial(graph_calls, backend, levels=levels)
    assert calls("first backward") == [
        "Compiling backward 0/0: function",
        "Compiled backward 0/0: function",
    ]
    assert calls("second backward") == ["Compiled backward 0/0: function"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_operators_are_calls_of_their_graph(backend):
    calls = section("1,2", backend, "second call")
    (graph,) = [call.number for call in calls if call.level == 3]
    inside = {graph}
    for call in calls:
        if call.parent in inside:
            inside.add(call.number)
    matmuls = [
        call for call in calls if call.api in ("aten::addmm", "aten::addmm.out", "aten::mm.out")
    ]
    assert matmuls
    assert all(call.number in inside for call in matmuls)


def test_where_a_graph_broke_and_why():
    (graph,) = [each for each in run().run["graphs"] if each["function"] == "breaking"]
    assert graph["graph"] == "1/0"
    assert graph["compilations"] == len(BACKENDS)
    assert graph["runs"] == 2 * len(BACKENDS)
    (at,) = graph["breaks"]
    source = (SCRIPTS / "compiling.py").read_text().splitlines()
    assert source[at["line"] - 1].strip() == "torch._dynamo.graph_break()"
    assert source[graph["line"] - 1] == "def breaking(x):"
    assert "graph_break()" in at["reason"]


def test_why_it_compiled_again_in_dynamos_words():
    (first,) = [
        each
        for each in run().run["graphs"]
        if (each["graph"], each["function"]) == ("0/0", "function")
    ]
    (again,) = [
        each
        for each in run().run["graphs"]
        if (each["graph"], each["function"]) == ("0/1", "function")
    ]
    assert first["reasons"] == []
    assert again["reasons"] == ["0/0: tensor 'x' size mismatch at index 0. expected 3, actual 5"]


def test_stats_by_graph():
    rows = json.loads(tool("stats", run().folder, "--by", "graph", "--format", "json"))["graphs"]
    runs = {(each["graph"], each["function"], each["what"]): each for each in rows}
    assert runs["0/0", "function", "run"]["calls"] == 4 * len(BACKENDS)
    assert runs["0/1", "function", "compilation"]["reason"].startswith(
        "0/0: tensor 'x' size mismatch"
    )
    assert len(runs["1/0", "breaking", "compilation"]["breaks"]) == 1
    assert "; break at compiling.py:" in tool("stats", run().folder, "--by", "graph", "--top", "0")


def test_a_backend_that_returns_a_module():
    (graph,) = [each for each in run().run["graphs"] if each["function"] == "made"]
    assert (graph["compilations"], graph["runs"]) == (1, 2)


OLDER = """
    import torch
    import torchtrace

    @torch.compile(backend="aot_eager")
    def f(x):
        return torch.sin(x) + 1

    x = torch.ones(3)
    f(x)
    for _ in range(2):
        with torchtrace.trace(levels=[1]):
            f(x)
    with torchtrace.trace(levels=[1], exclude=["Compil*"]):
        f(torch.ones(3, 3))
    with torchtrace.trace(levels=[1]):
        f(torch.ones(3, 3))
"""


def test_graphs_that_were_compiled_before_a_trace(tmp_path):
    ran = python(OLDER, tmp_path).check()
    traces = sorted(tmp_path.glob("torchtrace-*"), key=lambda folder: folder.stat().st_ctime_ns)
    marks = [[api for api in ran.apis(trace.name) if "graph" in api] for trace in traces]
    assert marks == [
        ["Compiled graph 0/0: f"],
        ["Compiled graph 0/0: f"],
        [],
        ["Compiled graph 0/1: f"],
    ]
