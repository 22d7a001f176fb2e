"""`torchtrace ctl`: what running processes record, changed from outside."""

import json
import subprocess
import time

import pytest

from tools.testing import whole_tool as tool

# Each process calls f as often as each line says.
PROGRAM = """
import os, subprocess, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mine
child = None
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "child"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, bufsize=1)
for line in sys.stdin:
    for _ in range(int(line)): mine.f(1)
    if child is not None:
        print(line, end="", file=child.stdin, flush=True)
        child.stdout.readline()
    print("done", flush=True)
if child is not None:
    child.stdin.close()
    child.wait()
"""


class Program:
    def __init__(self, folder):
        self.folder = folder
        (folder / "mine.py").write_text("def f(x): return x\n")
        (folder / "program.py").write_text(PROGRAM)
        words = ["run", "-qo", "out", "--library", "mine", "-l", "0", "--python", tool.PYTHON]
        self.process = subprocess.Popen(
            [tool.TORCHTRACE, *words, "program.py"],
            cwd=folder,
            env=tool.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.call(1)

    def call(self, count):
        print(count, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"

    def ctl(self, *words, what="out", status=0):
        ended = tool.torchtrace("ctl", str(what), *words, cwd=self.folder)
        assert ended.status == status, ended
        return ended.out if status == 0 else ended.err

    def end(self):
        self.process.stdin.close()
        assert self.process.wait() == 0
        return json.loads((self.folder / "out/run.json").read_text())


@pytest.fixture
def program(tmp_path):
    program = Program(tmp_path)
    yield program
    program.process.kill()
    program.process.wait()


def test_orders(program):
    assert program.ctl("status").startswith("recording\n")
    program.call(4)
    assert program.ctl("pause") == "paused\n"
    program.call(100)
    assert program.ctl("resume", what=program.process.pid) == "recording\n"
    program.call(8)
    assert program.ctl("window", "1h").startswith("recording for another ")
    program.call(16)
    program.ctl("window", "1ms")
    time.sleep(0.01)
    program.call(100)
    lines = program.ctl("status").splitlines()
    assert lines[0] == "paused: the window is over"
    assert sorted(line.split(": ")[1] for line in lines[1:]) == ["29 calls", "29 calls"]
    program.ctl("resume")
    program.call(32)
    assert program.ctl("stop") == "stopped\n"
    program.call(100)
    assert "was stopped for good" in program.ctl("resume", status=2)
    info = program.end()
    assert [each["calls"] for each in info["processes"]] == [61, 61]
    assert [each["left_out"] for each in info["processes"]] == [300, 300]
    assert "paused" not in info and info["damage"]["lost_calls"] == 0
    said = tool.torchtrace("info", "out", cwd=program.folder).out
    assert "complete     yes, but for 600 calls left out by torchtrace ctl\n" in said
    assert "no process writes a trace to out now" in program.ctl("pause", status=2)


# The order is given before some of the calls, on two threads.
EVERY_LEVEL = """
import os, subprocess, sys, threading
import torch, torchtrace
def work():
    for _ in range(3):
        with torch.profiler.record_function("step"):
            model(torch.ones(2, 3)).sum().backward()
        torch.add(torch.ones(2), 1)
def ctl(order):
    subprocess.run([sys.argv[1], "ctl", str(os.getpid()), order], check=True, capture_output=True)
model = torch.nn.Linear(3, 3)
work()
torchtrace.resume()
work()
ctl(sys.argv[2])
work()
thread = threading.Thread(target=work)
thread.start(), thread.join()
ctl("resume")
work()
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    "options", [(), ("--exclude", "%nn", "--exclude", "*add*")], ids=["all", "some"]
)
def test_calls_that_are_held_back_are_counted(tmp_path, options):
    (tmp_path / "program.py").write_text(EVERY_LEVEL)
    totals = []
    for order in "resume", "pause":
        words = (
            "run",
            "-fqo",
            "out",
            "-l",
            "0-4",
            "--start-paused",
            # Calls of Python's own modules differ from run to run.
            "--frame-include=*program.py",
            "--python",
            tool.PYTHON,
            *options,
        )
        words += ("program.py", tool.TORCHTRACE, order)
        assert tool.torchtrace(*words, cwd=tmp_path).status == 0
        info = json.loads((tmp_path / "out/run.json").read_text())
        totals.append((info["counts"]["calls"], info.get("left_out", 0)))
    (recorded, none), (fewer, left_out) = totals
    assert none == 0 and left_out > 100 and fewer + left_out == recorded


# Each of these processes calls f only while it is held back.
HELD_FOR_LIFE = """
import os, signal, subprocess, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mine
def work(calls):
    for _ in range(calls): mine.f(1)
if sys.argv[1] == "again":
    sys.exit(work(7))
subprocess.run([sys.argv[1], "ctl", str(os.getpid()), "stop"], check=True, capture_output=True)
for end in (lambda: os._exit(0)), (lambda: os.kill(os.getpid(), signal.SIGKILL)):
    if os.fork() == 0:
        work(5)
        end()
    os.wait()
os.execv(sys.executable, [sys.executable, __file__, "again"])
"""


def test_processes_that_are_held_back_for_life(tmp_path):
    """The order holds when for a moment no process of the run is there."""
    (tmp_path / "mine.py").write_text("def f(x): return x\n")
    (tmp_path / "program.py").write_text(HELD_FOR_LIFE)
    words = ("run", "-fqo", "out", "-l", "0", "--library", "mine", "--python", tool.PYTHON)
    ended = tool.torchtrace(*words, "program.py", tool.TORCHTRACE, cwd=tmp_path)
    assert ended.status == 0, ended
    info = json.loads(tool.torchtrace("info", "out", "--format", "json", cwd=tmp_path).out)
    assert (info["counts"]["calls"], info["left_out"], info["left_out_exact"]) == (0, 12, False)
    assert sorted(each.get("left_out", 0) for each in info["processes"]) == [0, 0, 5, 7]
    said = tool.torchtrace("info", "out", cwd=tmp_path).out
    assert "12 calls left out by torchtrace ctl; not counted where a process did not end" in said


def test_a_cut_page_harms_nobody(program):
    lock = program.folder / "out/log/.lock"
    program.ctl("pause")
    with lock.open("r+") as file:
        file.truncate(0)
    program.call(5)
    assert "can't be controlled" in program.ctl("resume", status=2)
    assert [each["calls"] for each in program.end()["processes"]] == [6, 6]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonsense",), "unknown order"),
        (("window",), "window needs a time"),
        (("window", "10"), "is not a time such as"),
        (("pause", "10s"), "only window takes a time, not pause"),
        (("pause",), "no process writes a trace to nowhere now"),
        (None, "PID|DIR is empty: there is no such process"),
    ],
)
def test_wrong_use(tmp_path, words, message):
    words = ("", "pause") if words is None else ("nowhere", *words)
    ended = tool.torchtrace("ctl", *words, cwd=tmp_path)
    assert ended.status == 2 and message in ended.err, ended
