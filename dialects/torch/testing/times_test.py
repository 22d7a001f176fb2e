"""Times are those that the program itself measures."""

import json

import pytest

from dialects.torch.testing.trace_testing import tool, trace

pytestmark = pytest.mark.torch

SLEEPS = """
import json, time
import torch

class Sleeping(torch.nn.Module):
    def forward(self, seconds):
        start = time.perf_counter_ns()
        time.sleep(seconds)
        took.append(time.perf_counter_ns() - start)

module = Sleeping()
took = []
for seconds in [0.002] * 9 + [0.03]:
    module(seconds)
print(json.dumps(sorted(took)))
"""


def close(ours, theirs):
    return abs(ours - theirs) <= max(0.05 * theirs, 50_000)


def test_known_sleeps():
    run = trace(SLEEPS, levels="3", options=["--frames", "modules"]).check()
    took = json.loads(run.stdout)
    (row,) = json.loads(tool("stats", run.folder, "--times", "all", "--format", "json"))["apis"]
    assert row["calls"] == len(took)
    assert close(row["time_ns"], sum(took))
    assert close(row["self_time_ns"], sum(took))
    assert close(row["mean_ns"], sum(took) / len(took))
    assert close(row["min_ns"], took[0])
    assert close(row["p50_ns"], took[4])
    assert close(row["p99_ns"], took[-1])
    assert close(row["max_ns"], took[-1])
    (node,) = json.loads(tool("tree", run.folder, "--format", "json"))
    assert node["total_ns"] == row["time_ns"]
