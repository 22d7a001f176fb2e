"""`run --device-times`, with a stand-in for CUPTI: no GPU."""

import csv
import functools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dialects.torch.testing.trace_testing import SCRIPTS, tool, trace

pytestmark = pytest.mark.torch


# Of kernels, those of a graph, and copies of three threads.
LAUNCHES, GRAPH = 1000 + 10_000 * 3000 + 2000, 3 * 4000
COPIES = 500 + 100 * 5000 + 7
FUSED = 6000  # launched by the driver's function
REDUCED = 9000  # of a collective
ALL = LAUNCHES + GRAPH + COPIES + FUSED + REDUCED


@functools.cache
def runs():
    """Traced, and untraced: its output."""
    with tempfile.TemporaryDirectory(prefix="torchtrace-test-") as folder:
        library = Path(folder) / "libcupti.so.12"
        options = ["-w", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcupti.so.12"]
        command = ["gcc", *options, "-o", library, SCRIPTS / "stand_in_cupti.c"]
        subprocess.run(command, check=True)
        script = [sys.executable, SCRIPTS / "stand_in_cupti.py", library]
        plain = subprocess.run(script, check=True, capture_output=True, text=True)
        run = trace("stand_in_cupti.py", library, levels="2", options=("--device-times",))
    return run.check(), plain.stdout


def traced():
    return runs()[0]


def device_times(*arguments):
    report = json.loads(tool("stats", *arguments, "--format", "json"))
    return {row["api"]: row["device_ns"] for row in report["apis"] if row["device_ns"]}, report


def test_work_belongs_to_the_calls_that_launched_it():
    run = traced()
    found, report = device_times(run.folder, "--sort", "device")
    expected = {
        "stand_in::launch": LAUNCHES,
        "stand_in::copy": COPIES,
        "stand_in::replay": GRAPH,
        "stand_in::fused": FUSED,
        "c10d::allreduce_": REDUCED,
    }
    assert found == expected
    assert [row["api"] for row in report["apis"]][:5] == list(found)
    assert report["total_device_ns"] == sum(found.values())
    assert "device %" in tool("stats", run.folder)


def test_filter_and_merge_keep_it(tmp_path):
    run = traced()
    tool("filter", run.folder, "-o", tmp_path / "filtered", "--include", "stand_in::copy")
    assert device_times(tmp_path / "filtered")[0] == {"stand_in::copy": COPIES}
    tool("merge", run.folder, "-o", tmp_path / "merged")
    assert device_times(tmp_path / "merged")[0] == device_times(run.folder)[0]


def test_kernels():
    report = json.loads(tool("stats", traced().folder, "--by", "kernel", "--format", "json"))
    rows = {(row["kernel"], row["api"]): row for row in report["kernels"]}
    kernel, copy = (
        rows["a_kernel<float>", "stand_in::launch"],
        rows["Memcpy HtoD", "stand_in::copy"],
    )
    assert (kernel["count"], kernel["device_ns"]) == (10_002 + 3, LAUNCHES + GRAPH)
    assert (copy["count"], copy["device_ns"], copy["bytes"]) == (102, COPIES, 102 * 4096)
    assert rows["triton_poi_fused_sin_0", "stand_in::fused"]["device_ns"] == FUSED
    reduced = rows["ncclDevKernel_AllReduce_Sum_f32_RING_LL", "c10d::allreduce_"]
    assert (reduced["operation"], reduced["group"], reduced["ranks"]) == ("all_reduce", "0", 8)
    assert (reduced["device_ns"], reduced["bytes"]) == (REDUCED, 1000)
    assert report["total_device_ns"] == ALL


def test_what_shows_calls_shows_device_times(tmp_path):
    folder = traced().folder
    nodes = json.loads(tool("tree", folder, "--weight", "device", "--format", "json"))
    assert sum(node["device_ns"] for node in nodes if node["depth"] == 0) == ALL
    folded = tool("export", "flamegraph", folder, "--weight", "device").splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded) == ALL
    calls = csv.DictReader(tool("export", "csv", "--calls", folder).splitlines())
    assert sum(int(call["device_ns"]) for call in calls if call["depth"] == "0") == ALL
    timing = json.loads(tool("export", "timing", folder))
    assert timing["stand_in::replay"]["TotalDeviceTime(ms)"] == GRAPH / 1e6


@functools.cache
def chrome_trace():
    return tool("export", "chrome", traced().folder)


def test_streams_of_a_chrome_trace():
    events = json.loads(chrome_trace())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    kernels = [event for event in slices if event["cat"] == "kernel"]
    copies = [event for event in slices if event["cat"] == "gpu_memcpy"]
    assert (len(kernels), len(copies)) == (10_007, 102)
    assert {event["tid"] for event in kernels} == {7, 20} and {
        event["pid"] for event in copies
    } == {1}
    launches = {e["args"]["correlation"]: e for e in slices if e["cat"] == "cuda_runtime"}
    calls = {e["args"]["External id"]: e for e in slices if e["cat"] == "cpu_op"}
    # The nodes of a graph have one launch.
    assert len(launches) == 10_005 + 102
    for event in kernels + copies:
        launch = launches[event["args"]["correlation"]]
        call = calls[event["args"]["External id"]]
        assert call["tid"] == launch["tid"]
        assert call["ts"] <= launch["ts"] and launch["dur"] == 0.1
        assert launch["ts"] + launch["dur"] <= call["ts"] + call["dur"] + 0.001
    arrows = {(e["ph"], e["id"]): e for e in events if e.get("cat") == "ac2g"}
    assert len(arrows) == 2 * len(launches)


def test_holistic_trace_analysis_knows_the_streams(tmp_path):
    hta = pytest.importorskip("hta.trace_analysis")
    (tmp_path / "trace.json").write_text(chrome_trace())
    analysis = hta.TraceAnalysis({0: str(tmp_path / "trace.json")}, trace_dir=str(tmp_path))
    types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    assert set(types["kernel_type"]) == {"COMPUTATION", "COMMUNICATION", "MEMORY"}
    (row,) = kernels[kernels["name"] == "a_kernel<float>"].to_dict("records")
    # It rounds starts up, and ends down, to microseconds.
    assert 0.5 < row["sum (us)"] * 1000 / (LAUNCHES + GRAPH) <= 1
    idle, _ = analysis.get_idle_time_breakdown(visualize=False)
    assert set(idle["idle_category"]) <= {"host_wait", "kernel_wait", "other"} and len(idle)
    assert len(analysis.get_comm_comp_overlap(visualize=False)) == 1


def test_the_programs_profiler_comes_first():
    run = traced()
    before, during, events, after, end = run.stdout.splitlines()
    # Kinds and launching functions that are recorded, and calls that the thread is in.
    assert before == after == "7 1"
    assert (during, end) == ("0 0", "end")
    # Its profile is that of an untraced run.
    assert "('stand_in::launch', 1)" in events
    assert events == runs()[1].splitlines()[2]


def test_what_is_missing_is_said():
    run = traced()
    info = json.loads((run.folder / "run.json").read_text())
    said = "\n".join(info["not_seen"])
    outside = re.search(r"no recorded call launched: kernels, copies and memsets: (\d+)", said)
    assert re.search(
        r"device times: those of \d\.\d{3} s in which the program's own profiler", said
    )
    cut = info["cut"]
    dropped = cut["device times that CUPTI had no room for"] - 2
    assert dropped > 0 and dropped + int(outside[1]) == 1 + 400_000
    assert sum(count for what, count in cut.items() if "still ran" in what) == 1


def test_without_cupti_the_program_goes_on():
    run = trace("import torch; torch.ones(2)", levels="2", options=("--device-times",)).check()
    not_seen = json.loads((run.folder / "run.json").read_text())["not_seen"]
    (said,) = [sentence for sentence in not_seen if "device" in sentence]
    assert said == "device times: this torch has loaded no CUPTI, as builds without CUDA don't"
    assert "device_ns" not in tool("stats", run.folder, "--format", "json")
