"""A Python whose interpreter is in its program: that program runs, with torchtrace preloaded."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.testing import whole_tool as tool

LAUNCH = tool.SCRIPTS / "launch"
FACTS = """
import json, sys, sysconfig
print(json.dumps({
    "version": sys.version_info[:2],
    "shared": "/libpython" in open("/proc/self/maps").read(),
    "stdlib": sysconfig.get_path("stdlib"),
    "packages": sysconfig.get_path("purelib"),
    "libdir": sysconfig.get_config_var("LIBDIR"),
    "sysconfigdata": sysconfig._get_sysconfigdata_name(),
}))
"""
CANNOT_GO_IN = " has no shared libpython, and torchtrace can't be loaded into its executable: "


def facts_of(python):
    done = subprocess.run([python, "-I", "-c", FACTS], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def moved(tmp_path_factory):
    """The prefix of Debian's Python, whose program contains the interpreter, moved away from its
    library."""
    program = Path("/usr/bin/python3").resolve()
    if not program.exists():
        pytest.skip("there is no /usr/bin/python3")
    facts, ours = facts_of(program), facts_of(tool.PYTHON)
    if facts["version"] != ours["version"]:
        pytest.skip("/usr/bin/python3 is of another minor version than the runtime")
    if facts["shared"]:
        pytest.skip("/usr/bin/python3 is a program that needs a shared libpython")
    prefix = tmp_path_factory.mktemp("moved")
    stdlib = prefix / "lib" / Path(facts["stdlib"]).name
    stdlib.mkdir(parents=True)
    for entry in Path(facts["stdlib"]).iterdir():
        (stdlib / entry.name).symlink_to(entry)
    data = stdlib / (facts["sysconfigdata"] + ".py")
    text = data.read_text()
    data.unlink()
    data.write_text(text.replace(repr(facts["libdir"]), repr(str(prefix / "lib"))))
    (prefix / "bin").mkdir()
    shutil.copy(program, prefix / "bin")
    (prefix / "bin/python3").symlink_to(program.name)
    return prefix


@pytest.fixture(scope="module")
def venv(moved, tmp_path_factory):
    """A virtual environment of it, with the packages of .venv."""
    folder = tmp_path_factory.mktemp("venv")
    command = [moved / "bin/python3", "-m", "venv", "--without-pip", "--symlinks", folder]
    subprocess.run(command, check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "packages.pth").write_text(facts_of(tool.PYTHON)["packages"])
    return folder


@pytest.fixture
def python(venv, monkeypatch):
    """The Python of the tool's tests, both untraced and traced, from here on."""
    monkeypatch.setattr(tool, "PYTHON", str(venv / "bin/python3"))
    return tool.PYTHON


def assert_same(args, tmp_path, **kwargs):
    untraced, traced = tool.run_both(args, tmp_path, **kwargs)
    assert traced.lines() == untraced.lines()
    return traced


def run(tmp_path, *args, python=None, **kwargs):
    options = ["--python", python or tool.PYTHON]
    return tool.torchtrace("run", "-qfo", "trace", *options, *args, cwd=tmp_path, **kwargs)


def test_its_own_program_runs(tmp_path, python, moved, venv):
    code = """
import os, sys
print(os.path.realpath("/proc/self/exe"), sys.prefix, sys.base_prefix)
print([line for line in open("/proc/self/maps") if "/libpython" in line])
"""
    program = os.path.realpath(moved / "bin/python3")
    for prefix in (venv, moved):
        result = run(tmp_path, "-c", code, python=prefix / "bin/python3")
        assert result.out == f"{program} {prefix} {moved}\n[]\n" and result.err == ""


@pytest.mark.parametrize("python_args", [(), ("-O", "-B"), ("-I",), ("-X", "dev"), ("-VV",)])
def test_facts_of_a_script(tmp_path, python, python_args):
    assert_same([LAUNCH / "facts.py", "a", "-l", "b c", ""], tmp_path, python_args=python_args)


def test_facts_of_other_programs(tmp_path, python):
    code = (LAUNCH / "facts.py").read_text()
    assert_same(["-c", code, "a", "-m", "b"], tmp_path)
    assert_same(["-", "x"], tmp_path, stdin=code)
    assert_same(["-m", "facts", "a", "-o", "b"], tmp_path, cwd=LAUNCH)
    assert_same([LAUNCH / "folder", "x"], tmp_path)


def test_found_by_a_name_and_behind_a_script(tmp_path, python, venv):
    """By a name on PATH, and through a script like pyenv's shims."""
    code = "import sys; print(sys.executable, sys.orig_argv, sys.prefix)"
    env = {"PATH": f"{venv}/bin:{os.environ['PATH']}"}
    result = tool.torchtrace("run", "-qfo", "trace", "-c", code, cwd=tmp_path, env=env)
    assert result.out == f"{python} ['python3', '-c', {code!r}] {venv}\n"
    shim = tmp_path / "shim"
    shim.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    shim.chmod(0o755)
    result = run(tmp_path, "-c", code, python=shim)
    assert result.out == f"{python} [{python!r}, '-c', {code!r}] {venv}\n"


@pytest.mark.parametrize("preloaded", [None, "", "libm.so.6"])
def test_environment(tmp_path, python, preloaded):
    """Neither the program nor its children see how it was started."""
    show = """
import os
print([item for item in os.environ.items() if item[0] != "_"])
"""
    child = show + 'print([line for line in open("/proc/self/maps") if "/libtorchtrace" in line])'
    code = f"""{show}
import subprocess, sys
sys.stdout.flush()
child = [sys.executable, "-c", {child!r}]
subprocess.run(child)
if os.fork() == 0:
    os.execv(sys.executable, child)
os.wait()
"""
    options = ("--no-follow",)
    result = assert_same(["-c", code], tmp_path, env={"LD_PRELOAD": preloaded}, options=options)
    assert result.out.splitlines()[2::2] == ["[]", "[]"]


@pytest.mark.parametrize("way", ["int", "text", "error", "interrupt", "_exit", "nested"])
def test_exit(tmp_path, python, way):
    result = assert_same([LAUNCH / "exit.py", way], tmp_path)
    info = json.loads((tmp_path / "trace/run.json").read_text())
    assert info["exit_code"] == result.status if result.status >= 0 else "SIGINT" in info["ended"]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGSEGV", "SIGINT", "SIGKILL", "SIGPIPE"])
def test_signal(tmp_path, python, name):
    assert_same([LAUNCH / "signals.py", name, "plain"], tmp_path)


def test_processes(tmp_path, python):
    assert_same([LAUNCH / "forks.py"], tmp_path)
    assert_same([LAUNCH / "pickles.py", "spawn"], tmp_path)


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path, python, closed):
    code = "import os; f = os.open('file', os.O_CREAT | os.O_WRONLY); os.write(f, b'%d' % f)"
    texts = []
    for command in ([python], [tool.TORCHTRACE, "run", "-fo", "t", "--python", python]):
        words = ["sh", "-c", f'exec "$@" {closed}', "sh", *command, "-c", code]
        assert tool.execute(words, tmp_path).status == 0
        texts.append((tmp_path / "file").read_text())
        (tmp_path / "file").unlink()
    assert texts[0] == texts[1]


@pytest.mark.torch
def test_trace_is_the_same(tmp_path, venv):
    script = tool.SCRIPTS / "train_mlp.py"
    outputs = []
    for name, python in (("shared", tool.PYTHON), ("own", venv / "bin/python3")):
        options = ["-qo", name, "-l", "0,1,2", "--python", python]
        outputs.append(tool.torchtrace("run", *options, script, cwd=tmp_path).lines())
    assert outputs[0] == outputs[1]
    compared = tool.torchtrace("diff", "shared", "own", cwd=tmp_path)
    assert compared.status == 0, compared.out
    # The threads of both programs match.
    info = [json.loads((tmp_path / name / "run.json").read_text()) for name in ("shared", "own")]
    assert info[0]["counts"] == info[1]["counts"]
    assert info[0].get("not_seen") == info[1].get("not_seen")


@pytest.mark.torch
def test_torch_in_threads_and_workers(tmp_path, python):
    assert_same([LAUNCH / "torch_threads.py"], tmp_path, options=("-l", "1,2"))
    assert_same([LAUNCH / "torch_loader.py", "fork", "-1"], tmp_path)


def make_python(path, program, version, implementation="cpython", abiflags=""):
    """A script that answers `run`'s questions like such a Python."""
    fields = [implementation, version, abiflags, path, program, "", "", "", "/site-packages"]
    path.write_text("#!/bin/sh\nprintf '" + "".join(f"{field}\\000" for field in fields) + "'\n")
    path.chmod(0o755)
    return path


def refused(tmp_path, python):
    result = run(tmp_path, "-c", "print('never')", python=python)
    assert (result.status, result.out) == (125, "") and not (tmp_path / "trace").exists()
    (line,) = result.err.splitlines()
    return line.removeprefix("torchtrace: ")


def test_programs_that_cannot_be_gone_into(tmp_path):
    version = "%d.%d.0" % tuple(facts_of(tool.PYTHON)["version"])
    python = make_python(tmp_path / "python3", shutil.which("sleep"), version)
    said = f"{python}{CANNOT_GO_IN}it does not export Python's functions"
    assert refused(tmp_path, python) == said


def test_what_cannot_be_preloaded(tmp_path, moved):
    """If torchtrace's path can't be in LD_PRELOAD: libpython is used, if there is one."""
    prefix = tmp_path / "a b"
    build = Path(tool.TORCHTRACE).parents[1]
    for name in ("bin", "lib"):
        shutil.copytree(build / name, prefix / name)
    (prefix / "runtime").symlink_to(build / "runtime")
    code = "import os; print([name for name in os.environ if 'PRELOAD' in name])"
    command = [prefix / "bin/torchtrace", "run", "-qfo", "trace", "--python"]
    python = moved / "bin/python3"
    result = tool.execute([*command, python, "-c", code], tmp_path)
    assert result.status == 125
    assert result.err.startswith(f"torchtrace: {python}{CANNOT_GO_IN}ERROR: ld.so: object '")
    folder = Path(facts_of("/usr/bin/python3")["libdir"])
    library = folder / f"lib{python.resolve().name}.so.1.0"
    if library.exists():
        code += "; print('/libpython' in open('/proc/self/maps').read())"
        result = tool.execute([*command, "/usr/bin/python3", "-c", code], tmp_path)
        assert (result.status, result.out, result.err) == (0, "[]\nTrue\n", "")


@pytest.mark.parametrize(
    ("implementation", "version", "abiflags", "what"),
    [
        ("cpython", "3.9.18", "", "Python 3.9.18"),
        ("cpython", "3.15.0", "", "Python 3.15.0"),
        ("cpython", "3.13.1", "t", "a free-threaded Python 3.13.1, which has no GIL"),
        ("pypy", "3.11.13", "", "pypy"),
    ],
)
def test_pythons_that_are_refused(tmp_path, implementation, version, abiflags, what):
    python = make_python(tmp_path / "python3", "/none", version, implementation, abiflags)
    said = f"{python} (named by --python) is {what}; torchtrace traces CPython 3.10 to 3.14"
    assert refused(tmp_path, python) == said
