"""Runs programs with and without torchtrace, and reads what was recorded.

For tests of the whole tool: they run a script of testdata/scripts/torch/ as a user does.
"""

import functools
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tools.testing import whole_tool

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "testdata" / "scripts" / "torch"
TORCHTRACE = os.environ.get("TORCHTRACE", str(ROOT / ".build" / "bin" / "torchtrace"))
MARK = "marks.mark"


@dataclass
class Ended:
    """How a program ended."""

    stdout: str
    stderr: str
    exit_code: int

    def check(self):
        """Returns this, after a program that should have ended well."""
        assert self.exit_code == 0, f"exit code {self.exit_code}\n{self.stdout}\n{self.stderr}"
        return self


@dataclass
class Call:
    """One recorded call, arguments in the JSON form of docs/TEXT.md."""

    number: int
    parent: int | None
    process: str
    thread: int
    outcome: str
    exception: str | None
    level: int
    api: str
    args: list
    kwargs: dict

    @property
    def text(self):
        """The call in one string, in which True differs from 1 and 0.0 from -0.0."""
        return json.dumps([self.api, self.args, self.kwargs], sort_keys=True)


@dataclass
class Trace(Ended):
    """A traced program's end, and its trace. The folder goes with the object."""

    folder: Path
    keep: tempfile.TemporaryDirectory = field(repr=False)

    @functools.cached_property
    def run(self):
        """run.json."""
        return json.loads((self.folder / "run.json").read_text())

    @functools.cached_property
    def calls(self):
        """All calls in program order."""
        return read_calls(self.folder)

    def level(self, level):
        return [call for call in self.calls if call.level == level]

    def of(self, api):
        return [call for call in self.calls if call.api == api]

    def apis(self, level):
        return [call.api for call in self.level(level)]

    @functools.cached_property
    def sections(self):
        """The calls between `mark(name)` and the next mark on the same thread, by name."""
        sections, open_section = {}, {}
        for call in self.calls:
            place = (call.process, call.thread)
            if call.api == MARK:
                open_section[place] = sections.setdefault(call.args[0], [])
            elif place in open_section:
                open_section[place].append(call)
        return sections

    def section(self, name, level=None):
        return [call for call in self.sections[name] if level in (None, call.level)]

    def section_apis(self, name, level):
        return [call.api for call in self.section(name, level)]

    @property
    def own_lines(self):
        """torchtrace's own lines of stderr."""
        return [line for line in self.stderr.splitlines() if line.startswith("torchtrace: ")]

    @property
    def program_stderr(self):
        """stderr without torchtrace's own lines."""
        lines = self.stderr.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("torchtrace: "))


def tool(*arguments):
    """Runs a verb that reads traces and returns its output."""
    return subprocess.run(
        [TORCHTRACE, *map(str, arguments)], capture_output=True, text=True, check=True
    ).stdout


def read_calls(folder):
    """The calls of a trace folder or a log."""
    calls = []
    places = {}
    unfinished = {}
    for line in tool("dump", folder, "--format", "jsonl").splitlines():
        record = json.loads(line)
        # A call that lasts long is printed before its end, which follows in a line of its own.
        if "end_of_call" in record:
            call = unfinished[record["end_of_call"]]
            call.outcome, call.exception = record["outcome"], record.get("exception")
            continue
        if "later_of_call" in record:
            continue
        check_nesting(record, places)
        calls.append(
            Call(
                record["call"],
                record.get("parent"),
                record["process"],
                record["thread"],
                record["outcome"],
                record.get("exception"),
                record["level"],
                record["api"],
                record["args"],
                record["kwargs"],
            )
        )
        if record["outcome"] == "unfinished":
            unfinished[record["call"]] = calls[-1]
    return calls


def check_nesting(record, places):
    """A call lies in its parent, in time and on its thread."""
    start = record.get("time_ns", 0)
    end = start + record["duration_ns"] if "duration_ns" in record else None
    place = (record["process"], record["thread"])
    places[record["call"]] = (place, start, end)
    if "parent" in record:
        outer_place, outer_start, outer_end = places[record["parent"]]
        assert place == outer_place, record
        assert start >= outer_start, record
        assert outer_end is None or (end is not None and end <= outer_end), record


def program(script, *arguments):
    """The words that name a program: a script's name, a path, or code to run."""
    if "\n" in script or " " in script:
        return ["-c", script, *map(str, arguments)]
    return [str(SCRIPTS / script), *map(str, arguments)]


def environment(changes=None):
    """The environment for both ways of running."""
    own = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    return whole_tool.environment(own | (changes or {}) | {"PYTHONPATH": str(SCRIPTS)})


def trace(script, *arguments, levels="1,2", options=(), env=None, limit_file_bytes=None):
    """Runs a program under torchtrace."""
    keep = tempfile.TemporaryDirectory(prefix="torchtrace-test-")
    folder = Path(keep.name) / "out"
    work = Path(keep.name) / "work"
    work.mkdir()
    ended = subprocess.run(
        trace_command(folder, program(script, *arguments), levels, options),
        capture_output=True,
        text=True,
        errors="backslashreplace",
        cwd=work,
        env=environment(env),
        preexec_fn=limit_file_bytes and functools.partial(limit_files, limit_file_bytes),
    )
    return Trace(ended.stdout, ended.stderr, ended.returncode, folder, keep)


def trace_command(folder, words, levels="1,2", options=()):
    """The command line that traces a program into `folder`."""
    python = ["--python", sys.executable]
    return [TORCHTRACE, "run", *python, "-l", levels, "-o", str(folder), *options, "--", *words]


def untraced(script, *arguments, env=None):
    """Runs the same program with plain python, once however often it is asked for."""
    return _untraced(script, *arguments, env=tuple((env or {}).items()))


@functools.cache
def _untraced(script, *arguments, env):
    with tempfile.TemporaryDirectory(prefix="torchtrace-test-") as work:
        ended = subprocess.run(
            [sys.executable, *program(script, *arguments)],
            capture_output=True,
            text=True,
            errors="backslashreplace",
            cwd=work,
            env=environment(dict(env)),
        )
    return Ended(ended.stdout, ended.stderr, ended.returncode)


def extension(source, *options):
    """A library of C++ on top of this torch, for torch.ops.load_library. Kept in .build/."""
    import torch  # only tests that have it anyway

    if shutil.which("g++") is None:
        pytest.skip("there is no g++")
    package = Path(torch.__path__[0])
    command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", "-x", "c++", "-"]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command += ["-I", package / "include", "-I", package / "include/torch/csrc/api/include"]
    command += ["-L", package / "lib", "-ltorch_cpu", "-lc10", *options]
    made_of = "\n".join([torch.__version__, *map(str, command), source])
    path = ROOT / ".build/extensions" / f"{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        subprocess.run([*map(str, command), "-o", str(new)], input=source, text=True, check=True)
        new.rename(path)
    return path


def limit_files(limit):
    """No file of this process grows beyond `limit` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def tensor(*shape, dtype="float32", **more):
    """The JSON form of a tensor."""
    return {
        "type": "torch.Tensor",
        "shape": list(shape),
        "dtype": f"torch.{dtype}",
        "device": "cpu",
        **more,
    }


def tagged(kind, value, **more):
    """The JSON form of a value of a kind that JSON lacks."""
    return {"type": kind, "value": value, **more}
