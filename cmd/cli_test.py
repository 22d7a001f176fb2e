"""The command line: verbs, options, help, errors, exit codes."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.testing import whole_tool as tool
from tools.testing.terminal import Terminal

VERBS = [
    "run",
    "attach",
    "stats",
    "info",
    "dump",
    "render",
    "merge",
    "filter",
    "dedup",
    "diff",
    "nan",
    "export",
    "help",
    "completions",
    "version",
]

# Verbs with a page docs/VERB.md.
PAGES = [
    "run",
    "attach",
    "stats",
    "dump",
    "tree",
    "merge",
    "filter",
    "dedup",
    "diff",
    "export",
    "replay",
    "apis scan",
    "apis coverage",
]


def torchtrace(*args, cwd="/", **kwargs):
    return tool.torchtrace(*args, cwd=cwd, **kwargs)


def run(tmp_path, *args, **kwargs):
    return torchtrace("run", "--python", tool.PYTHON, *args, cwd=tmp_path, **kwargs)


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    """A trace of a program without torch: no calls, but everything else."""
    folder = tmp_path_factory.mktemp("cli") / "trace"
    result = torchtrace("run", "-qo", folder, "--python", tool.PYTHON, "-c", "pass")
    assert result == tool.Result(0, "", "")
    return folder


# ---- verbs and help ----


def test_first_page_is_short():
    page = torchtrace("--help")
    assert page.status == 0 and page.err == ""
    lines = page.out.splitlines()
    assert len(lines) <= 42 and max(map(len, lines)) <= 100
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", page.out, re.M), verb
    assert page.out.count("  torchtrace ") == 5
    assert torchtrace("help") == page
    assert torchtrace("-h") == page


def test_help_of_all_verbs():
    page = torchtrace("--help-all").out
    assert torchtrace("help", "--all").out == page
    for verb in VERBS:
        assert torchtrace(verb, "--help").out in page


def test_headings_stand_once():
    headings = re.findall(r"^(\w+):$", torchtrace("--help").out, re.M)
    assert len(headings) == len(set(headings)) and "Read" in headings


def test_messages_name_the_command_that_is_there(tmp_path):
    """The command of this checkout, from any folder; else the one on PATH."""

    def said(executable, cwd):
        done = subprocess.run([executable, "stat"], cwd=cwd, capture_output=True, text=True)
        return re.search(r"\(see (.*) --help\)", done.stderr).group(1)

    checkout = tmp_path / "my checkout"
    for folder in (checkout / ".build/bin", checkout / "tools", tmp_path / "bin"):
        folder.mkdir(parents=True)
    shutil.copy(tool.TORCHTRACE, checkout / ".build/bin/torchtrace")
    shutil.copy(tool.TORCHTRACE, tmp_path / "bin/torchtrace")
    (checkout / "tools/torchtrace").touch()
    assert said(checkout / ".build/bin/torchtrace", checkout) == "tools/torchtrace"
    assert said(checkout / ".build/bin/torchtrace", "/") == f"'{checkout}/tools/torchtrace'"
    assert said(tmp_path / "bin/torchtrace", checkout) == "torchtrace"


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(verb):
    page = torchtrace(verb, "--help")
    assert page.status == 0 and page.err == ""
    assert page.out.startswith(f"Usage: torchtrace {verb} ")
    assert max(map(len, page.out.splitlines())) <= 100
    assert torchtrace("help", verb) == page
    assert torchtrace(verb, "-h") == page


def test_version():
    """The newest release of CHANGELOG.md; releases follow each other, newest first."""
    page = (Path(__file__).resolve().parents[1] / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (\d+\.\d+\.\d+) - (\d{4}-\d\d-\d\d)$", page, re.MULTILINE)
    numbers = [([int(part) for part in number.split(".")], date) for number, date in releases]
    assert numbers == sorted(numbers, reverse=True)
    version = torchtrace("--version")
    assert version.status == 0 and version.out == f"torchtrace {releases[0][0]}\n"
    assert torchtrace("version") == version
    assert torchtrace("-V") == version
    more = torchtrace("version", "-v", env={"TORCHTRACE_PYTHON": tool.PYTHON})
    assert more.out.startswith(version.out)
    assert "log format: 2\n" in more.out and f"python: {tool.PYTHON} " in more.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "no verb was given (see torchtrace --help)"),
        (("stat",), "unknown verb 'stat', did you mean stats? (see torchtrace --help)"),
        (("frobnicate",), "unknown verb 'frobnicate' (see torchtrace --help)"),
        (("train.py",), "unknown verb 'train.py', did you mean torchtrace run train.py?"),
        (("--verison",), "unknown option --verison, did you mean --version? (a verb comes first)"),
        (("help", "rnu"), "unknown verb 'rnu', did you mean run?"),
        (("stats", "--topp", "3", "x"), "unknown option --topp, did you mean --top?"),
        (("stats", "--by", "shape", "x"), "--by"),
        (("stats",), "TRACE is required"),
        (("info", "a", "b"), "unexpected argument"),
        (("info", "--format", "xml", "a"), 'unknown format "xml" (known: text, json)'),
        (("dump", "--calls", "9-3", "x"), "--calls"),
        (("dump", "--color", "blue", "x"), "(known: auto, always, never)"),
        (("dump", "--level", "7", "x"), "unknown level '7'"),
        (("render", "--formats", "jpeg", "x"), "jpeg"),
        (("render", "--render-limit", "many", "x"), "--render-limit"),
        (("stats", "/not/there"), "/not/there"),
        (("info", "/etc/passwd"), "/etc/passwd"),
        (("dump", "/etc"), "/etc"),
        (("version", "x"), "unexpected argument 'x'"),
    ],
)
def test_trouble(args, message):
    result = torchtrace(*args)
    assert result.status == 2
    assert result.out == ""
    assert message in result.err
    assert all(line.startswith("torchtrace: ") for line in result.err.splitlines())


# ---- errors of run: before the program starts, with 125 ----


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "no program to run: give a SCRIPT, -m MODULE or -c CODE"),
        (("--",), "no program to run"),
        (("-m",), "-m needs the name of a module"),
        (("-c",), "-c needs the code to run"),
        (("--", "-O", "x.py"), "python's own options: --python-arg=-O"),
        (("--levles", "1", "x.py"), "unknown option --levles, did you mean --levels?"),
        (("-Z", "x.py"), "unknown option -Z"),
        (("-l", "1,7", "x.py"), "unknown level '7'"),
        (("-l", "functon", "x.py"), "unknown level 'functon', did you mean function?"),
        (("-l", "5", "x.py"), "unknown level '5'"),
        (("--dialect", "paddle", "-l", "record", "x.py"), "it can trace level 0"),
        (("-l",), "--levels"),
        (("--formats", "yml", "x.py"), "yml"),
        (("--render-limit", "-1", "x.py"), "--render-limit"),
        (("-o", "%x", "x.py"), "unknown placeholder"),
        (("--dialect", "jax", "x.py"), "unknown dialect 'jax': this build knows torch, paddle"),
        (("--python-arg", "x.py", "-c", "pass"), "is not an option of Python"),
        (("--python-arg=-c", "x.py"), "is not an option of Python"),
        (("--python-arg=-Bm", "x.py"), "is not an option of Python"),
        (("--python-arg=-IX", "x.py"), "needs its value"),
        (("--python", "/not/there", "x.py"), "no Python at /not/there, which --python names"),
        (("--python", "/proc", "x.py"), "no Python at /proc/bin/python3"),
        (("--python", "/bin/true", "x.py"), "/bin/true (named by --python) is not a Python 3"),
        (("--python", "/bin/ls", "x.py"), "does not work as a Python 3"),
    ],
)
def test_run_not_started(tmp_path, args, message):
    result = torchtrace("run", *args, cwd=tmp_path, env={"TORCHTRACE_PYTHON": tool.PYTHON})
    assert result.status == 125
    assert message in result.err
    assert result.err.startswith("torchtrace: ")
    assert os.listdir(tmp_path) == []  # nothing is left behind


def test_levels_by_name_and_number(tmp_path):
    for i, levels in enumerate(("1,2", "function,dispatch", "2,function,2")):
        result = run(tmp_path, "-qo", f"o{i}", "-l", levels, "-c", "pass")
        assert result.status == 0
        assert json.loads((tmp_path / f"o{i}/run.json").read_text())["levels"] == [1, 2]
    run(tmp_path, "-qo", "o3", "-l", "1", "-l", "2", "-c", "pass")
    assert json.loads((tmp_path / "o3/run.json").read_text())["levels"] == [1, 2]


def test_output_folder(tmp_path):
    (tmp_path / "train.py").write_text("print(1)")
    result = run(tmp_path, "train.py")
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert re.fullmatch(r"torchtrace-train-\d+", folder.name)
    assert f"the trace is in {folder.name}: 0 calls" in result.err
    run(tmp_path, "-qo", "deep/er/%r-%h-%%", "train.py", env={"RANK": "7"})
    (folder,) = (tmp_path / "deep/er").iterdir()
    assert folder.name.startswith("7-") and folder.name.endswith("-%")


def test_output_folder_without_a_name(tmp_path):
    refused = run(tmp_path, "-o", "", "-c", "print('it ran')")
    assert refused.status == 125 and refused.out == ""
    assert "--output" in refused.err and "empty" in refused.err
    assert list(tmp_path.iterdir()) == []


def test_output_folder_is_not_overwritten(tmp_path):
    assert run(tmp_path, "-qo", "out", "-c", "pass").status == 0
    before = sorted(path.name for path in (tmp_path / "out/log").iterdir())
    refused = run(tmp_path, "-o", "out", "-c", "print('it ran')")
    assert refused.status == 125 and refused.out == ""
    assert "out is not empty" in refused.err and "--force" in refused.err
    (tmp_path / "out/mine.txt").write_text("keep")
    (tmp_path / "out/api_trace_level_2.yaml").write_text("stale")
    assert run(tmp_path, "-qfo", "out", "-c", "pass").status == 0
    after = sorted(path.name for path in (tmp_path / "out/log").iterdir())
    assert len(after) == 1 and after != before
    assert (tmp_path / "out/mine.txt").read_text() == "keep"
    assert not (tmp_path / "out/api_trace_level_2.yaml").exists()


def test_output_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("x")
    for folder in ("file", "file/sub", "/proc/torchtrace"):
        result = run(tmp_path, "-fo", folder, "-c", "print('it ran')")
        assert result.status == 125 and result.out == "" and folder in result.err


def test_quiet_and_verbose(tmp_path):
    assert run(tmp_path, "-qo", "a", "-c", "pass").err == ""
    usual = run(tmp_path, "-o", "b", "-c", "pass").err
    assert "the trace is in b" in usual and "torchtrace stats b" in usual
    verbose = run(tmp_path, "-vo", "c", "-c", "pass").err
    assert f"python: {tool.PYTHON}" in verbose and "runtime: " in verbose
    assert all(line.startswith("torchtrace: ") for line in verbose.splitlines())


def test_environment_stands_for_options(tmp_path):
    result = run(
        tmp_path,
        "-c",
        "pass",
        env={
            "TORCHTRACE_OUTPUT": "from-env",
            "TORCHTRACE_LEVELS": "1,2",
            "TORCHTRACE_QUIET": "1",
            "TORCHTRACE_FORMATS": "apis",
            "TORCHTRACE_INCLUDE": "torch.*,aten::*",
            "TORCHTRACE_EXCLUDE": "*norm*",
            "TORCHTRACE_INCLUDE_GETTERS": "true",
        },
    )
    assert result == tool.Result(0, "", "")
    info = json.loads((tmp_path / "from-env/run.json").read_text())
    assert info["levels"] == [1, 2]
    assert info["include"] == ["torch.*", "aten::*"] and info["exclude"] == ["*norm*"]
    assert info["include_getters"] is True
    names = sorted(path.name for path in (tmp_path / "from-env").iterdir())
    assert names == ["api_apis.txt", "log", "run.json"]
    # An option overrides it.
    run(tmp_path, "-o", "mine", "-l", "1", "-c", "pass", env={"TORCHTRACE_LEVELS": "2"})
    assert json.loads((tmp_path / "mine/run.json").read_text())["levels"] == [1]


@pytest.mark.parametrize(
    ("name", "value", "options", "sentence"),
    [
        ("LEVELS", "7", [], "TORCHTRACE_LEVELS: unknown level '7'"),
        ("LEVELS", "2", ["-l7"], "--levels: unknown level '7'"),
        ("QUIET", "maybe", [], "TORCHTRACE_QUIET: 'maybe' is not yes or no"),
        ("QUIET", "1", ["--outermost=x"], "--outermost: 'x' is not yes or no"),
    ],
)
def test_a_wrong_value_is_told_by_where_it_stands(tmp_path, name, value, options, sentence):
    env = {f"TORCHTRACE_{name}": value}
    result = run(tmp_path, *options, "-c", "pass", env=env)
    assert result.status == 125 and result.err.startswith(f"torchtrace: {sentence}")


@pytest.mark.parametrize(
    ("formats", "expected"),
    [
        ("none", []),
        ("trace.yaml", ["api_trace.yaml"]),
        ("txt", ["api_apis.txt", "api_configs.txt", "api_statistics.txt", "api_trace.txt"]),
    ],
)
def test_formats(tmp_path, formats, expected):
    assert run(tmp_path, "-qo", "out", "--formats", formats, "-c", "pass").status == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [*expected, "log", "run.json"]


def test_levels_apart(tmp_path):
    run(tmp_path, "-qo", "out", "-l1,2", "--no-merge-output", "--formats=yaml", "-c", "pass")
    names = [path.name for path in (tmp_path / "out").iterdir()]
    assert "api_trace_level_1.yaml" in names and "api_trace_level_2.yaml" in names
    assert "api_trace.yaml" not in names


def test_programs_that_change_their_folder(tmp_path):
    code = "import os; os.mkdir('sub'); os.chdir('sub')"
    result = run(tmp_path, "-o", "out", "-c", code)
    assert result.status == 0 and "the trace is in out: " in result.err
    assert (tmp_path / "out/run.json").exists() and os.listdir(tmp_path / "sub") == []


def test_a_full_disk_does_not_stop_the_program(tmp_path):
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10)); print('ran')"
    result = run(tmp_path, "-o", "out", "-c", code)
    assert result.status == 0 and result.out == "ran\n"
    assert "torchtrace render out" in result.err


# ---- which Python ----


def test_order_of_pythons(tmp_path):
    code = "import sys; print(sys.executable, sys.prefix)"
    prefix = str(Path(tool.PYTHON).parent.parent)
    expected = f"{tool.PYTHON} {prefix}\n"

    def out(env, *options):
        return torchtrace("run", "-qfo", "t", *options, "-c", code, cwd=tmp_path, env=env).out

    assert out({}, "--python", tool.PYTHON) == expected
    assert out({}, "--python", prefix) == expected
    assert out({"TORCHTRACE_PYTHON": prefix}) == expected
    assert out({"VIRTUAL_ENV": prefix, "CONDA_PREFIX": "/nowhere"}) == expected
    assert out({"CONDA_PREFIX": prefix, "VIRTUAL_ENV": "/nowhere"}) == expected
    assert out({"PATH": f"{prefix}/bin:{os.environ['PATH']}"}) == expected
    (tmp_path / ".venv").symlink_to(prefix)
    assert out({}).startswith(str(tmp_path / ".venv/bin/python3"))


def test_a_script_that_starts_python(tmp_path):
    """pyenv's shims do this."""
    shim = tmp_path / "python3"
    shim.write_text(f'#!/bin/sh\nexec "{tool.PYTHON}" "$@"\n')
    shim.chmod(0o755)
    result = torchtrace(
        "run",
        "-qo",
        "t",
        "-c",
        "import sys; print(sys.executable, sys.orig_argv[0])",
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert result.out == f"{tool.PYTHON} {tool.PYTHON}\n"


def test_a_python_of_another_version(tmp_path):
    """The error names both versions, before the program starts."""
    fake = tmp_path / "python3"
    fields = ["cpython", "3.10.4", "", "/opt/python3.10", "/opt/python3.10", "yes", "", "", "/lib"]
    answer = "".join(field + "\\000" for field in fields)
    fake.write_text(f"#!/bin/sh\nprintf '{answer}'\n")
    fake.chmod(0o755)
    (tmp_path / "runtime/py3.14").mkdir(parents=True)
    (tmp_path / "runtime/py3.14/libtorchtrace_runtime.so").touch()
    env = {"TORCHTRACE_RUNTIME_DIR": str(tmp_path / "runtime")}
    result = torchtrace("run", "--python", fake, "-o", "t", "-c", "pass", cwd=tmp_path, env=env)
    assert result.status == 125
    assert "is Python 3.10.4, but the runtimes built are for py3.14;" in result.err
    assert "tools/torchtrace run --python /opt/python3.1" in result.err
    assert not (tmp_path / "t").exists()


def test_options_for_python_itself(tmp_path):
    code = "import sys; print(sys.flags.optimize, sys._xoptions, sys.orig_argv[1:4])"
    for args in (
        ["--python-arg=-O", "--python-arg=-Xa=b,c"],
        ["--python-arg", "-O", "--python-arg", "-Xa=b,c"],
    ):
        result = run(tmp_path, "-qfo", "t", *args, "-c", code)
        assert result.out == "1 {'a': 'b,c'} ['-O', '-Xa=b,c', '-c']\n"
    result = run(tmp_path, "-qfo", "t", "--python-arg=-X", "--python-arg=dev", "-c", code)
    assert result.out == "0 {'dev': True} ['-X', 'dev', '-c']\n"


def test_runtime_folder(tmp_path):
    """TORCHTRACE_RUNTIME_DIR is one runtime, or a folder of several."""
    verbose = run(tmp_path, "-vo", "t", "-c", "pass").err
    folder = re.search(r"runtime: (.*)", verbose).group(1)
    for name in (folder, str(Path(folder).parent)):
        result = run(tmp_path, "-vfo", "t", "-c", "pass", env={"TORCHTRACE_RUNTIME_DIR": name})
        assert result.status == 0 and f"runtime: {folder}\n" in result.err
    nothing = run(tmp_path, "-fo", "t", "-c", "pass", env={"TORCHTRACE_RUNTIME_DIR": str(tmp_path)})
    assert nothing.status == 125 and f"there is no runtime in {tmp_path}" in nothing.err
    (tmp_path / "libtorchtrace_runtime.so").write_text("no library")
    broken = run(tmp_path, "-fo", "t", "-c", "pass", env={"TORCHTRACE_RUNTIME_DIR": str(tmp_path)})
    assert broken.status == 125 and "cannot load the runtime" in broken.err


def test_python_without_torch(tmp_path):
    """A runtime of the same Python works for a program that needs no torch."""
    venv = tmp_path / "venv"
    subprocess.run([tool.PYTHON, "-m", "venv", "--without-pip", venv], check=True)
    result = torchtrace(
        "run", "-o", "t", "--python", venv, "-c", "import sys; print(sys.prefix)", cwd=tmp_path
    )
    assert (result.status, result.out) == (0, f"{venv}\n")
    failed = torchtrace("run", "-qo", "t2", "--python", venv, "-c", "import torch", cwd=tmp_path)
    assert failed.status == 1 and "No module named 'torch'" in failed.err


def fake_torch(folder, version):
    """A package named torch, with that version in its metadata and its __version__."""
    package = folder / f"torch-{version}"
    (package / "torch").mkdir(parents=True)
    (package / "torch/__init__.py").write_text("import torch.version")
    (package / "torch/version.py").write_text(f"__version__ = {version!r}")
    metadata = package / f"torch-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    return package


@pytest.mark.parametrize(
    "version, why",
    [
        ("2.6.0", "torch 2.6.0 is too old: torchtrace traces torch 2.7 to 2."),
        ("1.13.1+cpu", "torch 1.13.1+cpu is too old"),
        ("2.999.0.dev20991231", "is newer than what this torchtrace was tested with, torch 2.7 to"),
        ("unknown", "torch unknown has a version that is not a number"),
    ],
)
def test_a_torch_that_cannot_be_traced_is_refused_in_one_sentence(tmp_path, version, why):
    env = {"PYTHONPATH": str(fake_torch(tmp_path, version))}
    result = run(tmp_path, "-o", "t", "-c", "print('ran')", env=env)
    assert (result.status, result.out) == (125, "")
    assert why in result.err and len(result.err.splitlines()) == 1
    assert ("--untested-torch" in result.err) == version.startswith("2.999")
    assert not (tmp_path / "t").exists()


def test_a_torch_that_metadata_do_not_tell_of(tmp_path):
    """The version is found when the program imports it, and the program continues."""
    package = fake_torch(tmp_path, "2.6.0")
    code = f"import sys; sys.path.insert(0, {str(package)!r}); import torch; print('ran')"
    result = run(tmp_path, "-o", "t", "-c", code)
    assert (result.status, result.out) == (0, "ran\n")
    assert "tracing stopped" in result.err and "torch 2.6.0 is too old" in result.err


def test_nobody_elses_code_runs_while_looking_for_python(tmp_path):
    """sitecustomize and .pth files run once: in the program itself."""
    (tmp_path / "sitecustomize.py").write_text("print('sitecustomize')")
    result = run(tmp_path, "-qo", "t", "-c", "pass", env={"PYTHONPATH": str(tmp_path)})
    assert result.out == "sitecustomize\n"


# ---- reading verbs ----


def test_reading_verbs_take_a_folder_or_a_log(trace):
    (log,) = (trace / "log").iterdir()
    for verb in ("stats", "info", "dump"):
        for path in (trace, log):
            result = torchtrace(verb, path)
            assert result.status == 0 and result.err == "", (verb, path)
    assert json.loads(torchtrace("stats", trace, "--format", "json").out)["total_calls"] == 0
    assert json.loads(torchtrace("info", trace, "--format", "json").out)["exit_code"] == 0


def test_render_again(trace, tmp_path):
    refused = torchtrace("render", trace)
    assert refused.status == 2 and "--force" in refused.err
    assert torchtrace("render", trace, "-f").status == 0
    assert torchtrace("render", trace, "-o", tmp_path / "x", "--formats=apis").status == 0
    assert os.listdir(tmp_path / "x") == ["api_apis.txt"]


def test_reader_that_has_gone_is_no_failure(trace):
    for args in (["info", trace], ["help"], ["stats", trace, "--format", "json"]):
        process = subprocess.Popen(
            [tool.TORCHTRACE, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_a_full_standard_output_is_one(trace):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [tool.TORCHTRACE, "info", trace], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert "cannot write to standard output: No space left on device" in done.stderr


def in_terminal(args, env):
    """Runs it with a terminal as standard output; returns the terminal's contents."""
    terminal = Terminal()
    process = subprocess.Popen(
        [tool.TORCHTRACE, *args],
        stdin=terminal.its,
        stdout=terminal.its,
        stderr=terminal.its,
        env=tool.environment({"TERM": "xterm", **env}),
    )
    shown = terminal.read_until_exit(process)
    assert process.returncode == 0
    return shown


def test_pager_and_colour_only_on_a_terminal(trace, tmp_path):
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGER $LESS\ncat\n")
    pager.chmod(0o755)
    assert in_terminal(["dump", trace], {"PAGER": str(pager)}).startswith("PAGER FRX")
    assert "PAGER" not in in_terminal(["dump", trace, "--no-pager"], {"PAGER": str(pager)})
    assert "PAGER" not in in_terminal(["dump", trace], {"PAGER": "cat"})
    assert "PAGER" not in torchtrace("dump", trace, env={"PAGER": str(pager)}).out


def test_reading_loads_neither_python_nor_torch(trace):
    out = subprocess.run(
        [tool.TORCHTRACE, "stats", trace],
        env=tool.environment({"LD_DEBUG": "libs"}),
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    ).stderr
    assert "libc.so" in out
    assert "libpython" not in out and "libtorch" not in out


def filters_of(page):
    """The options that filter, each with its lines, of a verb's --help."""
    block = re.search(r"^Filtering:\n((?: .*\n)+)", page, re.M)
    return re.findall(r"^ {2,6}-.*\n(?: {20}.*\n)*", block[1], re.M) if block else []


def in_pages(verb):
    """A verb's --help as its page shows it: with dots for filters that docs/FILTER.md shows, and
    for export's formats, which a table shows."""
    shown = torchtrace(*verb.split(), "--help").out
    shown = re.sub(r"^Formats:\n(?: .*\n)+", "Formats:\n...\n", shown, flags=re.M)
    filters = filters_of(torchtrace("filter", "--help").out)
    common = [lines for lines in filters_of(shown) if lines in filters] if verb != "filter" else []
    return shown.replace("".join(common), "...\n") if common else shown


@pytest.mark.parametrize("verb", PAGES)
def test_its_page_shows_its_options(verb):
    page = (tool.ROOT / f"docs/{verb.split()[0].upper()}.md").read_text()
    assert f"\n```console\n$ torchtrace {verb} --help\n{in_pages(verb)}```\n" in page
    helps = "".join(re.findall(r"^\$ torchtrace .* --help\n(.*?)^```$", page, re.M | re.S))
    helps += torchtrace("filter", "--help").out
    for row in re.findall(r"^\| (`-.*?) \|", page, re.M):
        for name in re.findall(r"(?<![\w-])--[a-z-]+", row):
            assert re.search(rf"{name}\b", helps), name


# ---- manual and completions ----


def test_manual_has_every_option():
    page = torchtrace("help", "--man")
    assert page.status == 0 and page.err == ""
    assert page.out.startswith(".TH TORCHTRACE 1 ")
    shown = page.out.replace("\\-", "-")
    for verb in ("run", "stats", "merge", "apis scan", "completions"):
        assert f'.SS "{verb}"\n' in shown, verb
        text = torchtrace(*verb.split(), "--help").out
        for option in re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text, re.M):
            assert re.search(rf"^\.B .*{option}\b", shown, re.M), (verb, option)
    # A line that begins with a dot or a quote is a request; only these occur.
    requests = set(re.findall(r"^[.'].*?(?= |$)", page.out, re.M))
    assert requests == {".TH", ".SH", ".SS", ".B", ".I", ".PP", ".TP", ".nf", ".fi"}


def words(*typed):
    """The completions of the last word: {answer: description}."""
    done = torchtrace("completions", "words", *typed)
    assert done.status == 0 and done.err == ""
    return dict(line.split("\t", 1) for line in done.out.splitlines())


def test_words_that_may_follow():
    assert set(VERBS) < set(words(""))
    assert list(words("st")) == ["stats"] and words("st")["stats"].startswith("Count calls")
    assert set(words("help", "di")) == {"diff"}
    assert set(words("apis", "")) == {"name", "coverage", "scan"}
    assert {"--top", "--by", "-l"} < set(words("stats", "out", "-"))
    assert set(words("stats", "--to")) == {"--top"}
    assert set(words("apis", "scan", "--lib")) == {"--library"}
    # Files, or no completion.
    for typed in (["stats", ""], ["stats", "--top", "-"], ["nothing", "-"], ["export", "csv", ""]):
        assert words(*typed) == {}, typed


def test_values_that_may_follow():
    assert set(words("stats", "--sort", "")) == {
        "calls",
        "configs",
        "time",
        "self",
        "name",
        "first",
        "flops",
        "bytes",
        "device",
        "memory",
    }
    assert set(words("stats", "x", "--by", "f")) == {"family"}
    assert set(words("stats", "--format=j")) == {"--format=json"}
    # Lists keep their earlier items.
    assert set(words("run", "-l", "1,d")) == {"1,dispatch"}
    assert set(words("run", "--levels=1,d")) == {"--levels=1,dispatch"}
    assert {"%nn", "%linalg"} < set(words("run", "--include", "%"))
    assert set(words("dump", "--exclude", "%nn,%lin")) >= {"%nn,%linalg"}
    assert set(words("run", "--stacks=")) == {"--stacks=all", "--stacks=first"}
    assert set(words("run", "--int-ranges=f")) == {"--int-ranges=first"}
    # Arguments with a table of choices.
    assert {"csv", "parquet", "timing"} < set(words("export", ""))
    assert {"csv", "parquet"} < set(words("dedup", "--format", ""))
    assert "timing" not in words("dedup", "--format", "")
    assert set(words("completions", "")) == {"bash", "zsh", "fish"}
    # Subverbs.
    assert set(words("help", "apis", "")) == {"name", "coverage", "scan"}
    assert set(words("help", "apis", "c")) == {"coverage"}
    assert words("help", "stats", "") == {}
    assert {"--all", "--man"} < set(words("help", "-"))
    # None after the program.
    assert words("run", "train.py", "--format=") == {}
    assert words("run", "train.py", "-l", "") == {}


def options_of_all_verbs():
    verbs = [*words(""), *(f"apis {verb}" for verb in words("apis", ""))]
    for verb in verbs:
        for option in words(*verb.split(), "--") if verb != "apis" else ():
            if option.startswith("--"):
                yield verb, option


def test_help_check_and_completion_are_of_one_table(tmp_path):
    """Each completed word is in the help, and is accepted."""
    seen = set()
    for verb, option in options_of_all_verbs():
        typed = verb.split()
        answers = words(*typed, f"{option}=")
        page = torchtrace(*typed, "--help").out
        for answer in answers:
            value = answer.removeprefix(f"{option}=")
            seen.add((verb, option))
            if value.startswith("%"):
                continue
            if option not in ("--level", "--levels") or verb == "run":  # its page lists them
                assert re.search(rf"(?<!\w){re.escape(value)}(?!\w)", page), (verb, option, value)
        value = next(iter(answers), "").removeprefix(f"{option}=")
        if not value or option == "--dialect":
            continue
        result = torchtrace(*typed, f"{option}={value}", "--help", cwd=tmp_path)
        assert (result.status, result.out) == (0, page), (verb, option, value)
        wrong = torchtrace(*typed, f"{option}=no-such-word", "--help", cwd=tmp_path)
        assert value.startswith("%") or wrong.status != 0 or option == "--file-name-spec"
    assert len(seen) > 40
    for option in ("--by", "--sort", "--format", "--levels", "--include", "--ignore", "--times"):
        assert ("stats", option) in seen, option


def test_what_follows_a_script_is_its_own():
    assert set(words("run", "--no-s")) == {"--no-self-test"}
    assert set(words("run", "-o", "out", "--no-s")) == {"--no-self-test"}
    own = (["train.py"], ["-o", "out", "train.py"], ["-m", "mine"], ["-l1", "--", "x"], ["-m"])
    for typed in own:
        assert words("run", *typed, "--no-s") == {}, typed


def complete_in_bash(line):
    """Bash's completions of a line's last word, as with Tab; Bash splits the line."""
    pieces = re.findall(r"[=:]+|[^ =:]+|(?<= )$", line)
    script = f"""
        source <(torchtrace completions bash)
        COMP_WORDS=({" ".join(piece or "''" for piece in pieces)}) COMP_CWORD={len(pieces) - 1}
        _torchtrace torchtrace
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{Path(tool.TORCHTRACE).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_bash_completes():
    assert complete_in_bash("torchtrace st") == ["stats"]
    assert complete_in_bash("torchtrace stats --top 3 --so") == ["--sort"]
    assert complete_in_bash("torchtrace run train.py --so") == []
    assert complete_in_bash("torchtrace stats --by th") == ["thread"]
    assert complete_in_bash("torchtrace run --stacks=") == ["all", "first"]
    assert complete_in_bash("torchtrace run --stacks=fi") == ["first"]
    assert complete_in_bash("torchtrace run --levels=1,d") == ["1,dispatch"]
    assert complete_in_bash("torchtrace run -l 1,d") == ["1,dispatch"]
    assert complete_in_bash("torchtrace dump --include %linal") == ["%linalg"]
    assert complete_in_bash("torchtrace help apis ") == ["name", "coverage", "scan"]
    assert complete_in_bash("torchtrace completions z") == ["zsh"]
    assert complete_in_bash("torchtrace dump --include aten::ad") == []


def test_completions_for_shells():
    for shell in ("bash", "zsh", "fish"):
        script = torchtrace("completions", shell)
        assert script.status == 0 and "completions words" in script.out
    wrong = torchtrace("completions", "fihs")
    assert (wrong.status, wrong.out) == (2, "")
    assert wrong.err == (
        'torchtrace: SHELL: unknown shell "fihs", did you mean fish? (known: bash, zsh, fish) '
        "(see torchtrace completions --help)\n"
    )
    assert torchtrace("completions").status == 2
