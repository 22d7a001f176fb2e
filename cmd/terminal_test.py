"""The output of the reading verbs on a terminal, and where a program hangs."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from tools.testing import whole_tool as tool
from tools.testing.terminal import Terminal

LOGS = tool.ROOT / "testdata/logs/v1"


def on_terminal(*args, cwd, columns=100, rows=50):
    """torchtrace's output on a terminal of that size, without colors."""
    terminal = Terminal(columns, rows)
    process = subprocess.Popen(
        [tool.TORCHTRACE, *map(str, args)],
        cwd=cwd,
        env=tool.environment({"PAGER": "", "NO_COLOR": "1"}),
        stdin=subprocess.DEVNULL,
        stdout=terminal.its,
        stderr=subprocess.DEVNULL,
    )
    return terminal.read_until_exit(process)


def write_calls(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# ---- dump ----


def test_long_lists_fold_on_a_terminal_alone(tmp_path):
    many = ", ".join(['Tensor([768], "float32")'] * 52)
    trace = write_calls(tmp_path / "calls.txt", f"torch.stack(list[{many}])")
    assert 'list[52 x Tensor([768], "float32")]' in on_terminal("dump", trace, cwd=tmp_path)
    piped = tool.torchtrace("dump", trace, cwd=tmp_path).out
    # The importer reads piped output.
    again = write_calls(tmp_path / "again.txt", piped.split(maxsplit=1)[1].strip())
    assert tool.torchtrace("diff", trace, again, cwd=tmp_path).status == 0
    for never in (["--fold", "never"], ["--format", "jsonl"]):
        assert "52 x" not in on_terminal("dump", trace, *never, cwd=tmp_path)
    assert "52 x" in tool.torchtrace("dump", trace, "--fold", "always", cwd=tmp_path).out


def test_lines_fit_on_the_terminal(tmp_path):
    calls = [f"torch.f({', '.join(map(str, range(100, 100 + count)))})" for count in range(1, 30)]
    trace = write_calls(tmp_path / "calls.txt", *calls)
    for columns in (60, 100):
        lines = on_terminal("dump", trace, cwd=tmp_path, columns=columns).splitlines()
        assert len(lines) == len(calls) and max(map(len, lines)) == columns
        assert lines[0].endswith("torch.f(100)") and lines[-1].endswith("...")
    assert "..." not in tool.torchtrace("dump", trace, "--fold", "always", cwd=tmp_path).out


def test_which_calls_dump_shows(tmp_path):
    sample = LOGS / "sample.ttlog"

    def calls(*args):
        result = tool.torchtrace("dump", sample, "--format", "jsonl", *args, cwd=tmp_path)
        assert (result.status, result.err) == (0, "")
        return [json.loads(line) for line in result.out.splitlines()]

    every = calls()
    assert calls("--tail", "3") == every[-3:]
    slowest = calls("--slowest", "4")
    ended = sorted((call["duration_ns"] for call in every if "duration_ns" in call), reverse=True)
    assert [call["duration_ns"] for call in slowest if "duration_ns" in call][:1] == ended[:1]
    assert {call["level"] for call in calls("--where", "level = 2")} == {2}
    assert calls("--calls", "1,3-4") == [every[1], every[3], every[4]]
    assert {call["depth"] for call in calls("--depth", "1")} == {0}
    one = every[-1]["thread"]
    assert calls("--thread", str(one)) == [call for call in every if call["thread"] == one]
    assert calls("-q", "--rank", "77") == []
    none = tool.torchtrace("dump", sample, "--rank", "77", cwd=tmp_path)
    assert (none.status, none.err) == (0, "torchtrace: no call matches --rank 77\n")
    both = tool.torchtrace("dump", sample, "--tail", "1", "--slowest", "1", cwd=tmp_path)
    assert both.status == 2 and "--slowest" in both.err
    text = write_calls(tmp_path / "calls.txt", "torch.f(1)")
    timeless = tool.torchtrace("dump", text, "--slowest", "1", cwd=tmp_path)
    assert timeless.status == 2 and "has no times" in timeless.err


# ---- a screen ----


def test_diff_fits_on_a_screen(tmp_path):
    def trace(name, batch, *more):
        calls = [f'torch.f{i}(Tensor([{batch}, {i + 3}], "float32"))' for i in range(60)]
        return write_calls(tmp_path / name, *calls, *more)

    a = trace("a.txt", 2)
    b = trace("b.txt", 4, "torch.gelu(1)", *[f"torch.new{i}()" for i in range(70)])
    shown = on_terminal("diff", a, b, cwd=tmp_path)
    assert len(shown.splitlines()) <= 50
    assert "\nbatch 2 -> 4 in 60 configs of 60 APIs\n" in shown
    assert "torch.gelu(1)\n" in shown and "torch.f7" not in shown
    assert re.search(
        r"\.\.\. and \d+ more, and 60 that this change explains; --all shows them\n", shown
    )
    for everything in (
        on_terminal("diff", a, b, "--all", cwd=tmp_path),
        tool.torchtrace("diff", a, b, cwd=tmp_path).out,
    ):
        assert "torch.f7(Tensor([2 -> 4, 10]" in everything and "--all" not in everything
        # Exceptions come first.
        assert everything.index("torch.gelu(1)") < everything.index("torch.f7(")


def test_tree_fits_on_a_screen(tmp_path):
    trace = write_calls(tmp_path / "calls.txt", *[f"torch.f{i}(1)" for i in range(90)])
    shown = on_terminal("tree", trace, cwd=tmp_path)
    assert len(shown.splitlines()) <= 50 and "50 branches are left out; --all shows them" in shown
    for args in (["--all"], ["--depth", "3"]):
        assert len(on_terminal("tree", trace, *args, cwd=tmp_path).splitlines()) == 91
    assert len(tool.torchtrace("tree", trace, cwd=tmp_path).out.splitlines()) == 91


def on_screen(shown, columns):
    """The number of terminal lines that it takes."""
    return sum(max(1, -(-len(line) // columns)) for line in shown.splitlines())


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Calls at two levels, with long names and arguments."""
    calls = []
    for i in range(200):
        sizes = ", ".join(str(i + j) for j in range(30))
        calls.append(f'torch.nn.functional.a_long_name_{i}(Tensor([{sizes}], "float32"))')
        calls.append(f'aten::an_operator_{i}.Tensor(Tensor([{sizes}], "float32"))')
    return write_calls(tmp_path_factory.mktemp("large") / "calls.txt", *calls)


@pytest.mark.parametrize("rows, columns", [(24, 80), (50, 120)])
@pytest.mark.parametrize(
    "command, rest",
    [
        (["stats"], "--top 0"),
        (["stats", "--by", "config"], "--top 0"),
        (["stats", "--by", "family"], "--top 0"),
        (["stats", "--by", "shapes"], "--top 0"),
        (["dedup"], "--all"),
        (["export", "text"], "--all"),
        (["export", "csv", "--calls"], "--all"),
        (["tree"], "--all"),
        (["apis", "coverage", "--show", "never"], "--all"),
        (["apis", "coverage", "--show", "called,never,outside"], "--all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_nobody_asked_for_fits_on_a_screen(tmp_path, large, command, rest, rows, columns):
    shown = on_terminal(*command, large, cwd=tmp_path, rows=rows, columns=columns)
    # The command itself and the next prompt need a line each.
    assert 0 < on_screen(shown, columns) <= rows - 2, shown
    assert f"{rest} shows" in shown.splitlines()[-1]
    everything = on_terminal(
        *command, large, *rest.split(), cwd=tmp_path, rows=rows, columns=columns
    )
    assert len(everything.splitlines()) > 100 and "shows" not in everything
    if command[0] != "stats":
        piped = tool.torchtrace(*command, large, cwd=tmp_path).out
        assert len(piped.splitlines()) == len(everything.splitlines()) and "shows" not in piped


def test_rows_that_take_several_lines_are_fewer(tmp_path):
    args = ("stats", LOGS / "sample.ttlog", "--times", "all")
    wide = on_terminal(*args, cwd=tmp_path, columns=200)
    narrow = on_terminal(*args, cwd=tmp_path, columns=60)
    assert "--top 0" not in wide and "--top 0" in narrow
    assert on_screen(narrow, 60) <= 50


# ---- where it hangs ----

HANGS = """
import threading, time, torch

class Slow(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        print("hangs", flush=True)
        time.sleep(1000)
        return y

lock = threading.Lock()
lock.acquire()

class Waits(torch.nn.Module):
    def forward(self, x):
        with lock:
            return x

threading.Thread(target=Waits(), args=(torch.ones(3),), daemon=True, name="waiter").start()
torch.nn.Sequential(Slow())(torch.ones(2))
"""


@pytest.mark.torch
def test_where_it_hangs(tmp_path):
    (tmp_path / "hangs.py").write_text(HANGS)
    command = [tool.TORCHTRACE, "run", "-q", "-o", "out", "--python", tool.PYTHON, "-l", "1,3"]
    command += ["--frames", "modules", "--stacks=all", "hangs.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=tool.environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "hangs\n"
        time.sleep(0.2)
        running = tool.torchtrace("info", "--open", "out", cwd=tmp_path)
        as_json = tool.torchtrace("info", "--open", "--format", "json", "out", cwd=tmp_path)
        process.send_signal(signal.SIGKILL)
    assert (running.status, running.err) == (0, "")
    assert re.match(r"main-\d+: running\n  thread 0 .*: 2 open calls\n", running.out)
    outer, inner = re.findall(r"\n +\d+  L3  (.*)", running.out)[:2]
    assert "Sequential" in outer and "Slow" in inner and "open for" in inner
    assert "hangs.py:20" in running.out
    assert re.search(r"\n  thread 1 .*: 1 open call\n.*Waits", running.out)
    (one,) = json.loads(as_json.out)["processes"]
    assert one["running"] is True
    assert one["threads"][0]["open"][-1]["open_ns"] > 200_000_000

    # Its open calls have no time: verbs that show times say so.
    stats = tool.torchtrace("stats", "out", cwd=tmp_path)
    assert "3 calls of out never returned, and had no time: torchtrace info --open out" in stats.err
    info = tool.torchtrace("info", "out", cwd=tmp_path)
    assert re.search(
        r"\nopen +3 calls never returned \(.* info --open out shows them\)\n", info.out
    )
    assert tool.torchtrace("stats", "-q", "out", cwd=tmp_path).err == ""

    killed = tool.torchtrace("info", "--open", "out", cwd=tmp_path)
    assert killed.status == 0
    assert re.match(r"main-\d+: killed; times are up to its last record\n", killed.out)
    assert "2 open calls" in killed.out and "Waits" in killed.out


# If the reader ends early, as with `| head`, the exit code stays the same.
WITHOUT_A_READER = {
    **{
        f"stats {f}": (0, ["stats", "T", "--format", f])
        for f in ["text", "json", "csv", "markdown"]
    },
    **{
        f"coverage {f}": (
            1,
            ["apis", "coverage", "T", "--list", "L", "--fail-under", "90", "--format", f],
        )
        for f in ["text", "json", "csv", "markdown"]
    },
    **{f"diff {f}": (1, ["diff", "T", "U", "--format", f]) for f in ["text", "json", "markdown"]},
    **{f"dedup {f}": (0, ["dedup", "T", "--format", f]) for f in ["text", "json", "csv", "yaml"]},
    **{f"export {f}": (0, ["export", f, "T"]) for f in ["text", "yaml", "json", "jsonl", "csv"]},
    **{f"export {f}": (0, ["export", f, "T"]) for f in ["chrome", "flamegraph", "torchbench"]},
    **{f"dump {f}": (0, ["dump", "T", "--format", f]) for f in ["text", "jsonl"]},
    **{f"tree {f}": (0, ["tree", "T", "--format", f]) for f in ["text", "json"]},
    **{f"info {f}": (0, ["info", "T", "--format", f]) for f in ["text", "json"]},
    "report": (0, ["report", "T", "-o", "-"]),
    "diff --sequence": (1, ["diff", "--sequence", "T", "U"]),
    "info --open": (0, ["info", "--open", "T"]),
    "name": (0, ["apis", "name", "aten::relu"]),
    "help": (0, ["help", "stats"]),
}


@pytest.mark.parametrize("what", WITHOUT_A_READER)
def test_a_reader_that_has_gone(tmp_path, what):
    expected, command = WITHOUT_A_READER[what]
    logs = tool.ROOT / "testdata/logs"
    (tmp_path / "L").write_text("aten::mm\naten::relu\naten::abs\naten::neg\n")
    named = {"T": logs / "v1/sample.ttlog", "U": logs / "v2/merged.ttlog"}
    command = [tool.TORCHTRACE, *(str(named.get(word, word)) for word in command)]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as out:
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=tool.environment(),
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == expected, done.stderr
    assert "cannot write" not in done.stderr
