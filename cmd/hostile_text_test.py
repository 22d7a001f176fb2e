"""With any strings in a trace and any file names, only plain lines are printed."""

import csv
import io
import json
import re
import struct

import pytest

from tools.testing import whole_tool as tool

STACKS = tool.ROOT / "testdata/logs/v1/stacks.ttlog"
# Clears the screen, by ESC and by C1; reverses the direction; ends the line and imitates our
# messages.
EVIL = '\x1b[2J\x9b2J\x07\x7f\u202eab\u2066\u200f\r\nFAKE, "x"\ttorchtrace: FAKE\U000e0041'
BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def text(value):
    data = value.encode("utf-8", "surrogateescape")
    return varint(len(data)) + data


def other(kind, body):
    return varint(kind << 2) + varint(len(body)) + body


def value(value):
    return b"\x07" + varint(len(value.encode())) + text(value)


def records():
    """One call of everything that contains text, three times: it returns, raises, never ends."""
    identity = (
        b"\x01"
        + text(f"torch.{EVIL}")
        + varint(1)
        + value(EVIL)
        + varint(1)
        + text(EVIL)
        + value(EVIL)
    )
    tensor = b"\x11\x02" + text(EVIL) + text(EVIL) + b"\x01\x05" + text(EVIL)
    tensors = b"\x02" + text(f"aten::{EVIL}") + varint(1) + tensor + b"\x00"
    facets = varint(1) + b"\x00\x02" + text(EVIL)
    out = other(2, varint(0) + varint(7) + varint(1000) + b"\x00\x00" + text(EVIL))
    out += other(1, varint(len(identity)) + identity + b"\x00")
    out += other(1, varint(len(tensors)) + tensors + varint(len(facets)) + facets)
    out += other(4, text(json.dumps({EVIL: EVIL, "step": 3})))
    out += other(5, b"\x00" + text(f"/{EVIL}.py") + text(EVIL) + text(EVIL))
    out += other(6, b"\x00\x05\x00") + other(7, b"\x00")
    out += b"\x01\x05" + b"\x05\x05" + b"\x06" + b"\x03\x05" + text(EVIL)  # f(g()) raises
    out += b"\x01\x05" + b"\x06"
    out += other(3, varint(3) + text(EVIL))
    return out + b"\x05\x05"


def write_log(path, broken=False, **metadata):
    """stacks.ttlog with other contents, in unclosed frames."""
    data = bytearray(STACKS.read_bytes())
    at, frames = 4096, []
    while at < len(data):
        kind, capacity = (
            struct.unpack_from("<H", data, at + 4)[0],
            struct.unpack_from("<I", data, at + 8)[0],
        )
        frames.append((at, kind, capacity))
        at += capacity
    meta = [f for f in frames if f[1] == 1]
    calls = [f for f in frames if f[1] == 2]
    clock = {
        "unit_ns": 1.0,
        "origin_units": 1000,
        "origin_monotonic_ns": 1000,
        "origin_realtime_ns": 17 * 10**17,
    }
    everything = {
        **{
            key: EVIL
            for key in (
                "torchtrace",
                "role",
                "host",
                "cwd",
                "program",
                "label",
                "rank",
                "source",
                "dialect",
            )
        },
        "command": ["python", EVIL],
        "environment": {EVIL: EVIL},
        "python": {"version": EVIL, "executable": EVIL},
        "packages": {EVIL: {"version": EVIL, "git": EVIL}},
        "levels": [EVIL],
        "include": [EVIL],
        "stacks": "all",
        "pid": 1,
        "clock": clock,
        EVIL: EVIL,
        "damage": {
            "sentences": [EVIL],
            "lost_calls": 1,
            "lost_calls_exact": False,
            "lost_bytes": 1,
        },
        **metadata,
    }
    end = {
        "not_seen": [EVIL],
        "cut": {EVIL: 3},
        "dropped": {EVIL: 4},
        "stopped": EVIL,
        "exit_code": 0,
    }
    contents = [json.dumps(everything).encode(), json.dumps({"end": end}).encode()]
    pieces = list(zip(meta, contents)) + [(calls[0], records())]
    for (at, _, capacity), content in pieces:
        assert len(content) <= capacity - 64, (len(content), capacity)
        data[at + 32 : at + 64] = struct.pack("<I", len(content)) + bytes(28)
        data[at + 64 : at + capacity] = content.ljust(capacity - 64, b"\0")
    for at, _, capacity in calls[1:]:
        data[at + 32 : at + capacity] = bytes(capacity - 32)
    if broken:
        data[calls[0][0] + 24] ^= 255
    path.write_bytes(data)
    return path


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
