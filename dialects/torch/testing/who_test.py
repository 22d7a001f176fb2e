"""Who made a call: names of threads, ranks of processes."""

import json
import subprocess

import pytest

from dialects.torch.testing.trace_testing import TORCHTRACE, environment, trace_command

pytestmark = pytest.mark.torch

THREADS = """
import concurrent.futures, threading
started = threading.Event()
early = threading.Thread(target=lambda: (started.wait(), torch.ones(2)), name="early")
early.start()
import torch

def renamed():
    threading.current_thread().name = "renamed"
    torch.ones(2)

def run(target, **how):
    thread = threading.Thread(target=target, **how)
    thread.start()
    thread.join()

started.set()
early.join()
run(lambda: torch.ones(2), name="lü, der")
run(renamed)
run(lambda: torch.ones(2), name="x" * 300)
with concurrent.futures.ThreadPoolExecutor(1, "pool") as pool:
    pool.submit(torch.ones, 2).result()
torch.zeros(2)
"""


def traced(folder, source, levels, *, exit_code=0):
    command = trace_command(folder, ["-c", source], levels)
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == exit_code, done.stderr


def told(verb, *arguments):
    command = [TORCHTRACE, verb, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def rows(folder, by):
    return json.loads(told("stats", folder, "--by", by, "--format", "json"))[by + "s"]


@pytest.mark.parametrize("levels", ["1", "2", "4"])
def test_threads_have_the_programs_names(tmp_path, levels):
    traced(tmp_path / "out", THREADS, levels)
    names = [row["name"] for row in rows(tmp_path / "out", "thread")]
    expected = {"MainThread", "lü, der", "renamed", "x" * 255, "pool_0"}
    # For a thread that is older than torch, level 4 only knows the system's name.
    if levels != "4":
        expected.add("early")
    assert expected <= set(names), names
    assert "renamed" not in told("dump", tmp_path / "out", "--thread", "lü, der")
    assert "ones" in told("dump", tmp_path / "out", "--thread", "ren*")


RANKS = """
import os, signal, sys, tempfile
import torch
import torch.distributed as dist

def grouped(rank):
    for store in stores:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
        dist.all_reduce(torch.ones(2))
        dist.destroy_process_group()
        rank = 1 - rank

def alone(rank):
    os.environ["RANK"] = str(rank)
    torch.ones(2)

body = globals()[sys.argv[1]]
stores = [os.path.join(tempfile.mkdtemp(), name) for name in "ab"]
torch.zeros(2)
children = []
for rank in range(2):
    os.environ["RANK"] = str(rank) if body is alone else ""
    children.append(os.fork())
    if children[-1] == 0:
        body(rank)
        os.kill(os.getpid(), signal.SIGKILL) if rank else os._exit(0)
for child in children:
    os.waitpid(child, 0)
"""


@pytest.mark.parametrize("how", ["grouped", "alone"])
def test_forked_processes_tell_themselves_their_ranks(tmp_path, how):
    script = tmp_path / "ranks.py"
    script.write_text(RANKS)
    command = trace_command(tmp_path / "out", [str(script), how], "2")
    done = subprocess.run(command, capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stderr
    # The process that sets the variable for others has no rank.
    assert {row["rank"] for row in rows(tmp_path / "out", "rank")} == {None, 0, 1}
    second = told("dump", tmp_path / "out", "--rank", "1")
    assert ("allreduce" if how == "grouped" else "aten::ones") in second
    if how == "grouped":
        assert "missing" not in told("info", tmp_path / "out")


@pytest.mark.parametrize(
    "workers",
    [
        "",
        "; os.fork() or os._exit(0); import subprocess; subprocess.run([sys.executable, '-V'])",
    ],
)
def test_a_process_tells_itself_its_rank(tmp_path, workers):
    source = "import os, sys, torch; torch.ones(2); os.environ['RANK'] = '3'" + workers
    traced(tmp_path / "out", source, "2")
    assert [row["rank"] for row in rows(tmp_path / "out", "rank")] == [3]
