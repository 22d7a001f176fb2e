"""Level 3: the calls of nn.Modules, each with its path in its model; the program stays the same."""

import json
import subprocess
import sys

import pytest

from dialects.torch.testing.trace_testing import environment, read_calls, trace_command
from python.module_testing import python

pytestmark = pytest.mark.torch

MODULES = """
import copy, threading
import torch

class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.relu = torch.nn.ReLU()
        self.blocks = torch.nn.ModuleList([torch.nn.Identity(), self.relu])
        self.other = [torch.nn.Tanh()]
    def forward(self, x):
        x = self.relu(self.linear(x))
        for block in self.blocks:
            x = block(x)
        return self.other[0](x)

class Failing(torch.nn.Module):
    def forward(self, x):
        raise KeyError(x)

class Recursive(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.me = [self]
    def forward(self, depth):
        return depth and self.me[0](depth - 1)

def call_module(module):
    return module(torch.ones((2, 2)))

module = MyModule()
module.linear.register_forward_hook(lambda *_: torch.neg(torch.ones(1)))
entry = torch.nn.Module.__call__
for _ in range(2):
    call_module(module)
module.linear, module.relu = module.relu, module.linear
call_module(module)
call_module(copy.deepcopy(module))
module.forward(torch.ones((2, 2)))
thread = threading.Thread(target=call_module, args=[module])
thread.start()
thread.join()
try:
    torch.nn.Sequential(Failing())(1)
except KeyError:
    pass
Recursive()(2)
assert torch.nn.Module.__call__ is entry
"""

COMPILED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
explained = torch._dynamo.explain(model)(torch.ones(2, 2))
assert (explained.graph_count, explained.graph_break_count) == (1, 0), explained
compiled = torch.compile(model, backend="eager", fullgraph=True)
assert torch.equal(compiled(torch.ones(2, 2)), model(torch.ones(2, 2)))
"""


def calls(folder, source, levels, *options):
    done = subprocess.run(
        trace_command(folder, ["-c", source], levels, options),
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr
    return read_calls(folder)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    return calls(tmp_path_factory.mktemp("frame") / "out", MODULES, "2,3", "--frames", "modules")


def test_paths_are_those_of_the_model(modules):
    calls_at_3 = [call for call in modules if call.level == 3]
    seen = [(call.api.removeprefix("torch.nn."), call.kwargs["path"]) for call in calls_at_3]
    own, twin = ("__main__.MyModule", "MyModule_0"), ("__main__.MyModule", "MyModule_1")
    # A module with two names has the first one; one that no name leads to is a root.
    model = [("Linear", "linear"), ("ReLU", "relu"), ("Identity", "blocks.0"), ("ReLU", "relu")]
    assert seen[:12] == [own, *model, ("Tanh", "Tanh_0")] * 2
    # Two that changed places have their new paths.
    swapped = [("ReLU", "linear"), ("Linear", "relu"), ("Identity", "blocks.0"), ("ReLU", "linear")]
    assert seen[12:18] == [own, *swapped, ("Tanh", "Tanh_0")]
    assert seen[18:24] == [twin, *swapped, ("Tanh", "Tanh_1")]
    # forward() itself is not a call of a module, but those that it calls are parts of the model.
    assert seen[24:29] == seen[13:18]
    assert seen[29:35] == seen[12:18]
    assert seen[35:37] == [("Sequential", "Sequential_0"), ("__main__.Failing", "0")]
    assert seen[37:] == [("__main__.Recursive", "Recursive_0")] * 3


PATHS = """
import torch
from torch.utils.checkpoint import checkpoint
nn = torch.nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
    def forward(self, x):
        return self.fc(x)

class Lit(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.shared = shared
    def training_step(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return x.sum()
    def forward(self, x):
        return self.shared(x)

def section(name):
    getattr(nn, name)()(x)

x = torch.ones(2, 2)
shared = nn.ReLU()
lit, twin = Lit(shared), Lit(shared)
section("Tanh")
lit.training_step(x).backward()
section("Tanh")
for net in [nn.Sequential(nn.Linear(2, 2)) for _ in range(2)]:
    net[0](x)
    net(x)
section("Tanh")
shared(x)
twin(x)
shared(x)
lit(x)
section("Tanh")
late = nn.Linear(2, 2)
late(x)
other = nn.ModuleDict({"late": late, "new": nn.Identity()})
late(x)
other["new"](x)
late(x)
del other
late(x)
section("Tanh")
for _ in range(3):
    net = nn.Sequential(nn.Identity())
    net(x)
section("Tanh")
block = Block()
wrapped = [nn.ModuleList([block]), nn.ModuleDict({"a": block})]
block.fc(x)
block(x)
section("Tanh")
for _ in range(200):
    nn.ReLU()(x)
    nn.Sequential(nn.Identity())(x)
"""


def test_paths_are_the_same_whatever_is_called_first(tmp_path):
    seen = calls(tmp_path / "out", PATHS, "3", "--frames", "modules")
    sections = [[]]
    for call in seen:
        path, model = call.kwargs["path"], call.kwargs.get("model")
        if path == "Tanh_0":
            sections.append([])
        else:
            sections[-1].append(path if model is None else f"{model}:{path}")
    _, steps, sequences, shares, late, folds, wrapped, many = sections
    blocks = [f"Lit_0:blocks.{i}{fc}" for i in (0, 1) for fc in ("", ".fc")]
    assert steps == [*blocks, *blocks[2:], *blocks[:2]]
    assert sequences == [f"Sequential_{i}{part}" for i in (0, 1) for part in (":0", "", ":0")]
    # What two models share is a part of the one that was seen first, or called last.
    twin = "Lit_1:shared"
    assert shares == ["Lit_0:shared", "Lit_1", twin, twin, "Lit_0", "Lit_0:shared"]
    moved = ["ModuleDict_0:new", "ModuleDict_0:late"]
    assert late == ["Linear_0", "Linear_0", *moved, "Linear_0"]
    assert folds[::2] == ["Sequential_2", "Sequential_3", "Sequential_4"]
    assert wrapped == ["Block_0:fc", "Block_0", "Block_0:fc"]
    # The names of modules without parts are used again when those are gone.
    assert {path for path in many if path.startswith("ReLU")} == {"ReLU_0"}


def test_calls_nest_by_thread(modules):
    by_number = {(call.process, call.number): call for call in modules}
    operator = next(call for call in modules if call.api == "aten::addmm")
    linear = by_number[operator.process, operator.parent]
    root = by_number[linear.process, linear.parent]
    assert (linear.api, root.api, root.parent) == ("torch.nn.Linear", "__main__.MyModule", None)
    # A hook's operators are its module's.
    hooked = next(call for call in modules if call.api == "aten::neg")
    assert by_number[hooked.process, hooked.parent].api == "torch.nn.Linear"
    assert len({call.thread for call in modules if call.level == 3}) == 2
    failed = [(call.api, call.exception) for call in modules if call.outcome == "raised"]
    assert failed == [("torch.nn.Sequential", "KeyError"), ("__main__.Failing", "KeyError")]


def test_what_is_left_out_leads_on(tmp_path):
    # The bodies of classes are functions, too, of the same name.
    only = ["--frames", "modules", "--include", "torch.nn.Linear"]
    seen = calls(tmp_path / "out", MODULES, "3", *only)
    assert [call.kwargs["path"] for call in seen][:2] == ["linear", "linear"]


@pytest.mark.slow
def test_compiles_as_untraced(tmp_path):
    seen = calls(tmp_path / "out", COMPILED, "3", "--frames", "modules")
    # It is inside the compiled module, and is called by itself too.
    assert "torch.nn.Sequential" in {call.api for call in seen}


SESSIONS = """
import torch, torchtrace
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
x = torch.ones(2, 2)
outer = [torch.nn.Sequential(model), torch.nn.Sequential(model)]
for name in ("a", "b"):
    model(x)
    with torchtrace.trace(output=name, levels=[3], frames="modules"):
        model(x)
        outer.pop()(x)

class Stopping(torch.nn.Module):
    def forward(self, trace):
        trace.stop()
        return self.inner(x)

trace = torchtrace.trace(output="c", levels=[3], frames="modules")
stopping = Stopping()
stopping.inner = model
trace.start()
stopping(trace)
model(x)
"""


def test_sessions_begin_and_end(tmp_path):
    done = python(SESSIONS, tmp_path).check()
    for name, paths in (
        ("a", ["Sequential_0", "0", "Sequential_1", "0", "0.0"]),
        ("b", ["Sequential_0", "0", "Sequential_2", "0", "0.0"]),
        ("c", ["Stopping_0"]),
    ):
        assert [call["kwargs"]["path"] for call in done.calls(name)] == paths


FUNCTIONS = """
import threading, json

class Counter:
    def count(self, n):
        return n and self.count(n - 1)

def steps():
    yield 1
    yield 2

def failing():
    raise KeyError(1)

async def waits():
    return 3

def outer():
    def inner():
        return len([])
    return inner()

Counter().count(2)
list(steps())
try:
    failing()
except KeyError:
    pass
try:
    waits().send(None)
except StopIteration:
    pass
outer()
thread = threading.Thread(target=outer)
thread.start()
thread.join()
json.dumps({})
exec("def made(): pass\\nmade()", {"__name__": "elsewhere"})
exec("def made(): pass\\nmade()", {})
"""


def functions(folder, source, *options, levels="3", cwd=None):
    """The calls of level 3 of a program in a file, and its output."""
    script = folder / "program.py"
    script.write_text(source)
    done = subprocess.run(
        trace_command(folder / "out", [str(script)], levels, options),
        capture_output=True,
        text=True,
        env=environment(),
        cwd=cwd or folder,
    )
    assert done.returncode == 0, done.stderr
    return [call for call in read_calls(folder / "out") if call.level == 3], done.stdout


def own(seen):
    """The calls of functions in the program's file."""
    return [call for call in seen if call.kwargs.get("file") == "program.py"]


def test_functions_are_seen_on_all_threads(tmp_path):
    seen, _ = functions(tmp_path, FUNCTIONS)
    here = own(seen)
    by_number = {(call.process, call.number): call for call in seen}
    names = [call.api.removeprefix("__main__.") for call in here]
    # 3.10 has no qualified names.
    qualified = "Counter.count" in names
    count, inner = ("Counter.count", "outer.<locals>.inner") if qualified else ("count", "inner")
    # Since 3.11 making a generator or a coroutine is a call too.
    makes = sys.version_info >= (3, 11)
    assert names == [
        *("<module>", "Counter", count, count, count, *["steps"] * (3 + makes), "failing"),
        *(*["waits"] * (1 + makes), "outer", inner, "outer", inner),
    ]
    counted = [call for call in here if call.api.endswith(count)]
    assert [call.kwargs["line"] for call in counted] == [5] * 3
    assert by_number[counted[1].process, counted[1].parent] is counted[0]
    failed = [(call.api, call.exception) for call in here if call.outcome == "raised"]
    assert failed == [("__main__.failing", "KeyError")]
    threads = {call.thread for call in here if call.api == "__main__.outer"}
    assert len(threads) == 2
    # A file of the library has a short path; code that is made has its globals' name.
    assert any(
        call.api == "json.dumps" and call.kwargs["file"] == "json/__init__.py" for call in seen
    )
    made = [call.api for call in seen if call.api.endswith(".made")]
    assert made == ["elsewhere.made", "<UnknownModule>.made"]
    assert not [call for call in seen if call.api.startswith(("torchtrace.", "importlib._boot"))]


def test_functions_stand_in_modules_and_around_other_levels(tmp_path):
    source = MODULES + "def step():\n    return call_module(module)\nstep()\n"
    seen, _ = functions(tmp_path, source, "--frame-include", "program.py", levels="2,3")
    everything = read_calls(tmp_path / "out")
    by_number = {(call.process, call.number): call for call in everything}
    last = [call for call in everything if call.api == "aten::addmm"][-1]
    chain = []
    while last is not None:
        chain.append(last.api.split(".")[-1])
        last = by_number.get((last.process, last.parent))
    expected = ["aten::addmm", "Linear", "forward", "MyModule", "call_module", "step", "<module>"]
    assert chain == expected
    assert {call.kwargs["file"] for call in seen if "file" in call.kwargs} == {"program.py"}
    assert not [call for call in seen if call.api.endswith(("_call_impl", "_wrapped_call_impl"))]


def test_depth_and_files_are_limits(tmp_path):
    seen, _ = functions(tmp_path, FUNCTIONS, "--frame-depth", "2")
    counts = [call for call in own(seen) if call.api.endswith("count")]
    assert len(counts) == 1
    run = json.loads((tmp_path / "out/run.json").read_text())
    assert (run["frames"], run["frame_depth"]) == ("python", 2)
    without, _ = functions(tmp_path, FUNCTIONS, "-f", "--frame-exclude", "*/lib/python3.*")
    files = {call.kwargs["file"] for call in without if call.kwargs["file"][:7] != "<frozen"}
    assert files == {"program.py", "<string>"}


HOOKS = """
import cProfile, sys, threading
told = []
def profile(frame, event, arg):
    told.append((event, frame.f_code.co_name))
def leaf():
    return 1
def work():
    return leaf() + sum(leaf() for _ in range(2))
sys.setprofile(profile)
work()
sys.setprofile(None)
sys.settrace(lambda frame, event, arg: told.append((event, frame.f_code.co_name)))
work()
sys.settrace(None)
profiler = cProfile.Profile()
profiler.runcall(work)
stats = sorted((row.code if isinstance(row.code, str) else row.code.co_name, row.callcount)
               for row in profiler.getstats())
print(told, stats, sys.getprofile(), sys.gettrace())
"""


def test_other_hooks_see_what_they_see_untraced(tmp_path):
    seen, traced = functions(tmp_path, HOOKS)
    plain = python(HOOKS, tmp_path).check().out
    assert traced == plain
    assert len([call for call in own(seen) if call.api == "__main__.leaf"]) == 9


OPEN = """
import threading, torchtrace, torch

def leaf():
    return torch.ones(1)

def middle(trace):
    trace.start()
    leaf()

def outer(trace):
    middle(trace)
    leaf()

def waiting(go, done):
    go.wait()
    leaf()
    done.set()

def main():
    go, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=waiting, args=[go, done])
    thread.start()
    for name in ("a", "b"):
        trace = torchtrace.trace(output=name, levels=[2, 3], frame_include=["program.py"])
        outer(trace)
        leaf()
        if name == "a":
            go.set()
            done.wait()
            thread.join()
        trace.stop()
main()
"""


def test_calls_under_way_are_open_at_the_start(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(OPEN)
    done = python(
        "import runpy; runpy.run_path('program.py', run_name='__main__')", tmp_path
    ).check()
    for name in ("a", "b"):
        calls = done.calls(name)
        parents = {call["call"]: call for call in calls}

        def path(call, parents=parents):
            names = []
            while call is not None:
                names.append(call["api"].split(".")[-1])
                call = parents.get(call.get("parent"))
            return names[::-1]

        leaves = [path(call) for call in calls if call["api"] == "__main__.leaf"]
        main = ["<module>", "main"]
        expected = [[*main, "outer", "middle", "leaf"], [*main, "outer", "leaf"], [*main, "leaf"]]
        if name == "a":
            expected.append(["waiting", "leaf"])
        assert leaves == expected, leaves


C_FUNCTIONS = """
import math, operator, threading, time

class Mine(list):
    pass

def calls():
    items = []
    for number in range(100):
        items.append(len(items))
        isinstance(number, int)
    dict(items=items)
    Mine().append(1)
    operator.neg(1)
    bound = items.index
    for value in (3, "no such"):
        try:
            bound(value)
        except ValueError:
            pass
    sorted(items, key=lambda item: math.sqrt(item))
    bytes.fromhex("00")

calls()
thread = threading.Thread(target=time.sleep, args=[0.001])
thread.start()
thread.join()
"""

C_OF_TORCH = """
import torch
from torchtrace import api_name
torch._C._nn.gelu(torch.ones(2))
torch.ones(2).add(1)
torch._C._log_api_usage_once("none")
called = (torch._C._nn.gelu, torch.Tensor.add, torch.ones, torch._C._log_api_usage_once)
print([api_name(each) for each in called])
"""


def test_functions_written_in_c(tmp_path):
    seen, said = functions(tmp_path, C_FUNCTIONS, "--frames", "all")
    by_number = {(call.process, call.number): call for call in seen}

    def counts(parent):
        counted = {}
        for call in seen:
            above = by_number.get((call.process, call.parent))
            if above is not None and above.api == parent:
                counted[call.api] = counted.get(call.api, 0) + 1
        return counted

    called = counts("__main__.calls")
    # However hot they are.
    assert (called["len"], called["list.append"], called["isinstance"]) == (100, 101, 100)
    assert [called[name] for name in ("dict", "range", "operator.neg", "bytes.fromhex")] == [1] * 4
    assert called["list.index"] == 2
    failed = [(call.exception, call.outcome) for call in seen if call.api == "list.index"]
    assert ("ValueError", "raised") in failed
    key = next(call for call in seen if call.api == "math.sqrt")
    around = by_number[key.process, key.parent]
    # A lambda in list.sort, which sorted() calls.
    assert by_number[around.process, around.parent].api == "list.sort"
    sleeping = next(call for call in seen if call.api == "time.sleep")
    assert sleeping.thread != key.thread
    assert not [call for call in seen if call.api.startswith("torchtrace")]


def test_functions_of_torch_written_in_c(tmp_path):
    options = ("--frames", "all", "--include", "torch.*gelu", "--include", "torch.Tensor.add")
    options += ("--include", "torch.ones", "--include", "*_log_api_usage_once")
    seen, said = functions(tmp_path, C_OF_TORCH, *options)
    assert set(json.loads(said.replace("'", '"'))) <= {call.api for call in seen}


def test_c_functions_count_and_are_left_out_by_name(tmp_path):
    seen, _ = functions(
        tmp_path, C_FUNCTIONS, "--frames", "all", "--include", "len", "--include", "list.*"
    )
    assert {call.api for call in seen} >= {"len", "list.append"}
    assert all(call.api == "len" or call.api.startswith("list.") for call in seen)
    seen, _ = functions(tmp_path, C_FUNCTIONS, "-f", "--frames", "all", "--frame-depth", "2")
    assert "__main__.calls" in {call.api for call in seen}
    assert not [call for call in seen if call.api == "bytes.fromhex"]


def test_other_hooks_see_what_they_see_untraced_of_c_too(tmp_path):
    source = (
        HOOKS
        + """
import _imp, numpy, operator
array = numpy.zeros(4)
array.resize(8)
print(hash(len) == hash(eval("len")), len == eval("len"), repr(len), list.append)
print([].append == [].append)
print(len({print: 1, len: 2, max: 3}), {}.get == {}.get, type(int.from_bytes))
try:
    len(1, 2)
except TypeError as error:
    print(error)
try:
    [].index()
except TypeError as error:
    print(error)
print(_imp.exec_dynamic.__name__, dict([(1, 2)], a=3), float("1"), bool([]))
print(super(dict, {}).__repr__()[:5])
"""
    )
    options = ("--include", "__main__.*", "--include", "len", "--include", "numpy.ndarray.resize")
    seen, traced = functions(tmp_path, source, "--frames", "all", *options)
    plain = python(source, tmp_path).check().out
    assert traced == plain
    assert len([call for call in seen if call.api == "numpy.ndarray.resize"]) == 1


C_SESSIONS = """
import gc, torch, torchtrace
for name, levels in (("a", [3]), ("b", [0, 1, 3]), ("c", [3])):
    with torchtrace.trace(output=name, levels=levels, frames="all", include=["len", "torch.relu"]):
        len([])
        torch.relu(torch.ones(1))
        import threading
        thread = threading.Thread(target=len, args=[[]])
        thread.start()
        thread.join()
        gc.collect()
    len([])
    torch.relu(torch.ones(1))
print(len([]), torch.relu(torch.ones(1)))
"""


def test_c_functions_in_sessions(tmp_path):
    done = python(C_SESSIONS, tmp_path).check()
    assert done.out == "0 tensor([1.])\n"
    for name in ("a", "b", "c"):
        at_3 = [call["api"] for call in done.calls(name) if call["level"] == 3]
        assert (at_3.count("torch.relu"), at_3.count("len") >= 2) == (1, True), name
    apis = [(call["api"], call["level"]) for call in done.calls("b")]
    assert ("torch.relu", 1) in apis and ("torch.relu", 0) in apis
