"""The parts of tools/gpu_check that need no GPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.gpu import main

ROOT = Path(__file__).resolve().parents[2]


def test_kernels_are_compared_by_name_and_count():
    rows = [
        {"kernel": "a", "kind": "kernel", "count": 2, "device_ns": 3000},
        {"kernel": "a", "kind": "kernel", "count": 1, "device_ns": 1000},
        {"kernel": "Memcpy HtoD", "kind": "memcpy", "count": 1, "device_ns": 1000},
    ]
    ours = main.by_name(rows)
    assert ours == {"a": [3, 4.0]}
    text, same = main.compare_kernels(
        ours, {"a": [3, 4.2], "Memcpy HtoD (Pageable -> Device)": [1, 9.0]}
    )
    assert same and text == "3 kernels, 0.00 ms; torch.profiler 3, 0.00 ms"
    assert not main.compare_kernels(ours, {"a": [2, 4.0]})[1]
    assert (
        "other counts of 1 names: b"
        in main.compare_kernels(ours, {"a": [3, 4.0], "b": [1, 0.0]})[0]
    )
    assert not main.compare_kernels(ours, {"a": [3, 8.0]})[1]
    assert not main.compare_kernels({}, {})[1]


def test_a_check_that_fails_is_a_row(tmp_path):
    runs = main.Runs(sys.executable, tmp_path)
    checks = {
        "good": lambda runs: ("a|b", True),
        "bad": lambda runs: runs.output([sys.executable, "-c", "import sys; sys.exit('oh')"]),
        "late": lambda runs: main.Runs(sys.executable, tmp_path, seconds=0).output(["true"]),
    }
    lines = main.table(main.run_checks(checks, runs)).splitlines()[2:]
    assert lines == [
        "| good | a\\|b | yes |",
        "| bad | Failed: exit code 1: oh | **no** |",
        "| late | Failed: no time is left | **no** |",
    ]


def test_without_a_gpu_it_says_so():
    command = [ROOT / "tools/gpu_check", "--python", "/bin/false"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 77
    assert ended.stderr == "gpu_check: /bin/false has no torch that finds a CUDA device\n"


@pytest.mark.torch
def test_its_program_runs(tmp_path):
    runs = main.Runs(sys.executable, tmp_path)
    result = runs.plain("train", "--device", "cpu", "--small", "--profile", steps=1)
    assert len(result["losses"]) == 1 and result["kernels"] == {}
