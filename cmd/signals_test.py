"""Ctrl-C, SIGTERM and the end of a terminal: no verb leaves an incomplete output, nor its temporary
files. Also tests the progress line.
"""

import os
import shutil
import signal
import subprocess
import time

import pytest

from tools.testing import whole_tool as tool
from tools.testing.terminal import Terminal

SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def start(args, cwd, **kwargs):
    # A background job of a shell, or of nohup, ignores some of the signals.
    for number in ENDINGS:
        if number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    return subprocess.Popen(
        [tool.TORCHTRACE, *map(str, args)],
        cwd=cwd,
        env=tool.environment(tool.WITH_PYARROW | (kwargs.pop("env", None) or {})),
        **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | kwargs,
    )


def wait_for(condition, process):
    end = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, ("ended too early", process.stderr.read())
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.001)


def interrupted(process, number):
    """Sends the signal; the process must die of it without printing anything."""
    process.send_signal(number)
    status = process.wait(60)  # with its input still open
    out, err = process.communicate()
    assert (status, out, err) == (-number, b"", b"")


# Each waits for its input after beginning its outputs.
WAITING = {
    "merge": (["merge", SAMPLE, "-", "-o", "OUT"], 1),
    "dedup": (["dedup", SAMPLE, "-", "-o", "OUT.csv"], 1),
    "dedup --audit": (["dedup", "-", "--generalize", "--audit=OUT.json", "-o", "OUT.txt"], 2),
    "export": (["export", "jsonl", SAMPLE, "-", "-o", "OUT"], 1),
    "export --calls": (["export", "csv", "--calls", SAMPLE, "-", "-o", "OUT"], 1),
    "export parquet": (["export", "parquet", SAMPLE, "-", "-o", "OUT"], 1),
    "export torchbench": (["export", "torchbench", "-", "-o", "OUT"], 1),
}


@pytest.mark.parametrize("verb", WAITING)
def test_while_input_is_awaited(tmp_path, verb):
    command, outputs = WAITING[verb]
    for force in (False, True):
        if force:
            for name in ("OUT.csv", "OUT.json", "OUT.txt"):
                (tmp_path / name).write_text("old")
            if verb == "merge":
                shutil.copytree(SAMPLE.parent, tmp_path / "OUT/log")
            else:
                (tmp_path / "OUT").write_text("old")
        before = tree(tmp_path)
        for number in ENDINGS:
            process = start([*command, *(["-f"] if force else [])], tmp_path)
            wait_for(lambda: len(list(tmp_path.glob(".OUT*.tmp"))) == outputs, process)
            interrupted(process, number)
            assert tree(tmp_path) == before


@pytest.mark.parametrize("number", ENDINGS)
@pytest.mark.parametrize("seconds", [0.01, 1])
def test_parquet_on_standard_output(tmp_path, number, seconds):
    """Also while Python starts."""
    process = start(["export", "parquet", "-"], tmp_path)
    time.sleep(seconds)
    interrupted(process, number)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A trace whose reading and writing takes a while: half a million calls."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "list").write_text(f"{SAMPLE}\n" * 4_000)
    command = ["merge", "--manifest", "list", "-qo", "trace", "--formats", "none"]
    assert tool.torchtrace(*command, cwd=folder).status == 0
    return folder / "trace"


# With a pattern of the files that show the output is being written.
WRITING = {
    "filter": (["filter", "TRACE", "-o", "new/OUT"], "new/.OUT.*/log/.filtered.ttlog.*"),
    "filter --where": (["filter", "TRACE", "-o", "OUT", "--where", "returned"], ".OUT.*/log/.f*"),
    "merge": (["merge", "TRACE", "TRACE", "-o", "new/OUT"], "new/.OUT.*/log/.merged*"),
    "render": (["render", "TRACE", "-o", "new/OUT"], "new/OUT/.api_trace.yaml.*"),
    "export --calls": (["export", "csv", "--calls", "TRACE", "-o", "OUT"], ".OUT.*"),
}


@pytest.mark.parametrize("verb", WRITING)
@pytest.mark.parametrize("number", ENDINGS)
def test_while_output_is_written(tmp_path, large, verb, number):
    command, written = WRITING[verb]
    limit = ["--render-limit", "100000000"] if verb in ("merge", "filter") else []
    process = start([large if w == "TRACE" else w for w in command] + limit, tmp_path)

    def begun():
        return any(path.stat().st_size > 0 for path in tmp_path.glob(written))

    wait_for(begun, process)
    interrupted(process, number)
    assert tree(tmp_path) == {}


def test_rendering_in_place_keeps_what_is_there(tmp_path, large):
    shutil.copytree(large, tmp_path / "trace")
    (tmp_path / "trace/api_trace.yaml").write_text("old")
    before = tree(tmp_path)
    for number in ENDINGS:
        process = start(["render", "-f", "trace"], tmp_path)
        wait_for(lambda: list(tmp_path.glob("trace/.api_trace.yaml.*")), process)
        interrupted(process, number)
        assert tree(tmp_path) == before


def test_an_ignored_signal_stays_ignored(tmp_path):
    """As under nohup."""
    command = ["export", "text", "-", "-o", "OUT"]
    process = start(
        command, tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    wait_for(lambda: list(tmp_path.glob(".OUT*")), process)
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(b"torch.add(1, 2)\n", timeout=60)
    assert process.returncode == 0, err
    assert (tmp_path / "OUT").read_text() == "torch.add(1, 2)\n"


# ---- the progress line ----

READERS = {
    "stats": ["stats", "-"],
    "stats --census": ["stats", "--census", "-"],
    "info": ["info", "-"],
    "dump": ["dump", "-"],
    "render": ["render", "-", "-o", "render"],
    "merge": ["merge", "-", "-o", "merge", "--formats=none"],
    "dedup": ["dedup", "-"],
    "diff": ["diff", SAMPLE, "-"],
    "diff --sequence": ["diff", "--sequence", SAMPLE, "-"],
    "filter": ["filter", "-", "-o", "filter"],
    "export": ["export", "csv", "-"],
    "export --calls": ["export", "jsonl", "--calls", "-", "-o", "calls"],
}
QUIET = [
    verb for verb in READERS if verb.split()[0] in ("render", "merge", "dedup", "filter", "export")
]


class Slow:
    """A verb with a terminal as standard error, whose input arrives slowly."""

    def __init__(self, args, cwd, terminal=True, env=None):
        self.terminal = Terminal() if terminal else None
        stderr = self.terminal.its if terminal else subprocess.PIPE
        env = {"TERM": "xterm"} | (env or {})
        with open(cwd / f"{len(os.listdir(cwd))}.out", "wb") as out:
            self.process = start(args, cwd, stdout=out, stderr=stderr, env=env)

    def feed(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def finish(self):
        """The exit code, and the terminal's contents."""
        self.process.stdin.close()
        if self.terminal:
            text = self.terminal.read_until_exit(self.process)
        else:
            text = self.process.stderr.read().decode()
        return self.process.wait(60), text


def seen(processes):
    """What each shows while its input takes more than a second, half of it early and half late."""
    log = SAMPLE.read_bytes()
    for process in processes.values():
        process.feed(log[:20_000])
    time.sleep(1.2)  # the line comes after a second of work
    for process in processes.values():
        process.feed(log[20_000:])
    return {verb: process.finish() for verb, process in processes.items()}


def test_progress_on_a_terminal_beyond_a_second(tmp_path):
    results = seen({verb: Slow(command, tmp_path) for verb, command in READERS.items()})
    for verb, (code, text) in results.items():
        assert code == 0, (verb, text)
        assert "\r\x1b[Kreading" in text or verb == "filter" and "\r\x1b[Kfiltering" in text, verb
        if verb.startswith("diff"):
            assert "\r\x1b[Kreading trace 2 of 2: 32.8 kB" in text, verb
        elif verb == "stats":
            assert "\r\x1b[Kreading: 32.8 kB" in text
        # The line is gone before other messages, and at the end.
        lines = text.split("\n")
        for line in lines:
            assert line.rsplit("\x1b[K", 1)[-1].startswith(("torchtrace: ", "")), (verb, text)
        assert "kB" not in lines[-1].rsplit("\x1b[K", 1)[-1], (verb, text)


def test_no_progress_with_quiet_nor_elsewhere_than_on_a_terminal(tmp_path):
    processes = {f"{verb} -q": Slow([*READERS[verb], "-q"], tmp_path) for verb in QUIET}
    (tmp_path / "pipe").mkdir()
    (tmp_path / "dumb").mkdir()
    for verb, command in READERS.items():
        processes[verb] = Slow(command, tmp_path / "pipe", terminal=False)
    processes["stats TERM=dumb"] = Slow(READERS["stats"], tmp_path / "dumb", env={"TERM": "dumb"})
    for verb, (code, text) in seen(processes).items():
        assert code == 0, (verb, text)
        assert "\x1b" not in text and "reading" not in text, (verb, text)
        if verb.endswith("-q"):
            assert text == "", verb


def test_no_progress_into_output_on_the_same_terminal(tmp_path):
    """The output stays readable."""
    terminal = Terminal()
    process = start(
        ["dump", "-", "--fold", "never"],
        tmp_path,
        stdout=terminal.its,
        stderr=terminal.its,
        env={"TERM": "xterm", "PAGER": "cat"},
    )
    log = SAMPLE.read_bytes()
    process.stdin.write(log[:20_000])
    process.stdin.flush()
    time.sleep(1.2)
    process.stdin.write(log[20_000:])
    process.stdin.close()
    shown = terminal.read_until_exit(process)
    assert process.returncode == 0
    before, after = shown.split("\r\x1b[K", 1)[1].rsplit("\r\x1b[K", 1)
    assert before.startswith("reading: ") and "torch.outer(0)" in after.splitlines()[0]
    assert after.count("\n") == 121
