"""Ranks that a launcher starts, each a `torchtrace run` of its own, have one trace."""

import json
import os
import subprocess
import sys

import pytest

from tools.testing import whole_tool as tool

MINE = "def f(x): return x\n"
PROGRAM = """
import os, sys, time
sys.path.insert(0, os.getcwd())
import mine
rank, restart = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
for _ in range(1 + int(rank)):
    mine.f(1)
print("rank", rank)
sys.stdout.flush()
if "wait" in sys.argv and rank == "0":
    while not os.path.exists("go"):
        time.sleep(0.01)
sys.exit(3 if rank == "1" and "fail" in sys.argv and restart == "0" else 0)
"""
# What torchrun's agent does: ranks that it starts at once, and once more if one fails.
AGENT = """
import os, subprocess, sys
for restart in range(2):
    job = dict(os.environ, TORCHELASTIC_RUN_ID="none", WORLD_SIZE="3")
    job["TORCHELASTIC_RESTART_COUNT"] = str(restart)
    ranks = [
        subprocess.Popen(sys.argv[1:], env=dict(job, RANK=str(rank)), stderr=subprocess.STDOUT)
        for rank in range(3)
    ]
    codes = [rank.wait() for rank in ranks]
    if not any(codes):
        break
sys.exit(max(codes))
"""
RUN = ("run", "-l", "0", "--library", "mine", "--python", tool.PYTHON)


@pytest.fixture
def launch(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "program.py").write_text(PROGRAM)

    def launch(*words, status=0):
        run = [tool.TORCHTRACE, *RUN, *words]
        ended = tool.execute([sys.executable, "-c", AGENT, *run], cwd=tmp_path)
        assert ended.status == status, ended
        return ended.out

    return launch


def processes(folder):
    return json.loads((folder / "run.json").read_text())["processes"]


def calls_of(folder):
    return sorted((each["name"].rsplit(" (", 1)[0], each["calls"]) for each in processes(folder))


def test_ranks_of_a_job_join_one_folder(launch, tmp_path):
    said = launch("-o", "out", "program.py")
    assert calls_of(tmp_path / "out") == [("rank 0", 1), ("rank 1", 2), ("rank 2", 3)]
    # Who is the last one at its end says it for all.
    assert said.rpartition("the trace is in out: ")[2].startswith("6 calls")

    refused = launch("-o", "out", "program.py", status=125)
    assert refused.count("is not empty") == 6 and "rank " not in refused
    assert sum(each["calls"] for each in processes(tmp_path / "out")) == 6

    launch("-fo", "out", "program.py")
    assert calls_of(tmp_path / "out") == [("rank 0", 1), ("rank 1", 2), ("rank 2", 3)]

    launch("-o", "alone", "--no-follow", "program.py", status=125)


def test_ranks_that_are_started_again_join_their_job(launch, tmp_path):
    launch("-o", "out", "program.py", "fail")
    first = [("rank 0", 1), ("rank 1", 2), ("rank 2", 3)]
    again = [(f"{name}, restart 1", calls) for name, calls in first]
    assert calls_of(tmp_path / "out") == sorted(first + again)


def test_two_jobs_at_once_do_not_mix(launch, tmp_path):
    run = [tool.TORCHTRACE, *RUN, "-o", "out", "program.py", "wait"]
    first = subprocess.Popen(
        [sys.executable, "-c", AGENT, *run],
        cwd=tmp_path,
        env=tool.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    while not first.stdout.readline().startswith("rank"):
        pass
    refused = launch("-fo", "out", "program.py", status=125)
    assert refused.count("torchtrace: the output folder") == 6
    (tmp_path / "go").touch()
    assert first.wait(60) == 0
    first.stdout.close()
    assert calls_of(tmp_path / "out") == [("rank 0", 1), ("rank 1", 2), ("rank 2", 3)]


@pytest.mark.torch
def test_torchrun(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "program.py").write_text(PROGRAM)
    launcher = [tool.PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = ["--no-python", tool.TORCHTRACE, *RUN, "-o", "out-%h", "program.py"]
    ended = tool.execute([*launcher, *run], cwd=tmp_path)
    assert ended.status == 0, ended
    assert calls_of(tmp_path / f"out-{os.uname().nodename}") == [("rank 0", 1), ("rank 1", 2)]
