"""torchtrace merge from a user's view: real logs, real folders, exit codes."""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tools.testing import whole_tool as tool
from tools.testing.terminal import Terminal

LOGS = tool.ROOT / "testdata/logs"
SAMPLE = LOGS / "v1/sample.ttlog"  # 3 threads, ended in order
KILLED = LOGS / "v1/killed.ttlog"


def torchtrace(*args, cwd, **kwargs):
    return tool.torchtrace(*args, cwd=cwd, **kwargs)


def merge(cwd, *args, **kwargs):
    return torchtrace("merge", *args, cwd=cwd, **kwargs)


def make_run(folder, log=SAMPLE):
    """An output folder with one log."""
    (folder / "log").mkdir(parents=True)
    shutil.copy(log, folder / "log" / "main-41.ttlog")
    return folder


def calls_of(path):
    done = torchtrace("info", path, "--format", "json", cwd="/")
    assert done.status == 0, done.err
    return json.loads(done.out)["counts"]["calls"]


def tree(folder):
    """Every file below the folder with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def refused(result, *texts):
    """Exit 2 with one sentence that contains the texts."""
    assert (result.status, result.out) == (2, ""), result
    assert result.err.count("\n") == 1 and result.err.startswith("torchtrace: "), result.err
    for text in texts:
        assert str(text) in result.err


def test_merge(tmp_path):
    run = make_run(tmp_path / "a")
    result = merge(tmp_path, "a", KILLED, "-o", "out", "--label", "first=a")
    assert result.status == 0, result.err
    assert "the trace is in out: " in result.err
    assert "processes recorded: 2, of which killed or still running: 1\n" in result.err
    assert "torchtrace: next: torchtrace stats out\n" in result.err
    assert sorted(os.listdir(tmp_path)) == ["a", "out"]
    assert os.listdir(tmp_path / "out/log") == ["merged.ttlog"]
    assert calls_of(tmp_path / "out") == calls_of(run) + calls_of(KILLED)

    info = json.loads((tmp_path / "out/run.json").read_text())
    assert info["order"] == {"clock": "monotonic", "by_clock": 2, "as_given": 0}
    assert info["incomplete_ranks"] == []
    first, second = info["processes"]
    assert first["label"] == "first" and first["source"] == "a/log/main-41.ttlog"
    assert first["log"] == "log/merged.ttlog" and first["host"] == "machine"
    assert "label" not in second and second["source"] == str(KILLED)

    text = torchtrace("info", "out", cwd=tmp_path).out
    assert "order        processes by the machine's clock\n" in text
    assert "first:main-41" in text and str(KILLED) in text
    # The files are those of the merged log.
    names = set(os.listdir(tmp_path / "out"))
    assert names >= {"run.json", "api_trace.txt", "api_configs.yaml", "api_statistics.txt", "log"}
    again = torchtrace("render", "out", "-o", "again", cwd=tmp_path)
    assert again.status == 0
    for name, content in tree(tmp_path / "again").items():
        assert (tmp_path / "out" / name).read_bytes() == content, name


def test_formats_and_limit(tmp_path):
    options = ("--formats", "configs.txt,trace.txt", "--render-limit", "10", "--no-merge-output")
    result = merge(tmp_path, SAMPLE, SAMPLE, "-o", "out", *options)
    assert result.status == 0
    assert "torchtrace render out --formats trace.txt --no-merge-output" in result.err
    names = sorted(os.listdir(tmp_path / "out"))
    assert names == ["api_configs_level_1.txt", "api_configs_level_2.txt", "log", "run.json"]
    assert merge(tmp_path, SAMPLE, "-qo", "none", "--formats=none") == tool.Result(0, "", "")
    assert sorted(os.listdir(tmp_path / "none")) == ["log", "run.json"]


def test_merging_again_keeps_the_first_label_and_source(tmp_path):
    assert merge(tmp_path, SAMPLE, "-o", "one", "--label", f"inner={SAMPLE}").status == 0
    assert merge(tmp_path, "-o", "two", "--label", "outer=one").status == 0
    (process,) = json.loads((tmp_path / "two/run.json").read_text())["processes"]
    assert (process["label"], process["source"]) == ("inner", str(SAMPLE))
    assert calls_of(tmp_path / "two") == calls_of(SAMPLE)


def test_manifest(tmp_path):
    make_run(tmp_path / "with space")
    (tmp_path / "list").write_text(f"# what to merge\n\n{SAMPLE}\tthe label\r\nwith space\n")
    assert merge(tmp_path, "--manifest", "list", "-o", "out", "--formats", "none").status == 0
    processes = json.loads((tmp_path / "out/run.json").read_text())["processes"]
    assert [process.get("label") for process in processes] == ["the label", None]
    result = merge(tmp_path, "--manifest=-", "-o", "out2", "--formats=none", stdin=f"{SAMPLE}\n")
    assert result.status == 0 and calls_of(tmp_path / "out2") == calls_of(SAMPLE)
    (tmp_path / "bad").write_text(f"{SAMPLE}\n\tlabel\n")
    refused(merge(tmp_path, "--manifest", "bad", "-o", "x"), "manifest bad, line 2")
    refused(merge(tmp_path, "--manifest", "none", "-o", "x"), "the manifest: cannot read none")
    refused(
        merge(tmp_path, "--manifest", ".", "-o", "x"), "the manifest: cannot read .: Is a directory"
    )
    assert not (tmp_path / "x").exists()


def test_other_tools_files_stand_where_they_were_given(tmp_path):
    (tmp_path / "api_trace.txt").write_text("torch.first(1)\ntorch.first(2)\n")
    result = merge(tmp_path, "api_trace.txt", SAMPLE, "-", "-o", "out", stdin="torch.last(3)\n")
    assert result.status == 0, result.err
    assert "killed" not in result.err
    lines = (tmp_path / "out/api_trace.txt").read_text().splitlines()
    assert lines[:2] == ["torch.first(1)", "torch.first(2)"] and lines[-1] == "torch.last(3)"
    info = json.loads((tmp_path / "out/run.json").read_text())
    assert info["order"] == {"clock": "monotonic", "by_clock": 1, "as_given": 2}
    assert [process["source"] for process in info["processes"]][:2] == [
        "api_trace.txt",
        str(SAMPLE),
    ]
    refused(merge(tmp_path, "-", "-", "-o", "x"), "standard input can be merged only once")


def test_folder_of_folders(tmp_path):
    for name in ("r1", "r0"):
        make_run(tmp_path / "runs" / name)
    assert merge(tmp_path, "runs", "-o", "out", "--formats", "none").status == 0
    processes = json.loads((tmp_path / "out/run.json").read_text())["processes"]
    sources = [process["source"] for process in processes]
    assert sources == ["runs/r0/log/main-41.ttlog", "runs/r1/log/main-41.ttlog"]


def patched_log(path, **metadata):
    """sample.ttlog with other metadata, in an unclosed frame."""
    data = bytearray(SAMPLE.read_bytes())
    header, page = 4096, 4096
    length = int.from_bytes(data[header + 32 : header + 36], "little")
    content = json.loads(data[header + 64 : header + 64 + length])
    content.update(metadata)
    text = json.dumps(content).encode()
    assert len(text) <= page - 64
    data[header + 32 : header + 64] = len(text).to_bytes(4, "little") + bytes(28)
    data[header + 64 : header + page] = text.ljust(page - 64, b"\0")
    path.write_bytes(data)
    return path


def test_missing_and_duplicate_ranks_are_named(tmp_path):
    for i, rank in enumerate((0, 2, 2)):
        patched_log(tmp_path / f"{i}.ttlog", environment={"RANK": str(rank), "WORLD_SIZE": "4"})
    result = merge(tmp_path, *(f"{i}.ttlog" for i in range(3)), "-o", "out", "--formats=none")
    assert result.status == 0
    assert "torchtrace: ranks 1, 3 of 4 are missing\n" in result.err
    assert "torchtrace: rank 2 is there more than once\n" in result.err
    info = json.loads((tmp_path / "out/run.json").read_text())
    assert info["incomplete_ranks"] == [
        {"label": None, "world_size": 4, "missing": [1, 3], "duplicate": [2]}
    ]
    assert [process["rank"] for process in info["processes"]] == [0, 2, 2]
    assert "ranks 1, 3 of 4 are missing" in torchtrace("info", "out", cwd=tmp_path).out


def test_damage_is_told_for_ever(tmp_path):
    data = bytearray(SAMPLE.read_bytes())
    data[5 * 4096 : 6 * 4096] = bytes(4096)
    (tmp_path / "bad.ttlog").write_bytes(data)
    lost = json.loads(torchtrace("info", "bad.ttlog", "--format=json", cwd=tmp_path).out)["damage"]
    assert lost["lost_calls"] > 0
    assert merge(tmp_path, "bad.ttlog", SAMPLE, "-o", "one", "--formats=none").status == 0
    result = merge(tmp_path, "one", "-o", "two", "--formats=none")
    assert f"the log is damaged: {lost['lost_calls']} calls lost" in result.err
    assert json.loads((tmp_path / "two/run.json").read_text())["damage"] == lost
    assert "bad.ttlog: no frame can be read" in torchtrace("info", "two", cwd=tmp_path).out


def test_errors_write_nothing(tmp_path):
    run = make_run(tmp_path / "run")
    (tmp_path / "text").write_text("torch.add(1, 2)\n" * 3)
    (tmp_path / "bad_syntax.txt").write_text("torch.add(1, 2)\ntorch.add(1,, 2)\n")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "empty").touch()
    (tmp_path / "nothing").mkdir()
    before = tree(tmp_path)
    refused(merge(tmp_path, "run"), "--output is required")
    refused(merge(tmp_path, "-o", "out"), "nothing to merge")
    refused(merge(tmp_path, "run", "-o", ""), "--output: the name is empty")
    refused(merge(tmp_path, "run", "-o", "out", "--label", "run"), "expected NAME=TRACE")
    for bad in ("none", "noise", "empty", "nothing", "bad_syntax.txt"):
        refused(merge(tmp_path, "run", bad, "-o", "out"), bad)
    refused(merge(tmp_path, "run", "-o", "text"), "output folder text is a file")
    refused(merge(tmp_path, "run", "-o", "text/below"), "text/below")
    refused(merge(tmp_path, SAMPLE, "-o", "run"), "run is not empty", "--force")
    refused(
        merge(tmp_path, "run", SAMPLE, "-fo", "run"), "the input run is in the output folder run"
    )
    refused(merge(tmp_path, run / "log/main-41.ttlog", "-fo", "run"), "is in the output folder run")
    for inside in ("run/log", "run/log/new"):
        refused(merge(tmp_path, "run", SAMPLE, "-fo", inside), f"{inside} is in the input run")
    refused(merge(tmp_path, SAMPLE, "-fo", "."), "holds the current folder")
    assert tree(tmp_path) == before
    assert sorted(os.listdir(tmp_path)) == sorted(
        {path.split("/")[0] for path in before} | {"nothing"}
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path):
    locked = make_run(tmp_path / "locked")
    os.chmod(locked / "log/main-41.ttlog", 0)
    refused(merge(tmp_path, "locked", "-o", "out"), "Permission denied")
    assert os.listdir(tmp_path) == ["locked"]


def test_force_replaces_the_old_trace_when_the_new_one_is_complete(tmp_path):
    out = make_run(tmp_path / "out")
    (out / "notes").write_text("mine")
    (out / "api_apis.txt").write_text("old")
    before = tree(out)
    # If merging fails after it began to write, the old output stays unchanged.
    limited = subprocess.run(
        [tool.TORCHTRACE, "merge", SAMPLE, "-fo", "out"],
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000)),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert (
        limited.returncode == 2
        and "cannot write out/log/merged.ttlog: File too large" in limited.stderr
    )
    assert tree(out) == before and os.listdir(tmp_path) == ["out"]
    assert merge(tmp_path, SAMPLE, "-fo", "out", "--formats=none").status == 0
    assert sorted(os.listdir(out)) == ["log", "notes", "run.json"]
    assert os.listdir(out / "log") == ["merged.ttlog"]
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", disk], check=False)
    if mounted.returncode != 0:
        pytest.skip("this root can't mount")
    try:
        refused(
            merge(disk, *[SAMPLE] * 20, "-o", "out"),
            "cannot write out/log/merged.ttlog",
            "No space",
        )
        assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_thousand_inputs_with_64_open_files(tmp_path):
    for i in range(1000):
        (tmp_path / f"in/{i:03}/log").mkdir(parents=True)
        shutil.copy(SAMPLE, tmp_path / f"in/{i:03}/log/main-{i}.ttlog")

    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    for command in (
        ["merge", "in", "-qo", "out", "--formats", "configs,statistics"],
        ["merge", "out", "-qo", "again", "--formats", "none"],
    ):
        done = subprocess.run(
            [tool.TORCHTRACE, *command],
            cwd=tmp_path,
            preexec_fn=few_files,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
    calls = calls_of(SAMPLE)
    assert calls_of(tmp_path / "out") == 1000 * calls
    info = json.loads((tmp_path / "again/run.json").read_text())
    assert len(info["processes"]) == 1000 and info["damage"]["damaged"] is False
    assert {process["source"] for process in info["processes"]} == {
        f"in/{i:03}/log/main-{i}.ttlog" for i in range(1000)
    }
    text = torchtrace("info", "out", cwd=tmp_path).out
    assert text.count("\n") < 150 and "and 900 more processes" in text
    # All together, in time order: the logs overlap.
    folder = tmp_path / "together/log"
    folder.mkdir(parents=True)
    for i in range(200):
        shutil.copy(SAMPLE, folder / f"main-{i}.ttlog")
    listing = subprocess.run(
        [tool.TORCHTRACE, "render", "together", "--formats=trace.txt", "-q"],
        cwd=tmp_path,
        preexec_fn=few_files,
    )
    assert listing.returncode == 0
    assert (tmp_path / "together/api_trace.txt").read_text().count("\n") == 200 * calls


def test_ctrl_c_leaves_nothing(tmp_path):
    (tmp_path / "list").write_text(f"{SAMPLE}\n" * 10_000)
    old = tree(make_run(tmp_path / "out"))
    for number in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(
            [tool.TORCHTRACE, "merge", "--manifest", "list", "-fo", "out"],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
        )
        while process.poll() is None and not list(tmp_path.glob(".out.*/log/.merged.ttlog.*")):
            time.sleep(0.001)
        process.send_signal(number)
        assert process.stderr.read() == b""
        assert process.wait() == -number
        assert sorted(os.listdir(tmp_path)) == ["list", "out"]
        assert tree(tmp_path / "out") == old


@pytest.mark.slow
def test_progress_on_a_terminal(tmp_path):
    (tmp_path / "list").write_text(f"{SAMPLE}\n" * 10_000)
    terminal = Terminal()
    process = subprocess.Popen(
        [tool.TORCHTRACE, "merge", "--manifest", "list", "-o", "out", "--formats=none"],
        cwd=tmp_path,
        stderr=terminal.its,
    )
    seen = terminal.read_until_exit(process)
    assert process.returncode == 0
    before, said = seen.split("torchtrace: the trace is in out", 1)
    assert "ing: " not in said
    if before:  # the work took a second, perhaps only with its second part
        assert re.match(r"\r\x1b\[K(reading|merging|rendering): \d+% \(", before)
        assert before.endswith("\r\x1b[K")


FORKING = """
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.full((2,), float(i)).square()

if __name__ == "__main__":
    print(sum(batch.sum().item() for batch in DataLoader(Squares(), num_workers=2)))
"""


@pytest.mark.torch
def test_two_real_runs_and_forked_workers(tmp_path):
    (tmp_path / "load.py").write_text(FORKING)
    for i, args in enumerate((["load.py"], ["-c", "import torch; torch.ones(2).sin()"])):
        env = {"RANK": str(i), "WORLD_SIZE": "2"}
        options = ("--levels", "1,2", "--formats=none", "--python", tool.PYTHON)
        run = torchtrace("run", "-qo", f"r{i}", *options, *args, cwd=tmp_path, env=env)
        assert run.status == 0, run.err
    result = merge(tmp_path, "r0", "r1", "-o", "all")
    assert result.status == 0 and "missing" not in result.err
    info = json.loads((tmp_path / "all/run.json").read_text())
    assert info["order"]["clock"] == "monotonic"
    roles = sorted(process["role"] for process in info["processes"])
    assert roles == ["fork", "fork", "main", "main"]
    assert info["counts"]["calls"] == calls_of(tmp_path / "r0") + calls_of(tmp_path / "r1")
    assert info["damage"]["damaged"] is False
    # The first run's calls come first; each run's order is its own.
    dump = torchtrace("dump", "all", cwd=tmp_path).out
    assert dump.index("torch.Tensor.square") < dump.index("torch.Tensor.sin(")
    alone = (
        torchtrace("render", "r1", "--formats=trace.txt", "-qo", "r1text", cwd=tmp_path)
    ).status
    assert alone == 0
    whole = (tmp_path / "all/api_trace.txt").read_text()
    assert whole.endswith((tmp_path / "r1text/api_trace.txt").read_text())


def test_help_names_every_option(tmp_path):
    text = torchtrace("help", "merge", cwd=tmp_path).out
    page = Path(tool.ROOT / "docs/MERGE.md").read_text()
    for option in (
        "--output",
        "--force",
        "--label",
        "--manifest",
        "--formats",
        "--render-limit",
        "--quiet",
    ):
        assert option in text and option in page
