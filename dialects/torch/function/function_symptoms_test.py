"""A program can't see whether level 1 is on: each way in which a function mode on its stack would
show."""

import collections
import difflib
import functools
import pathlib
import sys
import tempfile

import pytest

from dialects.torch.testing.trace_testing import SCRIPTS, trace, untraced
from python.module_testing import python

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LEVELS = ["0", "1,2"]
SECTION = "---- "


@functools.cache
def traced(script, levels, *arguments):
    return trace(script, *arguments, levels=levels, options=["--formats", "none"])


def by_section(text):
    parts = ("\n" + text).split("\n" + SECTION)
    return dict(part.partition("\n")[::2] for part in parts[1:])


def difference(ours, theirs):
    lines = difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "plain", "traced", n=2)
    return "\n".join(list(lines)[:80])


SAME = [
    "with, finally, except",
    "functions that ask come and go",
    "what the stack says",
    "a callback that changes the stack",
    "frames",
    "tracing functions",
    "recursion",
    "functions are the same objects",
    "fast paths",
    "profiler's stacks",
    "popping an empty stack",
    "small stacks",
    "starts of threads",
    "end",
]


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("section", SAME)
def test_the_same(section, levels):
    theirs = by_section(untraced("same_level_1.py").check().stdout)
    ours = by_section(traced("same_level_1.py", levels).check().stdout)
    assert section in theirs
    assert ours.get(section) == theirs[section], difference(ours.get(section, ""), theirs[section])


# ---- Dynamo ----


def run_script(script, *arguments):
    """Runs a script that opens traces itself, by plain python."""
    run_script.folders.append(tempfile.TemporaryDirectory(prefix="torchtrace-test-"))
    folder = pathlib.Path(run_script.folders[-1].name)
    return python((SCRIPTS / script).read_text(), folder, *map(str, arguments))


run_script.folders = []  # each goes with this module


def test_as_many_graphs():
    theirs = untraced("same_compiling.py").check().stdout
    ours = traced("same_compiling.py", "0,1").check().stdout
    assert ours == theirs, difference(ours, theirs)


def test_a_trace_that_opens_recompiles_nothing():
    theirs = untraced("same_compiling.py").check().stdout
    ours = run_script("same_compiling.py", 0, 1).check().out
    assert ours == theirs, difference(ours, theirs)


APIS = {
    0: [
        "torch.nn.functional.relu",
        "torch.relu",
        "torch.norm",
        "torch.linalg.vector_norm",
        "torch.nn.functional.softmax",
        "torch.Tensor.softmax",
    ],
    1: ["torch.nn.functional.relu", "torch.norm", "torch.nn.functional.softmax"],
}
TRACES = [
    "first",
    "after-graph_break",
    "after-compiling",
    "in-a-compiled-function",
    "after-a-trace-in-a-compiled-function",
    "after-reset",
    "in-a-patch",
    "last",
]


@functools.cache
def frame_slots(level):
    return run_script("frame_slots.py", level).check()


@pytest.mark.parametrize("level", [0, 1])
def test_dynamo_in_the_slot_of_frame_evaluation(level):
    ran = frame_slots(level)

    def apis(name):
        # Without what marks compiled graphs.
        return [call["api"] for call in ran.calls(f"out-{name}") if call["level"] != 3]

    for name in TRACES:
        assert apis(name) == APIS[level], name
    relu = ["torch.nn.functional.relu", "torch.relu"][: 2 - level]
    norm = ["torch.norm", "torch.linalg.vector_norm"][: 2 - level]
    assert apis("begun-in-a-compiled-function") == relu + relu + norm
    assert apis("ended-in-a-compiled-function")[: len(relu)] == relu


@pytest.mark.parametrize("level", [0, 1])
def test_nothing_stays_in_the_slot_of_frame_evaluation(level):
    lines = frame_slots(level).out.splitlines()
    assert [line for line in lines if line.endswith("True")] == ["True"]


# ---- Stacks ----


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python limits recursion in C")
def test_many_frames_and_then_recursion_in_c():
    run = traced("deep_stacks.py", "0,1,2", 12000, 10000)
    assert run.check().stdout == untraced("deep_stacks.py", 12000, 10000).check().stdout
    assert len(run.of("torch.nn.functional.relu")) <= 2  # at levels 0 and 1
    assert run.of("torch.add")


WATCHED_IMPORT = """
import builtins, collections, sys
seen = collections.Counter()
imported = []
original = builtins.__import__

def imports(name, *arguments, **keywords):
    imported.append(name)
    return original(name, *arguments, **keywords)

def watch(frame, event, argument):
    module = str(frame.f_globals.get("__name__"))
    if module.startswith("torchtrace"):
        seen[module] += 1

sys.setprofile(watch)
sys.settrace(watch)
builtins.__import__ = imports
import torch
print([name for name in imported if name != "builtins"][-5:])  # pybind11 asks for that
import torch._dynamo.callback
print([name for name in imported if name != "builtins"][-5:])  # pybind11 asks for that
sys.setprofile(None)
sys.settrace(None)
print(dict(seen))
"""


def test_a_watched_import():
    ours, theirs = traced(WATCHED_IMPORT, "0,1,2"), untraced(WATCHED_IMPORT)
    assert ours.check().stdout == theirs.check().stdout


# importlib.abc copies a method that the watch replaces.
COPIED_LOADER = """
import importlib.abc, importlib.util
import inspect

class Loader(importlib.abc.InspectLoader):
    def get_source(self, name):
        return "x = 1"

def loaded():
    spec = importlib.util.spec_from_loader("mine", Loader())
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.x

method = importlib.abc.InspectLoader.exec_module
print(loaded(), repr(method).split(" at ")[0], inspect.isfunction(method))
print(inspect.signature(method), method.__doc__, method.__name__, method.__code__.co_argcount)
import torch
print(loaded())
"""


def test_a_loader_that_is_copied_while_an_import_is_watched():
    ours, theirs = traced(COPIED_LOADER, "0,1"), untraced(COPIED_LOADER)
    assert ours.check().stdout == theirs.check().stdout


# Hot, with other reads first where a call site is specialized.
ASKING_PROPERTIES = """
import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

class Other:
    asks = 1

class Asks:
    def __init__(self):
        self.x = torch.ones(2)
    @property
    def asks(self):
        if has_torch_function_unary(self.x):
            return handle_torch_function(Asks.asks.fget, (self.x,), self)
        return self.x

class Heir(Asks):
    pass

def reads(it):
    for each in [Other()] + [it] * 1000:
        each.asks

reads(Asks())
reads(Heir())
"""


def test_properties_that_ask():
    assert traced(ASKING_PROPERTIES, "1").check().apis(1).count("__main__.Asks.asks") == 2000


KEPT = """
import functools, gc, weakref, torch
from torch.overrides import handle_torch_function, has_torch_function

class Held:
    pass

def make(held, wrapped=torch.relu):
    @functools.wraps(wrapped)
    def function(tensor):
        if has_torch_function((tensor,)):
            return handle_torch_function(function, (tensor,), tensor)
        return held and tensor
    return function

alive = []
for _ in range(3):
    held = Held()
    alive.append(weakref.ref(held))
    make(held)(torch.ones(1))

    class Sub(torch.Tensor):
        pass

    alive.append(weakref.ref(Sub))
    torch.add(torch.ones(1).as_subclass(Sub), 1)
del held, Sub
gc.collect()
print([each() for each in alive])
"""


def test_functions_that_ask_and_subclasses_are_not_kept():
    run = traced(KEPT, "1").check()
    assert run.stdout == f"{[None] * 6}\n"
    assert len(run.calls) == 15


# ---- Exceptions of signal handlers ----


def test_exceptions_of_signal_handlers_end_nothing():
    seed, seconds = 1, 1.5
    run = traced("raising_signals.py", "1", seed, seconds).check()
    alarms, *finished = map(int, run.stdout.split())
    assert alarms > 100
    counts = collections.Counter(run.apis(1))
    names = ["torch.add", "torch.nn.functional.relu", "torch.Tensor.mul", "torch.split"]
    for name, number in zip(names, finished):
        assert number <= counts[name] <= number + alarms, name
    for name in ("torch.cos", "torch.nn.functional.gelu", "torch.Tensor.sub"):
        assert counts[name] == 100, name
    after = [call for call in run.calls if call.api in ("torch.cos", "torch.Tensor.sub")]
    assert {call.parent for call in after} == {None}
    assert {call.outcome for call in after} == {"returned"}


# ---- What is recorded ----

FIRST_CALLS = """
import torch, torch.nn.functional as F, marks
x = torch.ones(2, 3)
for call in (
    lambda: torch.cos(x, nonsense=1),
    lambda: torch.sin(),
    lambda: x.sub(x, x, x),
    lambda: F.gelu("a"),
    lambda: F.silu(x, nonsense=1),
    lambda: F.layer_norm(x, (5,)),
    lambda: torch.device([1]),
    lambda: torch._C._set_grad_enabled("yes"),
    lambda: torch.ops.aten.tan.default(),
    lambda: x.view("a"),
    lambda: torch.linalg.inv(torch.zeros(2, 2)),
    lambda: torch.norm(),
):
    try:
        call()
    except Exception:
        pass
"""


def test_a_first_call_that_fails():
    calls = [call for call in trace(FIRST_CALLS, levels="1").check().calls]
    raised = [(call.api, call.exception) for call in calls if call.outcome == "raised"]
    assert raised == [
        ("torch.cos", "TypeError"),
        ("torch.sin", "TypeError"),
        ("torch.Tensor.sub", "TypeError"),
        ("torch.nn.functional.gelu", "TypeError"),
        ("torch.nn.functional.silu", "TypeError"),
        ("torch.nn.functional.layer_norm", "RuntimeError"),
        ("torch.device", "TypeError"),
        ("torch._C._set_grad_enabled", "TypeError"),
        ("torch.ops.aten.tan.default", "RuntimeError"),
        ("torch.Tensor.view", "TypeError"),
        ("torch.linalg.inv", "torch._C._LinAlgError"),
        ("torch.norm", "TypeError"),
    ]


CLASSES = """
import torch, functools
class Mine(torch.nn.Linear):
    pass
class Other(torch.nn.Linear):
    def __init__(self, size, *, bias=True):
        super().__init__(size, size + 1, bias=bias)
class Third(Other, torch.nn.Module):
    def __init__(self):
        torch.nn.Linear.__init__(self, in_features=7, out_features=8)
Mine(1, 2)
Other(3, bias=False)
Third()
torch.nn.Linear(5, 6)
torch.nn.LazyLinear(9)
class Failing(torch.nn.Linear):
    def __init__(self):
        super().__init__("a", "b")
try:
    Failing()
except TypeError:
    pass
print([type(made).__name__ for made in (Mine(1, 2), Other(2), Third())])
"""


def test_construction_of_classes_below_a_listed_one():
    run = trace(CLASSES, levels="0").check()
    assert run.stdout == "['Mine', 'Other', 'Third']\n"
    linear = run.of("torch.nn.Linear")
    assert [(call.args, call.kwargs) for call in linear][:4] == [
        ([1, 2], {}),
        ([3, 4], {"bias": False}),
        ([], {"in_features": 7, "out_features": 8}),
        ([5, 6], {}),
    ]
    assert [call.outcome for call in linear].count("raised") == 1
    assert len(linear) == 4 + 1 + 3
    assert len(run.of("torch.nn.LazyLinear")) == 1
