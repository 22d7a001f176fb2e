"""The steps of programs: what ends them, and the reports by step."""

import functools
import json
import tempfile
import textwrap
from pathlib import Path

import pytest

from python.module_testing import PACKAGE
from tools.testing import whole_tool as tool

pytestmark = pytest.mark.torch

# Each function is a part of one process with a trace of its own, named like it.
PROGRAM = """
import copy, functools, os, pickle, sys, threading, time, weakref
import torch, torchtrace
from torch import nn

def model():
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))

def loss_of(of): return of(torch.ones(3, 4)).sum()

def train(steps, optimizer, of):
    for i in range(steps):
        if i == steps - 2: time.sleep(0.1)
        optimizer.zero_grad()
        loss_of(of).backward()
        optimizer.step()

def plain():
    of = model()
    torch.zeros(7)
    train(5, torch.optim.SGD(of.parameters()), of)
    torch.zeros(8)

plain.options = {"memory": True}

def no_end():
    of = model()
    optimizer = torch.optim.Adam(of.parameters())
    train(2, optimizer, of)
    def fails(): raise KeyError
    try: optimizer.step(fails)
    except KeyError: pass
    torch.zeros(9)

def gan():
    generator, critic = model(), nn.Linear(1, 1)
    of_critic = torch.optim.Adam(critic.parameters())
    of_generator = torch.optim.SGD(generator.parameters())
    for i in range(3):
        loss_of(generator).backward()
        of_critic.step()
        critic(generator(torch.ones(1, 4))).sum().backward()
        of_generator.step()

def one_after_another():
    for i in range(2):
        of = model()
        train(3, torch.optim.SGD(of.parameters()), of)

# The first one lives on; the next eight steps, five and three of others, are one.
def kept_optimizers():
    kept = []
    for steps in (10, 5, 10):
        of = model()
        kept.append(torch.optim.SGD(of.parameters()))
        train(steps, kept[-1], of)

def scaler():
    of = model()
    optimizer = torch.optim.SGD(of.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for i in range(6):
        optimizer.zero_grad()
        loss = scaler.scale(loss_of(of))
        if i in (0, 3): loss = loss * float("inf")
        loss.backward()
        scaler.step(optimizer)
        scaler.update()

def two_scalers():
    generator, critic = model(), nn.Linear(1, 1)
    pairs = [(torch.optim.SGD(each.parameters()), torch.amp.GradScaler("cpu", init_scale=4.0))
             for each in (critic, generator)]
    for i in range(5):
        for which, (optimizer, scaler) in enumerate(pairs):
            loss = scaler.scale(critic(generator(torch.ones(1, 4))).sum())
            if i == 0 or i == 3 + which: loss = loss * float("inf")
            loss.backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()

def lbfgs():
    of = model()
    optimizer = torch.optim.LBFGS(of.parameters(), max_iter=3)
    for i in range(2):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(of) ** 2
            loss.backward()
            return loss
        optimizer.step(closure)

# As accelerate and Lightning do it: an optimizer around another one, closures, a scheduler that
# wraps `step`, batches that accumulate, a validation in between.
def wrapped():
    class Around(torch.optim.Optimizer):
        def __init__(self, optimizer): self.optimizer = optimizer
        def step(self, closure=None): return self.optimizer.step(closure)
    of = model()
    optimizer = torch.optim.AdamW(of.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    def closure(batches):
        for i in range(batches): loss_of(of).backward()
        return loss_of(of)
    for i in range(4):
        Around(optimizer).step(functools.partial(closure, 2))
        scheduler.step()
        optimizer.zero_grad()
        if i == 1:
            with torch.no_grad(): of(torch.ones(5, 4))

def own_classes():
    class Base(torch.optim.SGD):
        def step(self, closure=None): return super().step(closure)
    class Own(Base):
        def step(self, closure=None):
            super().step(closure)
            return super().step(closure)
    of = model()
    train(3, Own(of.parameters(), lr=0.1), of)
    other = copy.deepcopy(Own(of.parameters(), lr=0.1))
    assert pickle.loads(pickle.dumps(torch.optim.SGD(of.parameters()))).state_dict() == \\
        torch.optim.SGD(of.parameters()).state_dict()
    assert not weakref.getweakrefs(other)
    freed = weakref.ref(Own)
    del Own, Base, other
    import gc; gc.collect()
    assert freed() is None

def forward():
    of = model().eval()
    for i in range(4):
        with torch.no_grad(): of(torch.ones(2, 4))
        torch.zeros(5)

def on_forward():
    of = model()
    optimizer = torch.optim.SGD(of.parameters())
    for i in range(4):
        loss_of(of).backward()
        if i % 2: optimizer.step()
on_forward.options = {"step_on": "forward"}

def on_api():
    of = model()
    for i in range(3):
        of(torch.ones(1, 4))
        torch.add(torch.ones(1), 1)
        json_module.dumps({})
import json as json_module
on_api.options = {"step_on": "json.dumps", "memory": True}

def tagged():
    of = model()
    optimizer = torch.optim.SGD(of.parameters())
    for epoch in range(2):
        for i in range(2):
            with torchtrace.annotate(step=i, epoch=epoch): train(2, optimizer, of)
            torch.zeros(3)

def threads():
    of = model()
    def work():
        for i in range(3): of(torch.ones(1, 4))
    class Outer(nn.Module):
        def forward(self, x):
            workers = [threading.Thread(target=work) for _ in range(2)]
            [each.start() for each in workers]
            [each.join() for each in workers]
            return of(x)
    outer = Outer()
    for i in range(2): outer(torch.ones(1, 4))

def forked():
    of = model()
    optimizer = torch.optim.SGD(of.parameters())
    train(2, optimizer, of)
    if os.fork() == 0:
        train(3, torch.optim.SGD(of.parameters()), of)
        os._exit(0)
    assert os.wait()[1] == 0
    train(2, optimizer, of)

def some_steps():
    of = model()
    train(6, torch.optim.SGD(of.parameters()), of)
    torch.zeros(8)
some_steps.options = {"steps": "2-3,5"}

def no_more_steps():
    plain()
no_more_steps.options = {"max_steps": 2}

def first_module():
    for i in range(3): model()(torch.ones(1, 4))
first_module.options = {
    "steps": "-1",
    "levels": [3],
    "frames": "modules",
    "step_on": "forward",
}

def later_module():
    class Part(nn.Sequential): pass
    parts = [Part(nn.ReLU()) for i in range(3)]
    for part in parts: part(torch.ones(1, 4))
later_module.options = {**first_module.options, "steps": "2"}

def some_tagged():
    for i in range(4):
        with torchtrace.annotate(step=10 * i): torch.ones(2)
        torch.zeros(3)
some_tagged.options = {"steps": "10-20", "max_steps": 1}

def some_forked():
    forked()
some_forked.options = {"steps": "2"}

def too_few():
    forward()
too_few.options = {"steps": "9", "memory": True}

if __name__ == "__main__":
    for part in sys.argv[1:]:
        of = globals()[part]
        options = {"levels": [1], "formats": "none", **getattr(of, "options", {})}
        with torchtrace.trace(part, **options): of()
"""

PARTS = [
    line.split("def ")[1].split("(")[0]
    for line in PROGRAM.splitlines()
    if line.startswith("def ") and line.endswith("():")
][1:]


@functools.cache
def folder():
    place = Path(tempfile.mkdtemp())
    (place / "program.py").write_text(textwrap.dedent(PROGRAM))
    env = {"PYTHONPATH": str(PACKAGE)}
    ended = tool.execute([tool.PYTHON, "program.py", *PARTS], cwd=place, env=env)
    assert ended.status == 0, ended
    return place


def stats(part, *options):
    words = ("stats", part, "--by", "step", "--format", "json", *options)
    ended = tool.torchtrace(*words, cwd=folder())
    assert ended.status == 0, ended
    return json.loads(ended.out)


def names(part, *options):
    return [row["step"] for row in stats(part, *options)["steps"]]


BEFORE, AFTER = "before the first", "after the last"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("plain", [BEFORE, "1", "2", "3", "4", "5", AFTER]),
        ("no_end", [BEFORE, "1", "2", AFTER]),
        ("gan", [BEFORE, "1", "2", "3", AFTER]),
        ("one_after_another", [BEFORE, "1", "2", "3", "4", "5", "6"]),
        ("kept_optimizers", [BEFORE, *map(str, range(1, 19))]),
        ("scaler", [BEFORE, "1", "2", "3", "4", "5", "6"]),
        ("two_scalers", [BEFORE, "1", "2", "3", "4", "5", AFTER]),
        ("lbfgs", [BEFORE, "1", "2"]),
        ("wrapped", [BEFORE, "1", "2", "3", "4"]),
        ("own_classes", [BEFORE, "1", "2", "3"]),
        ("forward", [BEFORE, "1", "2", "3", "4", AFTER]),
        ("on_forward", [BEFORE, "1", "2", "3", "4", AFTER]),
        ("on_api", [BEFORE, "1", "2", "3"]),
        ("tagged", [BEFORE, "0", "1", "0", "1", "between steps"]),
        ("threads", [BEFORE, "1", "2"]),
        ("some_steps", ["2", "3", "5"]),
        ("no_more_steps", [BEFORE, "1", "2"]),
        ("first_module", ["1"]),
        ("some_tagged", ["10"]),
        ("some_forked", ["2"]),
    ],
)
def test_steps_end_with(part, expected):
    found = names(part)
    assert [name for name in found if name != AFTER] == [name for name in expected if name != AFTER]
    if AFTER in expected:
        assert found[-1] == AFTER


def test_a_row_is_a_step(tmp_path):
    report = stats("plain")
    rows = {row["step"]: row for row in report["steps"]}
    assert [row["number"] for row in report["steps"]] == [None, 1, 2, 3, 4, 5, None]
    # Every step makes the same calls, and all of them are in it.
    assert len({row["calls"] for name, row in rows.items() if name.isdecimal()}) <= 2
    assert sum(row["calls"] for row in rows.values()) == report["total_calls"]
    steps = [row for name, row in rows.items() if name.isdecimal()]
    assert all(row["wall_ns"] > row["time_ns"] > 0 for row in steps)
    assert rows[BEFORE]["wall_ns"] is rows[AFTER]["wall_ns"] is None
    # The fourth step slept.
    assert rows["4"]["wall_ns"] > 100e6
    times = report["step_times"]
    assert times["steps"] == 5 and times["p99_ns"] == rows["4"]["wall_ns"]
    assert "4" in [each["step"] for each in times["long"]]
    by_memory = stats("plain", "--sort", "memory")["steps"]
    assert [row["allocated_bytes"] for row in by_memory] == sorted(
        (row["allocated_bytes"] for row in rows.values()), reverse=True
    )
    assert rows["3"]["allocated_bytes"] > 0
    by_flops = stats("plain", "--sort", "flops")["steps"]
    assert len({row["flops"] for row in by_flops if row["number"]}) == 1
    assert by_flops[0]["flops"] > 0
    text = tool.torchtrace("stats", "plain", "--by", "step", cwd=folder()).out
    assert "5 steps: mean " in text and "; long: step" in text and "(after the last)" in text


def test_parameters_are_known_whatever_ends_steps():
    words = ("memory", "on_api", "--by", "kind", "--format", "json")
    ended = tool.torchtrace(*words, cwd=folder())
    assert ended.status == 0, ended
    kinds = {row["kind"]: row["bytes"] for row in json.loads(ended.out)["devices"][0]["rows"]}
    assert kinds["parameter"] == 4 * (4 * 4 + 4 + 4 + 1)


def test_a_forked_process_counts_its_own_steps():
    rows = {row["step"]: row for row in stats("forked")["steps"]}
    # 2 and 2 of the parent, 3 of the child.
    assert [name for name in rows if name.isdecimal()] == ["1", "2", "3", "4"]
    assert rows["2"]["calls"] == 2 * rows["4"]["calls"]


def test_only_the_steps_asked_for_are_recorded():
    chosen = stats("some_steps")
    # Also the last one before nothing is recorded has an end.
    assert all(row["wall_ns"] > row["time_ns"] for row in chosen["steps"])
    assert {row["calls"] for row in chosen["steps"]} == {stats("plain")["steps"][2]["calls"]}
    # The root module is in its step, though the step begins with it.
    called = tool.torchtrace("stats", "first_module", "--format", "csv", cwd=folder()).out
    assert "torch.nn.Sequential,3,1," in called
    # The search for modules' places isn't left to the steps that are recorded.
    called = tool.torchtrace("stats", "later_module", "--by", "module", cwd=folder()).out
    assert "Part_1" in called and "Part_0" not in called
    # The second step of both processes.
    assert stats("some_forked")["total_calls"] == stats("forked")["steps"][2]["calls"]
    info = tool.torchtrace("info", "some_steps", cwd=folder()).out
    assert "any calls in steps that --steps 2-3,5 leaves out" in info
    run = json.loads((folder() / "some_steps" / "run.json").read_text())
    assert run["steps"] == "2-3,5"
    run = json.loads((folder() / "too_few" / "run.json").read_text())
    # The process had optimizers before.
    assert run["not_seen"] == [
        "steps 9: the program ended in step 1, as no optimizer stepped "
        "(--step-on forward counts calls of modules)"
    ]
    assert run["counts"]["calls"] == 0
    # What was allocated without a call is known.
    ended = tool.torchtrace("memory", "too_few", cwd=folder())
    assert ended.status == 0 and "peak" in ended.out, ended


def test_tags_of_the_program_stay_its_own(tmp_path):
    calls = str(tmp_path / "calls.csv")
    ended = tool.torchtrace("export", "tagged", "--calls", "-o", calls, "-q", cwd=folder())
    assert ended.status == 0, ended
    text = Path(calls).read_text()
    assert "epoch" in text and "@" not in text
    assert "@" not in tool.torchtrace("dump", "plain", cwd=folder()).out


def test_merged_and_filtered_traces_keep_them(tmp_path):
    out = str(tmp_path / "some")
    words = ("filter", "plain", "--include", "*.linear", "-o", out, "-q")
    ended = tool.torchtrace(*words, cwd=folder())
    assert ended.status == 0, ended
    assert names(out) == ["1", "2", "3", "4", "5"]
    assert stats(out)["step_times"] == stats("plain")["step_times"]
    both = str(tmp_path / "both")
    ended = tool.torchtrace("merge", "plain", "gan", "-o", both, "-q", cwd=folder())
    assert ended.status == 0, ended
    assert names(both) == [BEFORE, "1", "2", "3", "4", "5", AFTER]


def test_steps_are_skipped(tmp_path):
    rows = stats("plain")["steps"]
    left = stats("plain", "--skip-steps", "3")
    assert [row["step"] for row in left["steps"]] == ["4", "5", AFTER]
    assert [row["calls"] for row in left["steps"]] == [row["calls"] for row in rows[4:]]
    assert left["step_times"]["steps"] == 2
    out = str(tmp_path / "some")
    words = ("filter", "plain", "--skip-steps", "3", "-o", out, "-q")
    assert tool.torchtrace(*words, cwd=folder()).status == 0
    assert names(out) == ["4", "5", AFTER]
    assert (
        json.loads((tmp_path / "some" / "run.json").read_text())["filtered"][-1]["skip_steps"] == 3
    )
    for words in (["dump"], ["tree"], ["export", "csv"], ["dedup"]):
        ended = tool.torchtrace(*words, "plain", "--skip-steps", "9", cwd=folder())
        assert ended.status == 0 and "no call matches --skip-steps 9" in ended.err, ended


def test_a_trace_without_steps(tmp_path):
    (tmp_path / "mine.py").write_text("def f(): pass\n")
    words = ("run", "-q", "-fo", "out", "-l", "0", "--library", "mine", "--python", tool.PYTHON)
    program = ("-c", "import mine; mine.f()")
    ended = tool.torchtrace(*words, "--steps", "3", "--max-steps", "2", *program, cwd=tmp_path)
    assert ended.status == 0, ended
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (run["steps"], run["max_steps"], run["counts"]["calls"]) == ("3", 2, 0)
    assert run["not_seen"] == ["steps 3: the program had no steps"]
    # One that starts a program with steps.
    steps = "'import torch, mine; mine.f(); mine.f()'"
    launcher = ("-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {steps}])")
    wanted = ("--step-on", "mine.f", "--steps")
    ended = tool.torchtrace(*words, *wanted, "2", *launcher, cwd=tmp_path)
    assert ended.status == 0, ended
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (len(run["processes"]), run["not_seen"]) == (2, [])
    ended = tool.torchtrace(*words, *program, cwd=tmp_path)
    assert ended.status == 0, ended
    ended = tool.torchtrace("stats", "out", "--by", "step", cwd=tmp_path)
    assert ended.status == 2 and "out has no steps: no optimizer stepped" in ended.err, ended
    ended = tool.torchtrace("tree", "out", "--skip-steps", "2", cwd=tmp_path)
    assert ended.status == 2 and "--skip-steps: the trace has no steps" in ended.err, ended


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("step-on", "optimiser", "'optimiser' is not auto, optimizer, forward or the name of"),
        ("step-on", "__main__.f", "a function of the program itself"),
        ("steps", "5-3", '"5-3" ends before it begins; 3-5?'),
        ("steps", "@file", '"@file" is not a list of steps'),
        ("max-steps", "0", "--max-steps"),
    ],
)
def test_bad_values(option, value, message, tmp_path):
    ended = tool.torchtrace("run", f"--{option}", value, "-c", "pass", cwd=tmp_path)
    assert ended.status == 125 and message in ended.err, ended
