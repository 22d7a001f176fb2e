"""`torchtrace run --stacks`: the lines that calls come from."""

import json
import subprocess

import pytest
import yaml

from tools.testing import whole_tool as tool

pytestmark = pytest.mark.torch

# Each call that is tested has its line number as an argument.
SCRIPT = """import threading
import functools
import torch

def line():
    import sys
    return sys._getframe(1).f_lineno

def here(n):
    torch.tensor(n)

def outer():
    def nested():
        torch.tensor(line())
    nested()

def generator():
    torch.tensor(line())
    yield
    torch.tensor(line())

def decorated(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@decorated
def plain():
    torch.tensor(line())

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x):
        torch.tensor(line())
        return self.inner(x)

torch.tensor(line())
outer()
plain()
list(generator())
[torch.tensor(line()) for _ in range(1)]
(lambda: torch.tensor(line()))()
exec("import torch\\ntorch.tensor(2)")
Net()(torch.ones(1, 2))
thread = threading.Thread(target=plain)
thread.start()
thread.join()
torch.tensor(
    52,
)
"""


def run(tmp_path, code, *options, module=False):
    script = tmp_path / "script.py"
    script.write_text(code)
    program = ["-m", "script"] if module else [script]
    result = tool.torchtrace(
        "run", "-q", "--python", tool.PYTHON, "-o", "out", *options, *program, cwd=tmp_path
    )
    assert result.status == 0, result.err
    return tmp_path / "out"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A trace of SCRIPT with all stacks."""
    folder = tmp_path_factory.mktemp("recorded")
    return run(folder, SCRIPT, "--stacks", "-l", "1,2", "--stack-format", "api")


def calls(trace, *options):
    result = tool.torchtrace("dump", "--format", "jsonl", *options, trace, cwd="/")
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def first_argument(call):
    argument = call["args"][0] if call["args"] else None
    return argument if isinstance(argument, int) else None


FUNCTIONS = [
    "<module>",
    "outer.<locals>.nested",
    "plain",
    "generator",
    "generator",
    "<listcomp>",
    "<lambda>",
    "<module>",
    "Net.forward",
    "plain",
    "<module>",
]


def check_lines(folder, level):
    every = calls(folder / "out")
    seen = [call for call in every if call["api"] == "torch.tensor" and call["level"] == level]
    assert [call["function"] for call in seen] == FUNCTIONS
    for call in seen:
        assert call["line"] == first_argument(call), call
        expected = "<string>" if call["args"] == [2] else str(folder / "script.py")
        assert call["file"] == expected


@pytest.mark.parametrize("levels, module", [("0", False), ("1", True), ("0,1,2", True)])
def test_lines(tmp_path, levels, module):
    run(tmp_path, SCRIPT, "--stacks=all", "-l", levels, module=module)
    for level in levels.split(",")[:2]:
        check_lines(tmp_path, int(level))


def test_lines_of_two_levels(recorded):
    check_lines(recorded.parent, 1)


def test_every_call_has_a_stack_and_inner_ones_that_of_their_caller(recorded):
    all_calls = calls(recorded)
    assert all_calls and all("line" in call for call in all_calls)
    by_number = {call["call"]: call for call in all_calls}
    inner = [call for call in all_calls if call["level"] == 2 and "parent" in call]
    assert len(inner) > 5
    for call in inner:
        parent = by_number[call["parent"]]
        assert (call["file"], call["line"]) == (parent["file"], parent["line"])


MODULES = """import torch
net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
def train(x):
    loss = net(x).sum()
    loss.backward()
train(torch.ones(1, 2))
def deep(n):
    return torch.zeros(1) if n == 0 else deep(n - 1)
deep(400)
for i in range(300):
    exec(compile("\\n" * i + "torch.tensor(%d)" % (i + 1), f"file{i}.py", "exec"))
"""


@pytest.fixture(scope="module")
def recorded_modules(tmp_path_factory):
    return run(tmp_path_factory.mktemp("modules"), MODULES, "--stacks=all", "-l", "1,2")


def test_stacks_of_module_calls_and_backward(recorded_modules):
    seen = {}
    for call in calls(recorded_modules, "--stacks=short"):
        seen.setdefault(call["api"], call)
    assert seen["torch.nn.functional.linear"]["line"] == 4
    assert seen["torch.nn.functional.relu"]["line"] == 4
    assert seen["aten::addmm"]["line"] == 4
    assert seen["torch.Tensor.backward"]["line"] == 5
    # On the CPU the backward pass runs in the call.
    assert seen["aten::threshold_backward"]["line"] == 5
    stack = seen["torch.nn.functional.relu"]["stack"]
    assert stack[-2:] == ["script.py:4 in train", "script.py:6 in <module>"]
    assert stack[0].startswith("activation.py:") and stack[0].endswith(" in forward")
    assert not any("torchtrace" in frame or "function_mode" in frame for frame in stack)


def test_calling_lines_are_outside_of_the_standard_library_and_generated_code(tmp_path):
    code = """import contextlib, functools, torch
@contextlib.contextmanager
def manager():
    yield
    torch.tensor(4)
with manager():
    pass
functools.reduce(torch.add, [torch.ones(1), torch.ones(1)])
def f(x):
    return torch.sin(x)
torch.compile(f, backend="aot_eager")(torch.ones(1))
exec("torch.tensor(1)", {"torch": torch})
"""
    out = run(tmp_path, code, "--stacks=all", "-l", "1,2")
    lines = {(call["api"], call["line"]) for call in calls(out)}
    # Code that Dynamo generates for a function has the line of its def.
    assert {("torch.tensor", 5), ("torch.add", 8), ("aten::sin", 9)} <= lines
    (call,) = [call for call in calls(out) if call["api"] == "torch.tensor" and call["args"] == [1]]
    assert (call["file"], call["line"]) == ("<string>", 1)
    for call in calls(out):
        assert call["file"] in (str(tmp_path / "script.py"), "<string>"), call


def test_first_three_sightings(tmp_path):
    code = """import torch
for _ in range(5):
    torch.ones(3)
for _ in range(2):
    torch.ones(4)
    torch.zeros(3)
"""
    out = run(tmp_path, code, "--stacks=first", "-l", "1")
    lines = [(call["args"], call.get("line")) for call in calls(out, "--include", "torch.ones")]
    assert lines == [([3], 3)] * 3 + [([3], None)] * 2 + [([4], 5)] * 2


def test_stats_by_line_add_up(recorded):
    out = recorded
    report = tool.torchtrace("stats", "--by", "line", "--format", "json", out, cwd="/")
    report = json.loads(report.out)
    assert sum(row["calls"] for row in report["lines"]) == report["total_calls"] == len(calls(out))
    text = tool.torchtrace("stats", "--by", "line", out, cwd="/").out
    assert "script.py:30 in plain\n" in text


def test_stacks_yaml(tmp_path, recorded):
    out = recorded
    stacks = yaml.safe_load((out / "api_stacks.yaml").read_text())
    assert set(stacks) == set((out / "api_apis.txt").read_text().splitlines())
    for api in stacks.values():
        assert list(api) == ["3stacks"]
        assert 1 <= len(api["3stacks"]) <= 3
        assert all(isinstance(frame, str) for stack in api["3stacks"] for frame in stack)
    assert ["__main__.script.py.<module>"] in stacks["torch.tensor"]["3stacks"]
    # In another form, and for each level.
    result = tool.torchtrace(
        "render",
        *["--formats", "stacks", "--stack-format", "full", "--no-merge-output", "-o", "again"],
        out,
        cwd=tmp_path,
    )
    assert result.status == 0, result.err
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == [
        "api_stacks_level_1.yaml",
        "api_stacks_level_2.yaml",
    ]
    stacks = yaml.safe_load((tmp_path / "again/api_stacks_level_1.yaml").read_text())
    script = out.parent / "script.py"
    assert [f'  File "{script}", line 41, in <module>\n    torch.tensor(line())'] in stacks[
        "torch.tensor"
    ]["3stacks"]


def test_filter_and_merge_keep_them(tmp_path, recorded):
    out = recorded

    def places(trace):
        return [
            (call["api"], call["file"], call["line"], call["stack"])
            for call in calls(trace, "--stacks=full", "--include", "torch.tensor")
        ]

    for verb in (["filter", "--include", "torch.tensor"], ["merge"]):
        result = tool.torchtrace(*verb, "-o", f"by-{verb[0]}", out, cwd=tmp_path)
        assert result.status == 0, result.err
        assert places(tmp_path / f"by-{verb[0]}") == places(out) != []
        assert (tmp_path / f"by-{verb[0]}/api_stacks.yaml").exists()


PRINTS = """import gc, sys, threading, torch, traceback
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
def work():
    for _ in range(50):
        net(torch.randn(2, 4)).sum().backward()
threads = [threading.Thread(target=work) for _ in range(2)]
work()
for thread in threads: thread.start(); thread.join()
print(sum(p.grad.sum().item() for p in net.parameters()))
frame = sys._getframe()
print(sys.getrefcount(frame), sys.getrefcount(work))
print(len([each for each in gc.get_objects() if type(each) is type(frame)]))
try:
    torch.ones(2) @ torch.ones(3)
except RuntimeError:
    traceback.print_exc()
def deep(n):
    return torch.ones(1) if n == 0 else deep(n - 1)
print(deep(400))
"""


def test_same_program(tmp_path):
    (tmp_path / "script.py").write_text(PRINTS)
    plain = tool.execute([tool.PYTHON, "script.py"], tmp_path)
    assert plain.status == 0
    for options in (["--stacks", "-l", "1,2"], ["--stacks=first", "-l", "2"]):
        traced = tool.torchtrace(
            "run",
            "-q",
            "-f",
            "--python",
            tool.PYTHON,
            "-o",
            "out",
            *options,
            "script.py",
            cwd=tmp_path,
        )
        assert traced.lines() == plain.lines()
    info = json.loads((tmp_path / "out/run.json").read_text())
    assert info["stacks"] == "first" and info["stack_format"] == "short"
    assert "stacks" in str(info)


def test_deep_stacks_are_cut_and_counted(recorded_modules):
    out = recorded_modules
    (call,) = [call for call in calls(out, "--stacks") if call["api"] == "torch.zeros"]
    assert call["stack"] == ["script.py:8 in deep"] * 256
    # One for each call: with an operator on level 2.
    levels = [call["level"] for call in calls(out) if call.get("function") == "deep"]
    cut = json.loads((out / "run.json").read_text())["cut"]
    assert cut == {"stacks": len(levels)} and set(levels) == {1, 2}


def test_code_that_comes_and_goes(recorded_modules):
    seen = [call for call in calls(recorded_modules) if call["api"] == "torch.tensor"]
    assert [(call["file"], call["line"]) for call in seen] == [
        (f"file{i}.py", i + 1) for i in range(300)
    ]


def test_a_killed_program_keeps_its_stacks(tmp_path):
    code = """import os, signal, torch
torch.ones(1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    (tmp_path / "script.py").write_text(code)
    command = [tool.TORCHTRACE, "run", "-q", "--stacks", "--python", tool.PYTHON, "-o", "out"]
    done = subprocess.run([*command, "script.py"], cwd=tmp_path, env=tool.environment())
    assert done.returncode == -9
    assert [call["line"] for call in calls(tmp_path / "out")] == [2]


def test_variables_and_errors(tmp_path):
    (tmp_path / "script.py").write_text("import torch\ntorch.ones(1)\n")

    def start(*options, **env):
        return tool.torchtrace(
            "run", "-q", "-f", "--python", tool.PYTHON, "-o", "out", *options, "script.py",
            cwd=tmp_path, env=env,
        )  # fmt: skip

    assert start(TORCHTRACE_STACKS="all").status == 0
    assert calls(tmp_path / "out")[0]["line"] == 2
    assert json.loads((tmp_path / "out/run.json").read_text())["stacks"] == "all"
    result = start("--stacks=some")
    assert result.status == 125 and "is not all or first" in result.err
    result = start("--stacks", "--stack-format", "long")
    assert result.status == 125 and "known: short, full, api" in result.err
    assert start().status == 0
    for verb in (
        ["dump", "--stacks"], ["stats", "--by", "line"], ["render", "--formats", "stacks"],
    ):  # fmt: skip
        result = tool.torchtrace(*verb, "out", cwd=tmp_path)
        assert result.status == 2 and "no stacks" in result.err
    assert not (tmp_path / "out/api_stacks.yaml").exists()
