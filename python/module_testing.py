"""Runs programs that use the module torchtrace, in plain python and under `torchtrace run`."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TORCHTRACE = os.environ.get("TORCHTRACE", str(ROOT / ".build/bin/torchtrace"))


# The folder of the runtime for this Python, which contains the package.
PACKAGE = Path(TORCHTRACE).resolve().parents[1] / "runtime" / ("py%d.%d" % sys.version_info[:2])


@dataclass
class Ended:
    status: int
    out: str
    err: str
    folder: Path

    def check(self):
        assert self.status == 0, f"exit code {self.status}\n{self.out}\n{self.err}"
        return self

    def info(self, trace="out"):
        return json.loads((self.folder / trace / "run.json").read_text())

    def lines(self, trace="out"):
        return (self.folder / trace / "api_trace.txt").read_text().splitlines()

    def calls(self, trace="out"):
        done = subprocess.run(
            [TORCHTRACE, "dump", self.folder / trace, "--format", "jsonl"],
            capture_output=True,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def apis(self, trace="out"):
        return [call["api"] for call in self.calls(trace)]


def _environment(changes):
    drop = ("TORCHTRACE_", "PYTHONPATH")
    env = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    return {**env, "PYTHONDONTWRITEBYTECODE": "1", "TORCHTRACE_NO_SELF_TEST": "1", **changes}


def _execute(command, folder, env):
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        cwd=folder,
        env=_environment(env),
    )
    return Ended(done.returncode, done.stdout, done.stderr, folder)


def python(code, folder, *args, env=None):
    """Plain python, with the package on its path."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    return _execute(
        [sys.executable, script, *args], folder, {"PYTHONPATH": str(PACKAGE), **(env or {})}
    )


def run(code, folder, *options, quiet=True):
    """`torchtrace run`, without the package on any path."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    command = [TORCHTRACE, "run", *(["-q"] if quiet else []), "--python", sys.executable]
    command += ["-o", "out", *options, script]
    return _execute(command, folder, {})
