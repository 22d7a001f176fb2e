"""torchtrace diff --time and --fail-on: numbers, noise, gates, exit codes, formats."""

import functools
import json
import tempfile
import textwrap
import xml.etree.ElementTree
from pathlib import Path

import pytest

from python.module_testing import PACKAGE
from tools.testing import whole_tool as tool

TINY = tool.ROOT / "testdata/logs/v1/tiny.ttlog"

# Each part of one process has a trace of its own, named like it.
PROGRAM = """
import torch, torchtrace
from torch import nn

class Last(nn.Module):
    def forward(self, x): return x.sum()

def train(steps, width, activation=torch.relu):
    of = nn.Sequential(nn.Linear(64, width), nn.Linear(width, 64), Last())
    optimizer = torch.optim.SGD(of.parameters(), lr=1e-3)
    for step in range(steps):
        of(activation(torch.ones(32, 64))).backward()
        optimizer.step()

PARTS = {
    "before": lambda: train(12, 64),
    "again": lambda: train(12, 64),
    "wide": lambda: train(12, 1024),
    "gelu": lambda: train(12, 64, nn.functional.gelu),
    "no_steps": lambda: torch.zeros(7),
}
torch.set_num_threads(1)
# Imports what a first step does.
train(1, 64)
for name, part in PARTS.items():
    with torchtrace.trace(name, levels=[1, 2, 3], memory=True, stacks=True, formats="none"): part()
"""


@functools.cache
def folder():
    place = Path(tempfile.mkdtemp())
    (place / "program.py").write_text(textwrap.dedent(PROGRAM))
    ended = tool.execute(
        [tool.PYTHON, "program.py"],
        cwd=place,
        env={"PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1"},
    )
    assert ended.status == 0, ended
    return place


def diff(*args):
    return tool.torchtrace("diff", *args, cwd=folder())


def diff_json(*args):
    result = diff("-q", *args, "--format", "json")
    assert result.err == "", result
    return json.loads(result.out)


pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("api", "apis"),
        ("config", "configs"),
        ("module", "modules"),
        ("line", "lines"),
        ("shapes", "shapes"),
    ],
)
def test_rows_are_those_of_stats(by, rows):
    """All of a trace that has nothing in common with the other one."""
    done = tool.torchtrace("stats", "before", "--by", by, "--format", "json", cwd=folder())
    totals = json.loads(done.out)
    report = diff_json("no_steps", "before", "--time", "--by", by)
    assert report["per"] == "run"
    assert report["b"]["calls"] == totals["total_calls"]
    assert report["b"]["self_time_ns"] == totals["total_self_time_ns"]
    # Files are relative here.
    labels = [name for name in totals[rows][0] if name in report["rows"][0] and name != "file"]
    assert labels

    def key(row):
        return json.dumps([row[name] for name in labels])

    numbers = ("calls", "self_time_ns", "allocated_bytes", "flops")
    expected = {
        key(row): [row[name] or 0 for name in numbers if name in row] for row in totals[rows]
    }
    has = [name for name in numbers if name in totals[rows][0]]
    found = {
        key(row): [row["traces"][1][name] for name in has]
        for row in report["rows"]
        if row["change"] == "added"
    }
    # What both have is not among them: what begins and ends a trace, what is in no module.
    assert len(expected) - 2 <= len(found) > 3
    for name, values in found.items():
        assert values == pytest.approx(expected[name]), name


def test_what_became_slower():
    report = diff_json("before", "wide", "--time")
    assert report["per"] == "step" and report["warm_up_steps"] >= 1
    assert report["a"]["steps"] == report["b"]["steps"] == 12 - report["warm_up_steps"]
    deltas = [abs(row["difference_ns"]) for row in report["rows"]]
    assert deltas == sorted(deltas, reverse=True)
    rows = {row["api"]: row for row in report["rows"]}
    # How slow it is, and what of it is noise, is up to the machine: time_diff_test.cc has that.
    assert rows["aten::mm"]["ratio"] > 0 and rows["aten::mm"]["noise_ns"] is not None
    a, b = rows["aten::mm"]["traces"]
    assert a["calls"] == b["calls"] == 3 and b["allocated_bytes"] > 4 * a["allocated_bytes"]
    assert report["b"]["peak_bytes"]["cpu"] > report["a"]["peak_bytes"]["cpu"]
    by_name = diff_json("before", "wide", "--time", "--sort", "name")["rows"]
    assert [row["api"] for row in by_name] == sorted(rows)
    assert len(diff_json("before", "wide", "--time", "--top", "2")["rows"]) == 2


def test_the_same_program_differs_by_noise():
    report = diff_json("before", "again", "--time")
    assert {row["change"] for row in report["rows"]} <= {"slower", "faster"}
    assert report["within_noise"] + len(report["rows"]) > 10
    result = diff("before", "again", "--time", "--skip-steps", "3")
    assert result.status == 0 and "per step: medians; noise" in result.out
    assert "+++ again   " in result.out and ", 9 steps\n" in result.out


GATES = "added-api,removed-api,added-config,removed-config,slower=%s,memory=50%%,flops=1%%"


@pytest.mark.parametrize(
    ("other", "fired"),
    [
        ("again", []),
        ("gelu", ["added-api", "removed-api", "added-config", "removed-config"]),
        ("wide", ["added-config", "removed-config", "memory=50%", "flops=1%"]),
    ],
)
def test_gates(other, fired):
    # No machine is so much slower from one moment to the next.
    gates = (GATES % "99999999%").split(",")
    # Not level 3, as a process numbers its models.
    chosen = ("before", other, "--level", "1,2", "--fail-on", ",".join(gates))
    result = diff("-q", *chosen)
    assert (result.status, result.err) == (1 if fired else 0, "")
    sentences = result.out.split("\n\n")[-1].splitlines()
    names = [line.split(": ")[0] for line in sentences]
    assert names[:-1] == [name.split("=")[0] for name in gates if name in fired]
    passed = [name for name in gates if name not in fired]
    assert sentences[-1] == "passed: " + ", ".join(passed)
    report = diff_json(*chosen)
    assert sorted(gate["gate"] for gate in report["gates"] if gate["fired"]) == sorted(fired)
    assert report["incomplete"] == []


def test_gates_of_configs_need_no_times():
    plain = diff("before", "gelu", "--level", "2")
    result = diff("before", "gelu", "--level", "2", "--fail-on", "added-api")
    assert result.status == 1
    assert result.out == plain.out + ("\nadded-api: only B calls aten::gelu (level 2), 12 calls\n")
    assert diff("before", "gelu", "--include", "aten::mm", "--fail-on", "added-api").status == 0
    # One that can't be checked doesn't pass.
    nothing = diff("before", "gelu", "--include", "torch.fft.fft", "--fail-on", "added-api")
    assert nothing.status == 2
    assert "cannot check added-api: neither trace has calls to compare" in nothing.err
    selected = diff(
        "before", "gelu", "--skip-steps", "4", "--fail-on", "added-api,slower=99999999%"
    )
    assert "only B calls torch.nn.functional.gelu (level 1), 8 calls;" in selected.out


def test_only():
    def changes(*args):
        rows = diff_json("before", "wide", "--level", "1", *args)["configs"]
        return {row["change"] for row in rows}

    assert changes("--only", "added") == {"added"}
    assert changes("--only", "added,removed") == {"added", "removed"}
    assert changes("--only", "changed") <= {"changed", "count"} != set()
    # A pair of similar configs is shown as what is new in it.
    rows = diff_json("before", "wide", "--only", "added", "--level", "2")["configs"]
    assert any("1024" in row["b"] and "a" not in row for row in rows)
    assert diff("before", "again", "--level", "1,2", "--only", "added").status == 0
    shown = diff_json("before", "gelu", "--time", "--only", "removed")["rows"]
    assert {row["change"] for row in shown} == {"removed"}


def test_what_a_gate_needs():
    for gate, needs in {
        "memory=1%": "has no memory: record it with torchtrace run --memory",
        "flops=1%": "has no call whose FLOPs are known: record level 2",
    }.items():
        result = diff("before", TINY, "--fail-on", gate)
        assert result.status == 2, result
        assert f"cannot check {gate}: {TINY} {needs}" in result.err


def test_formats():
    gates = ("--fail-on", "added-api,slower=99999999%,flops=1%")
    markdown = diff("before", "gelu", *gates, "--format", "markdown")
    assert markdown.status == 1
    lines = markdown.out.splitlines()
    assert lines[0] == "# torchtrace diff"
    assert lines[2].startswith("- **failed** `added-api: only B calls torch.nn.functional.gelu")
    assert "- passed: `slower=99999999%`, `flops=1%`" in lines
    table = [line for line in lines if line.startswith("|")]
    assert len(table) > 3 and len({line.replace("\\|", "").count("|") for line in table}) == 1
    junit = diff("before", "gelu", *gates, "--format", "junit")
    assert junit.status == 1
    (suite,) = xml.etree.ElementTree.fromstring(junit.out)
    assert suite.attrib["tests"] == "3" and suite.attrib["failures"] == "1"
    cases = {case.attrib["name"]: case for case in suite}
    assert list(cases) == ["added-api", "slower=99999999%", "flops=1%"]
    (failure,) = cases["added-api"]
    assert failure.tag == "failure" and "torch.nn.functional.gelu" in failure.attrib["message"]


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--by", "api"], "--by needs --time, or a gate of times"),
        (["--sort", "name"], "--sort needs --time, or a gate of times"),
        (["--format", "junit"], "give some with --fail-on"),
        (["--time", "--sequence"], "--time is not for --sequence"),
        (["--fail-on", "added-api", "--numbers"], "--fail-on is not for --numbers"),
        (["--time", "--by", "thread"], "cannot compare by thread"),
        (["--time", "--sort", "device"], "record it with torchtrace run --device-times"),
        (["--fail-on", "slower"], "gate slower needs a percentage from 0%: slower=10%"),
        (["--only", "new"], 'unknown part "new"'),
    ],
)
def test_wrong_use(options, what):
    result = diff("before", "again", *options)
    assert result.status == 2 and what in result.err, result


def test_one_trace_has_no_gates():
    result = diff("--across-ranks", "before", "--fail-on", "added-api")
    assert result.status == 2 and "--fail-on is not for --across-ranks" in result.err
