"""--numbers and --stop-on-nan of CUDA tensors, with a stand-in for CUDA."""

import functools
import json

import pytest

from dialects.torch.testing.trace_testing import ROOT, SCRIPTS, extension, tool, trace

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TESTING = ROOT / "dialects/torch/device_numbers/testing"


@functools.cache
def library():
    """One library in the places of three: PyTorch's for CUDA, CUDA's driver and NVRTC."""
    kernel = (TESTING.parent / "numbers_kernel.cu").read_text()
    include = f'#include "{TESTING.relative_to(ROOT)}/numbers_kernel_text.h"'
    on_cpu = (TESTING / "kernel_on_cpu.cc").read_text().replace(include, kernel)
    assert kernel in on_cpu
    headers = [TESTING / "stand_in_cuda.h", TESTING.parent / "numbers_kernel.h"]
    texts = [
        path.read_text() for path in (SCRIPTS / "stand_in_cuda.cpp", TESTING / "stand_in_cuda.cc")
    ]
    versions = [f"// {path.read_text()!r}" for path in headers]
    options = ["-I", ROOT, "-Wl,-soname,libtorch_cuda.so", "-ffp-contract=off"]
    return extension("\n".join([*versions, *texts, on_cpu]), *options)


def traced(tmp_path, when, option):
    for name in ("libcuda.so.1", "libnvrtc.so.13"):
        (tmp_path / name).symlink_to(library())
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    return trace(
        "stand_in_cuda.py", library(), when, levels="2", options=("--quiet", option), env=env
    )


def test_numbers_come_later(tmp_path):
    run = traced(tmp_path, "end", "--numbers").check()
    numbers = {call.number: [] for call in run.of("stand_in::log")}
    for line in tool("dump", run.folder, "--format", "jsonl").splitlines():
        record = json.loads(line)
        for note in record.get("tensors", []) + record.get("result_tensors", []):
            call = record.get("later_of_call", record.get("call"))
            if call in numbers and "numbers" in note:
                numbers[call].append(note["numbers"]["nan"])
    assert list(numbers.values()) == [[0, 0], [0, 4], [4, 4]]


def test_stops_when_a_nan_is_known(tmp_path):
    run = traced(tmp_path, "later", "--stop-on-nan").check()
    # The call that raises is not made.
    _, made, _, last = run.of("stand_in::log")
    first, said = run.stdout.splitlines()
    assert first == "goes on"
    assert said.startswith(f"stand_in::log (call {made.number} of thread 0) made a NaN: ")
    assert last.outcome == "returned"


def test_tells_at_the_end_what_is_known_then(tmp_path):
    run = traced(tmp_path, "end", "--stop-on-nan")
    made = run.of("stand_in::log")[1]
    assert (run.exit_code, run.stdout) == (1, "goes on\n")
    (said,) = run.own_lines
    assert f"stand_in::log (call {made.number} of thread 0) made a NaN: " in said
