"""Level 3: the calls of nn.Modules, each with its path in its model; the program stays the same."""

import subprocess

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
    return calls(tmp_path_factory.mktemp("frame") / "out", MODULES, "2,3")


def test_paths_are_those_of_the_model(modules):
    calls_at_3 = [call for call in modules if call.level == 3]
    seen = [(call.api.removeprefix("torch.nn."), call.kwargs["path"]) for call in calls_at_3]
    own, twin = ("__main__.MyModule", "MyModule_0"), ("__main__.MyModule", "MyModule_1")
    # A module of two names has its first one; one that no name leads to is a root.
    model = [("Linear", "linear"), ("ReLU", "relu"), ("Identity", "blocks.0"), ("ReLU", "relu")]
    assert seen[:12] == [own, *model, ("Tanh", "Tanh_0")] * 2
    # Two that changed places are told by what leads to them now.
    swapped = [("ReLU", "linear"), ("Linear", "relu"), ("Identity", "blocks.0"), ("ReLU", "linear")]
    assert seen[12:18] == [own, *swapped, ("Tanh", "Tanh_0")]
    assert seen[18:24] == [twin, *swapped, ("Tanh", "Tanh_1")]
    # forward() itself is no call of a module, and those that it calls have no root.
    assert seen[24:29] == [
        ("ReLU", "ReLU_0"),
        ("Linear", "Linear_0"),
        ("Identity", "Identity_0"),
        ("ReLU", "ReLU_0"),
        ("Tanh", "Tanh_0"),
    ]
    assert seen[29:35] == seen[12:18]
    assert seen[35:37] == [("Sequential", "Sequential_0"), ("__main__.Failing", "0")]
    assert seen[37:] == [("__main__.Recursive", "Recursive_0")] * 3


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
    seen = calls(tmp_path / "out", MODULES, "3", "--include", "torch.nn.Linear")
    assert [call.kwargs["path"] for call in seen][:2] == ["linear", "linear"]


@pytest.mark.slow
def test_compiles_as_untraced(tmp_path):
    seen = calls(tmp_path / "out", COMPILED, "3")
    assert [call.api for call in seen if call.kwargs["path"] == "Sequential_0"]


SESSIONS = """
import torch, torchtrace
model = torch.nn.Sequential(torch.nn.Linear(2, 2))
x = torch.ones(2, 2)
outer = [torch.nn.Sequential(model), torch.nn.Sequential(model)]
for name in ("a", "b"):
    model(x)
    with torchtrace.trace(output=name, levels=[3]):
        model(x)
        outer.pop()(x)

class Stopping(torch.nn.Module):
    def forward(self, trace):
        trace.stop()
        return self.inner(x)

trace = torchtrace.trace(output="c", levels=[3])
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
