"""`export perfetto`, decoded, `export chrome`: calls, steps, tags, modules; columns of tables."""

import collections
import csv
import functools
import json

import pytest

from tools.testing import whole_tool as tool

SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"

PROGRAM = """
import torch
import torchtrace
from torch import nn

model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    with torchtrace.annotate(step=step, phase="train"):
        model(torch.ones(3, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
try:
    torch.ones(2).view(3)
except RuntimeError:
    pass
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("timeline")


@functools.cache
def trained(folder):
    """A trace of a small training."""
    (folder / "train.py").write_text(PROGRAM)
    options = ["-l", "1,2,3", "--frames", "modules", "--stacks", "--python", tool.PYTHON]
    done = tool.torchtrace("run", "-qo", "train", *options, "train.py", cwd=folder)
    assert done.status == 0, done.err
    return folder / "train"


def export(*args, cwd="/"):
    done = tool.torchtrace("export", "-q", *args, cwd=cwd, env=tool.WITH_PYARROW)
    assert done.status == 0, done.err
    return done.out


# ---- protocol buffers ----


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """[(number, int or bytes)] of a message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = int.from_bytes(data[at : at + 8], "little"), at + 8
        else:
            assert key & 7 == 2, key
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
        yield key >> 3, value


def one(data):
    return dict(fields(data))


# By the numbers of perfetto_trace.proto.
CATEGORY, NAME, ANNOTATION, TEXT = 1, 2, 3, 29


class Decoded:
    def __init__(self, data):
        self.tracks = {}  # (name, parent) by uuid
        self.slices = []  # dicts
        self.open = collections.defaultdict(list)
        self.interned = collections.defaultdict(dict)
        self.packets = 0
        for number, packet in fields(data):
            assert number == 1
            self.packet(list(fields(packet)))
        assert not any(self.open.values())

    def packet(self, packet):
        values = dict(packet)
        assert values[10] == 1 and values[13] == (1 if self.packets == 0 else 2)
        self.packets += 1
        for kind, entry in fields(values.get(12, b"")):
            entry = one(entry)
            assert entry[1] not in self.interned[kind]
            self.interned[kind][entry[1]] = entry[2].decode()
        if 60 in values:
            self.track(one(values[60]))
        elif 11 in values:
            self.event(values[8], list(fields(values[11])))
        else:
            clocks = {one(c)[1]: one(c)[2] for _, c in fields(values[6])}
            assert clocks.keys() == {1, 6} and clocks[6] == 0

    def track(self, track):
        if 3 in track:
            name = one(track[3])[6]
        else:
            name = one(track[4])[5] if 4 in track else track[2]
        assert track[1] not in self.tracks and track.get(5, 0) in {0, *self.tracks}
        self.tracks[track[1]] = (name.decode(), track.get(5))

    def event(self, time, event):
        values = dict(event)
        track = values[11]
        open = self.open[track]
        args = {}
        for number, annotation in event:
            if number == 4:
                annotation = one(annotation)
                name = self.interned[ANNOTATION][annotation[1]]
                args[name] = (
                    self.interned[TEXT][annotation[17]] if 17 in annotation else annotation[3]
                )
        if values[9] == 2:
            assert time >= open[-1]["start"]
            open[-1].update(args, end=time)
            self.slices.append(open.pop())
            return
        assert values[9] == 1
        slice = {
            "track": self.tracks[track][0],
            "name": self.interned[NAME][values[10]],
            "category": self.interned[CATEGORY][values[3]],
            "start": time,
            "depth": len(open),
            "flows": [v for n, v in event if n == 47],
            "ended flows": [v for n, v in event if n == 48],
        }
        open.append(slice | args)

    def on(self, part):
        return [slice for slice in self.slices if part in slice["track"]]


@functools.cache
def perfetto(folder, *traces, options=()):
    out = folder / f"{len(list(folder.iterdir()))}.pftrace"
    export(*traces, *options, "-o", out)
    return Decoded(out.read_bytes())


def calls_of(*args):
    rows = [json.loads(line) for line in export("jsonl", "--calls", *args).splitlines()]
    return {row["call"]: row for row in rows}


def check_calls(decoded, calls):
    slices = [slice for slice in decoded.slices if "call" in slice]
    assert {slice["call"] for slice in slices} == calls.keys() and len(slices) == len(calls)
    first = min(call["start_ns"] for call in calls.values())
    start = min(slice["start"] for slice in slices)
    for slice in slices:
        call = calls[slice["call"]]
        assert slice["config"] == call["config"] and slice["level"] == call["level"]
        assert slice["start"] - start == call["start_ns"] - first
        if call["outcome"] == "never returned":
            assert slice["outcome"] == "never returned"
        else:
            assert slice["end"] - slice["start"] == call["duration_ns"]
        assert slice.get("exception") == call.get("exception")
        if "tags" in call:
            assert json.loads(slice["tags"]) == call["tags"]


def test_a_log(folder):
    check_calls(perfetto(folder, SAMPLE), calls_of(SAMPLE))


@pytest.mark.torch
def test_calls(folder):
    trace = trained(folder)
    decoded = perfetto(folder, trace)
    calls = calls_of(trace)
    check_calls(decoded, calls)
    assert "RuntimeError" in {slice.get("exception") for slice in decoded.slices}
    flows = [flow for slice in decoded.slices for flow in slice["flows"]]
    ended = [flow for slice in decoded.slices for flow in slice["ended flows"]]
    assert len(set(flows)) == len(flows) and ended and set(ended) <= set(flows)


@pytest.mark.torch
def test_other_tracks(folder):
    """Steps, tags and modules, in both formats."""
    trace = trained(folder)
    decoded = perfetto(folder, trace)
    chrome = json.loads(export("chrome", trace))["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in chrome if e["name"] == "thread_name"}
    in_chrome = collections.defaultdict(list)
    for event in chrome:
        if event["ph"] == "X":
            in_chrome[names[event["pid"], event["tid"]]].append(event)
    modules = ["Sequential_0", "0 (Linear)", "1 (ReLU)", "2 (Linear)"] * 3
    for track, expected in {
        "steps": ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"],
        "tags": [f"step={i}, phase=train" for i in range(3)],
        "modules": modules,
    }.items():
        slices = sorted(decoded.on(track), key=lambda s: (s["start"], s["depth"]))
        assert [slice["name"] for slice in slices] == expected
        (events,) = (events for name, events in in_chrome.items() if name.endswith(track))
        events.sort(key=lambda event: (event["ts"], -event["dur"]))
        assert [event["name"] for event in events] == expected
        assert len({event["cat"] for event in events}) == 1
    assert {event["cat"] for event in in_chrome["steps"]} == {"user_annotation"}
    for track, depth in (("steps", 0), ("tags", 0), ("modules", 1)):
        assert {slice["depth"] for slice in decoded.on(track)} == set(range(depth + 1))
    assert {"phase": "train", "step": 2} in [e["args"].get("Tags") for e in chrome if "args" in e]


@pytest.mark.torch
def test_only_what_is_selected(folder):
    trace = trained(folder)
    where = ("--where", "tag(step) = 1", "--level", "2")
    decoded = perfetto(folder, trace, options=where)
    check_calls(decoded, calls_of(trace, *where))
    assert [slice["name"] for slice in decoded.on("steps")] == ["ProfilerStep#1"]
    assert [slice["name"] for slice in decoded.on("tags")] == ["step=1, phase=train"]
    assert decoded.on("modules") == []


def test_it_is_much_smaller(folder):
    perfetto(folder, SAMPLE)
    sizes = [len(export("chrome", SAMPLE)), 0]
    export("perfetto", SAMPLE, "-o", folder / "small.pftrace")
    sizes[1] = (folder / "small.pftrace").stat().st_size
    assert sizes[1] < sizes[0] / 3  # a fifth where configs are called often


# ---- tables ----


SUMMED = ("flops", "bytes", "device_ns")
OF_FIRST = ("module", "file", "line", "tags", "step")


@pytest.mark.torch
def test_configs_are_sums_of_calls(folder):
    trace = trained(folder)
    calls = calls_of(trace)
    by_config = collections.defaultdict(list)
    for call in calls.values():
        by_config[call["level"], call["config"]].append(call)
    (header, *_) = export("csv", trace).splitlines()
    assert header.endswith("rank,module,file,line,tags,step,M,N,K,flops,bytes,device_ns,first_call")
    rows = [json.loads(line) for line in export("jsonl", trace).splitlines()]
    assert len(rows) == len(by_config)
    for row in rows:
        first = calls[row["first_call"]]
        of_config = by_config[first["level"], first["config"]]
        assert len(of_config) == row["calls"] and of_config[0] == first
        for name in OF_FIRST + ("M", "N", "K"):
            assert row.get(name) == first.get(name), (name, row, first)
        for name in SUMMED:
            known = [call[name] for call in of_config if name in call]
            assert row.get(name) == (sum(known) if known else None), (name, row)
    linear = [row for row in calls.values() if row["api"] == "torch.nn.functional.linear"]
    assert [(row["M"], row["N"], row["K"], row["flops"]) for row in linear[:2]] == [
        (3, 4, 8, 2 * 3 * 4 * 8),
        (3, 2, 4, 2 * 3 * 2 * 4),
    ]
    assert [row["module"] for row in linear[:2]] == ["0", "2"]
    assert [row["step"] for row in linear] == [0, 0, 1, 1, 2, 2]
    assert {row["line"] for row in linear} == {10} and linear[0]["file"] == "train.py"
    backward = [row for row in calls.values() if row["api"] == "aten::threshold_backward"]
    assert [row["module"] for row in backward] == ["1"] * 3
    assert "optimizer" in {row.get("module") for row in calls.values()}


@pytest.mark.torch
def test_tables_of_some_calls(folder):
    """What is left out still says in which module and step the rest is."""
    trace = trained(folder)
    rows = [
        json.loads(line) for line in export("jsonl", trace, "--where", "level = 2").splitlines()
    ]
    assert rows and {row["level"] for row in rows} == {2}
    modules = [row.get("module") for row in rows]
    assert {"0", "1", "2", "optimizer"} <= set(modules)


def test_dedup_knows_sizes(tmp_path):
    calls = tmp_path / "calls.txt"
    calls.write_text('torch.mm(Tensor([2, 3], "float32"), Tensor([3, 5], "float32"))\n')
    done = tool.torchtrace("dedup", calls, "--format", "csv", cwd="/")
    (row,) = csv.DictReader(done.out.splitlines())
    assert (row["M"], row["N"], row["K"]) == ("2", "5", "3")
    assert (row["calls"], row["module"], row["flops"], row["first_call"]) == ("1", "", "", "")
