"""--memory: what PyTorch allocates and frees is recorded, and programs don't notice."""

import functools
import json
import signal
import sys

import pytest

from dialects.torch.testing.trace_testing import tool, trace, untraced
from tools.testing import whole_tool

pytestmark = [pytest.mark.torch]


@functools.cache
def traced():
    return trace(
        "memory_program.py", levels="1-4", options=("--memory", "--stacks", "--frames", "modules")
    )


@functools.cache
def printed():
    return json.loads(traced().check().stdout)


def rows(folder, *options):
    return json.loads(tool("stats", folder, "--format", "json", *options))


@functools.cache
def main_memory(by):
    options = ("--by", by, "--top", "0", "--format", "json")
    devices = json.loads(tool("memory", traced().folder, *options))["devices"]
    return next(device for device in devices if device["process"] == 0)


def apis(level, *options):
    found = rows(traced().folder, "--by", "api", "--level", str(level), *options)["apis"]
    return {row["api"]: row for row in found}


def test_a_step_allocates_what_the_profiler_sees():
    assert apis(4)["the step"]["allocated_bytes"] == printed()["allocated"] > 0


def test_the_programs_profiler_sees_the_same():
    assert json.loads(untraced("memory_program.py").stdout) == printed()


def test_operators_and_what_they_leave():
    operators = apis(2)
    # The three in the process, the one for the storage, and the forked one's.
    empty = operators["aten::empty.memory_format"]
    assert empty["allocated_bytes"] >= 300_000 + 100_000 + 40_000
    assert operators["aten::set_.source_Storage"]["freed_bytes"] == 300_000
    resized = operators["aten::resize_"]
    assert resized["peak_bytes"] == 240_000
    assert resized["allocated_bytes"] == 200_000 + 240_000


@pytest.mark.parametrize("by", ["api", "module", "kind"])
def test_rows_sum_to_the_peak(by):
    device = main_memory(by)
    assert device["device"] == "cpu"
    assert sum(row["bytes"] for row in device["rows"]) == device["peak_bytes"] > 0


def test_kinds():
    kinds = {row["kind"]: row["bytes"] for row in main_memory("kind")["rows"]}
    # Adam's temporaries are alive when the peak is in its step.
    assert kinds["optimizer state"] == printed()["state"]
    assert kinds["gradient"] == printed()["gradients"]
    assert kinds["parameter"] == printed()["parameters"]


def test_parameters_are_noted_once():
    # 100,000 notes have some 10 bytes each.
    (log,) = traced().folder.glob("log/main-*.ttlog")
    assert log.stat().st_size < 500_000


def test_leaks():
    (leak,) = main_memory("line")["leaks"]
    assert "memory_program.py:" in leak["made_by"]
    # The last step aside.
    assert (leak["bytes"], leak["blocks"], leak["steps"]) == (2 * 4000, 2, 2)
    assert main_memory("api")["peak_step"] in {"1", "2", "3"}


def test_sorting_by_memory():
    sizes = [row["allocated_bytes"] for row in apis(2, "--sort", "memory").values()]
    assert sizes == sorted(sizes, reverse=True)


def test_filtered_traces_keep_it(tmp_path):
    tool("filter", traced().folder, "-o", tmp_path / "few", "--include", "aten::add.Tensor")
    devices = json.loads(tool("memory", tmp_path / "few", "--format", "json"))["devices"]
    assert devices[0]["peak_bytes"] == main_memory("api")["peak_bytes"]


def test_a_killed_program(tmp_path):
    program = "import os, torch; a = torch.ones(1000); b = a + a; del a; os.kill(os.getpid(), 9)"
    args = ("run", "-qo", "out", "--memory", "--python", sys.executable, "-c", program)
    done = whole_tool.torchtrace(*args, cwd=tmp_path)
    assert done.status in (-signal.SIGKILL, 128 + signal.SIGKILL)
    device = json.loads(tool("memory", tmp_path / "out", "--format", "json"))["devices"][0]
    assert (device["peak_bytes"], device["end_bytes"]) == (8000, 4000)


def test_without_memory():
    log = whole_tool.ROOT / "testdata/logs/v1/sample.ttlog"
    for verb in (["memory", log], ["stats", log, "--sort", "memory"]):
        done = whole_tool.torchtrace(*verb, cwd="/")
        assert done.status == 2 and "run --memory" in done.err
