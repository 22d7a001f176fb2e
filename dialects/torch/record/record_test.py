"""Level 4: what RecordFunction reports, on every thread; the program stays the same."""

import json
import sys
from collections import Counter

import pytest

from dialects.torch.testing.trace_testing import tensor, tool, trace
from python.module_testing import python

pytestmark = pytest.mark.torch

PROGRAM = """
import threading
import torch
from torch.profiler import record_function

def fast(name, **kwargs):
    return torch._C._profiler._RecordFunctionFast(name, [], kwargs)

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
with record_function("a step: (1)", "its arguments"):
    loss = model(torch.ones(2, 2)).sum()
loss.backward()
def on_thread():
    with record_function("on a thread"):
        torch.tanh(torch.ones(1))
thread = threading.Thread(target=on_thread)
thread.start()
thread.join()
try:
    torch.ones(2) @ torch.ones(3)
except RuntimeError:
    torch.sin(torch.ones(1))
torch.nn.functional.layer_norm(torch.ones(2), [2], eps=1e-12)
# PyTorch reports kernels while it is profiled.
cpu = [torch.profiler.ProfilerActivity.CPU]
with torch.profiler.profile(activities=cpu, record_shapes=True):
    with fast("a kernel", kernel_file="k.py", grid="(1, 2)"):
        torch.cos(torch.ones(1))
scripted = torch.jit.trace(lambda x: x + 1, torch.ones(2))
with torch.inference_mode():
    scripted(torch.ones(2))
"""


@pytest.fixture(scope="module")
def recorded():
    return trace(PROGRAM, levels="4").check()


def lines(recorded, *options):
    """All that the JSON lines say of each call."""
    calls = {}
    for line in tool("dump", recorded.folder, "--format", "jsonl", *options).splitlines():
        record = json.loads(line)
        # A call that ends after many others has two lines.
        calls.setdefault(record.get("call", record.get("end_of_call")), {}).update(record)
    return list(calls.values())


def one(calls, api):
    (call,) = [call for call in calls if call["api"] == api]
    return call


def test_operators_nest(recorded):
    calls = lines(recorded)
    linear, addmm = one(calls, "aten::linear"), one(calls, "aten::addmm")
    assert addmm["parent"] == linear["call"]
    assert addmm["args"][0] == tensor(2, requires_grad=True)
    assert one(calls, "aten::layer_norm")["args"][4] == 1e-12
    assert one(calls, "aten::tanh")["thread"] != linear["thread"]


def test_scopes_are_around_what_is_in_them(recorded):
    calls = lines(recorded)
    step = one(calls, "a step: (1)")
    assert (step["scope"], step["args"]) == ("user", ["its arguments"])
    assert one(calls, "aten::linear")["parent"] == step["call"]
    assert one(calls, "aten::tanh")["parent"] == one(calls, "on a thread")["call"]
    kernel = one(calls, "a kernel")
    assert kernel["kwargs"] == {"grid": "(1, 2)", "kernel_file": "k.py"}
    assert one(calls, "aten::cos")["parent"] == kernel["call"]


UNDER_MODES = """
import contextlib, sys
import torch, torchtrace
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode

class Quiet(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

x = torch.ones(2, 2)
for case in sys.argv[1:]:
    levels, modes = case.split("-")
    with torchtrace.trace(case, levels=list(map(int, levels)), formats="none", quiet=True):
        with contextlib.ExitStack() as entered:
            for _ in range(int(modes)):
                entered.enter_context(Quiet())
            with record_function("scope"):
                torch.mm(x, x)
                torch.mm(x, x)
"""


def around(call, calls):
    return [call] + around(calls[call["parent"]], calls) if "parent" in call else [call]


def test_scopes_under_dispatch_modes(tmp_path):
    cases = [f"{levels}-{modes}" for levels in (4, 24, 14, "04", "01234") for modes in (1, 2)]
    ended = python(UNDER_MODES, tmp_path, *cases).check()
    for case in cases:
        calls = {call["call"]: call for call in ended.calls(case) if "call" in call}
        scope = one(calls.values(), "scope")
        assert scope["outcome"] == "returned", case
        assert "PythonDispatchMode" not in {call["api"] for call in around(scope, calls)}, case
        operators = [call for call in calls.values() if call["api"] == "aten::mm"]
        assert len(operators) >= 2 and all(scope in around(call, calls) for call in operators), case


def test_backward_nodes_have_the_numbers_of_the_forward_call(recorded):
    calls = lines(recorded)
    forward, node = one(calls, "aten::addmm"), one(calls, "AddmmBackward0")
    assert node["scope"] == "backward"
    assert node["sequence"] == forward["sequence"]
    assert node["forward_thread"] == forward["record_thread"]
    assert node["args"] == [tensor(2, 2)]
    engine = one(calls, "autograd::engine::evaluate_function: AddmmBackward0")
    assert node["parent"] == engine["call"]
    assert one(calls, "aten::mm")["parent"] == node["call"]
    # The sum that the bias gets comes between nodes.
    bias = one(
        [call for call in calls if call.get("parent") == engine["call"]], "aten::sum.dim_IntList"
    )
    assert bias["scope"] == "backward"


def test_failing_operators_are_closed(recorded):
    calls = lines(recorded)
    failed = {call["api"]: call["outcome"] for call in calls if call["outcome"] != "returned"}
    assert failed == {"aten::matmul": "raised", "aten::dot": "raised"}
    assert "parent" not in one(calls, "aten::sin")


STACKS = """
import torch
from torch.library import Library

own = Library("own", "DEF")
own.define("half(Tensor x, *, bool up=False) -> (Tensor, Tensor)")
own.impl("half", lambda x, *, up=False: (x / 2, x * 2), "CompositeExplicitAutograd")
x, w = torch.ones(5, 3), torch.ones(3, 2)
torch.func.grad(lambda t: torch.mm(t, w).sin().sum())(x)
torch.func.jvp(torch.sin, (x,), (x,))
torch.func.vmap(lambda t: torch.ops.own.half(t, up=True)[0])(x)
torch.ops.own.half(w)
scripted = torch.jit.CompilationUnit('''
def add_twice(x: Tensor, times: int):
    for _ in range(times):
        x = torch.add(x + 1.0, x, alpha=3)
    return x
''')
scripted.add_twice(x, 2)
"""


def test_a_boxed_call_has_the_operators_own_arguments_and_results():
    run = trace(STACKS, levels="2,4", options=["--outputs"]).check()
    seen = {2: set(), 4: set()}
    calls = lines(run)
    for call in calls:
        told = json.dumps([call["api"], call["args"], call["kwargs"], call.get("result")])
        seen[call["level"]].add(told.replace(', "requires_grad": true', ""))
    # What reaches a device at level 2 was an operator at level 4.
    assert len(seen[2]) > 8 and seen[2] <= seen[4]
    assert one(calls, "add_twice")["args"] == [tensor(5, 3), 2]
    halves = [call for call in calls if call["api"] == "own::half" and call["level"] == 4]
    assert {str((call["args"], call["kwargs"], call["result"])) for call in halves} == {
        str(([tensor(3)], {"up": True}, [tensor(3)] * 2)),
        str(([tensor(3, 2)], {}, [tensor(3, 2)] * 2)),
    }


def test_all_names_are_read_back(recorded, tmp_path):
    """torchtrace reads names of any form back from its text."""
    text = tmp_path / "configs.txt"
    text.write_text(tool("export", "text", recorded.folder))
    read = {json.loads(line)["api"] for line in tool("export", "jsonl", text).splitlines()}
    assert read == {call["api"] for call in lines(recorded)}


def test_filter_and_merge_keep_what_is_told_of_a_call(recorded, tmp_path):
    filtered, merged = tmp_path / "filtered", tmp_path / "merged"
    tool("filter", recorded.folder, "--include", "*Backward0", "-o", filtered)
    tool("merge", filtered, "-o", merged)
    calls = [json.loads(line) for line in tool("dump", merged, "--format", "jsonl").splitlines()]
    node = one(calls, "AddmmBackward0")
    assert (node["scope"], node["forward_thread"]) == ("backward", 1)


def without_overload(api):
    return api.rsplit(".", 1)[0] if "::" in api and " " not in api and "." in api else api


@pytest.mark.slow
def test_the_profiler_is_told_of_the_same():
    run = trace("told_profiler.py", levels="0,1,2,3,4", options=["--frames", "modules"]).check()
    told = json.loads(run.stdout.splitlines()[-1])
    every = lines(run, "--level", 4)
    calls = [call for call in every if call["thread"] == 0]
    whole = one(calls, "all of it")
    end = whole["time_ns"] + whole["duration_ns"]
    seen = Counter(
        without_overload(call["api"])
        for call in calls
        if whole["time_ns"] <= call["time_ns"] <= end
    )
    assert sum(seen.values()) > 10000
    assert seen == told
    # On the other thread PyTorch's profiler sees nothing.
    assert len([call for call in every if call["api"] == "step" and call["thread"] != 0]) == 2


SESSIONS = """
import os, signal, torch, torchtrace
from torch.profiler import ProfilerActivity, profile, record_function

x = torch.ones(2)
scope = record_function("from before")
scope.__enter__()
for name in ("a", "b"):
    torch.sin(x)
    with torchtrace.trace(output=name, levels=[4]):
        torch.cos(x)
        if name == "b":
            scope.__exit__(None, None, None)
            late = record_function("cut short")
            late.__enter__()
            torch.tan(x)
late.__exit__(None, None, None)
with torchtrace.trace(output="c", levels=[4]):
    torch.exp(x)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
        torch.log(x)
    child = os.fork()
    if child == 0:
        torch.neg(x)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
ours = [e for e in profiled.profiler.kineto_results.events() if e.name() == "aten::log"]
assert len(ours) == 1
"""


def test_nothing_is_recorded_outside(tmp_path):
    done = python(SESSIONS, tmp_path).check()
    assert done.apis("a") == ["aten::cos"]
    assert done.apis("b") == ["aten::cos", "cut short", "aten::tan"]
    own = {"aten::sin", "aten::exp", "aten::log", "aten::neg"}
    assert [api for api in done.apis("c") if api in own] == ["aten::exp", "aten::log", "aten::neg"]
    # An operator has its schema however its process ended.
    (log,) = (tmp_path / "c/log").glob("fork-*")
    nodes = json.loads(tool("export", "et", log))["nodes"]
    (neg,) = [node for node in nodes if node["name"] == "aten::neg"]
    attributes = {attribute["name"]: attribute["value"] for attribute in neg["attrs"]}
    assert attributes["op_schema"] == "aten::neg(Tensor self) -> Tensor"


MY_MODULE = """
import torch

class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.relu = torch.nn.ReLU()
    def forward(self, x):
        return self.relu(self.linear(x))

def call_module(module):
    return module(torch.ones((2, 2)))

module = MyModule()
for _ in range(4):
    call_module(module)
"""


def test_modules_are_around_their_operators():
    options = ["--frame-include", "<string>"]
    calls = lines(trace(MY_MODULE, levels="3,4", options=options).check())
    by_number = {call["call"]: call for call in calls}
    ways = []
    for call in calls:
        if call["api"] == "aten::addmm":
            way = []
            while call is not None:
                way.append(call["kwargs"].get("path", call["api"]))
                call = by_number.get(call.get("parent"))
            ways.append(way[::-1])
    functions = ["__main__.<module>", "__main__.call_module"]
    forward = "__main__.MyModule.forward" if sys.version_info >= (3, 11) else "__main__.forward"
    operators = ["linear", "aten::linear", "aten::addmm"]
    assert ways == [[*functions, "MyModule_0", forward, *operators]] * 4


SCOPES = """
import torch
from torch.profiler import record_function

def work():
    with record_function("all of it"):
        torch.ones(1)

work()
"""


def test_scopes_stand_in_the_function_that_opens_them():
    # The import alone has 400,000 calls.
    calls = lines(trace(SCOPES, levels="0,1,2,3,4").check(), "--tail", 4000)
    by_number = {call["call"]: call for call in calls}
    scope = one(calls, "all of it")
    assert by_number[scope["parent"]]["api"] == "__main__.work"
    inside = [call["api"] for call in calls if call.get("parent") == scope["call"]]
    assert inside[0] == "torch.ones"


def test_the_tree_and_the_pictures_of_it(tmp_path):
    run = trace(MY_MODULE, levels="0,1,2,3,4", options=["--frames", "modules"]).check()
    nodes = json.loads(tool("tree", run.folder, "--level", "3,4", "--format", "json"))
    by_number = {node["node"]: node for node in nodes}
    (addmm,) = [node for node in nodes if node["name"] == "aten::addmm"]
    way = [addmm]
    while "parent" in way[0]:
        way.insert(0, by_number[way[0]["parent"]])
    assert [node["name"] for node in way] == [
        "MyModule_0",
        "linear (Linear)",
        "aten::linear",
        "aten::addmm",
    ]
    assert [node["calls"] for node in way] == [4] * 4
    for outer, inner in zip(way, way[1:], strict=False):
        assert outer["total_ns"] >= outer["self_ns"] + inner["total_ns"]

    # The profiler's readers see each operator once, and so do we.
    chrome = tmp_path / "trace.json"
    tool("export", "chrome", run.folder, "-o", chrome)
    events = json.loads(chrome.read_text())["traceEvents"]
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    assert len(operators) == len(run.level(4))
    assert len([event for event in events if "Call" in event.get("args", {})]) == len(run.calls)
    read = json.loads(tool("stats", chrome, "--format", "json"))
    assert {row["api"]: row["calls"] for row in read["apis"]}["aten::addmm"] == 4

    folded = tool("export", "flamegraph", run.folder, "--level", "3,4").splitlines()
    times = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in folded}
    (path,) = [p for p in times if p.endswith("Linear);aten::linear;aten::addmm")]
    assert times[path] == addmm["self_ns"]


def test_holistic_trace_analysis_reads_the_chrome_trace(tmp_path):
    hta = pytest.importorskip("hta.trace_analysis")
    run = trace(MY_MODULE, levels="3,4", options=["--frames", "modules"]).check()
    chrome = tmp_path / "trace.json"
    tool("export", "chrome", run.folder, "-o", chrome)
    # It drops what is after the last of the steps, and by default that one too.
    traces = hta.TraceAnalysis(
        trace_files={0: str(chrome)}, trace_dir=str(tmp_path), include_last_profiler_step=True
    ).t
    table = traces.get_trace(0)
    names = table["name"].map(lambda symbol: traces.symbol_table.sym_table[symbol])
    assert names.str.startswith("ProfilerStep#").sum() == 4
    kinds = table["cat"].map(lambda symbol: traces.symbol_table.sym_table[symbol])
    assert kinds.isin(["cpu_op", "python_function"]).sum() == len(run.calls)
    assert (names == "aten::addmm").sum() == 4
    assert (names == "nn.Module: MyModule_0").sum() == 4
    operators = table["cat"].map(lambda symbol: traces.symbol_table.sym_table[symbol]) == "cpu_op"
    assert operators.sum() == len(run.level(4))


FORKING = """
import os
import torch
from torch.profiler import record_function

def child(call):
    if os.fork() == 0:
        call(x)
        os._exit(0)
    os.wait()

x = torch.ones(2)
with record_function("step"):
    child(torch.relu)
    torch.sin(x)
    child(torch.tanh)
"""


def test_a_scope_is_of_the_process_that_opened_it():
    calls = lines(trace(FORKING, levels="4").check())
    step = one(calls, "step")
    assert one(calls, "aten::sin")["parent"] == step["call"]
    for api in ("aten::relu", "aten::tanh"):
        assert "parent" not in one(calls, api) and one(calls, api)["process"] != step["process"]


# The interpreter waits on one thread and goes on on another.
WAITING = """
import time
import torch
from torch.profiler import record_function

scripted = torch.jit.CompilationUnit('''
def slow(x):
    for i in range(100):
        x = torch.mm(x, x)
    return x
def waits(x):
    return torch.jit._wait(torch.jit._fork(slow, x)) + 1
def idle(x):
    return x
''')
x = torch.rand(300, 300)
with record_function("outer"):
    scripted.waits(x)
    time.sleep(1)  # the other thread closes it after it has passed the result on
    scripted.idle(x)
    torch.sin(x)
torch.cos(x)
"""


@pytest.mark.parametrize(("levels", "prefix"), [("4", "aten::"), ("1,4", "torch.")])
def test_a_script_that_ends_on_another_thread(levels, prefix):
    calls = lines(trace(WAITING, levels=levels).check())
    outer, waits = one(calls, "outer"), one(calls, "waits")
    assert one(calls, "aten::add.Scalar")["thread"] != waits["thread"] == outer["thread"]
    idle = one(calls, "idle")
    assert idle["time_ns"] - (waits["time_ns"] + waits["duration_ns"]) > 1e8, (
        "ended when the other thread closed it"
    )
    after = idle, one(calls, prefix + "sin")
    assert {call["parent"] for call in (waits, *after)} == {outer["call"]}
    assert "parent" not in one(calls, prefix + "cos")
    assert {call["outcome"] for call in calls} == {"returned"}
