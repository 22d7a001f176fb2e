"""What tools/gpu_check does where there is no GPU, and how it compares."""

import subprocess

import pytest

from tools.gpu import main as gpu_check
from tools.testing import whole_tool


def test_counts_by_name_are_compared():
    work = [("a", 1, 0.5), ("Memcpy HtoD (Pageable -> Device)", 2, 1.0), ("a", 1, 0.5)]
    assert gpu_check.by_name(work) == {"a": [2, 1.0], "Memcpy HtoD": [2, 1.0]}
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


def test_no_program_takes_more_time_than_is_left(monkeypatch):
    monkeypatch.setattr(gpu_check, "ends", 0)
    with pytest.raises(gpu_check.Failed, match="no time is left for true"):
        gpu_check.run("true")


def test_without_a_gpu_nothing_is_checked():
    # Most likely one without torch, which is quick to find out.
    done = subprocess.run(
        [whole_tool.ROOT / "tools/gpu_check"],
        env=whole_tool.environment({"PYTHON": "/usr/bin/python3", "CUDA_VISIBLE_DEVICES": ""}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (gpu_check.NO_GPU, "")
    assert done.stdout.startswith("gpu_check: nothing was checked: ")


@pytest.mark.torch
def test_its_programs_begin():
    code = "import workloads; print(workloads.Training('small').digest())"
    done = subprocess.run(
        [whole_tool.PYTHON, "-c", code],
        cwd=whole_tool.ROOT / "tools/gpu",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 64
