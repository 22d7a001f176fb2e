"""torchtrace report: its page has what the other verbs say, and a browser shows it."""

import functools
import json
import math
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from serialize.report.page.testing.browser import CHROMIUM, Browser
from serialize.report.page.testing.page_data import PageData
from tools.testing import whole_tool as tool
from tools.testing.hostile_log import BAD, write_log

pytestmark = pytest.mark.torch

SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"

PROGRAM = """
import sys
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.mlp(x)


torch.manual_seed(0)
net = nn.Sequential(Block(), Block())
optimizer = torch.optim.AdamW(net.parameters())
for step in range(4):
    optimizer.zero_grad()
    loss = net(torch.randn(8, 16)).square().mean()
    loss.backward()
    optimizer.step()
MORE
torch.log(-torch.ones(2, 3, dtype=torch.float64)).sum()
"""


@functools.cache
def folder():
    """With the traces `a` and `b`, of programs that differ in a line before the end."""
    made = Path(tempfile.mkdtemp())
    shutil.copy(SAMPLE, made / "sample.ttlog")
    for name, more in (("a", ""), ("b", "for _ in range(30): torch.sin(torch.ones(3))\n")):
        (made / name).mkdir()
        (made / name / "train.py").write_text(PROGRAM.replace("MORE\n", more))
        options = "-q -l 1-3 --frames modules --stacks --memory --numbers -o ../trace_".split()
        options[-1] += name
        options += ["--python", tool.PYTHON]
        done = tool.torchtrace("run", *options, "train.py", cwd=made / name)
        assert done.status == 0, done.err
    return made


@functools.cache
def page(*words):
    name = "-".join(words) + ".html"
    done = tool.torchtrace("report", *words, "-o", name, cwd=folder())
    assert done.status == 0 and f"wrote {name}" in done.err, done.err
    return (folder() / name).read_text(encoding="utf-8")


def stats(trace, by, *options):
    done = tool.torchtrace(
        "stats", trace, "--by", by, "--sort", "bytes", "--format", "json", *options, cwd=folder()
    )
    return json.loads(done.out)


NAMES = {"time_ns": "time_ns", "self_ns": "self_time_ns"} | {
    name: name
    for name in (
        "calls configs apis wall_ns forward_ns backward_ns flops bytes "
        "allocated_bytes peak_bytes held_bytes"
    ).split()
}


TABLES = {
    "apis": "api",
    "configs": "config",
    "shapes": "shapes",
    "modules": "module",
    "lines": "line",
    "steps": "step",
}


@pytest.mark.parametrize("table", TABLES)
def test_its_tables_are_those_of_stats(table):
    expected = stats("trace_a", TABLES[table])[table]
    rows = PageData(page("trace_a")).table(table)
    names = [name for name in NAMES if name in rows[0]]
    assert {"calls", "self_ns", "allocated_bytes"} <= {*names}

    def amounts(row, names):
        values = [row[name] for name in names]
        return [-1 if value is None or math.isnan(value) else round(value) for value in values]

    ours = sorted(amounts(row, names) for row in rows)
    assert ours == sorted(amounts(row, [NAMES[name] for name in names]) for row in expected)
    assert len(ours) > 3


def test_rows_say_where_their_calls_were():
    rows = {(row["text"], *row["level"]): row for row in PageData(page("trace_a")).table("apis")}
    log = rows["torch.log", "1"]
    assert log["dtype"] == {"float64"} and log["dims"] == {"2"} and log["device"] == {"cpu"}
    assert log["line"] == {f"train.py:{PROGRAM.splitlines().index(LOG)}"}
    gelu = rows["torch.nn.functional.gelu", "1"]
    assert gelu["module"] == {"0.mlp.1 (GELU)", "1.mlp.1 (GELU)"}
    lines = {row["text"]: row for row in PageData(page("trace_a")).table("lines")}
    (forward,) = [
        row
        for text, row in lines.items()
        if "Block.forward" in text and "1.attention (Linear)" in row["module"]
    ]
    assert forward["level"] == {"1", "2", "3"} and forward["file"] == "train.py"


LOG = "torch.log(-torch.ones(2, 3, dtype=torch.float64)).sum()"


def test_the_call_trees_have_all_calls_and_all_time():
    data = PageData(page("trace_a"))
    totals = stats("trace_a", "level")
    for by in ("api", "module", "line"):
        nodes = [node for same in data.tree(by).values() for node in same]
        if by == "api":
            assert sum(node["calls"] for node in nodes) == totals["total_calls"]
        assert sum(node["self_ns"] for node in nodes) == pytest.approx(
            totals["total_self_time_ns"], rel=1e-3
        )
        assert sum(node["flops"] for node in nodes) == totals["total_flops"] > 0
        assert sum(node["allocated_bytes"] for node in nodes) > 0
    assert any(path[-1:] == ("0.mlp.1 (GELU)",) for path in data.tree("module"))


def test_the_timeline_has_each_call_once():
    data = PageData(page("trace_a"))
    head, rows = data.head["timeline"], data.block("timeline")
    threads = [track for track in head["tracks"] if track["kind"] == "thread"]
    calls = merged = 0
    for track in threads:
        for level in track["levels"]:
            calls += level["calls"][1]
        begin, many = track["levels"][0]["merged"]
        merged += int(rows["count"][begin : begin + many].sum())
    assert calls + merged == data.head["traces"][0]["calls"]
    (steps,) = [track for track in head["tracks"] if track["kind"] == "steps"]
    assert sum(level["calls"][1] for level in steps["levels"]) == 4


def test_memory_over_time_is_that_of_the_report_on_memory():
    data = PageData(page("trace_a"))
    (device,) = data.head["memory"]["devices"]
    done = tool.torchtrace("memory", "trace_a", "--format", "json", cwd=folder())
    (expected,) = json.loads(done.out)["devices"]
    assert device["peak_bytes"] == expected["peak_bytes"]
    columns = data.block(device["block"])
    all_bytes = sum(columns[f"kind_{k}"].astype("f8") for k in range(len(device["kinds"])))
    assert all_bytes.max() == expected["peak_bytes"]
    assert {"activation", "gradient", "optimizer state", "parameter"} <= {*device["kinds"]}


def test_the_first_nan_and_the_summary():
    head = PageData(page("trace_a")).head
    (first,) = head["numbers"]["first"]
    assert "torch.log" in first["title"] or "aten::log" in first["title"]
    summary = head["traces"][0]
    assert summary["complete"] is True and summary["program"] == ["train.py"]
    assert head["coverage"]["called"] > 5 and "sources" not in head


def test_two_traces_in_the_same_rows():
    data = PageData(page("trace_a", "trace_b"))
    assert [trace["name"] for trace in data.head["traces"]] == ["trace_a", "trace_b"]
    rows = {(row["text"], *row["level"]): row for row in data.table("apis")}
    assert rows["torch.sin", "1"]["calls"] == 0 and rows["torch.sin", "1"]["b_calls"] == 30
    assert rows["torch.log", "1"]["calls"] == rows["torch.log", "1"]["b_calls"] == 1
    # The line has another number in B.
    (log,) = [
        row
        for row in data.table("lines")
        if row["calls"] == row["b_calls"] and "(B: " in row["text"]
    ]
    assert log["text"].startswith("train.py:")
    sin = [path for path in data.tree("api") if path[-1:] == ("torch.sin",)]
    assert sin and sin[0][0].startswith("main thread 0")


def test_sources_are_in_the_page_only_if_asked_for(tmp_path):
    assert "class Block" not in page("trace_a")
    data = PageData(page("trace_a", "--sources"))
    columns = data.block("sources")
    assert columns["file"] == ["train.py"]
    assert columns["text"] == [(folder() / "a/train.py").read_text()]


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
@pytest.mark.parametrize(
    "words", [("trace_a", "--sources"), ("trace_a", "trace_b"), ("sample.ttlog", "trace_b")]
)
def test_a_browser_shows_every_view(words):
    page(*words)
    with Browser() as browser:
        shown = browser.open(folder() / ("-".join(words) + ".html"))
        views = shown.texts("nav a")
        assert len(views) >= 11
        for number in range(len(views)):
            shown.run(f"document.querySelectorAll('nav a')[{number}].click()")
            shown.settle()
            assert shown.run("!document.querySelector('[role=alert]')"), views[number]
        assert shown.problems() == []


@pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")
def test_any_text_of_a_trace_is_shown_as_text(tmp_path):
    write_log(tmp_path / "evil.ttlog")
    done = tool.torchtrace("report", "evil.ttlog", cwd=tmp_path)
    assert done.status == 0, done.err
    assert PageData((tmp_path / "report.html").read_text(encoding="utf-8")).table("apis")
    with Browser() as browser:
        shown = browser.open(tmp_path / "report.html")
        for number in range(len(shown.texts("nav a"))):
            shown.run(f"document.querySelectorAll('nav a')[{number}].click()")
            shown.settle()
            assert BAD.search(shown.run("document.body.innerText")) is None
        assert shown.problems() == []


def test_wrong_use(tmp_path):
    def fails(*words):
        done = tool.torchtrace("report", *words, cwd=tmp_path)
        assert done.status == 2 and done.err.startswith("torchtrace: "), done
        return done.err

    assert "TRACE is required" in fails()
    assert "nothing.ttlog" in fails("nothing.ttlog")
    (tmp_path / "report.html").write_text("mine")
    assert "report.html" in fails(SAMPLE) and (tmp_path / "report.html").read_text() == "mine"
    done = tool.torchtrace("report", SAMPLE, "-f", cwd=tmp_path)
    assert done.status == 0 and PageData((tmp_path / "report.html").read_text()).table("apis")
    done = tool.torchtrace("report", SAMPLE, "-o", "-", cwd=tmp_path)
    assert done.status == 0 and re.search("<!DOCTYPE html>", done.out)
