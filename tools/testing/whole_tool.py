"""Shared by tests of the whole tool: runs it, and plain python for comparison."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TORCHTRACE = os.environ.get("TORCHTRACE", str(ROOT / ".build/bin/torchtrace"))
_VENV_PYTHON = ROOT / ".venv/bin/python3"
PYTHON = str(_VENV_PYTHON) if _VENV_PYTHON.exists() else sys.executable
SCRIPTS = ROOT / "testdata/scripts"

# A shell's background job ignores Ctrl-C, and programs started here would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@dataclasses.dataclass
class Result:
    status: int  # negative: the signal that killed it
    out: str
    err: str

    def lines(self):
        """For comparisons: pytest shows which lines differ. Without addresses."""
        text = f"status {self.status}\n{self.out}\n--- standard error\n{self.err}"
        return re.sub(r"0x[0-9a-f]{6,}", "0x...", text).splitlines()


# For exports to Parquet, which need a Python with pyarrow.
WITH_PYARROW = {"TORCHTRACE_PYTHON": PYTHON}


def environment(changes=None):
    """The tests' own environment, without variables that choose a Python or configure
    torchtrace."""
    drop = ("TORCHTRACE", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTEST_", "PYTHONSAFEPATH", "PYTHONPATH")
    env = {key: value for key, value in os.environ.items() if not key.startswith(drop)}
    if "TORCHTRACE_RUNTIME_DIR" in os.environ:
        env["TORCHTRACE_RUNTIME_DIR"] = os.environ["TORCHTRACE_RUNTIME_DIR"]
    # Tests have home folders of their own, without kept results; tests of the self-test unset this.
    env.update({"TORCHTRACE_NO_SELF_TEST": "1"} | (changes or {}))
    return {key: value for key, value in env.items() if value is not None}


def named_shortly(messages):
    """Replaces the path of this checkout's command by its name."""
    return re.sub(r"/\S*/tools/torchtrace(?= [a-z-])", "torchtrace", messages)


def execute(command, cwd, env=None, stdin="", timeout=120):
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment(env),
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
        timeout=timeout,
    )
    return Result(done.returncode, done.stdout, named_shortly(done.stderr))


def torchtrace(*args, cwd, env=None, **kwargs):
    if args[:1] == ("export",):
        # Code is written by a Python with torch.
        env = {"TORCHTRACE_PYTHON": PYTHON, **(env or {})}
    return execute([TORCHTRACE, *args], cwd, env, **kwargs)


def run_both(args, tmp_path, python_args=(), cwd=None, options=(), python=PYTHON, **kwargs):
    """`python ARGS` and `torchtrace run -q ARGS`, one after the other."""
    cwd = cwd or tmp_path
    untraced = execute([python, *python_args, *args], cwd, **kwargs)
    output = tmp_path / "trace"
    traced = torchtrace(
        "run",
        "-qfo",
        output,
        "--python",
        python,
        *options,
        *(f"--python-arg={arg}" for arg in python_args),
        *args,
        cwd=cwd,
        **kwargs,
    )
    return untraced, traced
