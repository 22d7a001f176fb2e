"""`run --device-times`, with a stand-in for CUPTI: no GPU."""

import functools
import json
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from dialects.torch.testing.trace_testing import SCRIPTS, tool, trace

pytestmark = pytest.mark.torch


@functools.cache
def traced():
    with tempfile.TemporaryDirectory(prefix="torchtrace-test-") as folder:
        library = Path(folder) / "libcupti.so.12"
        options = ["-w", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcupti.so.12"]
        command = ["gcc", *options, "-o", library, SCRIPTS / "stand_in_cupti.c"]
        subprocess.run(command, check=True)
        run = trace("stand_in_cupti.py", library, levels="2", options=("--device-times",))
    return run.check()


def device_times(*arguments):
    report = json.loads(tool("stats", *arguments, "--format", "json"))
    return {row["api"]: row["device_ns"] for row in report["apis"] if row["device_ns"]}, report


def test_work_belongs_to_the_calls_that_launched_it():
    run = traced()
    found, report = device_times(run.folder, "--sort", "device")
    assert found == {"stand_in::launch": 1000 + 10_000 * 3 + 2000, "stand_in::copy": 500 + 100 * 5}
    assert [row["api"] for row in report["apis"]][:2] == list(found)
    assert report["total_device_ns"] == sum(found.values())
    assert "device %" in tool("stats", run.folder)


def test_filter_and_merge_keep_it(tmp_path):
    run = traced()
    tool("filter", run.folder, "-o", tmp_path / "filtered", "--include", "stand_in::copy")
    assert device_times(tmp_path / "filtered")[0] == {"stand_in::copy": 1000}
    tool("merge", run.folder, "-o", tmp_path / "merged")
    assert device_times(tmp_path / "merged")[0] == device_times(run.folder)[0]


def test_the_programs_profiler_comes_first():
    run = traced()
    before, during, events, after, end = run.stdout.splitlines()
    # Kinds and launching functions that are recorded, and calls that the thread is in.
    assert before == after == "6 1"
    assert (during, events, end) == ("0 0", "1", "end")


def test_what_is_missing_is_said():
    run = traced()
    info = json.loads((run.folder / "run.json").read_text())
    said = "\n".join(info["not_seen"])
    assert "no recorded call launched: kernels, copies and memsets: 1\n" in said + "\n"
    assert re.search(
        r"device times: those of \d\.\d{3} s in which the program's own profiler", said
    )
    cut = info["cut"]
    assert cut["device times that CUPTI had no room for"] == 2
    assert sum(count for what, count in cut.items() if "still ran" in what) == 1


def test_without_cupti_the_program_goes_on():
    run = trace("import torch; torch.ones(2)", levels="2", options=("--device-times",)).check()
    not_seen = json.loads((run.folder / "run.json").read_text())["not_seen"]
    (said,) = [sentence for sentence in not_seen if "device" in sentence]
    assert said == "device times: this torch has loaded no CUPTI, as builds without CUDA don't"
    assert "device_ns" not in tool("stats", run.folder, "--format", "json")
