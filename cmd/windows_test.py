"""Options that record some of a program's calls, and count the others."""

import json

import pytest

from python.module_testing import PACKAGE
from tools.testing import whole_tool as tool

# 40 calls of f with 4 configs, then 10 of g on another thread, and as many in a forked process.
PROGRAM = """
import os, sys, threading
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mine
def work():
    for i in range(40): mine.f(i % 4)
    thread = threading.Thread(target=lambda: [mine.g() for _ in range(10)])
    thread.start(), thread.join()
if os.fork() == 0:
    work()
    os._exit(0)
os.wait()
work()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    (folder / "mine.py").write_text("def f(x): return x\ndef g(): pass\n")
    (folder / "program.py").write_text(PROGRAM)
    return folder


def run(folder, *options, program=("program.py",), status=0):
    words = ("run", "-fo", "out", "--library", "mine", "-l", "0", "--python", tool.PYTHON)
    ended = tool.torchtrace(*words, *options, *program, cwd=folder)
    assert ended.status == status, ended
    return ended


def totals(folder):
    """Calls and calls left out, of the two processes."""
    info = json.loads((folder / "out/run.json").read_text())
    processes = [(each["calls"], each.get("left_out")) for each in info["processes"]]
    assert sum(left_out or 0 for _, left_out in processes) == info.get("left_out", 0)
    return processes


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ((), 50),
        (("--skip", "45"), 5),
        (("--skip", "60"), 0),
        (("--max-calls", "7"), 7),
        (("--first", "2"), 10),
        (("--duration", "1h"), 50),
        (("--skip", "38", "--first", "1", "--max-calls", "2"), 2),
        (("--sample", "1"), 50),
    ],
)
def test_which_calls_are_recorded(folder, options, calls):
    ended = run(folder, *options)
    left_out = None if options in ((), ("--sample", "1")) else 50 - calls
    expected = [(calls, left_out)] * 2
    assert totals(folder) == expected
    info = tool.torchtrace("info", "out", cwd=folder).out
    if left_out:
        sentence = f"{left_out * len(expected)} calls left out by {' '.join(options)}\n"
        assert f"complete     yes, but for {sentence}" in info
        assert f"left out: {left_out * len(expected)} calls ({' '.join(options)})" in ended.err
    else:
        assert "complete     yes: no call was dropped, lost or cut\n" in info


def test_a_sample_is_the_same_in_each_run(folder):
    def sampled():
        run(folder, "--sample", "0.3", "-q")
        assert all(calls + left_out == 50 for calls, left_out in totals(folder))
        return (folder / "out/api_trace.txt").read_text()

    first = sampled()
    assert 10 < len(first.splitlines()) < 60
    assert sampled() == first


def test_a_call_that_is_open_at_the_end_of_the_window_ends(folder):
    (folder / "nested.py").write_text("def f(): return g()\ndef g(): pass\n")
    program = "import sys; sys.path[0:0] = ['.']; import nested; nested.f(), nested.g()"
    options = ("--library", "nested", "--max-calls", "1", "-q")
    run(folder, *options, program=("-c", program))
    dump = tool.torchtrace("dump", "out", "--format", "jsonl", cwd=folder).out
    (call,) = map(json.loads, dump.splitlines())
    assert call["api"] == "nested.f" and call["duration_ns"] > 0
    assert totals(folder) == [(1, 2)]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--sample", "0", "is not a number above 0, up to 1"),
        ("--sample", "nan", "is not a number above 0, up to 1"),
        ("--duration", "10", "is not a time such as 50us, 1.5ms or 2s"),
        ("--duration", "0s", "is less than 1 ns"),
        ("--max-calls", "0", "is less than 1"),
        ("--first", "-1", "is not a count"),
    ],
)
def test_bad_values(folder, option, value, message):
    ended = run(folder, option, value, status=125)
    assert option in ended.err and message in ended.err


def test_keywords_of_trace(folder):
    program = """
import sys; sys.path[0:0] = ["."]
import mine, torchtrace
with torchtrace.trace("part", library="mine", levels=[0], skip=2, max_calls=3, force=True):
    [mine.f(1) for _ in range(10)]
for wrong in ({"max_calls": 0}, {"first": -1}, {"sample": 0}, {"sample": 2}, {"duration": 0}):
    try:
        torchtrace.trace(**wrong)
    except ValueError as error:
        print(error)
"""
    env = {"PYTHONPATH": str(PACKAGE)}
    ended = tool.execute([tool.PYTHON, "-c", program], cwd=folder, env=env)
    assert ended.status == 0, ended
    assert len(ended.out.splitlines()) == 5
    info = json.loads((folder / "part/run.json").read_text())
    assert (info["counts"]["calls"], info["left_out"]) == (3, 7)


def test_a_forked_process_has_its_own_counts(folder):
    """Of each config, whatever its parent called before."""
    program = PROGRAM.replace("if os.fork() == 0:", "work()\nif os.fork() == 0:")
    program = program[: program.rindex("work()")]
    for options, calls in ((("--first", "2"), 10), (("--skip", "60"), 0)):
        run(folder, *options, program=("-c", program.replace("__file__", "'program.py'")))
        assert totals(folder) == [(calls, 50 - calls)] * 2
