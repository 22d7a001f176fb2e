"""Runs a program plain, traced, or under an independent mode, and keeps what it leaves."""

import collections
import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.testing import whole_tool

ROOT = Path(__file__).resolve().parents[2]
# What programs import: this package's part of them, witnesses, marks, sample inputs.
SEARCHED = [
    Path(__file__).with_name("inside"),
    ROOT / "testdata/programs",
    ROOT / "testdata/scripts/torch",
    ROOT / "testdata/scripts",
]
# Under `python`, and under the modes of testdata/programs/witness.py.
PLAIN, TOLD, DISPATCHED, TRACED = "plain", "told", "dispatched", "traced"
TRACED_DISPATCHED = f"{TRACED} {DISPATCHED}"


@dataclasses.dataclass
class Program:
    """What follows `python`, and what it needs."""

    name: str
    words: list
    files: dict = dataclasses.field(default_factory=dict)  # texts, in its folder
    env: dict = dataclasses.field(default_factory=dict)
    levels: str = "1,2"
    options: list = dataclasses.field(default_factory=list)
    python: str = sys.executable
    timeout: float = 600


@dataclasses.dataclass
class Left:
    """What a run left: texts are lists of lines, everything else {name: value}."""

    status: int | None  # None: it took too long
    out: list
    err: list
    results: dict
    ends: dict
    memory_kb: dict
    files: dict
    seconds: float
    folder: Path  # of what a witness wrote, and of the trace

    @property
    def trace(self):
        return self.folder / "trace"


class Place:
    """A folder in which all runs of a program work, one after the other, at the same path."""

    def __init__(self):
        self.keep = tempfile.TemporaryDirectory(prefix="torchtrace-fidelity-")
        self.folder = Path(self.keep.name)
        self.runs = 0
        self.trace = None  # of the last traced run

    def run(self, program, way, fill=None):
        """With `fill`, a byte, the C library fills memory that it hands out with it."""
        self.runs += 1
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        for name, text in program.files.items():
            (work / name).write_text(text)
        left = self.folder / f"{self.runs}-{way.replace(' ', '-')}"
        left.mkdir()
        command = [program.python, *program.words]
        if way.startswith(TRACED):
            options = ["-q", "--no-self-test", "--python", program.python, "-l", program.levels]
            self.trace = left / "trace"
            options += ["--formats", "none", "-o", self.trace, *program.options]
            command = [whole_tool.TORCHTRACE, "run", *options, "--", *program.words]
        began = time.monotonic()
        env = environment(program, left, way)
        if fill is not None:
            env["MALLOC_PERTURB_"] = str(fill ^ 0xFF)
        status = self._wait(command, work, env, program.timeout, left)
        seconds = time.monotonic() - began
        results, ends = read_pairs(left / "results.jsonl"), read_pairs(left / "ends.jsonl")
        return Left(
            status,
            read_lines(left / "stdout"),
            read_lines(left / "stderr"),
            unique(results),
            {
                f"{process}: {fact}": value
                for process, facts in unique(ends).items()
                for fact, value in flat(facts)
                if fact not in ("memory", "environment.MALLOC_PERTURB_")
            },
            {process: facts["memory"] for process, facts in unique(ends).items()},
            {
                str(path.relative_to(work)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(work.rglob("*"))
                if path.is_file() and path.name not in program.files
            },
            seconds,
            left,
        )

    def _wait(self, command, work, env, timeout, left):
        """The exit code; None if it took too long."""
        with open(left / "stdout", "wb") as out, open(left / "stderr", "wb") as err:
            process = subprocess.Popen(
                [str(word) for word in command],
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            try:
                return process.wait(timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return None


def environment(program, left, way):
    env = {
        "PYTHONPATH": os.pathsep.join(map(str, SEARCHED)),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "always",
        "OMP_NUM_THREADS": "1",
        # Kernels are compiled once, but no graphs are kept: that would change counters.
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "FIDELITY_OUTCOME": str(left),
    }
    witness = way.split()[-1]
    if witness in (TOLD, DISPATCHED):
        env["FIDELITY_WITNESS"] = witness
    return whole_tool.environment(env | program.env)


# ---- What is read ----


# PyTorch's error for an operator that a backend lacks lists the operator's kernels.
OWN_KERNEL = re.compile(r"(?m)^\w+: torchtrace \[kernel\]\n")


def read_lines(path):
    """Without what differs everywhere: torchtrace's own kernel, addresses, and the times and
    processes of log lines."""
    text = OWN_KERNEL.sub("", path.read_text(errors="backslashreplace"))
    text = re.sub(r"0x[0-9a-f]{6,}", "0x...", text)
    text = re.sub(r"(?m)^(\[?[EWIV]\d{4}) [0-9:.]+ \d+ ", r"\1 ", text)
    return re.sub(r"(?m)^USDT:.*\] ", "", text).splitlines()


def read_pairs(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def unique(pairs):
    """{label: value}; labels that come again get a number."""
    seen = collections.Counter()
    found = {}
    for label, value in pairs:
        seen[label] += 1
        found[label if seen[label] == 1 else f"{label} ({seen[label]})"] = value
    return found


def flat(facts, name=""):
    """(path, value) of all values in nested dicts."""
    for key, value in facts.items():
        path = f"{name}.{key}" if name else key
        if isinstance(value, dict):
            yield from flat(value, path)
        else:
            yield path, value
