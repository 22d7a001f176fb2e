"""Programs of several processes: the same output, and every call of every process."""

import dataclasses
import json
import sys
import time
from pathlib import Path

from tools.comparing import suites
from tools.comparing.checking import check
from tools.comparing.programs import ROOT, Place, Program

SCRIPTS = ROOT / "testdata/scripts/processes"
TORCHRUN = ["--standalone", "--nproc-per-node", "2"]
BY_MODULE = ["-m", "torch.distributed.run", *TORCHRUN]
BY_SCRIPT = [str(Path(sys.executable).with_name("torchrun")), *TORCHRUN]

# Words, and the calls of levels 1 and 2, and of compiled graphs, that all processes make together
# with torch 2.13.
PROGRAMS = [
    (["options.py"], 48),
    ([*BY_MODULE, "ranks.py"], 410),
    ([*BY_SCRIPT, "ranks.py"], 410),
    (["spawned_ranks.py"], 410),
    (["loader.py", "fork"], 324),
    (["loader.py", "spawn"], 324),
    (["loader.py", "forkserver"], 324),
    (["loader.py", "spawn", "persistent"], 318),
    (["executor.py", "spawn"], 36),
    (["executor.py", "forkserver"], 36),
    (["pools.py"], 96),
    (["joblib_pool.py"], 36),
    (["replaced.py"], 6),
    (["outliving.py"], 10),
    (["wrappers.py"], 80),
    (["other_pythons.py"], 0),
    ([*BY_MODULE, "ranks_with_workers.py"], 212),
    ([*BY_MODULE, "--max-restarts", "1", "restarted_ranks.py"], 16),
    (["lightning_ranks.py", "ddp"], 664),
    (["lightning_ranks.py", "ddp_spawn"], 781),
    (["through_shell.py"], 4),
    (["deep.py", "4"], 10),
    (["many.py"], 16002),
    (["closed_files.py"], 2),
    (["edges.py"], 28),
    (["killed.py", "SIGTERM"], 4),
    (["compiled.py"], 9),
]
# In the environment of the suites alone.
NEED_MORE = ["joblib_pool.py"]


def program_of(words):
    """The script is named by its path."""
    return Program(
        " ".join(Path(word).name for word in words),
        [str(SCRIPTS / word) if word.endswith(".py") else word for word in words],
        env={"PYTHONPATH": str(SCRIPTS)},
        python=str(suites.PYTHON) if words[0] in NEED_MORE else sys.executable,
        timeout=120,
    )


def recorded(trace, expected):
    """The calls of all processes, once they are as many as expected: some outlive the run."""
    deadline = time.monotonic() + 15
    while True:
        run = json.loads((trace / "run.json").read_text())
        calls = sum(each["calls"] for each in run["processes"])
        if calls >= expected or time.monotonic() > deadline:
            return calls
        time.sleep(0.5)


def unordered(left):
    """The lines of several processes come in any order."""
    return dataclasses.replace(left, out=sorted(left.out), err=sorted(left.err))


def compare(words, expected):
    place = Place()
    found = check(place, program_of(words), levels=(), arranged=unordered)
    found.calls = recorded(place.trace, expected)
    if found.calls != expected:
        found.found.append(f"calls: {found.calls}, not {expected}")
    return found


def section(run):
    """programs of several processes: same output, every call of every process"""
    for words, expected in PROGRAMS:
        name = " ".join(Path(word).name for word in words)
        if run.is_over():
            run.say(f"{name}: not run: the time is over")
        elif words[0] in NEED_MORE and not suites.PYTHON.exists():
            run.say(f"{name}: not run: {suites.VENV} is missing")
        else:
            run.case(name, compare(words, expected))
