"""torchtrace diff: its output for two traces, in each form, and its exit codes."""

import json
import re
import subprocess

import pytest

from python import warm_testing
from tools.testing import whole_tool as tool

LOGS = tool.ROOT / "testdata/logs/v1"


def diff(*args, cwd="/", **kwargs):
    return tool.torchtrace("diff", *args, cwd=cwd, **kwargs)


def diff_json(*args, **kwargs):
    result = diff(*args, "--format", "json", **kwargs)
    report = json.loads(result.out)
    assert result.err == "" and result.status == (1 if report["different"] else 0)
    return report


def tensor(*shape, dtype="float32", device="cpu"):
    return {
        "type": "torch.Tensor",
        "shape": list(shape),
        "dtype": f"torch.{dtype}",
        "device": device,
    }


def call(api, *args, level=1, inside=(), thread=0, **kwargs):
    """One call; `inside` are the calls that it makes."""
    return {
        "level": level,
        "api": api,
        "args": list(args),
        "kwargs": kwargs,
        "inside": inside,
        "thread": thread,
    }


def write(path, *calls):
    """A trace of these calls, as `dump --format jsonl` writes them."""
    lines, clock = [], [1000]

    def add(one, depth, parent, thread):
        number = len(lines)
        clock[0] += 10
        line = {"call": number}
        if parent is not None:
            line["parent"] = parent
        line |= {"depth": depth, "process": "main-7", "thread": thread, "time_ns": clock[0]}
        lines.append(line)
        for inner in one["inside"]:
            add(inner, depth + 1, number, thread)
        clock[0] += 10
        line |= {"outcome": "returned", "duration_ns": clock[0] - line["time_ns"]}
        line |= {key: one[key] for key in ("level", "api", "args", "kwargs")}

    for one in calls:
        add(one, 0, None, one["thread"])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def linear(batch):
    """A level-1 call with the operators below it."""
    return call(
        "torch.nn.functional.linear",
        tensor(batch, 128),
        tensor(64, 128),
        inside=[
            call("aten::t", tensor(64, 128), level=2),
            call("aten::addmm", tensor(batch, 128), tensor(64, 128), level=2),
        ],
    )


RELU = call("torch.relu", tensor(4))
GELU = call("torch.nn.functional.gelu", tensor(4))


# ---- logs ----


def test_a_trace_is_the_same_as_itself():
    for log in ("sample", "tiny", "killed"):
        for mode in ([], ["--sequence"]):
            path = LOGS / f"{log}.ttlog"
            assert diff(path, path, *mode) == tool.Result(0, "", "")


def test_how_a_program_ended_is_no_difference():
    assert diff(LOGS / "sample.ttlog", LOGS / "killed.ttlog").status == 0


def test_logs():
    report = diff_json(LOGS / "sample.ttlog", LOGS / "tiny.ttlog")
    assert report["different"] and report["a"]["calls"] == 121 and report["b"]["calls"] == 2
    report = diff_json(LOGS / "sample.ttlog", LOGS / "tiny.ttlog", "--sequence")
    assert report["summary"]["sequences"] == len(report["sequences"]) > 1


def test_damage_is_told(tmp_path):
    whole = (LOGS / "sample.ttlog").read_bytes()
    cut = tmp_path / "cut.ttlog"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    result = diff(LOGS / "sample.ttlog", cut)
    assert f"{cut} is damaged: 40 calls lost" in result.err


def test_filters():
    sample, tiny = LOGS / "sample.ttlog", LOGS / "tiny.ttlog"
    report = diff_json(sample, tiny, "--level", "1", "--include", "torch.add")
    assert report["b"]["calls"] == 2 and 2 < report["a"]["calls"] < 121
    assert {row["api"] for row in report["configs"]} == {"torch.add"}
    assert diff(sample, tiny, "--include", "?nothing").status == 0


# ---- configs ----


def test_counts_changed(tmp_path):
    a = write(tmp_path / "a.jsonl", RELU, RELU, GELU)
    b = write(tmp_path / "b.jsonl", *[RELU] * 12, GELU)
    result = diff(a, b)
    assert (result.status, result.err) == (1, "")
    assert "~  2 -> 12  torch.relu\n" in result.out
    assert "~  2 -> 12  torch.relu(Tensor([4]" in result.out
    assert "gelu" not in result.out
    assert diff(a, b, "--ignore", "counts") == tool.Result(0, "", "")


def test_shapes_changed(tmp_path):
    a = write(tmp_path / "a.jsonl", linear(8), linear(8), RELU)
    b = write(tmp_path / "b.jsonl", linear(16), linear(16), RELU)
    result = diff(a, b)
    assert result.status == 1
    assert (
        "2  level 1  torch.nn.functional.linear("
        'Tensor([8 -> 16, 128], "float32"), Tensor([64, 128], "float32"))\n' in result.out
    )
    assert "APIs: 4 the same\n" in result.out
    assert "configs: 2 changed, 2 the same\n" in result.out
    rows = diff_json(a, b)["configs"]
    assert [row["differences"] for row in rows] == [[{"a": "8", "b": "16"}]] * 2
    assert {row["change"] for row in rows} == {"changed"}
    assert diff(a, b, "--ignore", "shape").status == 0


def test_an_api_added(tmp_path):
    a = write(tmp_path / "a.jsonl", RELU)
    b = write(tmp_path / "b.jsonl", RELU, GELU)
    there, back = diff_json(a, b), diff_json(b, a)
    row = {"level": 1, "api": "torch.nn.functional.gelu"}
    assert there["apis"] == [{"change": "added", **row, "a_calls": 0, "b_calls": 1}]
    assert back["apis"] == [{"change": "removed", **row, "a_calls": 1, "b_calls": 0}]
    assert diff(a, b, "--exclude", "*gelu").status == 0
    assert diff(a, b, "--include", "*gelu").status == 1
    assert diff(a, b, "--level", "2").status == 0


def test_ignore(tmp_path):
    a = write(tmp_path / "a.jsonl", call("f", tensor(4), 1))
    b = write(tmp_path / "b.jsonl", call("f", tensor(4, device="cuda:0", dtype="float16"), 2))
    assert diff(a, b, "--ignore", "device,dtype").status == 1
    for args in (["device,dtype,scalars"], ["device", "--ignore", "dtype,scalars"]):
        assert diff(a, b, "--ignore", *args).status == 0
        assert diff(a, b, "--sequence", "--ignore", *args).status == 0
    assert diff_json(a, b, "--ignore", "dtype,device")["ignored"] == ["dtype", "device"]


def test_forms(tmp_path):
    a = write(tmp_path / "a.jsonl", RELU, linear(8))
    b = write(tmp_path / "b.jsonl", GELU, linear(16))
    for mode in ([], ["--sequence"]):
        markdown = diff(a, b, *mode, "--format", "markdown")
        assert markdown.status == 1 and markdown.out.startswith("# torchtrace diff")
        assert "8 -> 16" in markdown.out
        summary = diff(a, b, *mode, "--summary")
        assert summary.status == 1 and "linear(" not in summary.out
        assert len(summary.out.splitlines()) < 10
        assert diff(a, a, *mode, "--summary").status == 0
        assert diff(a, a, *mode, "--summary").out != ""
        assert not diff_json(a, a, *mode)["different"]
        assert diff(a, a, *mode, "--format", "markdown").status == 0
        assert "\x1b" not in diff(a, b, *mode).out
        assert "\x1b[32m16\x1b[0m" in diff(a, b, *mode, "--color", "always").out
        assert "\x1b[32m16\x1b[0m" in diff(a, b, *mode, env={"CLICOLOR_FORCE": "1"}).out
        assert "\x1b" not in diff(a, b, *mode, env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}).out
    assert "... and 3 more\n" in diff(a, b, "--top", "1").out


# ---- sequences ----


def test_insertion_deletion_and_change(tmp_path):
    steps = [call("step", number) for number in range(20)]
    a = write(tmp_path / "a.jsonl", *steps[:5], RELU, *steps[5:14], linear(8), *steps[14:])
    b = write(tmp_path / "b.jsonl", *steps[:14], linear(16), *steps[14:17], GELU, *steps[17:])
    result = diff(a, b, "--sequence", "--level", "1", cwd=tmp_path)
    assert result.status == 1
    assert "first divergence: call 5 of " in result.out
    lines = re.findall(r"^([-+~]) +([\d ]+?)  (\S.*)$", result.out, re.M)
    lines = [line for line in lines if not line[1].startswith(("-", "+"))]
    assert [(mark, text[:10]) for mark, _, text in lines] == [
        ("-", "torch.relu"),
        ("~", "torch.nn.f"),
        ("+", "torch.nn.f"),
    ]
    assert "Tensor([8 -> 16, 128]" in lines[1][2]
    # The numbers are those of `dump`.
    a_call, b_call = lines[1][1].split()
    assert "linear(Tensor([8, 128]" in tool.torchtrace("dump", a, "--calls", a_call, cwd="/").out
    assert "linear(Tensor([16, 128]" in tool.torchtrace("dump", b, "--calls", b_call, cwd="/").out
    report = diff_json(a, b, "--sequence", "--level", "1", "--context", "0", "--max-hunks", "2")
    (sequence,) = report["sequences"]
    numbers = {key: sequence[key] for key in ("same", "changed", "removed", "added")}
    assert numbers == {"same": 20, "changed": 1, "removed": 1, "added": 1}
    assert sequence["hunks_found"] == 3 and len(sequence["hunks"]) == 2


def test_standard_input(tmp_path):
    a = write(tmp_path / "a.jsonl", RELU)
    b = write(tmp_path / "b.jsonl", GELU)
    for mode in ([], ["--sequence"]):
        assert diff(a, "-", *mode, stdin=a.read_text()).status == 0
        assert diff(a, "-", *mode, stdin=b.read_text()).status == 1


def test_nested_calls(tmp_path):
    a = write(tmp_path / "a.jsonl", RELU, linear(8))
    other = linear(8)
    other["inside"] = [other["inside"][0], call("aten::detach", level=2), other["inside"][1]]
    b = write(tmp_path / "b.jsonl", RELU, other)
    result = diff(a, b, "--sequence")
    assert result.status == 1
    assert "  inside 1 torch.nn.functional.linear(Tensor([8, 128]" in result.out
    assert "level 2: 1 added, 2 the same" in result.out and "level 1:" not in result.out
    assert diff(a, b, "--sequence", "--level", "1").status == 0
    nested = diff_json(a, b, "--sequence", "--nested")
    assert [line["depth"] for line in nested["sequences"][0]["hunks"][0]["lines"]] == [
        0,
        0,
        1,
        1,
        1,
    ]


def test_threads_of_one_side(tmp_path):
    a = write(tmp_path / "a.jsonl", RELU)
    b = write(tmp_path / "b.jsonl", RELU, RELU | {"thread": 1})
    assert "only in " + str(b) in diff(a, b, "--sequence").out
    report = diff_json(b, a, "--sequence")
    assert [sequence["b_calls"] for sequence in report["sequences"]] == [1, 0]
    assert report["sequences"][1]["b_thread"] is None


# ---- errors ----


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "A is required"),
        (("a",), "B is required"),
        (("a", "b", "c"), "unexpected argument 'c'"),
        (("a", "b", "--ignore", "devices"), "did you mean device?"),
        (("a", "b", "--ignore", "devices"), "level, counts"),
        (("a", "b", "--format", "xml"), "text, json, markdown"),
        (("a", "b", "--top", "-1"), "--top"),
        (("a", "b", "--context", "2"), "--context needs --sequence"),
        (("a", "b", "--nested"), "--nested needs --sequence"),
        (("a", "b", "--sequence", "--ignore", "counts"), "doesn't compare counts"),
        (("a", "b", "--sequence", "--top", "3"), "--max-hunks"),
        (("a", "b", "--squence"), "did you mean --sequence?"),
        (("-", "-"), "only one of A and B can be standard input"),
        (("/not/there", LOGS / "tiny.ttlog"), "/not/there"),
        ((LOGS / "tiny.ttlog", "/not/there"), "/not/there"),
        ((LOGS / "tiny.ttlog", "/bin/true"), "/bin/true"),
        (("/dev/null", LOGS / "tiny.ttlog"), "/dev/null"),
        (("/proc", LOGS / "tiny.ttlog", "--sequence"), "/proc"),
    ],
)
def test_trouble(args, message):
    result = diff(*args)
    assert result.status == 2 and result.out == ""
    assert message in result.err
    assert all(line.startswith("torchtrace: ") for line in result.err.splitlines())


def test_a_reader_that_has_gone(tmp_path):
    a = write(tmp_path / "a.jsonl", *[call("f", number) for number in range(3000)])
    b = write(tmp_path / "b.jsonl", *[call("g", number) for number in range(3000)])
    for mode in ([], ["--sequence", "--max-calls", "0"]):
        process = subprocess.Popen(
            [tool.TORCHTRACE, "diff", a, b, *mode],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 1)


def test_a_full_disk():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [tool.TORCHTRACE, "diff", LOGS / "sample.ttlog", LOGS / "tiny.ttlog"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 2 and "No space left on device" in done.stderr


# ---- a real program ----


@pytest.mark.torch
def test_a_larger_batch(tmp_path):
    """Each call has another batch size, and everything else is equal."""
    program = """
    import sys, torch, torchtrace
    from torch import nn
    with torchtrace.trace(sys.argv[1], levels=[1, 2]):
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(int(sys.argv[2]), 32)).sum()
            loss.backward()
            optimizer.step()
    """
    for name, batch in (("a", 8), ("again", 8), ("b", 16)):
        warm_testing.python(program, tmp_path, name, str(batch)).check()
    for mode in ([], ["--sequence"]):
        assert diff("a", "again", *mode, cwd=tmp_path) == tool.Result(0, "", "")
    report = diff_json("a", "b", cwd=tmp_path)
    assert report["a"]["calls"] == report["b"]["calls"] > 100
    assert report["apis"] == []
    configs = report["summary"]["configs"]
    assert configs["changed"] > 10 and configs["same"] > 10
    assert configs["removed"] == configs["added"] == configs["count"] == 0
    changes = {(d["a"], d["b"]) for row in report["configs"] for d in row["differences"]}
    assert changes == {("8", "16")}
    report = diff_json("a", "b", "--sequence", cwd=tmp_path)
    summary = report["summary"]
    assert summary["changed"] > 30 and summary["removed"] == summary["added"] == 0
    first = report["sequences"][report["first_divergence"]["sequence"]]["hunks"][0]
    (line,) = [line for line in first["lines"] if line["change"] != "same"][:1]
    assert line["a"].startswith("torch.randn(8, 32") and line["b"].startswith("torch.randn(16, 32")
