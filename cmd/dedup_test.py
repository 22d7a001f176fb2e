"""The whole tool: torchtrace dedup, on logs, rendered folders and real traces."""

import csv
import io
import json
import shutil
import subprocess
from collections import Counter

import pytest

from tools.testing import whole_tool as tool

LOGS = tool.ROOT / "testdata/logs/v1"
SAMPLE = LOGS / "sample.ttlog"
TINY = LOGS / "tiny.ttlog"
TINY_LINE = 'torch.add(Tensor([2, 3], "float32"), alpha=10)\n'


def dedup(*args, cwd="/", **kwargs):
    return tool.torchtrace("dedup", *args, cwd=cwd, **kwargs)


def lines_of(*args, **kwargs):
    result = dedup(*args, **kwargs)
    assert (result.status, result.err) == (0, "")
    return result.out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An output folder with a log of several threads, rendered."""
    folder = tmp_path_factory.mktemp("dedup") / "out"
    (folder / "log").mkdir(parents=True)
    shutil.copy(SAMPLE, folder / "log/main-41.ttlog")
    assert tool.torchtrace("render", "-q", folder, cwd="/").status == 0
    return folder


def test_help():
    page = tool.torchtrace("help", "dedup", cwd="/")
    assert (page.status, page.err) == (0, "")
    assert page.out.startswith("Usage: torchtrace dedup ")
    assert max(map(len, page.out.splitlines())) <= 100


# ---- the default: the lines of api_configs.txt ----


@pytest.mark.parametrize("log", ["tiny", "sample", "killed"])
def test_lines_are_those_of_api_configs(tmp_path, log):
    path = LOGS / f"{log}.ttlog"
    rendered = tool.torchtrace("render", "-qo", "r", "--formats", "configs", path, cwd=tmp_path)
    assert rendered.status == 0
    expected = (tmp_path / "r/api_configs.txt").read_text()
    assert expected and lines_of(path) == expected
    assert lines_of("--format", "text", path) == expected
    assert dedup("-qo", "x.txt", path, cwd=tmp_path) == tool.Result(0, "", "")
    assert (tmp_path / "x.txt").read_text() == expected


def test_a_folder_and_its_log_say_the_same(folder):
    expected = (folder / "api_configs.txt").read_text()
    assert lines_of(folder) == expected
    assert lines_of(folder / "log/main-41.ttlog") == expected
    assert lines_of(folder, folder) == expected


def test_several_traces():
    both = lines_of(TINY, SAMPLE).splitlines()
    assert both == sorted(set(lines_of(TINY).splitlines() + lines_of(SAMPLE).splitlines()))
    assert lines_of(SAMPLE, TINY).splitlines() == both


def test_levels_and_globs():
    every = lines_of(SAMPLE).splitlines()
    first = lines_of(SAMPLE, "--level", "1").splitlines()
    second = lines_of(SAMPLE, "--level", "dispatch").splitlines()
    assert sorted(first + second) == every and first and second
    assert lines_of(SAMPLE, "--include", "aten::*").splitlines() == second
    assert lines_of(SAMPLE, "--exclude", "aten::*").splitlines() == first
    assert lines_of(SAMPLE, "-q", "--include", "?no such") == ""


def test_a_trace_without_calls(tmp_path):
    """No line, no error; the other formats write an empty result."""
    assert lines_of(TINY, "-q", "--level", "2") == ""
    assert json.loads(lines_of(TINY, "-q", "--level", "2", "--format", "json")) == []
    assert lines_of(TINY, "-q", "--level", "2", "--generalize") == ""


# ---- counts and provenance ----


def test_counts():
    assert lines_of(TINY, "--counts") == "      2  " + TINY_LINE
    assert lines_of(TINY, TINY, "--counts") == "      4  " + TINY_LINE
    counted = [line.strip().split("  ", 1) for line in lines_of(SAMPLE, "--counts").splitlines()]
    stats = json.loads(tool.torchtrace("stats", "--format=json", SAMPLE, cwd="/").out)
    assert sum(int(count) for count, _ in counted) == stats["total_calls"]
    assert [line for _, line in counted] == lines_of(SAMPLE).splitlines()


def test_provenance(folder):
    assert lines_of(TINY, "--provenance") == f"{TINY_LINE[:-1]}\t{TINY}: 2 calls\n"
    log = f"{folder}/main-41"
    with_both = lines_of(TINY, folder, "--provenance").splitlines()
    assert f"{TINY_LINE[:-1]}\t{TINY}: 2 calls" in with_both
    assert sum(line.split("\t")[1].startswith(log + ": ") for line in with_both) == len(
        lines_of(folder).splitlines()
    )


def csv_rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_provenance_in_columns(folder):
    out = lines_of(TINY, folder, "--provenance", "--format", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {(row["trace"], row.get("pid")) for row in rows} == {
        (str(TINY), None),
        (str(folder), 41),
    }
    # The total time of all configs is that of `export`.
    for options in ([], ["--provenance"]):
        rows = csv_rows(lines_of(SAMPLE, *options, "--format", "csv"))
        exported = csv_rows(tool.torchtrace("export", "csv", SAMPLE, cwd="/").out)
        times = [int(row["time_ns"]) for row in rows]
        assert sum(times) == sum(int(row["time_ns"]) for row in exported) > 0
    refused = dedup(TINY, "--provenance", "--format", "torchbench")
    assert refused.status == 2 and "--provenance: torchbench can't hold it" in refused.err


# ---- selection ----


def test_ignore():
    assert lines_of(TINY, "--ignore", "shape") == (
        'torch.add(Tensor([*, *], "float32"), alpha=10)\n'
    )
    assert lines_of(TINY, "--ignore", "device,stride", "--ignore", "scalars,dtype") == (
        "torch.add(Tensor([2, 3], *, device=*, stride=*), alpha=*)\n"
    )
    coarse = lines_of(SAMPLE, "--ignore", "shape,scalars", "--counts").splitlines()
    fine = lines_of(SAMPLE, "--counts").splitlines()
    assert len(coarse) < len(fine)
    total = [sum(int(line.split()[0]) for line in lines) for lines in (coarse, fine)]
    assert total[0] == total[1]


ADAM = """\
aten::addcdiv_(Tensor([3], "float32"), Tensor([3], "float32"), Tensor([3], "float32"), -0.001)
aten::addcdiv_(Tensor([3], "float32"), Tensor([3], "float32"), Tensor([3], "float32"), -0.002)
aten::addcdiv_(Tensor([4], "float32"), Tensor([4], "float32"), Tensor([4], "float32"), -0.002)
aten::select.int(Tensor([9, 4], "int64"), 0, 3)
aten::select.int(Tensor([9, 4], "int64"), 0, 5)
aten::select.int(Tensor([9, 4], "int64"), 1, 3)
torch.nn.functional.dropout(Tensor([2], "float32"), 0.1)
torch.nn.functional.dropout(Tensor([2], "float32"), 0.2)
"""


def test_for_tests(tmp_path):
    """The kept configs are those of real calls, and folded ones are reported."""
    (tmp_path / "list.txt").write_text(ADAM)
    lines = ADAM.splitlines(keepends=True)
    folded = dedup("list.txt", "--for", "tests", cwd=tmp_path)
    assert folded.status == 0
    kept = folded.out.splitlines(keepends=True)
    assert set(kept) < set(lines)
    assert [lines.index(line) for line in kept] in ([0, 2, 3, 5, 6, 7], [1, 2, 3, 5, 6, 7])
    assert "folded 2 configs into 1: numbers of optimizers\n" in folded.err
    assert "folded 2 configs into 1: items and windows of data\n" in folded.err
    counted = dedup("list.txt", "--for", "tests", "--counts", "-q", cwd=tmp_path)
    assert counted.err == "" and counted.out.startswith("      2  aten::addcdiv_(")
    rows = dedup("list.txt", "--for", "tests", "-q", "--format", "jsonl", cwd=tmp_path).out
    assert sum(json.loads(row)["calls"] for row in rows.splitlines()) == len(lines)
    unknown = dedup("list.txt", "--for", "benchmarks", cwd=tmp_path)
    assert unknown.status == 2 and "'benchmarks' is not a purpose; there is tests" in unknown.err


def test_keep_first():
    apis = Counter(line.split("(")[0] for line in lines_of(SAMPLE).splitlines())
    kept = Counter(line.split("(")[0] for line in lines_of(SAMPLE, "--keep-first", 2).splitlines())
    assert kept == Counter({api: min(2, count) for api, count in apis.items()})
    assert kept != apis


def test_generalize(tmp_path):
    every = lines_of(SAMPLE).splitlines()
    kept = lines_of(SAMPLE, "-q", "--generalize", "--audit", tmp_path / "a.json").splitlines()
    assert set(kept) < set(every) and len(kept) < len(every)
    audit = json.loads((tmp_path / "a.json").read_text())
    check_audit(audit["configs"], every, kept)
    assert (audit["kept"], audit["dropped"]) == (len(kept), len(every) - len(kept))
    assert (audit["seed"], audit["budget"], audit["families_cut"]) == (0, 64, 0)

    assert lines_of(SAMPLE, "--generalize", "--seed", 0).splitlines() == kept
    dedup(SAMPLE, "--generalize", "--audit", "a.jsonl", "-qo", "o.txt", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == audit["configs"]
    dedup(SAMPLE, "--generalize", "--audit", "a.csv", "-qo", "o.txt", "-f", cwd=tmp_path)
    with open(tmp_path / "a.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["config"] for row in table] == [row["config"] for row in rows]
    assert [row["kept"] for row in table] == [str(row["kept"]).lower() for row in rows]
    assert [row["covered_by"] for row in table] == [row.get("covered_by", "") for row in rows]
    assert [row["covers"] for row in table] == [
        str(len(row["covers"])) if row["kept"] else "" for row in rows
    ]


def check_audit(rows, every, kept):
    """Each config once; a dropped one has a representative, which was kept."""
    assert sorted(row["config"] for row in rows) == sorted(every)
    assert sorted(row["config"] for row in rows if row["kept"]) == sorted(kept)
    family = {row["config"]: row["family"] for row in rows}
    covered = {}
    for row in rows:
        for config in row.get("covers", ()):
            assert config not in covered
            covered[config] = row["config"]
    for row in rows:
        if row["kept"]:
            continue
        assert covered.pop(row["config"]) == row["covered_by"]
        assert family[row["covered_by"]] == row["family"]
        assert set(row["covered_in"].values()) <= set(kept)
    assert covered == {}


def test_budget(tmp_path):
    result = dedup(SAMPLE, "--generalize", "--budget", 1)
    assert result.status == 0
    assert "--budget 1 was too small for" in result.err and "--budget 0: no limit" in result.err
    assert dedup(SAMPLE, "--generalize", "--budget", 1, "-q").err == ""
    assert len(result.out.splitlines()) < len(lines_of(SAMPLE, "--generalize").splitlines())


# ---- output ----


def test_formats():
    configs = len(lines_of(SAMPLE).splitlines())
    rows = json.loads(lines_of(SAMPLE, "--format", "json"))
    assert len(rows) == configs and rows[0].keys() >= {"level", "api", "args", "kwargs", "calls"}
    timed = list(map(json.loads, lines_of(SAMPLE, "--format", "jsonl").splitlines()))
    assert [row.pop("time_ns") for row in timed][0] > 0 and timed == rows
    table = list(csv.DictReader(io.StringIO(lines_of(SAMPLE, "--format", "csv"))))
    assert len(table) == configs
    assert sum(int(row["calls"]) for row in table) == sum(row["calls"] for row in rows)
    assert lines_of(TINY, "--format", "yaml").startswith("- api: torch.add\n")


def test_format_by_suffix(tmp_path):
    for suffix, start in {"txt": "torch.add(", "yaml": "- api", "JSON": "[", "jsonl": "{"}.items():
        assert dedup(TINY, "-o", f"x.{suffix}", cwd=tmp_path) == tool.Result(
            0, "", f"torchtrace: wrote x.{suffix}: 1 config\n"
        )
        assert (tmp_path / f"x.{suffix}").read_text().startswith(start)
    assert dedup(TINY, "-o", "data", "--format", "text", "-q", cwd=tmp_path).status == 0
    assert (tmp_path / "data").read_text() == TINY_LINE
    assert dedup(TINY, "-o", "-").out == TINY_LINE
    unknown = dedup(TINY, "-o", "x.xlsx", cwd=tmp_path)
    assert unknown.status == 2 and ".txt" in unknown.err and ".parquet" in unknown.err
    assert not (tmp_path / "x.xlsx").exists()


def test_replayed_formats_get_calls_that_were_made():
    """When parts are ignored, a config that was called represents the rest."""
    out = dedup(SAMPLE, "--format", "torchbench", "--ignore", "shape,scalars").out
    assert "Operator: aten.add.Tensor\n" in out
    assert "*" not in out and "9223372036854775807" not in out


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "x.txt").write_text("mine")
    (tmp_path / "a.json").write_text("mine")
    for args in (
        ["-o", "x.txt"],
        ["--generalize", "--audit", "a.json"],
        ["--generalize", "--audit", "a.json", "-o", "new.txt"],
    ):
        refused = dedup(TINY, *args, cwd=tmp_path)
        assert refused.status == 2 and "exists; --force replaces it" in refused.err
        assert refused.out == ""
    args = ["-o", "x.txt", "--generalize", "--audit", "a.json", "-f"]
    assert dedup(TINY, *args, cwd=tmp_path).status == 0
    assert (tmp_path / "x.txt").read_text() == TINY_LINE
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.json", "x.txt"]


def test_trouble_leaves_the_output_as_it_was(tmp_path):
    (tmp_path / "x.txt").write_text("mine")
    broken = tmp_path / "broken.ttlog"
    broken.write_bytes(b"\x7fELF no log")
    for trace in (broken, "missing"):
        failed = dedup(TINY, trace, "-fo", "x.txt", cwd=tmp_path)
        assert failed.status == 2 and failed.err.count("\n") == 1
        assert str(trace) in failed.err
    assert (tmp_path / "x.txt").read_text() == "mine"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["broken.ttlog", "x.txt"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--ignore", "dtypes", TINY), "'dtypes' can't be ignored, did you mean dtype?"),
        (("--ignore", "device,colour", TINY), "there are device, stride, layout, dtype, shape"),
        (("--format", "jsno", TINY), "jsno"),
        (
            ("--audit", "a.txt", "--generalize", TINY),
            "has no known suffix: expected .json, .jsonl, .csv",
        ),
        (("--audit", "a.json", TINY), "--audit needs --generalize: give both"),
        (("--generalize", "--keep-first", "1", TINY), "give one of them"),
        (("--keep-first", "-1", TINY), "--keep-first"),
        (("--budget", "many", TINY), "'many' is not a count"),
        (("--generalise", TINY), "did you mean --generalize?"),
        (("-o", "/tmp", "--format", "text", TINY), "/tmp is a folder"),
        (("-o", "/no/where/x.txt", TINY), "cannot write /no/where/x.txt"),
        (("/not/there",), "/not/there"),
        ((), "TRACE is required"),
        (("--generalize", "--audit", "/no/x.json", "-o", "/no/x.json", TINY), "can't be both"),
    ],
)
def test_trouble(args, message):
    result = dedup(*args)
    assert (result.status, result.out) == (2, "")
    assert message in result.err
    assert result.err.startswith("torchtrace: ") and result.err.count("\n") == 1


def test_an_empty_file_is_no_trace(tmp_path):
    (tmp_path / "empty.ttlog").touch()
    result = dedup(tmp_path / "empty.ttlog")
    assert result.status == 2 and "empty.ttlog" in result.err and result.err.count("\n") == 1


def test_reader_that_has_gone_is_no_failure():
    for args in ([SAMPLE], [SAMPLE, "--format", "json"], [SAMPLE, "--provenance"]):
        process = subprocess.Popen(
            [tool.TORCHTRACE, "dedup", *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_a_full_disk_is_one():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [tool.TORCHTRACE, "dedup", SAMPLE], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and "No space left on device" in done.stderr


# ---- a real trace ----


@pytest.mark.torch
@pytest.mark.slow
def test_opinfo_samples(tmp_path):
    traced = tool.torchtrace(
        "run",
        "-qo",
        "t",
        "--levels=1,2",
        "--python",
        tool.PYTHON,
        tool.SCRIPTS / "opinfo_samples.py",
        cwd=tmp_path,
        timeout=900,
        env={"PYTHONHASHSEED": "0"},
    )
    assert traced.status == 0
    every = lines_of("t", cwd=tmp_path)
    assert every == (tmp_path / "t/api_configs.txt").read_text()
    kept = lines_of("t", "-q", "--generalize", "--audit", "a.jsonl", cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    check_audit(rows, every.splitlines(), kept.splitlines())
    assert len(kept.splitlines()) < 0.9 * len(every.splitlines())
