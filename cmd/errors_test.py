"""Every verb that reads traces on every kind of bad input and every output that fails: one sentence
that says what and where, exit code 2, and no change on the disk.
"""

import ctypes
import gzip
import os
import random
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.testing import whole_tool as tool

TESTDATA = tool.ROOT / "testdata"
SAMPLE = TESTDATA / "logs/v1/sample.ttlog"
OTHER = TESTDATA / "logs/v2/merged.ttlog"
EXPORTS = ["text", "yaml", "json", "jsonl", "csv", "parquet", "torchbench", "tritonbench", "paddle"]
TABLES = ["jsonl", "csv", "parquet"]

# How each verb is given a trace, alone and after or before a good one. OUT is its output.
VERBS = {
    "stats": ["stats", "X"],
    "stats, several": ["stats", SAMPLE, "X"],
    "stats --sum --no-times": ["stats", "--sum", "--no-times", SAMPLE, "X"],
    "stats --census": ["stats", "--census", "X"],
    "info": ["info", "X"],
    "info json": ["info", "--format", "json", "X"],
    "dump": ["dump", "X"],
    "dump jsonl": ["dump", "--format", "jsonl", "X"],
    "render": ["render", "X", "-o", "OUT"],
    "merge": ["merge", SAMPLE, "X", "-o", "OUT"],
    "dedup": ["dedup", "X"],
    "dedup -o": ["dedup", SAMPLE, "X", "-o", "OUT.txt"],
    "dedup --audit": ["dedup", "X", "--generalize", "--audit", "OUT.json", "-o", "OUT.csv"],
    "diff A": ["diff", "X", SAMPLE],
    "diff B": ["diff", SAMPLE, "X", "--format", "json"],
    "diff --sequence": ["diff", "--sequence", SAMPLE, "X"],
    "filter": ["filter", "X", "-o", "OUT"],
    "filter --where": ["filter", "X", "-o", "OUT", "--where", "raised", "--with-parents"],
    "export to stdout": ["export", "csv", "X"],
    "export, several": ["export", "csv", SAMPLE, "X", "-o", "OUT"],
    **{f"export {name}": ["export", name, "X", "-o", "OUT"] for name in EXPORTS},
    **{f"export {name} --calls": ["export", name, "--calls", "X", "-o", "OUT"] for name in TABLES},
}
# Without those that start a Python, which takes forty times as long.
QUICK_VERBS = {verb: command for verb, command in VERBS.items() if "parquet" not in command}


def with_hash(superblock):
    """A log's first 16 bytes followed by their hash, see docs/FORMAT.md."""
    xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
    xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]
    return superblock + xxh3(superblock, len(superblock)).to_bytes(8, "little")


def contents():
    """{name: (bytes, part of the error)} for contents that are no trace, or a truncated one."""
    log = SAMPLE.read_bytes()
    noise = random.Random(4).randbytes
    newer = with_hash(log[:8] + (99).to_bytes(4, "little") + log[12:16]) + log[24:]
    execution = (TESTDATA / "imports/execution_trace/1.1.1.json").read_bytes()
    chrome = (TESTDATA / "imports/chrome_trace/2.13.json").read_bytes()
    unknown = "is not a trace; expected a torchtrace log, TorchBench operator inputs"
    return {
        "empty": (b"", "is empty; expected a trace"),
        "empty.json": (b"", "is empty; expected a trace"),
        "noise": (noise(20_000), unknown),
        "noise.json": (noise(20_000), unknown),
        "noise.yaml": (noise(20_000), unknown),
        "noise.txt": (noise(20_000), unknown),
        "zeros": (bytes(20_000), unknown),
        "picture.png": (b"\x89PNG\r\n\x1a\n" + noise(200), unknown),
        "words.txt": (b"hello world\nthis is text\n", unknown),
        "script.py": (b"import torch\n\nprint(torch.add(1, 2))\n", unknown),
        "other.json": (b'{"a": [1, 2]}', unknown),
        "list.json": (b"[1, 2, 3]", unknown),
        "log.gz": (b"\x1f\x8b\x08" + noise(200), "is compressed by gzip and cut, at byte "),
        # Logs.
        "cut_in_the_magic": (log[:4], unknown),
        "cut_in_the_superblock": (log[:20], "expected a superblock of 24 bytes, found 20"),
        "cut_in_the_first_page": (log[:1000], "nothing that can be read: no frame of a log in its"),
        "damaged_frames": (log[:4096] + noise(28_672), "no frame of a log in its 32768 bytes"),
        "newer": (newer, "is a log of version 99; this torchtrace reads versions up to 2"),
        # Other formats with an error in them.
        "bad.txt": (b"torch.add(1, 2)\ntorch.add(1,, 2)\n", "line 2, column 13: expected a value"),
        "bad.jsonl": (
            b'{"call":0,"level":1,"api":"torch.add","args":[],"kwargs":{}}\n{"call":1,\n',
            "line 2, offset 11: expected JSON",
        ),
        "bad.yaml": (
            b"- api: torch.add\n  args: []\n- api: [\n",
            "line 4, column 1: expected YAML",
        ),
        "documents.yaml": (b"api: torch.add\nargs: []\n---\napi: 3: 4\n", "line 4"),
        "bad_torchbench.txt": (
            b"Operator: aten.mm.default\ncnt: 1, ((T([2], f32),), {})\ncnt: x\n",
            "line 3, column 6: expected a number of calls",
        ),
        "bad_tritonbench.json": (
            b'{"aten.mm.default": [{"count": 1, "inputs": "((T([2], f32),), {})"}, {"count"',
            "offset 78: expected JSON",
        ),
        "bad_execution.json": (execution.replace(b'"ctrl_deps"', b"@", 1), "expected"),
        "bad_chrome.json": (chrome.replace(b'"ph"', b"@", 1), "expected"),
    }


CONTENTS = contents()


def tree(folder):
    """All files and folders in the folder, with the files' contents."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def as_nobody():
    """Drops root's right to read and write any file."""
    if os.geteuid() != 0:
        return
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if prctl(24, capability, 0, 0, 0) != 0:  # PR_CAPBSET_DROP
            raise OSError(ctypes.get_errno(), "this root can't give anything up")


def torchtrace(args, cwd, stdin=b"", preexec_fn=None, stdout=subprocess.PIPE, env=None):
    return subprocess.run(
        [tool.TORCHTRACE, *map(str, args)],
        cwd=cwd,
        env=tool.environment(tool.WITH_PYARROW | (env or {})),
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=preexec_fn,
        timeout=60,
    )


def complaint(done, *texts):
    """What is wrong with an error message: it must be one sentence with these texts."""
    err = done.stderr.decode(errors="backslashreplace")
    if done.returncode != 2:
        return f"exit {done.returncode}: {err}"
    if done.stdout:
        return f"wrote {done.stdout[:100]!r}"
    if err.count("\n") != 1 or not err.startswith("torchtrace: ") or re.search(r"[^\n -~]", err):
        return f"not one line: {err}"
    missing = [text for text in texts if text not in err]
    return f"lacks {missing}: {err}" if missing else None


def failures_of(verbs, cwd, texts, put=lambda word: word, **kwargs):
    """{verb: what is wrong with its error message}."""
    failures = {}
    for verb, command in verbs.items():
        before = tree(cwd)
        done = torchtrace([put(word) for word in command], cwd, **kwargs)
        wrong = complaint(done, *texts)
        if wrong is None and tree(cwd) != before:
            wrong = f"left {set(tree(cwd)) ^ set(before) or 'another content'}"
        if wrong is not None:
            failures[verb] = wrong
    return failures


def bad_input(path, cwd, text, verbs=VERBS, **kwargs):
    name = "standard input" if path == "-" else str(path)
    return failures_of(
        verbs, cwd, [name, text], lambda word: path if word == "X" else word, **kwargs
    )


# ---- bad input ----


@pytest.mark.parametrize("name", CONTENTS)
def test_content(tmp_path, name):
    content, text = CONTENTS[name]
    (tmp_path / name).write_bytes(content)
    assert bad_input(name, tmp_path, text) == {}


@pytest.mark.parametrize("name", CONTENTS)
def test_content_of_standard_input(tmp_path, name):
    content, text = CONTENTS[name]
    verbs = VERBS if name == "noise" else QUICK_VERBS
    assert bad_input("-", tmp_path, text, verbs, stdin=content) == {}


@pytest.mark.parametrize("name", ["empty", "noise", "damaged_frames", "newer"])
def test_content_of_a_folders_log(tmp_path, name):
    content, text = CONTENTS[name]
    (tmp_path / "run/log").mkdir(parents=True)
    log = tmp_path / "run/log/main-1.ttlog"
    log.write_bytes(content)
    if name in ("empty", "noise"):  # by its name it is a log
        text = "log"
    failures = failures_of(
        VERBS, tmp_path, ["run/log/main-1.ttlog", text], lambda word: "run" if word == "X" else word
    )
    assert failures == {}
    assert bad_input("run/log/main-1.ttlog", tmp_path, text, QUICK_VERBS) == {}


PATHS = {
    "missing": "cannot read missing: No such file or directory",
    "missing/below": "No such file or directory",
    "file/below": "Not a directory",
    "empty_folder": "holds no trace: expected logs named empty_folder/log/*.ttlog",
    "other_folder": "holds no trace: expected logs named other_folder/log/*.ttlog",
    "other_folder/": "holds no trace",
    "folder.ttlog": "holds no trace",
    "/dev/null": "/dev/null is empty; expected a trace",
    "n" * 300: "File name too long",
}


@pytest.mark.parametrize("path", PATHS)
def test_path(tmp_path, path):
    (tmp_path / "file").write_text("torch.add(1)\n")
    for name in ("empty_folder", "other_folder/log", "folder.ttlog"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "other_folder/train.py").write_text("print()\n")
    assert bad_input(path, tmp_path, PATHS[path]) == {}


@pytest.mark.parametrize("path", ["file", "folder", "log_folder", "log"])
def test_no_permission(tmp_path, path):
    for name in ("file", "folder/log/main-1.ttlog", "log_folder/log/a.ttlog", "log/log/a.ttlog"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLE, tmp_path / name)
    locked = {"log_folder": "log_folder/log", "log": "log/log/a.ttlog"}.get(path, path)
    os.chmod(tmp_path / locked, 0)
    try:
        failures = failures_of(
            VERBS,
            tmp_path,
            [f"cannot read {locked}", "Permission denied"],
            lambda word: path if word == "X" else word,
            preexec_fn=as_nobody,
        )
    except subprocess.SubprocessError:
        pytest.skip("this root can't give anything up")
    finally:
        os.chmod(tmp_path / locked, 0o700)
    assert failures == {}


def test_standard_input_that_cannot_be_read(tmp_path):
    closed = bad_input("-", tmp_path, "Bad file descriptor", preexec_fn=lambda: os.close(0))
    assert closed == {}
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for verb, command in VERBS.items():
            done = subprocess.run(
                [tool.TORCHTRACE, *("-" if word == "X" else str(word) for word in command)],
                cwd=tmp_path,
                env=tool.environment(),
                stdin=folder,
                capture_output=True,
            )
            wrong = complaint(done, "cannot read standard input: Is a directory")
            assert (verb, wrong) == (verb, None)
    finally:
        os.close(folder)
    assert tree(tmp_path) == {}


def test_standard_input_given_twice(tmp_path):
    several = {
        verb: [word for word in command for word in (["-", "-"] if word == "X" else [word])]
        for verb, command in VERBS.items()
        if verb.split()[0] in ("stats", "merge", "dedup", "export") and verb != "export to stdout"
    }
    failures = failures_of(several, tmp_path, ["standard input", "only once"], stdin=b"torch.f()\n")
    assert failures == {}


def test_standard_input_that_cannot_be_kept(tmp_path):
    env = {"TMPDIR": str(tmp_path / "none")}
    text = f"cannot create a temporary file in {tmp_path}/none (see TMPDIR)"
    failures = failures_of(
        VERBS, tmp_path, [text], lambda word: "-" if word == "X" else word, env=env, stdin=b"x"
    )
    assert failures == {}
    failures = failures_of(
        {verb: VERBS[verb] for verb in ("stats", "dump", "diff A", "dedup", "export to stdout")},
        tmp_path,
        ["cannot copy standard input to a temporary file in", "(see TMPDIR): File too large"],
        lambda word: "-" if word == "X" else word,
        stdin=SAMPLE.read_bytes(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    assert failures == {}


def test_more_than_fits_into_memory(tmp_path):
    with gzip.open(tmp_path / "long.txt.gz", "wb") as file:
        file.write(b"torch.f(" + b"1," * (20 << 20) + b"1)\n")
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))}
    failures = failures_of(
        {verb: VERBS[verb] for verb in ("stats", "dump", "render", "merge", "dedup")},
        tmp_path,
        ["no memory is left"],
        lambda word: "long.txt.gz" if word == "X" else word,
        **limit,
    )
    assert failures == {}


# ---- what was not recorded ----


@pytest.mark.parametrize("by, how", [("line", "--stacks"), ("module", "--levels 3")])
def test_calls_without_lines_or_modules(tmp_path, by, how):
    verbs = {
        "stats": ["stats", SAMPLE, "--by", by],
        "tree": ["tree", SAMPLE, "--by", by],
        "export flamegraph": ["export", "flamegraph", SAMPLE, "--by", by],
        "export to a file": ["export", SAMPLE, "-o", "OUT.html", "--by", by],
    }
    texts = ["has no ", f": record them with torchtrace run {how}\n"]
    assert failures_of(verbs, tmp_path, texts) == {}
    assert tree(tmp_path) == {}


# ---- input that can be read in part ----


def test_what_a_damaged_log_still_holds_is_given_with_an_account(tmp_path):
    """Not an error: exit 0, or 1 from diff; the rest is there, and the loss is reported."""
    log = SAMPLE.read_bytes()
    (tmp_path / "cut.ttlog").write_bytes(log[: len(log) // 2 + 100])
    (tmp_path / "damaged.ttlog").write_bytes(log[: 5 * 4096] + bytes(4096) + log[6 * 4096 :])
    for name, lost in {"cut.ttlog": 79, "damaged.ttlog": 11}.items():
        for path, shown in ((f"../{name}", f"../{name}"), ("-", "standard input")):
            for verb, command in VERBS.items():
                (tmp_path / "out").mkdir()
                done = torchtrace(
                    [path if word == "X" else word for word in command],
                    tmp_path / "out",
                    stdin=(tmp_path / name).read_bytes(),
                )
                err = tool.named_shortly(done.stderr.decode())
                assert done.returncode == (1 if "diff" in verb else 0), (verb, err)
                told = (
                    f"torchtrace: {shown} is damaged: {lost} calls lost"
                    f" (torchtrace info {path} shows more)\n",
                    f"torchtrace: the log is damaged: {lost} calls lost",
                )
                if verb.startswith("info"):
                    assert str(lost) in done.stdout.decode() and err == "", verb
                else:
                    assert any(text in err for text in told), (verb, err)
                    assert err.count("is damaged") == 1, (verb, err)
                shutil.rmtree(tmp_path / "out")


def test_a_log_of_which_nothing_is_left_is_an_error(tmp_path):
    log = SAMPLE.read_bytes()
    (tmp_path / "lost.ttlog").write_bytes(log[: 3 * 4096] + b"\xff" * (len(log) - 3 * 4096))
    # `info` reports the damage, a census the missing levels, and the others write an empty trace.
    others = ("info", "stats --census", "render", "merge", "filter")
    verbs = {
        name: [tmp_path / "lost.ttlog" if word == "X" else word for word in command]
        for name, command in VERBS.items()
        if not name.startswith(others)
    }
    (tmp_path / "out").mkdir()
    for verb, command in verbs.items():
        done = torchtrace(command, tmp_path / "out")
        assert done.returncode == 2, verb
        assert b"lost.ttlog is damaged: " in done.stderr and b" and none is left " in done.stderr
        assert tree(tmp_path / "out") == {}, verb
    assert torchtrace(["info", "lost.ttlog"], tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("path", "account"),
    [
        ("imports/execution_trace/1.1.1.json", "17 whole nodes were read"),
        ("imports/chrome_trace/2.13.json", "24 whole events were read"),
    ],
)
def test_what_a_killed_program_wrote_of_a_trace_of_pytorch_is_read(tmp_path, path, account):
    whole = (TESTDATA / path).read_bytes()
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: len(whole) // 2])
    for verb, command in VERBS.items():
        if verb == "stats --census":
            continue  # it needs more than level 2
        out = tmp_path / "out"
        out.mkdir()
        done = torchtrace([cut if word == "X" else word for word in command], out)
        err = done.stderr.decode()
        assert done.returncode == (1 if "diff" in verb else 0), (verb, err)
        assert f"torchtrace: {cut} ends at offset " in err and account in err, (verb, err)
        shutil.rmtree(out)


# ---- outputs that fail ----

FOLDERS = {
    verb: [SAMPLE if word == "X" else word for word in VERBS[verb]]
    for verb in ("render", "merge", "filter", "filter --where")
}
FILES = {
    verb: [SAMPLE if word == "X" else word for word in command]
    for verb, command in VERBS.items()
    if verb.startswith("export ") and "-o" in command or verb in ("dedup -o", "dedup --audit")
}
WRITERS = FOLDERS | FILES
STREAMS = {
    verb: [OTHER if word == "X" else word for word in command if word not in ("OUT", "-o")]
    for verb, command in VERBS.items()
    if not any(str(word).startswith("OUT.") for word in command)
    and verb.split()[0] in ("stats", "info", "dump", "dedup", "diff", "export")
}


def test_a_file_that_may_not_grow(tmp_path):
    """Like a full disk, which merge_test.py tests, since that needs root."""
    failures = failures_of(
        WRITERS,
        tmp_path,
        ["cannot write OUT", "File too large"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert failures == {}


def test_a_full_device(tmp_path):
    files = {
        verb: ["/dev/full" if word == "OUT" else word for word in command]
        for verb, command in FILES.items()
        if not any(str(word).startswith("OUT.") for word in command)
    }
    text = "cannot write /dev/full: No space left on device"
    assert failures_of(files, tmp_path, [text]) == {}
    assert Path("/dev/full").is_char_device()
    for command in STREAMS.values():
        with open("/dev/full", "wb") as full:
            done = torchtrace(command, tmp_path, stdout=full)
        assert complaint(done, "cannot write to standard output: No space left on device") is None
    closed = failures_of(
        STREAMS, tmp_path, ["cannot write to standard output"], preexec_fn=lambda: os.close(1)
    )
    assert closed == {}


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    done = torchtrace(["export", "csv", SAMPLE, "-o", "/dev/stdout"], tmp_path)
    assert done.stdout == torchtrace(["export", "csv", SAMPLE], tmp_path).stdout != b""
    for force in ([], ["-f"]):
        done = torchtrace(["dedup", SAMPLE, "-o", "/dev/null", "--format=csv", *force], tmp_path)
        assert (done.returncode, done.stdout) == (0, b"")
        assert Path("/dev/null").is_char_device()


def test_a_link_stays_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real/configs").write_text("old")
    (tmp_path / "link").symlink_to("real/configs")
    command = ["export", "text", SAMPLE, "-o", "link"]
    assert complaint(torchtrace(command, tmp_path), "link exists; --force replaces it") is None
    assert torchtrace([*command, "-f"], tmp_path).returncode == 0
    assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path / "real") == ["configs"]
    assert "torch.outer(0)\n" in (tmp_path / "real/configs").read_text()


def old(folder, name="OUT"):
    """A trace's folder from an earlier run."""
    (folder / name / "log").mkdir(parents=True)
    for path in ("log/main-1.ttlog", "api_trace.yaml", "run.json", "notes"):
        (folder / name / path).write_text("old")


def test_an_output_that_exists(tmp_path):
    old(tmp_path)
    for verb in FOLDERS:
        assert failures_of({verb: FOLDERS[verb]}, tmp_path, ["OUT", "--force"]) == {}
    files = {verb: command for verb, command in FILES.items() if "dedup" not in verb}
    assert failures_of(files, tmp_path, ["OUT is a folder; give a file"]) == {}
    shutil.rmtree(tmp_path / "OUT")
    for name in ("OUT", "OUT.txt", "OUT.json", "OUT.csv"):
        (tmp_path / name).write_text("old")
    assert failures_of(FOLDERS, tmp_path, ["the output folder OUT is a file"]) == {}
    assert failures_of(FILES, tmp_path, ["OUT", "exists; --force replaces it"]) == {}


def test_force_replaces_nothing_before_the_new_output_is_complete(tmp_path):
    old(tmp_path)
    (tmp_path / "OUT/api_trace.txt").mkdir()
    forced = {verb: [*command, "-f"] for verb, command in FOLDERS.items()}
    for name in ("OUT.txt", "OUT.json", "OUT.csv"):
        (tmp_path / name).write_text("old")
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))}
    render = {"render": forced.pop("render")}
    text = "OUT/api_trace.txt is a folder"
    assert failures_of(render, tmp_path, [text]) == {}
    (tmp_path / "OUT/api_trace.txt").rmdir()
    assert failures_of(forced | render, tmp_path, ["cannot write OUT"], **limit) == {}
    shutil.rmtree(tmp_path / "OUT")
    (tmp_path / "OUT").write_text("old")
    forced = {verb: [*command, "-f"] for verb, command in FILES.items()}
    assert failures_of(forced, tmp_path, ["cannot write OUT"], **limit) == {}
    # The audit fails, and the configs alone would have been written.
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))}
    audit = ["dedup", SAMPLE, "-f", "--generalize", "--audit", "OUT.json", "-o", "OUT.txt"]
    assert failures_of({"dedup": audit}, tmp_path, ["cannot write OUT.json"], **limit) == {}


def test_an_output_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "locked").mkdir()
    os.chmod(tmp_path / "locked", 0o500)

    def put(folder):
        return lambda word: f"{folder}/{word}" if str(word).startswith("OUT") else word

    text = "Not a directory"
    assert failures_of(WRITERS, tmp_path, ["file/OUT", text], put("file")) == {}
    text = "No such file or directory"
    assert failures_of(FILES, tmp_path, ["none/OUT", text], put("none")) == {}
    try:
        failures = failures_of(
            WRITERS,
            tmp_path,
            ["locked/OUT", "Permission denied"],
            put("locked"),
            preexec_fn=as_nobody,
        )
    except subprocess.SubprocessError:
        pytest.skip("this root can't give anything up")
    assert failures == {}


def test_an_output_without_a_name(tmp_path):
    commands = {
        verb: ["" if str(word).startswith("OUT") else word for word in command]
        for verb, command in WRITERS.items()
        if verb != "dedup --audit"
    }
    assert failures_of(commands, tmp_path, ["--output: the name is empty"]) == {}


def test_an_empty_name_of_a_trace(tmp_path):
    failures = bad_input("", tmp_path, "No such file or directory")
    # After --calls, an empty word is taken for numbers.
    assert all(
        verb.endswith(" --calls") and '--calls: "" is not a number' in said
        for verb, said in failures.items()
    ), failures
