"""`torchtrace top`: a program is watched while it runs, on a terminal and in a pipe."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from tools.testing import whole_tool as tool

# A thread that works, one that waits, and a forked process that waits.
PROGRAM = """
import os, threading, time
def step(): pass
def works():
    while True:
        for _ in range(20): step()
        time.sleep(0.001)
def waits(): time.sleep(1000)
def child_waits(): time.sleep(1000)
child = os.fork()
if child == 0: child_waits()
threading.Thread(target=works, daemon=True, name="worker").start()
print(child, flush=True)
waits()
"""


@contextlib.contextmanager
def running(folder):
    """The folder of the trace out, and the two processes."""
    (folder / "program.py").write_text(PROGRAM)
    command = [tool.TORCHTRACE, "run", "-q", "-o", "out", "-l", "3", "--formats", "none"]
    command += ["--frame-include", "program.py", "--python", tool.PYTHON, "program.py"]
    with subprocess.Popen(
        command, cwd=folder, env=tool.environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        pids = [process.pid]
        try:
            pids.append(int(process.stdout.readline()))
            deadline = time.monotonic() + 60
            while len(list(folder.glob("out/log/*.ttlog"))) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield folder, *pids
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    with running(tmp_path_factory.mktemp("top")) as it:
        yield it


def top(*args, cwd):
    result = tool.torchtrace("top", "-d", "200ms", *args, cwd=cwd)
    assert (result.status, result.err) == (0, "")
    return result.out


def test_once(program):
    folder, pid, child = program
    out = top("--once", "out", cwd=folder)
    assert re.match(
        r"out: 2 running; \d.* k calls/s\n\nprocess +calls/s  threads +log  open for", out
    )
    assert re.search(rf"\nmain-{pid} .* k +2 .* m?s  __main__.waits\(", out)
    assert re.search(rf"\nfork-{child} +0 +1 .* m?s  __main__.child_waits\(", out)
    # Each of the three threads is inside a call all the time.
    shares = {name: share for share, name in re.findall(r" (\S+)%  (__main__\.\S+)", out)}
    for name in ("waits", "child_waits"):
        assert 25 < float(shares[f"__main__.{name}"]) < 40
    assert re.search(r"\n +\d.* k .*%  __main__.step\n", out)


def test_processes_lead_to_their_trace(program):
    folder, pid, child = program
    for one in (pid, child, os.getpid()):
        assert f"\n{folder}/out: 2 running; " in "\n" + top("--once", one, cwd="/")


def test_json_is_a_line_for_each_reading(program):
    folder, pid, _ = program
    command = [tool.TORCHTRACE, "top", "-d", "100ms", "--format", "json", "out"]
    with subprocess.Popen(
        command, cwd=folder, env=tool.environment(), stdout=subprocess.PIPE
    ) as it:
        readings = [json.loads(it.stdout.readline()) for _ in range(2)]
        it.terminate()
    for reading in readings:
        main = next(one for one in reading["processes"] if one["pid"] == pid)
        assert main["running"] and main["calls_per_second"] > 0
        assert "__main__.waits" in [one["api"] for one in main["open"]]
        (step,) = [one for one in reading["apis"] if one["api"] == "__main__.step"]
        assert step["calls"] > 0
    assert readings[1]["processes"][0]["calls"] > readings[0]["processes"][0]["calls"]


class Terminal:
    """`torchtrace top` on a terminal of its own: it leads a session, as below a shell."""

    def __init__(self, folder, *args, columns=80, rows=24, interval="100ms", shell=()):
        self.ours, self.its = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.its)
        self.shown = b""
        self.process = subprocess.Popen(
            [*shell, tool.TORCHTRACE, "top", "-d", interval, *args],
            cwd=folder,
            env=tool.environment({"TERM": "xterm", "NO_COLOR": "1"}),
            stdin=self.its,
            stdout=self.its,
            stderr=self.its,
            start_new_session=True,
            preexec_fn=self.begin,
        )

    @staticmethod
    def begin():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.its)

    def resize(self, columns, rows):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        if select.select([self.ours], [], [], 0.05)[0]:
            self.shown += os.read(self.ours, 65536)

    def screen(self):
        """The last one that was drawn as a whole."""
        drawn = re.findall(rb"\x1b\[H(.*?)\x1b\[J", self.shown, re.S)
        return drawn[-1].decode().replace("\x1b[K", "").replace("\r", "") if drawn else ""

    def until(self, condition):
        """Waits for a screen of which that is true."""
        deadline = time.monotonic() + 30
        while not condition(self.screen()):
            assert time.monotonic() < deadline, self.screen()
            self.read()
        return self.screen()

    def until_it_shows(self, text):
        """Waits for a line that isn't on its screen."""
        deadline = time.monotonic() + 30
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self.read()

    def type(self, keys, condition):
        # What was drawn before doesn't count.
        self.shown = b""
        os.write(self.ours, keys)
        return self.until(condition)

    def end(self):
        """Its exit status, once the terminal is as it was."""
        deadline = time.monotonic() + 30
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self.read()
        while select.select([self.ours], [], [], 0)[0]:
            self.read()
        self.is_given_back()
        return self.process.returncode

    def is_given_back(self):
        assert self.shown.endswith(b"\x1b[?1049l")
        assert termios.tcgetattr(self.its) == self.before


def test_keys(program):
    folder, pid, child = program
    with Terminal(folder, "out") as terminal:
        screen = terminal.until(lambda text: "__main__.step" in text)
        assert len(screen.splitlines()) == 24 and max(map(len, screen.splitlines())) <= 80
        assert screen.startswith("out: 2 running; ") and "calls by self time" in screen
        screen = terminal.type(b"s", lambda text: "calls by calls" in text)
        calls = re.findall(r"%  __main__\.(\S+)", screen)
        assert calls[0] == "step"
        screen = terminal.type(b"s", lambda text: "calls by name" in text)
        calls = re.findall(r"%  __main__\.(\S+)", screen)
        assert calls == sorted(calls) and len(calls) >= 4
        assert re.search(rf"\nmain-{pid} .*\nfork-{child} ", screen)
        terminal.type(b"p", lambda text: "processes by calls" in text)
        terminal.type(b"p", lambda text: "processes by open call" in text)
        terminal.type(b"p", lambda text: "processes by log" in text)
        # Of calls, then of processes.
        screen = terminal.type(b"/stex\x7fp\xc3\xa9\x7f", lambda text: "\n/step_ " in text)
        assert re.findall(r"%  __main__\.(\S+)", screen) == ["step"]
        screen = terminal.type(b"\r", lambda text: "\n/step   q quit" in text)
        screen = terminal.type(b"\x1b", lambda text: "\nq quit" in text)
        screen = terminal.type(b"/fork\r", lambda text: "\n/fork   q quit" in text)
        assert re.findall(r"%  __main__\.(\S+)", screen) == ["child_waits"]
        assert f"main-{pid} " not in screen
        # Keys that mean nothing: arrows, function keys.
        terminal.type(b"\x1b[A\x1bOP\x1b[15~?", lambda text: text.startswith("Keys:\n"))
        terminal.type(b"x", lambda text: text.startswith("out: "))
        os.write(terminal.ours, b"q")
        assert terminal.end() == 0


def test_pause(program):
    with Terminal(program[0], "out") as terminal:
        terminal.until(lambda text: "__main__.step" in text)
        paused = terminal.type(b" ", lambda text: "PAUSED" in text)
        # Nothing is drawn without a key, and what a key draws is the same reading.
        terminal.shown = b""
        time.sleep(0.3)
        terminal.read()
        assert terminal.shown == b""
        assert terminal.type(b"x", lambda text: "PAUSED" in text) == paused
        terminal.type(b" ", lambda text: text and "PAUSED" not in text)
        os.write(terminal.ours, b"q")
        assert terminal.end() == 0


def test_any_size(program):
    with Terminal(program[0], "out", columns=200, rows=50) as terminal:
        wide = terminal.until(lambda text: "__main__.step" in text)
        assert len(wide.splitlines()) == 50
        assert "__main__.waits(file=" in wide and "..." not in wide
        for columns, rows in [(40, 10), (20, 3), (100, 30), (1, 1)]:
            terminal.shown = b""
            terminal.resize(columns, rows)
            screen = terminal.until(lambda text, rows=rows: len(text.split("\n")) == rows)
            assert max(map(len, screen.split("\n"))) <= max(columns, 20)
        os.write(terminal.ours, b"q")
        assert terminal.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_give_the_terminal_back(program, number):
    with Terminal(program[0], "out", interval="1h") as terminal:
        terminal.until(bool)
        if number == signal.SIGINT:
            os.write(terminal.ours, b"\x03")
        else:
            terminal.process.send_signal(number)
        assert terminal.end() == -number


def test_stopped_and_continued(program):
    shell = ["bash", "-c", 'set -m; "$@"; echo "stopped: $?"; read -r; fg', "bash"]
    with Terminal(program[0], "out", interval="1h", shell=shell) as terminal:
        terminal.until(bool)
        assert not termios.tcgetattr(terminal.its)[3] & termios.ECHO
        terminal.shown = b""
        os.write(terminal.ours, b"\x1a")
        terminal.until_it_shows(b"stopped: 148")
        assert b"\x1b[?1049l" in terminal.shown
        assert termios.tcgetattr(terminal.its) == terminal.before
        terminal.type(b"\n", lambda text: text.startswith("out: "))
        assert not termios.tcgetattr(terminal.its)[3] & termios.ECHO
        os.write(terminal.ours, b"q")
        assert terminal.end() == 0


def test_what_is_no_running_trace(program, tmp_path):
    folder = program[0]
    for args, message in [
        (["none"], "cannot read none: No such file or directory"),
        ([tmp_path], f"{tmp_path} holds no trace: expected logs named {tmp_path}/log/*.ttlog"),
        (["999999999"], "there is no process 999999999"),
        ([tool.ROOT / "testdata/logs/v2/merged.ttlog"], "nothing runs in it"),
        (["-d", "1ms", "out"], "--interval: '1ms' is less than 100 ms"),
        (["-d", "1", "out"], "--interval: '1' is not a time such as 50us, 1.5ms or 2s"),
    ]:
        result = tool.torchtrace("top", *args, cwd=folder)
        assert (result.status, result.out) == (2, "") and message in result.err
    ended = tool.torchtrace("top", tool.ROOT / "testdata/logs/v1/sample.ttlog", cwd=folder)
    assert ended.status == 0 and "1 ended" in ended.out


def test_deaths(tmp_path):
    with (
        running(tmp_path) as (folder, pid, child),
        Terminal(folder, "out", columns=120) as terminal,
    ):
        terminal.until(lambda text: "2 running" in text and "__main__.step" in text)
        os.kill(child, signal.SIGKILL)
        screen = terminal.until(lambda text: f"1 running, 1 killed: fork-{child}; " in text)
        # For as long as it was seen there.
        assert re.search(rf"\nfork-{child} .* m?s  killed in __main__.child_waits", screen)
        command = [tool.TORCHTRACE, "top", "-d", "100ms", "out"]
        with subprocess.Popen(
            command, cwd=folder, env=tool.environment(), stdout=subprocess.PIPE, text=True
        ) as piped:
            assert "1 running, 1 killed" in piped.stdout.readline()
            os.kill(pid, signal.SIGKILL)
            # It ends with the last process.
            rest = piped.stdout.read()
        assert piped.returncode == 0
        assert re.search(" out: 2 killed: ", rest)
        terminal.until(lambda text: text.startswith("out: 2 killed: "))
        os.write(terminal.ours, b"q")
        assert terminal.end() == 0
