"""torchtrace diff: what it says of two traces, in each form, and what it exits with."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "whole_tool", Path(__file__).parent / "whole_tool.py"
)
tool = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tool)

LOGS = tool.ROOT / "testdata/logs/v1"


def diff(*args, cwd="/", **kwargs):
    return tool.torchtrace("diff", *args, cwd=cwd, **kwargs)


def diff_json(*args, **kwargs):
    result = diff(*args, "--format", "json", **kwargs)
    report = json.loads(result.out)
    assert result.err == "" and result.status == (1 if report["different"] else 0)
    return report


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
    assert f"{cut} is damaged, and only what can be read is compared" in result.err


def test_ignore():
    """Each by name; what is forgotten shows in the report."""
    logs = (LOGS / "sample.ttlog", LOGS / "tiny.ttlog")
    for args in (["device,dtype"], ["device", "--ignore", "dtype,device"]):
        for mode in ([], ["--sequence"]):
            assert diff_json(*logs, *mode, "--ignore", *args)["ignored"] == ["device", "dtype"]
    assert "ignored: counts\n" in diff(*logs, "--ignore", "counts").out


def test_filters():
    sample, tiny = LOGS / "sample.ttlog", LOGS / "tiny.ttlog"
    report = diff_json(sample, tiny, "--level", "1", "--include", "torch.add")
    assert report["b"]["calls"] == 2 and 2 < report["a"]["calls"] < 121
    assert {row["api"] for row in report["configs"]} == {"torch.add"}
    assert diff(sample, tiny, "--include", "nothing").status == 0


def test_forms():
    a, b = LOGS / "sample.ttlog", LOGS / "tiny.ttlog"
    for mode in ([], ["--sequence"]):
        text = diff(a, b, *mode)
        assert text.status == 1 and text.out.startswith(f"--- {a}")
        markdown = diff(a, b, *mode, "--format", "markdown")
        assert markdown.status == 1 and markdown.out.startswith("# torchtrace diff")
        summary = diff(a, b, *mode, "--summary")
        assert summary.status == 1 and len(summary.out) < len(text.out)
        same = diff(a, a, *mode, "--summary")
        assert same.status == 0 and "the same" in same.out
        assert not diff_json(a, a, *mode)["different"]
        assert diff(a, a, *mode, "--format", "markdown").status == 0
        assert "\x1b" not in text.out
        assert "\x1b[3" in diff(a, b, *mode, "--color", "always").out
        assert "\x1b[3" in diff(a, b, *mode, env={"CLICOLOR_FORCE": "1"}).out
        assert "\x1b" not in diff(a, b, *mode, env={"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}).out
    assert len(diff_json(a, b, "--top", "1")["configs"]) == 1


# ---- trouble ----


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
        (("a", "b", "--sequence", "--ignore", "counts"), "compares no counts"),
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


def test_a_reader_that_has_gone():
    a, b = LOGS / "sample.ttlog", LOGS / "tiny.ttlog"
    for mode in ([], ["--sequence", "--format", "json"]):
        process = subprocess.Popen(
            [tool.TORCHTRACE, "diff", a, b, *mode],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
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


def test_no_flag_is_undocumented():
    page = (tool.ROOT / "docs/DIFF.md").read_text()
    for flag in re.findall(r"--[a-z-]+", diff("--help").out):
        assert flag in page, flag


# ---- a real program ----


@pytest.mark.torch
def test_a_larger_batch(tmp_path):
    """Each call's batch is another one, and nothing else is."""
    script = tmp_path / "mlp.py"
    script.write_text(
        "import sys, torch\n"
        "from torch import nn\n"
        "model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n"
        "    optimizer.zero_grad()\n"
        "    loss = model(torch.randn(int(sys.argv[1]), 32)).sum()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    for name, batch in (("a", 8), ("again", 8), ("b", 16)):
        run = ["run", "-qo", name, "-l", "1,2", "--python", tool.PYTHON, script, batch]
        assert tool.torchtrace(*run, cwd=tmp_path).status == 0
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
