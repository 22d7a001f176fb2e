"""`torchtrace stats`: options, formats, several traces, the census."""

import csv
import io
import json

import pytest

from tools.testing import whole_tool as tool

LOGS = tool.ROOT / "testdata/logs/v1"
SAMPLE = LOGS / "sample.ttlog"
KILLED = LOGS / "killed.ttlog"
GROUPINGS = {
    "api": "apis",
    "config": "configs",
    "family": "families",
    "level": "levels",
    "thread": "threads",
    "process": "processes",
    "rank": "ranks",
    "label": "labels",
}


def stats(*args):
    return tool.torchtrace("stats", *args, cwd="/")


def stats_json(*args):
    result = stats(*args, "--format", "json")
    assert result.status == 0 and result.err == ""
    return json.loads(result.out)


@pytest.mark.parametrize("by", GROUPINGS)
def test_formats_agree(by):
    for traces in ([SAMPLE], [SAMPLE, KILLED]):
        data = stats_json(*traces, "--by", by)
        rows = data[GROUPINGS[by]]
        assert sum(row["calls"] for row in rows) == data["total_calls"]
        table = list(csv.DictReader(io.StringIO(stats(*traces, "--by", by, "--format=csv").out)))
        assert [int(row["calls"]) for row in table] == [row["calls"] for row in rows]
        assert [int(row["self_time_ns"]) for row in table] == [row["self_time_ns"] for row in rows]
        text = stats(*traces, "--by", by).out.splitlines()
        assert text[0].startswith(f"{data['total_calls']} calls of {data['total_apis']} APIs")
        markdown = stats(*traces, "--by", by, "--format=markdown").out.splitlines()
        assert markdown[0] == text[0] and markdown[3].startswith("|--")
        assert len(markdown) == 4 + len(rows)


def test_side_by_side():
    one, two = stats_json(SAMPLE), stats_json(KILLED)
    both = stats_json(SAMPLE, KILLED, "--label", f"first={SAMPLE}")
    assert [trace["trace"] for trace in both["traces"]] == ["first", str(KILLED)]
    assert both["total_calls"] == one["total_calls"] + two["total_calls"]
    for row in both["apis"]:
        for number, alone in enumerate((one, two)):
            calls = [api["calls"] for api in alone["apis"] if api["api"] == row["api"]]
            assert row["traces"][number]["calls"] == sum(calls)
    # A trace beside itself: the sums are twice its own, the configs as many.
    twice = stats_json(SAMPLE, SAMPLE, "--sum")
    assert "traces" not in twice and twice["total_configs"] == one["total_configs"]
    assert [row["calls"] for row in twice["apis"]] == [2 * row["calls"] for row in one["apis"]]
    heading = stats(SAMPLE, KILLED, "--label", f"a={SAMPLE}", "--label", f"b={KILLED}").out
    assert heading.splitlines()[2].split() == ["a", "b"]


def test_orders_and_top():
    rows = stats_json(SAMPLE, "--sort", "name")["apis"]
    assert [row["api"] for row in rows] == sorted(row["api"] for row in rows)
    times = [row["time_ns"] for row in stats_json(SAMPLE, "--sort", "time")["apis"]]
    assert times == sorted(times, reverse=True)
    assert "... and 7 more\n" in stats(SAMPLE, "--top", "3", "--sort", "self").out


def test_counting_only():
    counted = stats_json(SAMPLE, "--no-times", "--by", "config")
    read = stats_json(SAMPLE, "--by", "config")
    assert counted["total_calls"] == read["total_calls"]
    assert "time_ns" not in counted["configs"][0] and "time_ns" in read["configs"][0]
    calls = {row["config"]: row["calls"] for row in read["configs"]}
    assert {row["config"]: row["calls"] for row in counted["configs"]} == calls


def test_groups_and_ignoring(tmp_path):
    some = stats_json(SAMPLE, "--include", "%matmul")
    assert {row["api"] for row in some["apis"]} == {"aten::mm", "torch.matmul", "torch.outer"}
    rest = stats_json(SAMPLE, "--exclude", "%matmul")
    assert some["total_calls"] + rest["total_calls"] == stats_json(SAMPLE)["total_calls"]
    mine = tmp_path / "groups.yaml"
    mine.write_text("mine: {names: [softmax], groups: [matmul]}\n")
    named = stats_json(SAMPLE, "--groups", mine, "--include", "%mine")
    assert named["total_calls"] == some["total_calls"] + 6
    everything = stats_json(SAMPLE, "--ignore", "shape,scalars,strings,dtype,device,stride,layout")
    assert everything["total_apis"] <= everything["total_configs"]
    assert everything["total_configs"] < stats_json(SAMPLE)["total_configs"]


def test_census():
    data = json.loads(stats(SAMPLE, "--census", "--format=json").out)
    levels = {row["level"]: row["calls"] for row in stats_json(SAMPLE, "--by", "level")["levels"]}
    assert data["total_calls"] == levels[2] == data["inside"] + data["outside"]
    # As `dump` nests them.
    calls = [
        json.loads(line)
        for line in tool.torchtrace("dump", SAMPLE, "--format", "jsonl", cwd="/").out.splitlines()
    ]
    by_number = {call["call"]: call for call in calls if "call" in call}

    def inside(call):
        parent = by_number.get(call.get("parent"))
        return parent is not None and (parent["level"] == 1 or inside(parent))

    operators = [call for call in by_number.values() if call["level"] == 2]
    assert data["inside"] == sum(inside(call) for call in operators)
    assert sum(row["outside"] for row in data["operators"]) == data["outside"]
    assert sum(row["outside"] for row in data["threads"]) == data["outside"]
    rows = list(csv.DictReader(io.StringIO(stats(SAMPLE, "--census", "--format=csv").out)))
    assert sum(int(row["outside"]) for row in rows) == data["outside"]
    text = stats(SAMPLE, "--census", "--top=1").out
    assert f"{data['outside']} outside" in text and "\n... and " in text


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--by", "apis", SAMPLE), 'cannot group by "apis", did you mean api?'),
        (("--sort", "speed", SAMPLE), 'cannot sort by "speed" (known: calls, configs, time'),
        (("--format", "yaml", SAMPLE), 'unknown format "yaml" (known: text, json, csv, markdown)'),
        (("--sort", "time", "--no-times", SAMPLE), "cannot sort by time: --no-times leaves"),
        (("--include", "%matmull", SAMPLE), "unknown group %matmull, did you mean %matmul?"),
        (("--groups", "/not/there", SAMPLE), "cannot read the groups in /not/there"),
        (("--ignore", "devise", SAMPLE), "did you mean device?"),
        (("--label", "x", SAMPLE), "'x' is not NAME=TRACE"),
        (("--label", "x=y", SAMPLE), "'y' is none of the traces"),
        (("--census", "--by", "api", SAMPLE), "--census has rows and an order of its own"),
        (("--census", LOGS / "tiny.ttlog"), "has only level 1: a census compares level 2"),
    ],
)
def test_trouble(args, message):
    result = stats(*args)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert result.err.startswith("torchtrace: ")


@pytest.mark.torch
def test_census_of_a_real_program(tmp_path):
    out = tmp_path / "out"
    script = tool.SCRIPTS / "train_mlp.py"
    run = tool.torchtrace(
        "run", "-qo", out, "-l1,2", "--formats=none", "--python", tool.PYTHON, script, cwd=tmp_path
    )
    assert run.status == 0
    data = json.loads(stats(out, "--census", "--format=json").out)
    # On the CPU the backward pass runs inside the call that asks for it.
    assert data["inside"] > 0.9 * data["total_calls"] > 0
    assert "aten::mm" in {row["api"] for row in data["operators"]}
    only = tmp_path / "only"
    run = tool.torchtrace(
        "run",
        "-qo",
        only,
        "-l2",
        "--formats=none",
        "--python",
        tool.PYTHON,
        "-c",
        "import torch; torch.ones(2)",
        cwd=tmp_path,
    )
    result = stats(only, "--census")
    assert result.status == 2 and "has only level 2" in result.err
