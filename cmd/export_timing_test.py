"""torchtrace export timing: calls by API, split into as many files as requested."""

import csv
import json
import os
import re
import signal
import subprocess
import time

import pytest

from tools.testing import whole_tool as tool

SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"
COLUMNS = [
    "API Name",
    "Total Time (ms)",
    "Call Number",
    "Start Timestamp",
    "Cost Time (ms)",
    "Arguments",
]
TOTAL = "TotalTime(ms)"


def torchtrace(*args, cwd="/", env=None):
    return tool.torchtrace(*args, cwd=cwd, env=env or {})


def timing(*args, **kwargs):
    result = torchtrace("export", "timing", *args, **kwargs)
    assert result.status == 0, result.err
    return result


def records(*args):
    return json.loads(timing(*args).out)


def calls(api):
    return {int(number): call for number, call in api.items() if number != TOTAL}


def rows(text):
    return list(csv.DictReader(text.splitlines()))


def run(folder, script, *options):
    command = ("run", "-q", "--python", tool.PYTHON, "-o", "out", *options, script)
    done = tool.torchtrace(*command, cwd=folder)
    assert done.status == 0, done.err
    return folder / "out"


def dumped(trace, *options):
    out = torchtrace("dump", trace, "--format", "jsonl", *options).out
    found = {}
    for line in out.splitlines():
        row = json.loads(line)
        found.setdefault(row["call"], {}).update(row)
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A training run at levels 0 to 2."""
    folder = tmp_path_factory.mktemp("trained")
    script = tool.SCRIPTS / "train_mlp.py"
    done = tool.torchtrace(
        "run", "-q", "--python", tool.PYTHON, "-l", "0,1,2", "-o", "out", script, cwd=folder
    )
    assert done.status == 0, done.err
    return folder / "out"


# ---- content ----


@pytest.mark.torch
def test_calls_are_those_of_dump(trained):
    found = records(trained)
    expected = {}
    all_calls = dumped(trained)
    told_again = 0
    for _, call in sorted(all_calls.items()):
        # An operator's time includes that of its overloads.
        api = call["api"].partition(".")[0] if call["level"] == 2 else call["api"]
        parent = all_calls.get(call.get("parent"))
        if parent and parent["api"] == call["api"] and parent["level"] != call["level"]:
            told_again += 1
            continue
        expected.setdefault(api, []).append((call["api"], call.get("duration_ns")))
    assert told_again > 100
    assert list(found) == list(expected)
    for api, wanted in expected.items():
        numbered = calls(found[api])
        assert list(numbered) == list(range(1, len(wanted) + 1))
        got = [(call["detailedAPIName"], call["CostTime(ms)"]) for call in numbered.values()]
        assert got == [(name, pytest.approx(ns / 1e6)) for name, ns in wanted]
        total = sum(call["CostTime(ms)"] for call in numbered.values())
        assert found[api][TOTAL] == pytest.approx(total)
        starts = [call["StartTimestamp"] for call in numbered.values()]
        assert starts == sorted(starts)
        assert abs(time.time_ns() - starts[0]) < 600e9
    assert {call["detailedAPIName"] for call in calls(found["aten::add"]).values()} <= {
        "aten::add.Tensor",
        "aten::add.Scalar",
    }


def test_csv_has_the_same():
    found = records(SAMPLE)
    table = rows(timing(SAMPLE, "--format", "csv").out)
    assert list(table[0]) == COLUMNS
    expected = [
        (api, found[api][TOTAL], number, *list(call.values())[1:])
        for api in found
        for number, call in calls(found[api]).items()
    ]
    text = [tuple("" if cell is None else str(cell) for cell in row) for row in expected]
    assert len(text) == len(table) > 10
    for row, wanted in zip(table, text):
        got = tuple(row.values())
        assert (got[0], *got[2:4], got[5]) == (wanted[0], *wanted[2:4], wanted[5])
        assert [float(got[i] or -1) for i in (1, 4)] == [float(wanted[i] or -1) for i in (1, 4)]


@pytest.mark.torch
def test_arguments_are_texts(trained):
    arguments = {row["Arguments"] for row in rows(timing(trained, "--format", "csv").out)}
    assert all(re.fullmatch(r"\(\(.*\), \{.*\}\)", text) for text in arguments)
    assert any(text.startswith("((Tensor([") for text in arguments)
    assert any('{"' in text for text in arguments)


def test_filters():
    assert all("::" in api for api in records(SAMPLE, "--level", "2"))
    assert list(records(SAMPLE, "--include", "aten::mm")) == ["aten::mm"]
    assert records(SAMPLE, "--include", "?no.such") == {}


def test_several_traces_are_one(tmp_path):
    once, twice = records(SAMPLE), records(SAMPLE, SAMPLE)
    assert list(once) == list(twice)
    for api in once:
        count = len(calls(once[api]))
        assert list(calls(twice[api])) == list(range(1, 2 * count + 1))


@pytest.mark.torch
def test_modules_are_named_by_their_paths(tmp_path):
    script = tool.SCRIPTS / "train_mlp.py"
    done = tool.torchtrace(
        "run", "-q", "--python", tool.PYTHON, "-l", "3", "-o", "out", script, cwd=tmp_path
    )
    assert done.status == 0, done.err
    found = records(tmp_path / "out", "--include", "torch.nn.Linear")
    names = {call["detailedAPIName"] for call in calls(found["torch.nn.Linear"]).values()}
    assert len(names) > 1
    assert all(re.fullmatch(r"torch\.nn\.Linear@[\w.]+", name) for name in names)


def test_a_trace_without_times(tmp_path):
    trace = tmp_path / "calls.txt"
    trace.write_text("torch.add(1, 2)\ntorch.add(1, 3)\n")
    assert records(trace) == {
        "torch.add": {
            TOTAL: None,
            "1": call("torch.add", "((1, 2), {})"),
            "2": call("torch.add", "((1, 3), {})"),
        }
    }
    assert timing(trace, "--format", "csv").out.splitlines()[1:] == [
        'torch.add,,1,,,"((1, 2), {})"',
        'torch.add,,2,,,"((1, 3), {})"',
    ]


def call(api, arguments):
    return {
        "detailedAPIName": api,
        "StartTimestamp": None,
        "CostTime(ms)": None,
        "Arguments": arguments,
    }


# ---- files ----


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_a_file_is_rolled_over(tmp_path, suffix):
    whole = timing(SAMPLE, "--format", suffix).out
    said = timing(SAMPLE, "-o", f"x.{suffix}", "--max-file-size", "1KB", cwd=tmp_path)
    names = sorted(os.listdir(tmp_path), key=lambda name: (len(name), name))
    assert names == [f"x.{suffix}"] + [f"x-{i}.{suffix}" for i in range(2, len(names) + 1)]
    assert len(names) > 2
    assert said.err == f"torchtrace: wrote x.{suffix} and {len(names) - 1} more\n"
    texts = [(tmp_path / name).read_text() for name in names]
    if suffix == "csv":
        assert [row for text in texts for row in rows(text)] == rows(whole)
        return
    joined = {}
    for text in texts:
        for api, its in json.loads(text).items():
            joined.setdefault(api, {}).update(its)
    assert joined == json.loads(whole)
    assert list(joined) == list(json.loads(whole))


def test_a_folder_gets_files_by_their_spec(tmp_path):
    def names(*args):
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        timing(SAMPLE, "-o", folder, *args)
        return sorted(os.listdir(folder))

    before = time.time_ns()
    (name,) = names()
    stamp = int(re.fullmatch(r"timing_(\d+)\.json", name)[1])
    assert before <= stamp <= time.time_ns()
    (name,) = names("--file-name-spec", "datetime", "--format", "csv")
    assert re.fullmatch(r"timing_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d\.csv", name)
    serial = names("--file-name-spec", "serial", "--max-file-size", "1KB")
    assert {"timing_1.json", "timing_2.json"} < set(serial)
    year = time.strftime("%Y")
    assert names("--file-name-spec", "%Y-{rank}x") == [f"{year}-nonex.json"]


@pytest.mark.torch
def test_processes_have_files_of_their_own(tmp_path):
    script = tmp_path / "two.py"
    script.write_text(
        "import os, torch\n"
        "torch.zeros(1)\n"
        "if os.fork() == 0:\n"
        "    torch.ones(1)\n"
        "else:\n"
        "    os.wait()\n"
    )
    run(tmp_path, script)
    timing("out", "-o", "files", "--file-name-spec", "p{pid}", cwd=tmp_path)
    found = [json.loads(path.read_text()) for path in (tmp_path / "files").iterdir()]
    assert sorted(list(each) for each in found) == [["torch.ones"], ["torch.zeros"]]
    timing("out", "-o", "x.json", cwd=tmp_path)
    both = json.loads((tmp_path / "x.json").read_text())
    assert list(both) == ["torch.zeros", "torch.ones"]


def test_files_are_not_overwritten(tmp_path):
    mine = tmp_path / "x-2.csv"
    mine.write_text("mine")
    for out, size in (("x-2.csv", "1MB"), ("x.csv", "1KB")):
        refused = torchtrace(
            "export", "timing", SAMPLE, "-o", out, "--max-file-size", size, cwd=tmp_path
        )
        assert refused.status == 2
        assert refused.err == "torchtrace: x-2.csv exists; --force replaces it\n"
        assert os.listdir(tmp_path) == ["x-2.csv"]
    assert mine.read_text() == "mine"
    timing(SAMPLE, "-fo", "x.csv", "--max-file-size", "1KB", cwd=tmp_path)
    assert mine.read_text() != "mine"


def test_all_files_or_none(tmp_path):
    bad = tmp_path / "bad.ttlog"
    bad.write_bytes(os.urandom(5000))
    result = torchtrace("export", "timing", SAMPLE, bad, "-o", tmp_path / "a/b")
    assert result.status == 2 and str(bad) in result.err
    assert os.listdir(tmp_path) == ["bad.ttlog"]

    def limit():
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    done = subprocess.run(
        [tool.TORCHTRACE, "export", "timing", SAMPLE, "-o", tmp_path / "a/x.json"],
        stderr=subprocess.PIPE,
        text=True,
        env=tool.environment(),
        preexec_fn=limit,
    )
    assert done.returncode == 2 and f"cannot write {tmp_path}/a/x.json" in done.stderr
    assert os.listdir(tmp_path) == ["bad.ttlog"]


def test_devices_and_pipes():
    assert timing(SAMPLE, "-o", "/dev/stdout").out == timing(SAMPLE).out
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [tool.TORCHTRACE, "export", "timing", SAMPLE],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=tool.environment(),
        )
    assert done.returncode == 2 and "No space left on device" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--max-file-size", "1MB"), "--max-file-size is for files"),
        (("--file-name-spec", "x"), "--file-name-spec names the files in a folder"),
        (("--file-name-spec", "x", "-o", "x.csv"), "names the files in a folder"),
        (("--file-name-spec", "a/b", "-o", "x"), "'a/b' has a slash in it"),
        (("--file-name-spec", "%p", "-o", "x"), "has an unknown '%p'; there are timestamp"),
        (("--max-file-size", "1", "-o", "x"), "'1' is not a size of a file"),
        (("--format", "xml"), "--format: expected json or csv, found 'xml'"),
        (("-o", "/etc/passwd"), "/etc/passwd is not a folder"),
        (("-o", "/proc/x/y"), "cannot make the folder /proc/x: No such file or directory"),
        (("--calls", "--by", "api"), "--by is only for flamegraph"),
    ],
)
def test_trouble(args, message):
    result = torchtrace("export", "timing", SAMPLE, *args)
    assert result.status == 2 and message in result.err
    assert all(line.startswith("torchtrace: ") for line in result.err.splitlines())


def test_its_options_are_for_timing_alone():
    result = torchtrace("export", "csv", SAMPLE, "--max-file-size", "1MB")
    assert result.status == 2
    assert result.err == "torchtrace: --max-file-size is only for timing\n"
    result = torchtrace("dedup", SAMPLE, "--format", "timing")
    assert result.status == 2 and "it holds calls, not configs" in result.err
