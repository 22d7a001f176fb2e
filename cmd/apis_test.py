"""`torchtrace apis`: coverage of traces against lists."""

import csv
import importlib.util
import io
import json
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location(
    "whole_tool", Path(__file__).parent / "whole_tool.py"
)
tool = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tool)

SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"


def apis(*args, **kwargs):
    return tool.torchtrace("apis", *args, **{"cwd": "/", **kwargs})


@pytest.fixture
def backend(tmp_path):
    path = tmp_path / "backend.yaml"
    path.write_text("backend: Mine\nsupported:\n- mm\n- add.Tensor\n- never_heard_of\n")
    return path


def test_help():
    result = apis("--help")
    assert result.status == 0 and "coverage" in result.out
    assert tool.torchtrace("help", "apis", cwd="/").out == result.out
    result = apis("coverage", "--help")
    assert result.status == 0 and "--fail-under" in result.out


def test_coverage_agrees_with_stats(backend):
    result = apis(
        "coverage", SAMPLE, "--list", backend, "--format", "json", "--show=called,never,outside"
    )
    assert result.status == 0 and result.err == ""
    report = json.loads(result.out)
    stats = json.loads(tool.torchtrace("stats", SAMPLE, "--format=json", cwd="/").out)["apis"]
    operators = {row["api"]: row for row in stats if "::" in row["api"]}
    rows = {row["api"]: row for row in report["apis"]}
    assert rows["aten::mm"]["calls"] == operators["aten::mm"]["calls"]
    assert rows["aten::mm"]["configs"] == operators["aten::mm"]["configs"]
    assert rows["aten::never_heard_of"]["called"] is False
    assert report["called"] == sum(row["called"] for row in report["apis"])
    outside = {row["api"]: row["calls"] for row in report["not_in_list"]}
    others = {api: row["calls"] for api, row in operators.items() if api not in rows}
    assert outside == others and report["outside"] == len(others)


def test_coverage_of_all_that_was_called(tmp_path):
    names = tmp_path / "names.txt"
    stats = json.loads(tool.torchtrace("stats", SAMPLE, "--format=json", cwd="/").out)["apis"]
    names.write_text("".join(f"{row['api']}\n" for row in stats))
    result = apis("coverage", SAMPLE, "--list", names, "--format=csv", "--fail-under", "100")
    assert result.status == 0
    table = list(csv.DictReader(io.StringIO(result.out)))
    assert sorted(row["api"] for row in table) == sorted({row["api"] for row in stats})
    assert {row["status"] for row in table} == {"called"}


def test_fail_under(backend):
    result = apis("coverage", SAMPLE, "--list", backend, "--fail-under", "67", "--show", "none")
    assert result.status == 1 and len(result.out.splitlines()) == 2
    assert result.err == f"torchtrace: fewer than 67% of {backend} were called\n"
    assert apis("coverage", SAMPLE, "--list", backend, "--fail-under", "66").status == 0


def test_trouble(tmp_path, backend):
    bad = tmp_path / "bad.yaml"
    bad.write_text("apis:\n- torch.abs\n- torch.linalg.*\n")
    for args, words in (
        ([], "apis: which verb?"),
        (["coverag"], "unknown verb 'coverag', did you mean coverage?"),
        (["coverage", "--list", backend], "TRACE"),
        (["coverage", SAMPLE, "--list", bad], f'{bad}:3: "torch.linalg.*" is a pattern'),
        (["coverage", SAMPLE, "--list", tmp_path / "none"], "No such file or directory"),
        (["coverage", tmp_path / "none", "--list", backend], str(tmp_path / "none")),
        (["coverage", SAMPLE, "--list", backend, "--fail-under", "101"], "no percentage"),
        (["coverage", SAMPLE, "--list", backend, "--show", "neve"], "did you mean never?"),
        (["coverage", SAMPLE, "--list", backend, "--include", "x*"], "leave nothing of"),
    ):
        result = apis(*args)
        assert result.status == 2 and result.out == "", args
        assert words in result.err and result.err.startswith("torchtrace: "), result.err
