"""What tools/gpu_check does where there is no GPU, and how it compares."""

import subprocess

import pytest

from tools.gpu import main as gpu_check
from tools.testing import whole_tool


def test_counts_by_name_are_compared():
    ours, theirs = {"a": [2, 1.0], "b": [1, 5.0]}, {"a": [2, 9.0], "c": [3, 1.0]}
    assert gpu_check.differences(ours, theirs) == {"b": (1, 0), "c": (0, 3)}
    assert gpu_check.differences(ours, ours) == {}


def test_what_fails_is_counted(tmp_path, capsys):
    check = gpu_check.Check(tmp_path)
    check.add("kernels", "28 of 28", True)
    check.add("memory", "1 of 2", False)
    assert check.failed == 1
    assert check.table.markdown().endswith("| memory | 1 of 2 | FAILS |")
    assert "memory: 1 of 2: FAILS" in capsys.readouterr().out


@pytest.mark.torch
@pytest.mark.skipif(gpu_check.no_gpu() is None, reason="there is a GPU")
def test_without_a_gpu_nothing_is_checked():
    done = subprocess.run(
        [whole_tool.ROOT / "tools/gpu_check"],
        env={**whole_tool.environment(), "PYTHON": whole_tool.PYTHON},
        capture_output=True,
        text=True,
    )
    assert done.returncode == gpu_check.NO_GPU
    assert done.stdout.startswith("gpu_check: nothing was checked: torch")
