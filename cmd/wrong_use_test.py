"""Usage errors: the message, in our own words, and that nothing was done."""

import gzip
import json
import os
import resource
import subprocess

import pytest

from tools.testing import whole_tool as tool

TINY = tool.ROOT / "testdata/logs/v1/tiny.ttlog"
SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"


def torchtrace(*args, cwd="/", **kwargs):
    return tool.torchtrace(*args, cwd=cwd, **kwargs)


def said(*args, **kwargs):
    """The one line of a usage error, without torchtrace's name and the reference to the help."""
    result = torchtrace(*args, **kwargs)
    assert result.status == (125 if args[0] == "run" else 2) and result.out == ""
    (line,) = result.err.splitlines()
    return line.removeprefix("torchtrace: ").split(" (see ")[0]


@pytest.mark.parametrize(
    "args",
    [
        ("run", "--values"),
        ("replay", "--max-bytes"),
        ("replay", "--max-memory"),
        ("export", "--max-file-size"),
    ],
)
@pytest.mark.parametrize("size", ["-5", "-1MB", "1XB", "many", "99999999999GB", ""])
def test_sizes(args, size):
    assert said(*args, size, "x").startswith(f"{args[-1]}: '{size}' is not a size")


@pytest.mark.parametrize(
    "args",
    [
        ("run", "--frame-depth"),
        ("run", "--render-limit"),
        ("render", "--render-limit"),
        ("replay", "--jobs"),
        ("replay", "--threads"),
        ("replay", "--seed"),
        ("stats", "--top"),
        ("tree", "--depth"),
        ("dump", "--depth"),
        ("dump", "--slowest"),
        ("dump", "--tail"),
        ("diff", "--top"),
        ("diff", "--context"),
        ("diff", "--max-hunks"),
        ("diff", "--max-calls"),
        ("dedup", "--keep-first"),
        ("dedup", "--seed"),
        ("dedup", "--budget"),
    ],
)
def test_counts(args):
    assert said(*args, "-1", "x") == f"{args[-1]}: '-1' is not a count"
    assert said(*args, "1.5", "x") == f"{args[-1]}: '1.5' is not a count"
    assert "is more than" in said(*args, "99999999999999999999", "x")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            ("replay", "--timeout", "-1", "x"),
            "'-1' is not a number of seconds from 0.001 to 1000000",
        ),
        (
            ("apis", "scan", "--timeout", "nan"),
            "'nan' is not a number of seconds from 0.1 to 86400",
        ),
        (("tree", "--min-time", "-5ms", "x"), "'-5ms' is not a time such as 50us, 1.5ms or 2s"),
    ],
)
def test_durations(args, sentence):
    option = next(arg for arg in args if arg.startswith("--"))
    assert said(*args) == f"{option}: {sentence}"


def test_variables_are_checked_like_options():
    env = {"TORCHTRACE_VALUES": "-5"}
    assert said("run", "-c", "pass", env=env).startswith("TORCHTRACE_VALUES: '-5' is not a size")
    env = {"TORCHTRACE_QUIET": "5"}
    assert said("run", "-c", "pass", env=env) == "TORCHTRACE_QUIET: '5' is not yes or no"


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("run", "-l"), "--levels needs a value: --levels LEVELS"),
        (("stats", "x", "--top"), "--top needs a value: --top N"),
        (("stats", "--top", "1", "--top", "2", "x"), "--top was given 2 times; give one N"),
        (
            ("run", "--frames", "c", "x.py"),
            '--frames: unknown kind of frames "c" (known: modules, python, all)',
        ),
        (("replay", "-j", "2000", "x"), "--jobs: '2000' is more than 1024"),
        (
            ("dump", "--tail", "3", "--slowest", "2", "x"),
            "--slowest and --tail can't be given together: give one of them",
        ),
        (("stats", "--no-times=5", "x"), "--no-times: '5' is not yes or no"),
        # A misspelled name causes the other errors.
        (("merge", "x", "--ouput", "y"), "unknown option --ouput, did you mean --output?"),
        (("stats", "--fromat", "csv"), "unknown option --fromat, did you mean --format?"),
    ],
)
def test_our_own_words(args, sentence):
    assert said(*args) == sentence


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("run", "--no-int-ranges=first", "x.py"), "--no-int-ranges takes no value"),
        (
            ("run", "--int-ranges=first", "--no-int-ranges", "x.py"),
            "--int-ranges and --no-int-ranges contradict each other: give one of them",
        ),
        (
            ("run", "--frames", "all", "x.py"),
            "--frames is for level 3, which isn't traced: add it to --levels",
        ),
        (
            ("run", "--stack-format", "full", "x.py"),
            "--stack-format is for stacks, which aren't recorded: give --stacks, too",
        ),
        (("dedup", "--budget", "3", TINY), "--budget needs --generalize"),
        (("dedup", "--seed", "3", TINY), "--seed needs --generalize"),
        (
            ("dedup", "--counts", "--format", "paddle", TINY),
            "--counts is for text and tables, not for paddle",
        ),
        (
            ("export", "torchbench", "--counts", TINY),
            "--counts is for text and tables of configs, not for torchbench",
        ),
        (
            ("help", "--all", "stats"),
            "VERB, --all and --man each print another page: give one of them",
        ),
    ],
)
def test_options_without_effect(args, sentence):
    assert said(*args) == sentence


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["html", TINY], "unknown format 'html', did you mean flamegraph?"),
        (
            ["flamegraph", TINY, "-o", "p.svg"],
            "p.svg: there are no pictures: a FILE.html is a flame graph for a browser, ",
        ),
        ([TINY, "-o", "p.PNG"], "p.PNG: there are no pictures"),
        (["csv", TINY, "-o", "x.csv.zst"], "x.csv.zst: only .gz is compressed; "),
        (
            ["parquet", TINY, "-o", "x.parquet.gz"],
            "x.parquet.gz: parquet is compressed already: name the file x.parquet",
        ),
        (
            ["timing", TINY, "-o", "x.json.gz"],
            "x.json.gz: timing makes several files of limited size: compress them when ",
        ),
        (
            ["csv", TINY, "-o", "x.parquet"],
            "x.parquet: its suffix says parquet, and the format is csv: leave the format out, ",
        ),
        (["chrome", TINY, "-o", "x.csv.gz"], "x.csv.gz: its suffix says csv, and the format is "),
        (
            [TINY, "-o", "trace.json"],
            "trace.json: which .json? Name the format before the traces: json (configs), "
            "tritonbench (configs), chrome (calls), timing (calls), et (calls)",
        ),
    ],
)
def test_names_of_exports_that_promise_something_else(tmp_path, args, sentence):
    assert said("export", *args, cwd=tmp_path).startswith(sentence)
    assert os.listdir(tmp_path) == []


def test_names_of_other_files_that_promise_something_else(tmp_path):
    for args, sentence in [
        (["--format", "csv", "-o", "x.parquet"], "x.parquet: its suffix says parquet, and the "),
        (["-o", "x.svg"], "x.svg: there are no pictures"),
        (["--generalize", "--audit", "a.txt.gz"], "--audit: 'a.txt.gz' has no known suffix"),
    ]:
        assert said("dedup", TINY, *args, cwd=tmp_path).startswith(sentence)
    assert os.listdir(tmp_path) == []


def test_formats_whose_names_are_those_of_others(tmp_path):
    for args in (["text", "a.txt"], ["paddle", "b.txt"], ["chrome", "c.json"], ["et", "d.json"]):
        done = torchtrace("export", "-q", args[0], SAMPLE, "-o", args[1], cwd=tmp_path)
        assert done == tool.Result(0, "", "")


# The same bytes, compressed; verbs read them.
@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["export"], "configs.csv"),
        (["export"], "configs.jsonl"),
        (["export", "--calls"], "calls.csv"),
        (["export", "chrome"], "trace.json"),
        (["export"], "flames.html"),
        (["dedup"], "configs.json"),
        (["dedup"], "configs.yaml"),
    ],
)
def test_names_of_compressed_files(tmp_path, args, name):
    for output in (name, f"{name}.gz"):
        done = torchtrace(*args, "-q", SAMPLE, "-o", output, cwd=tmp_path)
        assert done == tool.Result(0, "", "")
    packed = (tmp_path / f"{name}.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / name).read_bytes()
    if name != "flames.html":
        stats = torchtrace("stats", f"{name}.gz", "--no-times", cwd=tmp_path)
        assert stats.out == torchtrace("stats", name, "--no-times", cwd=tmp_path).out
    again = torchtrace(*args, "-qf", SAMPLE, "-o", f"{name}.gz", cwd=tmp_path)
    assert again.status == 0 and (tmp_path / f"{name}.gz").read_bytes() == packed


def test_a_compressed_audit(tmp_path):
    args = ["dedup", "-q", TINY, "--generalize", "--audit", "a.jsonl.gz", "-o", "out.txt.gz"]
    assert torchtrace(*args, cwd=tmp_path).status == 0
    audit = gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes())
    assert all(json.loads(line)["config"] for line in audit.splitlines())
    assert gzip.decompress((tmp_path / "out.txt.gz").read_bytes())


def test_a_compressed_file_on_a_full_disk(tmp_path):
    done = subprocess.run(
        [tool.TORCHTRACE, "export", "csv", TINY, "-o", "x.csv.gz"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        env=tool.environment(),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert done.returncode == 2 and "cannot write x.csv.gz" in done.stderr
    assert os.listdir(tmp_path) == []


def test_counts_are_in_every_table(tmp_path):
    counted = torchtrace("dedup", "--counts", TINY, "-o", "c.csv", cwd=tmp_path)
    assert counted.status == 0 and "calls" in (tmp_path / "c.csv").read_text()


def test_a_standing_variable_may_be_without_effect(tmp_path):
    env = {
        "TORCHTRACE_FRAMES": "all",
        "TORCHTRACE_STACK_FORMAT": "full",
        "TORCHTRACE_PYTHON": tool.PYTHON,
    }
    result = torchtrace("run", "-qo", tmp_path / "out", "-c", "pass", env=env)
    assert result == tool.Result(0, "", "")


def test_stack_format_of_a_trace_without_stacks(tmp_path):
    result = torchtrace("render", TINY, "-o", tmp_path / "out", "--stack-format", "full")
    assert result.status == 0 and f"--stack-format: {TINY} has no stacks" in result.err


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (("train.py",), "unknown verb 'train.py', did you mean torchtrace run train.py?"),
        (("-m", "x"), "unknown option -m, did you mean torchtrace run -m? (a verb comes first)"),
        (("coverage", "x"), "unknown verb 'coverage', did you mean apis coverage?"),
        (("scna",), "unknown verb 'scna', did you mean apis scan?"),
        (
            ("apis", "covrage"),
            "apis: unknown verb 'covrage', did you mean coverage? (there are name, coverage, scan)",
        ),
        (("apis",), "apis: no verb was given (there are name, coverage, scan)"),
        (
            ("export", "--format", "csv", "x"),
            "--format is only for timing; name a format before the traces: "
            "torchtrace export csv TRACE",
        ),
        (
            ("replay", "x", "-o", "r.foo"),
            "'r.foo' has no known format: its name may end in .txt, .json, .csv or .xml; "
            "--format names one",
        ),
    ],
)
def test_what_was_meant(args, meant):
    assert (
        said(*args).replace("tools/torchtrace", "torchtrace").replace(f"{tool.ROOT}/", "") == meant
    )


def test_a_file_as_the_first_word(tmp_path):
    (tmp_path / "program").write_text("print(1)")
    assert "did you mean" in said("program", cwd=tmp_path)
    assert " run program?" in said("program", cwd=tmp_path)


def test_a_program_that_is_no_python():
    line = said("run", "--python", "/bin/ls", "-c", "pass")
    assert line == "/bin/ls (named by --python) does not work as a Python 3: exit code 2"


def test_dedup_lists_what_it_takes():
    page = torchtrace("dedup", "--help").out
    assert "parquet" in page and "timing" not in page
    assert "it holds calls, not configs; text, " in said("dedup", "--format", "timing", TINY)


@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_a_misspelt_variable_is_told_even_when_quiet(tmp_path, quiet):
    env = {"TORCHTRACE_LEVLES": "2", "TORCHTRACE_PYTHON": tool.PYTHON}
    result = torchtrace("run", *quiet, "-o", tmp_path / "out", "-c", "pass", env=env)
    assert result.status == 0
    assert "unknown variable TORCHTRACE_LEVLES, did you mean TORCHTRACE_LEVELS?" in result.err
    env = {"TORCHTRACE_SOMEBODY_ELSES": "2", "TORCHTRACE_PYTHON": tool.PYTHON}
    result = torchtrace("run", *quiet, "-fo", tmp_path / "out", "-c", "pass", env=env)
    assert ("SOMEBODY_ELSES" in result.err) == (not quiet)


@pytest.mark.parametrize(
    "args",
    [
        ("run", "-l", "0", "--api-list", "/dev/zero", "-c", "pass"),
        ("run", "--include", "%mine", "--groups", "/dev/zero", "-c", "pass"),
        ("dump", TINY, "--calls", "@/dev/zero"),
        ("dump", TINY, "--include", "%mine", "--groups", "/dev/zero"),
        ("merge", "--manifest", "/dev/zero", "-o", "out"),
        ("apis", "coverage", TINY, "--list", "/dev/zero"),
    ],
)
def test_a_file_without_an_end(tmp_path, args):
    done = subprocess.run(
        [tool.TORCHTRACE, *args],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=tool.environment({"TORCHTRACE_PYTHON": tool.PYTHON}),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30)),
    )
    assert done.returncode == (125 if args[0] == "run" else 2), done.stderr
    assert "/dev/zero is larger than 64 MiB" in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "args",
    [
        ("merge", TINY, "-o", "-"),
        ("filter", TINY, "-o", "-"),
        ("render", TINY, "-o", "-"),
        ("run", "-o", "-", "-c", "pass"),
    ],
)
def test_a_folder_is_not_written_to_standard_output(tmp_path, args):
    line = said(*args, cwd=tmp_path)
    assert line == "--output: a folder can't go to standard output: give a name"
    assert os.listdir(tmp_path) == []
