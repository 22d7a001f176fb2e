"""Other formats through the whole tool: what is read, which remarks are printed, and the errors."""

import gzip
import json
import os
import re
import subprocess

import pytest

from tools.testing import whole_tool as tool

VERBS = (["stats"], ["info"], ["dump"], ["render", "-o", "rendered"])
SEEDS = tool.ROOT / "testdata/fuzz"


def torchtrace(*args, cwd, **kwargs):
    return tool.torchtrace(*args, cwd=cwd, **kwargs)


BENCH = """Operator: aten.addmm.default
cnt: 48, ((T([768], f16), T([512, 768], f16), T([768, 768], f16, stride=(1, 768))), {})
"""


def test_formats_are_named_and_lacks_told_once(tmp_path):
    (tmp_path / "inputs.txt").write_text(BENCH)
    info = torchtrace("info", "inputs.txt", cwd=tmp_path)
    assert info.status == 0
    assert re.search(r"^format +TorchBench operator inputs$", info.out, re.M)
    assert re.search(r"^calls +48$", info.out, re.M)
    assert info.err.count("no devices of tensors") == 1
    assert all(line.startswith("torchtrace: ") for line in info.err.splitlines())
    as_json = torchtrace("info", "inputs.txt", "--format", "json", cwd=tmp_path)
    assert json.loads(as_json.out)["format"] == "TorchBench operator inputs"
    quiet = torchtrace("render", "-q", "inputs.txt", "-o", "out", cwd=tmp_path)
    assert quiet == tool.Result(0, "", "")
    assert (tmp_path / "out/api_configs.txt").read_text() == (
        'aten::addmm(Tensor([768], "float16"), Tensor([512, 768], "float16"), '
        'Tensor([768, 768], "float16", stride=[1, 768]))\n'
    )


def test_nothing_is_rendered_beside_other_tools_files(tmp_path):
    (tmp_path / "inputs.txt").write_text(BENCH)
    for path, stdin in (("inputs.txt", ""), ("-", BENCH)):
        refused = torchtrace("render", path, cwd=tmp_path, stdin=stdin)
        assert refused.status == 2 and "-o DIR is needed" in refused.err
    assert os.listdir(tmp_path) == ["inputs.txt"]


def test_standard_input(tmp_path):
    for path, verb in ((SEEDS / "text/ours", "stats"), (SEEDS / "jsonl/dump", "dump")):
        from_file = torchtrace(verb, path, cwd=tmp_path)
        from_pipe = torchtrace(verb, "-", cwd=tmp_path, stdin=path.read_text())
        assert from_file.status == from_pipe.status == 0
        assert from_pipe.out == from_file.out
    empty = torchtrace("stats", "-", cwd=tmp_path)
    assert (empty.status, empty.out) == (2, "")
    assert empty.err == "torchtrace: standard input is empty; expected a trace\n"


def test_a_log_through_a_pipe(tmp_path):
    log = tool.ROOT / "testdata/logs/v1/sample.ttlog"
    stacks = log.with_name("stacks.ttlog")
    for path, args in (
        (log, ["stats"]),
        (log, ["dump"]),
        (log, ["dump", "--format", "jsonl"]),
        (stacks, ["dump", "--stacks"]),
        (stacks, ["stats", "--by", "line"]),
    ):
        from_file = torchtrace(*args, path, cwd=tmp_path)
        with open(path, "rb") as file:
            done = subprocess.run(
                [tool.TORCHTRACE, *args, "-"], stdin=file, stdout=subprocess.PIPE, check=True
            )
        assert done.stdout.decode().replace("standard input", path.stem) == from_file.out
    cut = subprocess.run(
        [tool.TORCHTRACE, "stats", "-"], input=log.read_bytes()[:9], stderr=subprocess.PIPE
    )
    assert cut.returncode == 2 and b"standard input" in cut.stderr and b"/proc/" not in cut.stderr


def test_files_packed_by_gzip(tmp_path):
    sources = {
        "ours.txt": (SEEDS / "text/ours").read_bytes(),
        "dump.jsonl": (SEEDS / "jsonl/dump").read_bytes(),
        "api_configs.txt": b"f(1)\n",
        "list.yaml": b"- api: f\n  args: [1]\n",
        "bench.txt": BENCH.encode(),
        "log.ttlog": (tool.ROOT / "testdata/logs/v1/stacks.ttlog").read_bytes(),
        "none.json": b'{"answer": 42}',
        "empty.txt": b"",
    }
    for name, content in sources.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
        for verb in (["stats", "--format", "json"], ["dump", "--format", "jsonl"], ["info"]):
            plain = torchtrace(*verb, name, cwd=tmp_path)
            packed = torchtrace(*verb, f"{name}.gz", cwd=tmp_path)
            assert packed.status == plain.status, (name, packed)
            assert packed.err == plain.err.replace(name, f"{name}.gz")
            piped = subprocess.run(
                [tool.TORCHTRACE, *verb, "-"],
                input=(tmp_path / f"{name}.gz").read_bytes(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            assert piped.returncode == plain.status, (name, piped)
            if verb[0] == "stats":
                assert packed.out == plain.out == piped.stdout.decode()


def test_counts_are_not_counted_one_by_one(tmp_path):
    many = 100_000_000_000
    (tmp_path / "many.yaml").write_text(
        f"- api: torch.f\n  level: 1\n  calls: {many}\n  args: [1]\n  kwargs: {{}}\n"
    )
    for verb in (["stats"], ["stats", "--by", "thread"], ["stats", "--by", "level", "--no-times"]):
        result = torchtrace(*verb, "many.yaml", "--format", "json", cwd=tmp_path)
        assert json.loads(result.out)["total_calls"] == many
    assert re.search(f"^calls +{many}$", torchtrace("info", "many.yaml", cwd=tmp_path).out, re.M)
    dedup = torchtrace("dedup", "many.yaml", "--counts", cwd=tmp_path)
    assert dedup.out.split()[0] == str(many)
    for verb in (["dump", "many.yaml"], ["merge", "many.yaml", "-o", "merged"]):
        result = torchtrace(*verb, cwd=tmp_path)
        assert result.status == 2 and "too many calls to show each of them" in result.err


def test_a_folder_without_a_log(tmp_path):
    log = tool.ROOT / "testdata/logs/v1/sample.ttlog"
    assert torchtrace("render", log, "-o", "out", cwd=tmp_path).status == 0
    from_log = json.loads(torchtrace("stats", log, "--format", "json", cwd=tmp_path).out)
    from_folder = json.loads(torchtrace("stats", "out", "--format", "json", cwd=tmp_path).out)
    assert from_folder["total_calls"] == from_log["total_calls"] > 0
    for name in ("api_trace.yaml", "api_trace.txt", "api_configs.yaml"):
        os.unlink(tmp_path / "out" / name)
        assert torchtrace("stats", "out", cwd=tmp_path).status == 0
    os.unlink(tmp_path / "out/api_configs.txt")
    nothing = torchtrace("stats", "out", cwd=tmp_path)
    assert nothing.status == 2 and "out holds no trace: expected logs named" in nothing.err


def test_what_was_rendered_says_what_the_log_says(tmp_path):
    """The same configs and calls, except nesting and levels, which text doesn't record."""
    log = tool.ROOT / "testdata/logs/v1/sample.ttlog"
    assert torchtrace("render", log, "-o", "out", cwd=tmp_path).status == 0
    for name in ("api_trace.yaml", "api_trace.txt"):
        again = torchtrace("render", f"out/{name}", "-o", f"from-{name}", cwd=tmp_path)
        assert again.status == 0, again.err
        for file in ("api_trace.txt", "api_configs.txt", "api_apis.txt"):
            ours = (tmp_path / f"from-{name}" / file).read_text()
            assert ours == (tmp_path / "out" / file).read_text()
    again, ours = (
        [
            line
            for line in (tmp_path / folder / "api_trace.yaml").read_text().splitlines()
            if "  depth: " not in line
        ]
        for folder in ("from-api_trace.yaml", "out")
    )
    assert again == ours and "  level: 2" in ours
    assert "  depth: 1\n" in (tmp_path / "out/api_trace.yaml").read_text()
    counts = torchtrace("render", "out/api_configs.yaml", "-o", "from-configs", cwd=tmp_path)
    assert counts.status == 0
    statistics = "api_configs.yaml"
    assert (tmp_path / "from-configs" / statistics).read_text() == (
        tmp_path / "out" / statistics
    ).read_text()


def test_json_lines_keep_everything_that_dump_shows(tmp_path):
    log = tool.ROOT / "testdata/logs/v1/sample.ttlog"
    first = torchtrace("dump", log, "--format", "jsonl", cwd=tmp_path)
    (tmp_path / "calls.jsonl").write_text(first.out)
    again = torchtrace("dump", "calls.jsonl", "--format", "jsonl", cwd=tmp_path)
    assert again == first
    assert torchtrace("dump", "calls.jsonl", cwd=tmp_path) == torchtrace("dump", log, cwd=tmp_path)


BAD = {
    "empty.yaml": (b"", "empty.yaml is empty; expected a trace"),
    "noise.txt": (bytes(range(256)) * 40, "noise.txt is not a trace; expected a torchtrace log"),
    "noise.yaml": (b"\x00\x01\x02\xff" * 5000, "noise.yaml is not a trace; expected"),
    "noise.ttlog": (bytes(range(256)) * 40, "noise.ttlog is not a torchtrace log"),
    "prose.txt": (b"Dear reader,\nthis is none.\n", "prose.txt is not a trace; expected"),
    "other.json": (b'{"answer": 42}\n', "other.json is not a trace; expected"),
    "cut.yaml": (b"- api: f\n  args: [1]\n- api: g\n  args: [1, {typ", "cut.yaml line "),
    "cut.txt": (b"f(1)\ng(list[1, 2", "cut.txt line 2, column 12: expected"),
    "cut.jsonl": (b'{"api":"f"}\n{"api":"g', "cut.jsonl line 2, offset 10: expected JSON"),
    "short.csv": (b"api,config,calls\nf,f(1)\n", "short.csv line 2, expected 3 cells, found 2"),
    "quote.csv": (b'api,config\nf,"f(1)\n', "quote.csv line 2, expected the closing quote"),
    "nothing.csv": (b"api,config\nf,\n", "nothing.csv line 2, config: expected a call"),
    "number.csv": (b"api,config,calls\nf,f(1),x\n", "number.csv line 2, "),
    "bench.txt": (BENCH.encode()[:-9], "bench.txt line 2, column "),
    "triton.json": (b'{"aten.f.x": [{"count": 1, "inp', "triton.json offset "),
    "wrong.yaml": (b"- api: f\n  args: 3\n", "wrong.yaml line 1, args: expected a list, found 3"),
    "packed.json.gz": (b"\x1f\x8b\x08" + bytes(99), "is compressed by gzip and damaged, at byte "),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name, tmp_path):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    for verb in VERBS:
        result = torchtrace(verb[0], name, *verb[1:], cwd=tmp_path)
        assert result.status == 2, (verb, result)
        assert message in result.err and len(result.err.splitlines()) == 1, (verb, result)
        assert result.err.startswith("torchtrace: ")
        if verb[0] != "dump":  # dump streams its output
            assert result.out == ""
    rendered = tmp_path / "rendered"
    assert not rendered.exists() or os.listdir(rendered) == []


def test_bad_paths(tmp_path):
    (tmp_path / "folder").mkdir()
    for path, message in (
        ("none.txt", "cannot read none.txt: No such file or directory"),
        ("folder", "folder holds no trace: expected logs named folder/log/*.ttlog, or "),
        ("/dev/null", "/dev/null is empty; expected a trace"),
    ):
        for verb in VERBS:
            result = torchtrace(verb[0], path, *verb[1:], cwd=tmp_path)
            assert (result.status, result.out) == (2, ""), (verb, result)
            assert message in result.err and len(result.err.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path):
    (tmp_path / "secret.txt").write_text("f(1)\n")
    (tmp_path / "secret.txt").chmod(0)
    for verb in VERBS:
        result = torchtrace(verb[0], "secret.txt", *verb[1:], cwd=tmp_path)
        assert result.status == 2 and "cannot read secret.txt: Permission denied" in result.err


def test_several_traces_of_several_formats(tmp_path):
    (tmp_path / "a.txt").write_text("torch.f(1)\n")
    (tmp_path / "b.yaml").write_text("- api: torch.f\n  args: [1]\n")
    stats = torchtrace("stats", "a.txt", "b.yaml", "--format", "json", cwd=tmp_path)
    assert stats.status == 0 and stats.err.count("\n") == 2


# ---- real programs ----


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("script", ["seed_example.py", "train_mlp.py", "opinfo_samples.py"])
def test_every_config_of_a_program_reads_back(script, tmp_path):
    """Converting text to the model and back is the identity; also for YAML."""
    result = torchtrace(
        "run",
        "-qo",
        "out",
        "-l1,2",
        "--python",
        tool.PYTHON,
        "--formats",
        "trace,configs",
        "--render-limit",
        "300000",
        tool.SCRIPTS / script,
        cwd=tmp_path,
        timeout=900,
    )
    assert result.status == 0, result.err
    lines = (tmp_path / "out/api_configs.txt").read_text()
    assert lines.count("\n") > 3
    for name in ("api_configs.txt", "api_configs.yaml", "api_trace.txt", "api_trace.yaml"):
        if not (tmp_path / "out" / name).exists():
            continue
        again = torchtrace(
            "render", f"out/{name}", "-qo", f"from-{name}", "--formats", "configs", cwd=tmp_path
        )
        assert again.status == 0, again.err
        assert (tmp_path / f"from-{name}/api_configs.txt").read_text() == lines


def complete(trace, cwd):
    info = tool.torchtrace("info", trace, cwd=cwd)
    assert info.status == 0, info
    return re.search(r"^complete +(.*)$", info.out, re.MULTILINE)[1]


def test_complete_is_only_what_shows_its_end(tmp_path):
    log = tool.ROOT / "testdata/logs/v1/tiny.ttlog"
    assert not complete(log, tmp_path).startswith("unknown")
    for name in ["calls.txt", "calls.yaml", "calls.jsonl", "calls.csv"]:
        assert tool.torchtrace("export", log, "-qo", name, cwd=tmp_path).status == 0
        assert complete(name, tmp_path).startswith("unknown: "), name
    event = {
        "ph": "X",
        "cat": "cpu_op",
        "name": "aten::mm",
        "pid": 1,
        "tid": 1,
        "ts": 5,
        "dur": 2,
        "args": {},
    }
    whole = json.dumps({"schemaVersion": 1, "traceEvents": [event, event | {"ts": 9}]})
    (tmp_path / "whole.json").write_text(whole)
    assert complete("whole.json", tmp_path).startswith("yes: the file is whole")
    for cut in [2, 5, 40]:
        (tmp_path / "cut.json").write_text(whole[:-cut])
        assert complete("cut.json", tmp_path).startswith("no: the file ends in the middle"), cut
    assert (
        tool.torchtrace("filter", "calls.txt", "--level=1", "-qo", "kept", cwd=tmp_path).status == 0
    )
    assert complete("kept", tmp_path).startswith("no: torchtrace filter made it")
    assert tool.torchtrace("merge", "calls.txt", "-qo", "merged", cwd=tmp_path).status == 0
    assert complete("merged", tmp_path).startswith("unknown: ")
    for rank in (0, 2):
        ranked = {"distributedInfo": {"rank": rank, "world_size": 3}, "traceEvents": [event]}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(ranked))
    merged = tool.torchtrace("merge", "rank0.json", "rank2.json", "-qo", "ranks", cwd=tmp_path)
    assert merged.status == 0 and "rank 1 of 3 is missing" in complete("ranks", tmp_path)
    assert tool.torchtrace("export", "json", log, "-qo", "list.json", cwd=tmp_path).status == 0
    text = (tmp_path / "list.json").read_text()
    assert text.endswith("]\n")
    (tmp_path / "list.json").write_text(text[:-2])
    refused = tool.torchtrace("info", "list.json", cwd=tmp_path)
    assert refused.status == 2 and "expected a ]" in refused.err


def test_calls_without_times_have_no_sum(tmp_path):
    log = tool.ROOT / "testdata/logs/v1/sample.ttlog"
    calls = tmp_path / "calls.txt"
    calls.write_text('torch.never_there(Tensor([2], "float32"))\n' * 3)
    both = tool.torchtrace("stats", log, calls, cwd=tmp_path)
    (row,) = [line for line in both.out.splitlines() if line.startswith("torch.never_there")]
    assert "0 ns" not in row and row.split()[-1] == "-"
    assert f"{calls}: 3 calls have no times, and are left out of their sums" in both.err
    rows = json.loads(
        tool.torchtrace("stats", "--sum", log, calls, "--format=json", cwd=tmp_path).out
    )["apis"]
    times = {row["api"]: row["time_ns"] for row in rows}
    assert times.pop("torch.never_there") is None and None not in times.values()
    refused = tool.torchtrace("stats", log, "--by", "thread", "--sort=time", "--no-times", cwd="/")
    assert refused.status == 2 and "--no-times leaves them out" in refused.err
