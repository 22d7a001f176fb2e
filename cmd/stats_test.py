"""`torchtrace stats`: options, formats, several traces, the census."""

import csv
import io
import json

import pytest

from tools.testing import whole_tool as tool

LOGS = tool.ROOT / "testdata/logs/v1"
SAMPLE = LOGS / "sample.ttlog"
KILLED = LOGS / "killed.ttlog"
NUMBERS = LOGS / "numbers.ttlog"
GROUPINGS = {
    "api": "apis",
    "config": "configs",
    "family": "families",
    "shapes": "shapes",
    "level": "levels",
    "thread": "threads",
    "process": "processes",
    "rank": "ranks",
    "label": "labels",
}


def stats(*args):
    return tool.torchtrace("stats", *args, cwd="/")


def stats_json(*args):
    result = stats(*args, "-q", "--format", "json")
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
        assert len(text) <= 50
        markdown = stats(*traces, "--by", by, "--format=markdown", "--top=0").out.splitlines()
        assert markdown[0] == text[0]
        heads = sum(line.startswith("|--") for line in markdown)
        assert heads == (len(data["by_level"]) if "by_level" in data else 1)
        assert sum(line.startswith("| ") for line in markdown) == heads + len(rows)


def test_numbers(tmp_path):
    columns = ("least", "most", "largest_norm", "calls_with_nan", "calls_with_inf")
    rows = stats_json(NUMBERS, "--numbers")["apis"]
    found = {row["api"]: [row[column] for column in columns] for row in rows}
    assert found["aten::add_.Tensor"] == [1, 1, 2, 1, 1]
    assert found["aten::mul.Tensor"] == [-2, 0.25, pytest.approx(65**0.5 / 4), 1, 0]
    text = stats(NUMBERS, "--numbers", "--no-times", "--top=1").out
    assert text.splitlines()[2:4] == [
        "API               calls  calls %  configs  least  most    norm  nan calls  inf calls",
        "aten::mul.Tensor      2   40.00%        1     -2  0.25  2.0156          1          0",
    ]
    both = tmp_path / "both.ttlog"
    assert tool.torchtrace("merge", "-q", "-o", both, NUMBERS, SAMPLE, cwd="/").status == 0
    rows = stats_json(both, "--numbers", "--level=2")["apis"]
    assert {row["api"]: row["largest_norm"] for row in rows}["aten::add_.Tensor"] == 2
    assert {row["api"]: row["calls_with_nan"] for row in rows}["aten::mm"] is None


def test_side_by_side():
    one, two = stats_json(SAMPLE), stats_json(KILLED)
    both = stats_json(SAMPLE, KILLED, "--label", f"first={SAMPLE}")
    assert [trace["trace"] for trace in both["traces"]] == ["first", str(KILLED)]
    assert both["total_calls"] == one["total_calls"] + two["total_calls"]
    for row in both["apis"]:
        for number, alone in enumerate((one, two)):
            calls = [api["calls"] for api in alone["apis"] if api["api"] == row["api"]]
            assert row["traces"][number]["calls"] == sum(calls)
    # The same trace twice: the sums are twice those of one, the configs the same.
    twice = stats_json(SAMPLE, SAMPLE, "--sum")
    assert "traces" not in twice and twice["total_configs"] == one["total_configs"]
    assert [row["calls"] for row in twice["apis"]] == [2 * row["calls"] for row in one["apis"]]
    heading = stats(SAMPLE, KILLED, "--label", f"a={SAMPLE}", "--label", f"b={KILLED}").out
    assert heading.splitlines()[4].split() == ["a", "b"]


def test_orders_and_top():
    names = [(row["level"], row["api"]) for row in stats_json(SAMPLE, "--sort", "name")["apis"]]
    assert names == sorted(names)
    times = [
        (row["level"], -row["time_ns"]) for row in stats_json(SAMPLE, "--sort", "time")["apis"]
    ]
    assert times == sorted(times)
    shown = stats(SAMPLE, "--top", "3", "--sort", "self").out
    some = [
        sum(row["level"] == level["level"] for row in stats_json(SAMPLE)["apis"]) - 3
        for level in stats_json(SAMPLE)["by_level"]
    ]
    assert [f"... and {more} more (--top 0 shows all)" for more in some if more > 0] == [
        line for line in shown.splitlines() if line.startswith("... ")
    ]
    assert "more" not in stats(SAMPLE, "--top", "0").out


def test_self_times_are_shares_of_the_whole():
    for by in ("api", "thread"):
        data = stats_json(SAMPLE, "--by", by)
        whole = sum(row["self_time_ns"] for row in data[GROUPINGS[by]])
        assert whole == data["total_self_time_ns"]
    assert sum(level["total_self_time_ns"] for level in stats_json(SAMPLE)["by_level"]) == whole


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
    # Nested as in `dump`.
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
        (("--groups", "/not/there", SAMPLE), "the groups: cannot read /not/there"),
        (("--ignore", "devise", SAMPLE), "did you mean device?"),
        (("--label", "x", SAMPLE), "'x' is not NAME=TRACE"),
        (("--label", "x=y", SAMPLE), "'y' is not one of the traces"),
        (("--census", "--by", "api", SAMPLE), "--census has fixed rows and order"),
        (("--census", "--numbers", NUMBERS), "--census has fixed rows and order"),
        (("--numbers", SAMPLE), "has no numbers of tensors: record them with torchtrace run --nu"),
        (
            ("--by", "tag:step", SAMPLE),
            "has no calls with a tag step: torchtrace.annotate(NAME=VALUE)",
        ),
        (("--by", "tag", SAMPLE), "tag:NAME)"),
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


STEPS = """
import sys, torch, torchtrace
model = torch.nn.Linear(4, 4)
for step in range(3):
    torchtrace.annotate(step=step)
    for _ in range(step + 1):
        model(torch.ones(2, 4))
torchtrace.annotate(step=None, phase="end")
model(torch.ones(2, 4))
"""


@pytest.mark.torch
def test_tags_of_a_real_program(tmp_path):
    out = tmp_path / "out"
    run = tool.torchtrace(
        "run",
        "-qo",
        out,
        "-l1",
        "--formats=none",
        "--python",
        tool.PYTHON,
        "-c",
        STEPS,
        cwd=tmp_path,
    )
    assert run.status == 0, run.err
    rows = stats_json(out, "--by", "tag:step", "--include", "*.linear")["tags"]
    assert {row["value"]: row["calls"] for row in rows} == {0: 1, 1: 2, 2: 3, None: 1}
    assert "\n(no tag) " in stats(out, "--by", "tag:step").out
    some = tmp_path / "some"
    where = "tag(step) > 0 or tag(phase) = end"
    assert tool.torchtrace("filter", out, "-o", some, "--where", where, cwd="/").status == 0
    rows = stats_json(some, "--by", "tag:step", "--include", "*.linear")["tags"]
    assert {row["value"]: row["calls"] for row in rows} == {1: 2, 2: 3, None: 1}
    wrong = tool.torchtrace("dump", out, "--where", "tag(stpe) = 1", cwd="/")
    assert wrong.status == 2 and wrong.out == ""
    assert "no call of the trace has a tag named stpe, did you mean step?" in wrong.err


def test_unreadable_rules_of_ones_own(tmp_path):
    (tmp_path / "own.yaml").write_text("- names: [add]\n  flop: 7\n")
    failed = stats(SAMPLE, "--flops", tmp_path / "own.yaml")
    assert failed.status == 2
    assert f"--flops: {tmp_path}/own.yaml: line 2: unknown key flop" in failed.err
    missing = stats(SAMPLE, "--flops", tmp_path / "none.yaml")
    assert missing.status == 2 and "none.yaml" in missing.err


# Fused APIs with a formula of their own, and their products.
FUSED = """
import torch
x = torch.randn(2, 7, 16)
with torch.no_grad():
    torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()(x)
    torch.nn.Bilinear(16, 12, 8)(x, torch.randn(2, 7, 12))
    torch.nn.GRU(16, 12, 2, bidirectional=True)(x)
    torch.nn.LSTM(16, 12)(x)
"""


@pytest.mark.torch
def test_flops_of_fused_layers_are_those_of_the_products_in_them(tmp_path):
    (tmp_path / "fused.py").write_text(FUSED)
    options = ["-qo", "out", "-l2,4", "--formats=none", "--python", tool.PYTHON]
    run = tool.torchtrace("run", *options, "fused.py", cwd=tmp_path)
    assert run.status == 0, run.err
    data = stats_json(tmp_path / "out", "--by", "shapes")
    levels = {level["level"]: level for level in data["by_level"]}
    tokens = 2 * 7
    encoder = 2 * tokens * (4 * 16 * 16 + 2 * 16 * 32) + 4 * 2 * 7 * 7 * 16
    bilinear = 2 * tokens * 8 * 12 * (16 + 1)
    gru = 2 * tokens * 2 * 36 * ((16 + 12) + (24 + 12))
    lstm = 2 * tokens * 48 * (16 + 12)
    for level in levels.values():
        assert level["total_flops"] == encoder + bilinear + gru + lstm
        assert level["total_calls_without_formula"] == 0
    # Only the products.
    where = ["--where", "level = 4", "--include", "aten::mm", "--include", "aten::addmm"]
    where += ["--include", "aten::bmm", "--include", "aten::linear"]
    where += ["--include", "aten::_addmm_activation"]
    data = stats_json(tmp_path / "out", "--by", "shapes", *where)
    assert data["by_level"][0]["total_flops"] == encoder + bilinear + gru


# ---- selections ----


def filtered(tmp_path, *selection):
    done = tool.torchtrace("filter", SAMPLE, "-qfo", "some", *selection, cwd=tmp_path)
    assert done.status == 0, done.err
    return tmp_path / "some"


SELECTIONS = [
    ["--where", "level = 2 and duration < 1ms"],
    ["--where", "raised or duration > 1us", "--level", "1"],
    ["--calls", "3-20"],
    ["--thread", "0"],
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=" ".join)
def test_a_selection_counts_what_filter_keeps(tmp_path, selection):
    some = filtered(tmp_path, *selection)

    def lines(*args):
        done = tool.torchtrace(*args, cwd=tmp_path)
        assert done.status in (0, 1), done.err
        return done.out

    for by in ("config", "level"):
        counted = ["stats", "--by", by, "--format", "csv", "--sort", "name"]
        chosen = csv.DictReader(io.StringIO(lines(*counted, SAMPLE, *selection)))
        kept = csv.DictReader(io.StringIO(lines(*counted, some)))
        numbers = [
            [(row[by], row["calls"], row["percent"]) for row in rows] for rows in (chosen, kept)
        ]
        assert numbers[0] == numbers[1] != []
    dedup = ["dedup", "--counts"]
    assert lines(*dedup, SAMPLE, *selection) == lines(*dedup, some)
    if "--where" in selection:  # other conditions use numbers, which the filtered trace changes
        assert lines("diff", SAMPLE, some, *selection) == ""
        assert lines("diff", "--sequence", SAMPLE, some, *selection) == ""
        assert lines("diff", SAMPLE, some) != ""
    nodes = [
        sum(node["calls"] for node in json.loads(lines("tree", "--format", "json", *args)))
        for args in ([SAMPLE, *selection], [some])
    ]
    assert nodes[0] == nodes[1]


def test_a_selection_without_calls_is_told(tmp_path):
    for verb in (["stats"], ["tree"], ["dedup"], ["diff", SAMPLE]):
        done = tool.torchtrace(*verb, SAMPLE, "--where", "duration > 1000s", cwd=tmp_path)
        assert (done.status, done.err) == (
            0,
            "torchtrace: no call matches --where 'duration > 1000s'\n",
        )
        wrong = tool.torchtrace(*verb, SAMPLE, "--where", "dtype = floaty32", cwd=tmp_path)
        assert wrong.status == 2 and "floaty32" in wrong.err


def test_columns_are_told_apart():
    done = tool.torchtrace("stats", SAMPLE, KILLED, SAMPLE, cwd="/")
    assert done.status == 2 and "sample.ttlog was given twice" in done.err
    done = tool.torchtrace(
        "stats", SAMPLE, KILLED, "--label", f"a={SAMPLE}", "--label", f"a={KILLED}", cwd="/"
    )
    assert done.status == 2 and "are both called a" in done.err
