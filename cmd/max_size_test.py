"""`run --max-size`: calls are listed up to a size of all logs, and then counted."""

import json

import pytest

from python.module_testing import PACKAGE
from tools.testing import whole_tool as tool

MINE = "def f(x): return x\ndef g(): pass\n"
# f in threads, a forked process that is killed and a started one; g at each one's end.
PROGRAM = """
import os, signal, subprocess, sys, threading
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mine
def work(last=True):
    for i in range(40000): mine.f(i % 4)
    if last: mine.g()
if len(sys.argv) > 1:
    work()
    sys.exit()
threads = [threading.Thread(target=work, args=(False,)) for _ in range(2)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
if os.fork() == 0:
    work()
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
subprocess.run([sys.executable, __file__, "again"], check=True)
work()
"""
CALLS = {"mine.f": 200_000, "mine.g": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("max_size")
    (folder / "mine.py").write_text(MINE)
    (folder / "program.py").write_text(PROGRAM)
    words = (
        "run",
        "--library",
        "mine",
        "-l",
        "0",
        "--python",
        tool.PYTHON,
        "--render-limit",
        "1000000",
    )
    for name, options in (("all", ()), ("limited", ("--max-size", "300KB"))):
        ended = tool.torchtrace(*words, "-o", name, *options, "program.py", cwd=folder)
        assert ended.status == 0, ended
        (folder / f"{name}.err").write_text(ended.err)
    return folder


def info(folder, trace):
    return json.loads(tool.torchtrace("info", trace, "--format", "json", cwd=folder).out)


def size(folder):
    return sum(log.stat().st_size for log in folder.glob("log/*.ttlog"))


def test_the_size_is_of_all_processes(folder):
    limit = 300 << 10
    assert size(folder / "all") > 2 * limit
    # Each process adds what it says of itself, its counts and its end.
    assert limit - (64 << 10) < size(folder / "limited") < limit + 3 * (100 << 10)


def test_configs_and_counts_are_exact(folder):
    def configs(*words):
        return tool.torchtrace("dedup", "--counts", *words, cwd=folder).out

    for name in ("api_configs.yaml", "api_statistics.yaml", "api_apis.txt"):
        assert (folder / "limited" / name).read_text() == (folder / "all" / name).read_text()
    assert configs("limited") == configs("all")
    assert tool.torchtrace("diff", "limited", "all", cwd=folder).status == 0
    ordered = tool.torchtrace("diff", "--sequence", "limited", "all", cwd=folder)
    assert ordered.status == 2 and "limited: " in ordered.err and "are counted" in ordered.err
    tool.torchtrace("merge", "-fo", "merged.ttlog", "limited", "limited", cwd=folder)
    assert configs("merged.ttlog") == configs("all", "all")
    tool.torchtrace("filter", "-fo", "filtered.ttlog", "--include", "*.g", "limited", cwd=folder)
    assert configs("filtered.ttlog") == configs("--include", "*.g", "all")


def test_what_is_not_listed_is_told(folder):
    run = json.loads((folder / "limited/run.json").read_text())
    counted = run["only_counted"]
    assert counted == sum(each["only_counted"] for each in run["processes"])
    total = sum(CALLS.values())
    assert run["counts"]["calls"] == total
    sentence = (
        f"{counted} calls are counted, but not listed (--max-size): "
        "without order, time, thread and outcome"
    )
    assert sentence in (folder / "limited.err").read_text()
    dump = tool.torchtrace("dump", "limited", cwd=folder)
    assert f"limited: {sentence}\n" in dump.err
    assert len(dump.out.splitlines()) == total - counted
    listing = (folder / "limited/api_trace.txt").read_text().splitlines()
    assert sum(1 for line in listing if line.startswith("mine.")) == total - counted
    shown = tool.torchtrace("info", "limited", cwd=folder).out
    assert f"{counted} calls counted, but not listed, by --max-size 300KB\n" in shown
    assert "only_counted" not in info(folder, "all")


def test_sums_of_times_say_what_they_lack(folder):
    stats = tool.torchtrace("stats", "limited", "--format", "json", "--times", "all", cwd=folder)
    rows = {row["api"]: row for row in json.loads(stats.out)["apis"]}
    assert {api: row["calls"] for api, row in rows.items()} == CALLS
    assert rows["mine.f"]["min_ns"] > 0
    assert rows["mine.g"]["time_ns"] is None
    assert "calls have no times, and are left out of their sums" in stats.err
    by_thread = tool.torchtrace("stats", "limited", "--by", "thread", cwd=folder).out
    assert "unknown threads" in by_thread


def test_a_trace_within_a_program(folder):
    program = f"""
import sys; sys.path[:0] = [{str(PACKAGE)!r}, "."]
import mine, torchtrace
with torchtrace.trace("inside", levels=[0], library="mine", max_size="300KB"):
    for i in range(300_000): mine.f(1)
for bad in ("1 pound", -1):
    try:
        torchtrace.trace("no", max_size=bad)
    except ValueError as error:
        print(error)
"""
    ended = tool.execute([tool.PYTHON, "-c", program], cwd=folder)
    assert ended.status == 0, ended
    assert "max_size" in ended.out
    code = tool.torchtrace("export", "python", "inside", "--calls", "9999999", cwd=folder)
    assert code.status == 2 and "calls are counted, but not listed" in code.err
    run = info(folder, "inside")
    assert run["counts"]["calls"] == 300_000
    assert 0 < run["only_counted"] < 300_000


@pytest.mark.parametrize("option", ["--outermost", "--frame-depth=2"])
def test_what_is_inside_of_other_calls_is_not_known(folder, option):
    options = ("--max-size", "1MB", "-l", "0,3", option)
    ended = tool.torchtrace("run", *options, "program.py", cwd=folder)
    assert ended.status == 125
    name = option.strip("-").partition("=")[0]
    assert ended.err == (
        f"torchtrace: max-size can't be combined with {name}: what is inside of calls that are "
        "only counted is unknown\n"
    )


def test_wrong_sizes(folder):
    for size in ("much", "-1", "5 pounds"):
        ended = tool.torchtrace("run", "--max-size", size, "program.py", cwd=folder)
        assert ended.status == 125
        assert "--max-size" in ended.err
