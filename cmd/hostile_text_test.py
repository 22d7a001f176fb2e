"""With any strings in a trace and any file names, only plain lines are printed."""

import csv
import io
import json
import re

import pytest

from tools.testing import whole_tool as tool
from tools.testing.hostile_log import BAD, EVIL, STACKS, write_log


def check(result, command):
    for stream in (result.out, result.err):
        found = BAD.search(stream)
        assert found is None, (command, stream[max(0, found.start() - 80) : found.end() + 20])
        assert not re.search("[\udc80-\udcff]", stream), (command, stream)
        fakes = [
            line
            for line in stream.splitlines()
            if re.match("(torchtrace: )?(FAKE|torchtrace: FAKE)", line)
        ]
        assert not fakes, (command, fakes)
    assert all(line.startswith("torchtrace: ") for line in result.err.splitlines()), (
        command,
        result.err,
    )


VERBS = [
    *(["info", "@", *f] for f in ([], ["--format", "json"])),
    *(
        ["stats", "@", "--by", by, "--format", form]
        for by in (
            "api",
            "config",
            "family",
            "shapes",
            "level",
            "thread",
            "process",
            "rank",
            "label",
            "line",
        )
        for form in ("text", "json", "csv", "markdown")
    ),
    *(
        ["stats", "@", "@", "--by", "api", "--format", form]
        for form in ("text", "json", "csv", "markdown")
    ),
    *(["stats", "@", "--census", "--format", form] for form in ("text", "json", "csv", "markdown")),
    ["dump", "@"],
    ["dump", "@", "--stacks"],
    ["dump", "@", "--stacks=full"],
    ["dump", "@", "--format", "jsonl"],
    ["dump", "@", "--calls", "x"],
    ["dedup", "@"],
    ["dedup", "@", "@", "--counts", "--provenance"],
    ["dedup", "@", "--generalize"],
    ["diff", "@", "@"],
    ["diff", "@", STACKS],
    ["diff", "@", STACKS, "--sequence"],
    ["diff", "@", STACKS, "--format", "json"],
    *(
        ["export", form, "@"]
        for form in ("text", "yaml", "json", "jsonl", "csv", "torchbench", "tritonbench", "paddle")
    ),
    ["export", "csv", "@", "--calls"],
    ["export", "jsonl", "@", "--calls"],
    ["render", "@", "-o", "rendered", "-f"],
    ["filter", "@", "-o", "filtered", "-f"],
    ["merge", "@", STACKS, "-o", "merged", "-f"],
    ["apis", "coverage", "@", "--list", "@"],
    ["apis", "name", EVIL],
    ["stats", EVIL],
    ["info", f"no such {EVIL}"],
    [EVIL],
    ["stats", f"--{EVIL}"],
]


@pytest.mark.parametrize("broken", (False, True))
def test_no_verb_lets_a_trace_speak_to_the_terminal(tmp_path, broken):
    folder = tmp_path / EVIL.replace("/", "") / "log"
    folder.mkdir(parents=True)
    write_log(folder / f"main-{EVIL}.ttlog", broken=broken)
    if broken:
        (folder / f"none-{EVIL}.ttlog").write_text("no log")
    shown = set()
    for verb in VERBS:
        command = [str(folder.parent) if word == "@" else word for word in verb]
        result = tool.torchtrace(*command, cwd=tmp_path)
        assert result.status in (0, 1, 2), (verb, result)
        check(result, verb)
        if result.status == 0:
            shown.add(verb[0])
    assert {"info", "render", "filter", "merge"} <= shown
    # A broken log has no call left, which is an error for these verbs.
    assert ({"stats", "dump", "dedup", "export"} & shown == set()) == broken
    for made in ("rendered", "merged", "filtered"):
        for path in (tmp_path / made).rglob("*"):
            if path.suffix in (".txt", ".yaml", ".json"):
                found = BAD.search(path.read_text())
                assert found is None, (path, path.read_text()[found.start() - 80 : found.end()])
        check(tool.torchtrace("info", made, cwd=tmp_path), made)


def test_other_tools_files(tmp_path):
    calls = {
        "process": EVIL,
        "thread": 0,
        "tags": {EVIL: EVIL},
        "api": EVIL,
        "args": [EVIL],
        "kwargs": {EVIL: EVIL},
    }
    profile = {
        "ph": "X",
        "cat": "cpu_op",
        "name": f"aten::{EVIL}",
        "pid": 1,
        "tid": 1,
        "ts": 1,
        "dur": 1,
    }
    name = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": EVIL}}
    files = {
        "calls.jsonl": json.dumps(
            {"call": 0, "level": 1, "outcome": "raised", "exception": EVIL, **calls}
        )
        + "\n",
        "trace.json": json.dumps({"schemaVersion": 1, "traceEvents": [profile, name]}),
        "list.yaml": json.dumps([{"api": EVIL, "args": [EVIL]}]),
        "bad.yaml": f"- api: f\n  {EVIL}",
        "bad.txt": f"f(1)\nf({EVIL}",
    }
    for file, content in files.items():
        path = tmp_path / f"{EVIL}{file}".replace("/", "")
        path.write_text(content)
        for verb in (["info"], ["stats"], ["stats", "--by", "thread"], ["dump"], ["export", "csv"]):
            check(tool.torchtrace(*verb, path.name, cwd=tmp_path), (verb, file))


def test_csv_of_stats_is_csv(tmp_path):
    path = write_log(tmp_path / 'a,"b.ttlog')
    for by in ("api", "config", "family", "thread", "process", "label", "line"):
        out = tool.torchtrace("stats", path, "--by", by, "--format", "csv", cwd=tmp_path).out
        rows = list(csv.reader(io.StringIO(out), strict=True))
        assert len(rows) == len(out.splitlines()) > 1
        assert {len(row) for row in rows} == {len(rows[0])}, by
