"""`torchtrace filter`: which calls it keeps, the new trace, and errors."""

import json
import os
import resource
import signal
import subprocess
import time

import pytest

from tools.testing import whole_tool as tool

LOGS = tool.ROOT / "testdata/logs/v1"
SAMPLE = LOGS / "sample.ttlog"


def torchtrace(*args, cwd="/", **kwargs):
    return tool.torchtrace(*args, cwd=cwd, **kwargs)


def filtered(tmp_path, *args, source=SAMPLE):
    """The output folder."""
    out = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
    result = torchtrace("filter", "-q", source, "-o", out, *args)
    assert result == tool.Result(0, "", "")
    return out


def dump(trace, *args):
    """The calls, without fields that depend on numbers or the folder."""
    lines = torchtrace("dump", trace, "--format", "jsonl", *args).out.splitlines()
    calls = [json.loads(line) for line in lines]
    return [
        {key: value for key, value in call.items() if key not in ("call", "parent", "process")}
        for call in calls
    ]


def stats(trace, *args):
    return json.loads(torchtrace("stats", trace, "--format", "json", *args).out)


def test_everything_is_the_same_trace(tmp_path):
    out = filtered(tmp_path)
    assert dump(out) == dump(SAMPLE)
    assert torchtrace("dump", out).out == torchtrace("dump", SAMPLE).out
    for by in ("api", "config", "level", "rank"):
        assert stats(out, "--by", by) == stats(SAMPLE, "--by", by)
    names = sorted(path.name for path in out.iterdir())
    assert names == sorted(
        ["log", "run.json", "api_apis.txt"]
        + [
            f"api_{kind}.{suffix}"
            for kind in ("trace", "configs", "statistics")
            for suffix in ("txt", "yaml")
        ]
    )


@pytest.mark.parametrize(
    "args",
    [
        ("--include", "torch.*"),
        ("--exclude", "aten::*"),
        ("--include", "%matmul,%pointwise", "--exclude", "*mul*"),
        ("--level", "2"),
        ("--level", "function", "--include", "*a*"),
    ],
)
def test_what_stats_counts_is_what_is_kept(tmp_path, args):
    out = filtered(tmp_path, *args)
    kept, counted = stats(out, "--by", "config"), stats(SAMPLE, "--by", "config", *args)
    for part in (kept, counted):
        for row in [part, *part["by_level"], *part["configs"]]:
            # The calls inside may be gone.
            for name in [name for name in row if "self" in name]:
                del row[name]
    assert kept == counted and kept["total_calls"] > 0
    info = json.loads((out / "run.json").read_text())
    assert info["counts"]["calls"] == kept["total_calls"]
    # Filtering the result again changes nothing.
    assert dump(filtered(tmp_path, *args, source=out)) == dump(out)


def test_where_and_numbers(tmp_path):
    calls = dump(SAMPLE)
    raised = [call for call in calls if call.get("outcome") == "raised"]
    kept = dump(filtered(tmp_path, "--where", "raised"))
    assert [call["api"] for call in kept] == [call["api"] for call in raised] != []
    numbers = tmp_path / "numbers"
    numbers.write_text("# some\n5 7\n20-22\n")
    some = filtered(tmp_path, "--calls", f"0-3,@{numbers}")
    listed = [
        json.loads(line)
        for line in torchtrace("dump", SAMPLE, "--format", "jsonl").out.splitlines()
    ]
    wanted = [call["api"] for call in listed if call.get("call") in (0, 1, 2, 3, 5, 7, 20, 21, 22)]
    assert [call["api"] for call in dump(some) if "api" in call] == wanted
    slow = dump(filtered(tmp_path, "--where", "duration >= 40ns and level = 1"))
    assert slow and all(call["duration_ns"] >= 40 and call["level"] == 1 for call in slow)
    thread = dump(filtered(tmp_path, "--thread", "1"))
    assert thread and {call["thread"] for call in thread} == {1}
    named = json.loads(torchtrace("info", SAMPLE, "--format", "json").out)
    name = named["processes"][0]["threads"][1]["name"]
    assert dump(filtered(tmp_path, "--thread", name)) == thread
    assert dump(filtered(tmp_path, "--rank", "77")) == []


def test_parents(tmp_path):
    alone = filtered(tmp_path, "--include", "aten::add*")
    assert {call["level"] for call in dump(alone)} == {2}
    out = filtered(tmp_path, "--include", "aten::add*", "--with-parents")
    listed = [
        json.loads(line) for line in torchtrace("dump", out, "--format", "jsonl").out.splitlines()
    ]
    by_number = {call["call"]: call for call in listed if "call" in call}
    operators = [call for call in by_number.values() if call["api"].startswith("aten::add")]
    assert len(operators) == len(dump(alone))
    # All other calls enclose one of them.
    around = set()
    for call in operators:
        while "parent" in call:
            call = by_number[call["parent"]]
            around.add(call["call"])
    assert around and around | {call["call"] for call in operators} == set(by_number)
    # The depth stays as recorded.
    original = [call for call in dump(SAMPLE) if call.get("api", "").startswith("aten::add")]
    assert [call["depth"] for call in operators] == [call["depth"] for call in original]


def test_run_json_says_what_it_is(tmp_path):
    result = torchtrace(
        "filter", SAMPLE, "-o", tmp_path / "a", "--include", "%pointwise", "--where", "level = 2"
    )
    assert result.status == 0 and result.out == ""
    assert "torchtrace: kept " in result.err and " of 121 calls" in result.err
    again = filtered(tmp_path, "--level", "2", "--with-parents", source=tmp_path / "a")
    info = json.loads((again / "run.json").read_text())
    assert info["filtered"] == [
        {"from": str(SAMPLE), "include": ["%pointwise"], "where": "level = 2"},
        {"from": str(tmp_path / "a"), "levels": [2], "with_parents": True},
    ]
    original = json.loads(torchtrace("info", SAMPLE, "--format", "json").out)
    (process,) = info["processes"]
    (before,) = original["processes"]
    assert process["ended"] == before["ended"] and process["dropped"] == before["dropped"]
    assert process["damage"]["lost_calls"] == 0
    threads = {thread["number"]: thread for thread in before["threads"]}
    for thread in process["threads"]:
        for key in ("os_id", "name"):
            assert thread[key] == threads[thread["number"]][key]


def test_losses_are_still_told(tmp_path):
    cut = tmp_path / "cut.ttlog"
    data = bytearray(SAMPLE.read_bytes())
    data[len(data) // 2 :] = b""
    cut.write_bytes(data)
    before = json.loads(torchtrace("info", cut, "--format", "json").out)
    out = filtered(tmp_path, source=cut)
    after = json.loads((out / "run.json").read_text())
    assert before["damage"]["damaged"] and after["damage"] == before["damage"]


def test_formats(tmp_path):
    out = filtered(tmp_path, "--formats", "apis")
    assert sorted(path.name for path in out.iterdir()) == ["api_apis.txt", "log", "run.json"]
    out = filtered(tmp_path, "--render-limit", "3")
    assert not (out / "api_trace.txt").exists() and (out / "api_configs.txt").exists()
    result = torchtrace("filter", SAMPLE, "-o", tmp_path / "x", "--render-limit", "3")
    assert f"torchtrace render {tmp_path / 'x'}" in result.err


def test_nothing_is_overwritten(tmp_path):
    out = filtered(tmp_path, "--formats", "none")
    (out / "mine.txt").write_text("keep")
    before = sorted(path.name for path in out.rglob("*"))
    refused = torchtrace("filter", SAMPLE, "-o", out)
    assert refused.status == 2 and "--force" in refused.err
    assert sorted(path.name for path in out.rglob("*")) == before
    assert torchtrace("filter", "-q", SAMPLE, "-fo", out, "--level", "2").status == 0
    assert (out / "mine.txt").read_text() == "keep"
    assert stats(out)["total_calls"] == 61
    inside = torchtrace("filter", out, "-fo", out)
    assert inside.status == 2 and "is in the output folder" in inside.err
    assert stats(out)["total_calls"] == 61


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((SAMPLE,), "--output is required"),
        (("/not/there", "-o", "out"), "/not/there"),
        (("/etc/passwd", "-o", "out"), "/etc/passwd"),
        (
            (SAMPLE, "-o", "out", "--where", "dtpye = x"),
            "column 1: expected a field (did you mean dtype?)",
        ),
        ((SAMPLE, "-o", "out", "--calls", "9-3"), '"9-3" ends before it begins; 3-9?'),
        ((SAMPLE, "-o", "out", "--calls", "@/not/there"), "cannot read /not/there"),
        ((SAMPLE, "-o", "out", "--rank", "x"), '"x" is not a number or a range'),
        (
            (SAMPLE, "-o", "out", "--include", "%inplce"),
            "unknown group %inplce, did you mean %inplace?",
        ),
        ((SAMPLE, "-o", "out", "--formats", "jpeg"), "jpeg"),
        ((SAMPLE, "-o", "/proc/out"), "/proc/out"),
        ((SAMPLE, "-o", "/etc/passwd"), "/etc/passwd"),
    ],
)
def test_trouble(tmp_path, args, message):
    result = torchtrace("filter", *args, cwd=tmp_path)
    assert (result.status, result.out) == (2, "")
    assert message in result.err and result.err.startswith("torchtrace: ")
    assert os.listdir(tmp_path) == []


def test_bad_inputs(tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "empty.ttlog").write_bytes(b"")
    (bad / "noise.ttlog").write_bytes(os.urandom(100_000))
    for path in (*bad.glob("*.ttlog"), bad):
        result = torchtrace("filter", path, "-o", tmp_path / "out")
        assert result.status == 2 and path.name in result.err
    assert os.listdir(tmp_path) == ["bad"]


def test_a_full_disk(tmp_path):
    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))

    done = subprocess.run(
        [tool.TORCHTRACE, "filter", SAMPLE, "-o", tmp_path / "out"],
        preexec_fn=little,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "cannot write" in done.stderr
    assert ".tmp" not in done.stderr and str(tmp_path / "out") in done.stderr
    assert os.listdir(tmp_path) == []


def test_interrupt_leaves_nothing(tmp_path):
    """While reading a trace from a pipe that never ends."""
    fifo = tmp_path / "slow.ttlog"
    os.mkfifo(fifo)
    groups = tmp_path / "groups"
    os.mkfifo(groups)
    process = subprocess.Popen(
        [tool.TORCHTRACE, "filter", SAMPLE, "-o", tmp_path / "out", "--calls", f"@{fifo}"],
        stderr=subprocess.PIPE,
    )
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == -signal.SIGINT
    assert not (tmp_path / "out").exists()


@pytest.mark.torch
def test_a_real_program(tmp_path):
    out = tmp_path / "out"
    run = torchtrace(
        "run",
        "-qo",
        out,
        "-l1,2",
        "--formats=none",
        "--python",
        tool.PYTHON,
        tool.SCRIPTS / "train_mlp.py",
        cwd=tmp_path,
    )
    assert run.status == 0
    kept = filtered(tmp_path, "--include", "%matmul", "--with-parents", source=out)
    lines = torchtrace("dump", kept, "--format", "jsonl").out.splitlines()
    calls = {call["call"]: call for call in map(json.loads, lines) if "call" in call}
    multiplications = [call for call in calls.values() if call["api"] == "aten::mm"]
    assert len(multiplications) == sum(
        row["calls"] for row in stats(out)["apis"] if row["api"] == "aten::mm"
    )
    backward = [call for call in calls.values() if call["api"] == "torch.Tensor.backward"]
    assert backward and any(call.get("parent") == backward[0]["call"] for call in multiplications)
    shaped = filtered(
        tmp_path, "--where", "any(dtype = float32 and ndim = 2 and requires_grad)", source=out
    )
    total = stats(shaped)["total_calls"]
    assert 0 < total < stats(out)["total_calls"]
