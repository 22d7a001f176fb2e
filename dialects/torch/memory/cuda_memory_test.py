"""`run --memory` of CUDA devices, with a stand-in for PyTorch's caching allocator: no GPU."""

import functools
import json

import pytest

from dialects.torch.testing.trace_testing import SCRIPTS, extension, tool, trace

pytestmark = pytest.mark.torch

OWN_CPU_ALLOCATOR = "memory on the CPU: the program has an allocator of its own"


@functools.cache
def traced(how):
    headers = SCRIPTS / "stand_in_headers"
    options = ["-w", "-Wl,-soname,libc10_cuda.so", "-I", headers, "-include", "cuda_runtime_api.h"]
    library = extension((SCRIPTS / "stand_in_c10_cuda.cpp").read_text(), *options)
    run = trace("stand_in_c10_cuda.py", library, how, levels="2", options=("--memory",)).check()
    told = json.loads((run.folder / "run.json").read_text())
    return run, told.get("not_seen", [])


def memory(how):
    run, _ = traced(how)
    devices = json.loads(tool("memory", run.folder, "--format", "json"))["devices"]
    return {device["device"]: device for device in devices}


def test_blocks_of_the_caching_allocator():
    run, not_seen = traced("later")
    assert run.stdout == "1\n"  # tracker
    assert not [sentence for sentence in not_seen if "memory" in sentence]
    device = memory("later")["cuda:1"]
    assert (device["peak_bytes"], device["end_bytes"]) == (800, 750)
    # 1,024 and 512 bytes were handed out.
    assert device["rounding_bytes"] == 736
    assert device["rows"] == [
        {"kind": "other", "made_by": "stand_in::take", "bytes": 800, "blocks": 2}
    ]
    # Not of the forked process.
    (log,) = run.folder.glob("log/fork-*.ttlog")
    assert b"cuda_memory" not in log.read_bytes()
    assert "rounding up" in tool("memory", run.folder)
    rows = json.loads(tool("stats", run.folder, "--format", "json"))["apis"]
    took = next(row for row in rows if row["api"] == "stand_in::take")
    assert took["allocated_bytes"] >= 850 and took["held_bytes"] >= 750


def test_memory_from_before_the_trace():
    run, not_seen = traced("before")
    assert run.stdout == "1\n"
    assert OWN_CPU_ALLOCATOR in not_seen  # since it was installed
    device = memory("before")["cuda:1"]
    assert (device["peak_bytes"], device["end_bytes"]) == (2300, 2300)
    assert device["rounding_bytes"] == 2560 - 2300
    assert device["rows"] == [
        {"kind": "other", "made_by": "stand_in::take", "bytes": 2000, "blocks": 1},
        {"kind": "before the trace", "made_by": "", "bytes": 300, "blocks": 0},
    ]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("other", "the allocator is cudaMallocAsync, not PyTorch's caching one"),
        ("nameless", "the program has an allocator of its own"),
    ],
)
def test_other_allocators(how, said):
    run, not_seen = traced(how)
    assert run.stdout == "0\n"
    assert (OWN_CPU_ALLOCATOR in not_seen) == (how == "other")
    assert f"memory on CUDA devices: {said}" in not_seen
    assert "cuda" not in tool("memory", run.folder)
