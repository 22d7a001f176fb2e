"""Level 2's key on threads whose key sets PyTorch's guards restore."""

import pytest

from dialects.torch.testing.trace_testing import SCRIPTS
from python import module_testing as testing

pytestmark = pytest.mark.torch


SCRIPTED = """
import queue, threading, torch, torchtrace

class Module(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

function, module = torch.jit.trace(torch.relu, torch.ones(2)), torch.jit.script(Module())
asked, done = queue.Queue(), queue.Queue()

def serve():
    for call in iter(asked.get, None):
        done.put(call(torch.ones(1)) if call is not None else None)

threading.Thread(target=serve).start()
for call in (function, module):
    for levels in ([2], [1, 2], [2, 4]):
        with torchtrace.trace(f"{type(call).__name__}-{''.join(map(str, levels))}", levels=levels):
            for _ in range(5):
                asked.put(call)
                done.get()
asked.put(None)
"""


def test_scripted_functions_on_a_thread_that_was_there(tmp_path):
    ended = testing.python(SCRIPTED, tmp_path).check()
    traces = sorted(tmp_path.glob("*-*"))
    assert len(traces) == 6
    for trace in traces:
        calls = ended.calls(trace)
        assert sum(call["api"] == "aten::relu" and call["level"] == 2 for call in calls) == 5, trace


def test_traces_that_begin_and_end_within_guards(tmp_path):
    ended = testing.python((SCRIPTS / "guards.py").read_text(), tmp_path).check()
    assert ended.out.splitlines() == ["done 27"]
    assert ended.err == ""
