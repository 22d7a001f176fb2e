"""A program runs under `torchtrace run` as under plain python, with which each test compares it."""

import json
import os
import re
import signal
import subprocess
import time
import zipfile
from dataclasses import replace

import pytest

from tools.testing import whole_tool as tool

LAUNCH = tool.SCRIPTS / "launch"


def check(untraced, traced):
    assert traced.lines() == untraced.lines()


def assert_same(args, tmp_path, **kwargs):
    untraced, traced = tool.run_both(args, tmp_path, **kwargs)
    check(untraced, traced)
    return traced


def run_info(tmp_path):
    return json.loads((tmp_path / "trace/run.json").read_text())


# ---- how it starts ----


@pytest.mark.parametrize(
    "python_args",
    [
        (),
        ("-O",),
        ("-OO", "-B"),
        ("-u",),
        ("-I",),
        ("-E", "-s"),
        ("-P",),
        ("-S",),
        ("-X", "dev"),
        ("-Xutf8=0",),
    ]
    + [
        ("-W", "error::UserWarning"),
        ("-Wignore", "-v"),
        ("-X", "importtime"),
        ("-b", "-R"),
        ("-q", "-d"),
    ],
)
def test_facts_of_a_script(tmp_path, python_args):
    untraced, traced = tool.run_both(
        [LAUNCH / "facts.py", "a", "-l", "b c", ""], tmp_path, python_args=python_args
    )
    if "importtime" in python_args or "-v" in python_args:
        # They print times, and cached files that don't exist yet.
        untraced.err = traced.err = ""
    check(untraced, traced)
    assert "argv" in traced.out


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONPATH": "/nowhere:relative"},
        {"PYTHONOPTIMIZE": "1", "PYTHONWARNINGS": "ignore"},
        {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": None},
        {"PYTHONSAFEPATH": "1", "PYTHONHASHSEED": "0"},
        {"PYTHONFAULTHANDLER": "1"},
    ],
)
def test_facts_follow_the_environment(tmp_path, env):
    assert_same([LAUNCH / "facts.py"], tmp_path, env=env)


def test_facts_of_code(tmp_path):
    code = (LAUNCH / "facts.py").read_text()
    assert_same(["-c", code, "a", "-m", "b"], tmp_path)
    assert_same(["-c" + code], tmp_path)


def test_facts_of_standard_input(tmp_path):
    code = (LAUNCH / "facts.py").read_text()
    assert_same(["-", "x"], tmp_path, stdin=code)
    assert_same(["-"], tmp_path, stdin="a b\n")
    assert_same(["-"], tmp_path, stdin="print(input())\nthis is read by input\n")


def test_facts_of_a_module(tmp_path):
    assert_same(["-m", "facts", "a", "-o", "b"], tmp_path, cwd=LAUNCH)
    assert_same(["-mfacts"], tmp_path, cwd=LAUNCH)


@pytest.mark.parametrize("way", ["", "fail", "interrupt", "exit"])
def test_package(tmp_path, way):
    assert_same(["-m", "package", way], tmp_path, cwd=LAUNCH)


@pytest.mark.parametrize(
    "module", ["nothing_of_that_name", "package.sub", "os.path.x", "json.tool.x", "1"]
)
def test_module_that_cannot_run(tmp_path, module):
    assert_same(["-m", module], tmp_path, cwd=LAUNCH)


def test_folder_and_zip(tmp_path):
    assert_same([LAUNCH / "folder", "x"], tmp_path)
    assert_same(["folder"], tmp_path, cwd=LAUNCH)
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        for name in ("__main__.py", "beside.py"):
            archive.write(LAUNCH / "folder" / name, name)
    assert_same(["app.zip", "x"], tmp_path)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    assert_same(["empty.zip"], tmp_path)
    assert_same([LAUNCH / "package/sub"], tmp_path)


def test_odd_scripts(tmp_path):
    (tmp_path / "syntax_error.py").write_text("print(1)\na b\n")
    (tmp_path / "bom.py").write_bytes(b'\xef\xbb\xbfprint("with a byte order mark")\n')
    (tmp_path / "latin.py").write_bytes(b'# -*- coding: latin-1 -*-\nprint(ascii("\xe9t\xe9"))\n')
    (tmp_path / "not_utf8.py").write_bytes(b'print("\xe9t\xe9")\n')
    (tmp_path / "null.py").write_bytes(b'print("\x00")\n')
    (tmp_path / "empty.py").write_bytes(b"")
    (tmp_path / "no_suffix").write_text("print(__file__)")
    (tmp_path / "name with spaces é.py").write_text("print(ascii(__file__))")
    (tmp_path / "relative").symlink_to(LAUNCH)
    for name in sorted(os.listdir(tmp_path)):
        assert_same([name], tmp_path)
    assert_same(["not_there.py"], tmp_path)
    assert_same(["relative/facts.py"], tmp_path)
    assert_same(["./no_suffix", "-q"], tmp_path)
    assert_same([""], tmp_path)


def test_shadowing_the_standard_library(tmp_path):
    (tmp_path / "types.py").write_text("raise RuntimeError('the script folder comes first')")
    (tmp_path / "json.py").write_text("print('our json')")
    (tmp_path / "script.py").write_text("import json\nprint(json.__file__)\n")
    assert_same(["script.py"], tmp_path)


def test_dashes(tmp_path):
    (tmp_path / "-x.py").write_text("import sys; print(sys.argv)")
    (tmp_path / "a.py").write_text("import sys; print(sys.argv, sys.orig_argv)")
    untraced = tool.execute([tool.PYTHON, "a.py", "--", "-f"], tmp_path)
    traced = tool.torchtrace(
        "run", "-qo", "t", "--python", tool.PYTHON, "--", "a.py", "--", "-f", cwd=tmp_path
    )
    check(untraced, traced)
    assert_same(["./-x.py"], tmp_path)


@pytest.mark.parametrize("python_args", [(), ("-O",), ("-OO",)])
def test_assertions(tmp_path, python_args):
    assert_same([LAUNCH / "debug.py"], tmp_path, python_args=python_args)


@pytest.mark.parametrize(
    "python_args", [(), ("-Walways",), ("-Werror",), ("-Xdev",), ("-W", "ignore")]
)
def test_warnings(tmp_path, python_args):
    assert_same([LAUNCH / "warn.py"], tmp_path, python_args=python_args)


@pytest.mark.parametrize(
    "python_args", [("--version",), ("-VV",), ("-h",), ("-Xnonsense",), ("-Z",), ("-Wbad::x",)]
)
def test_python_options_that_end_it(tmp_path, python_args):
    assert_same([LAUNCH / "debug.py"], tmp_path, python_args=python_args)


def test_standard_input_is_the_scripts(tmp_path):
    assert_same([LAUNCH / "stdin.py"], tmp_path, stdin="some text\nand more")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path, closed):
    """A file of the program that becomes standard error stays the program's."""
    code = "import os, sys; f = os.open('file', os.O_CREAT | os.O_WRONLY); os.write(f, b'%d' % f)"
    run = [tool.TORCHTRACE, "run", "-fo", "t", "--python", tool.PYTHON]
    results = []
    for command in ([tool.PYTHON], run):
        words = ["sh", "-c", f'exec "$@" {closed}', "sh", *command, "-c", code]
        results.append((tool.execute(words, tmp_path).status, (tmp_path / "file").read_text()))
        (tmp_path / "file").unlink()
    assert results[0] == results[1]


def test_standard_error_that_the_program_replaces(tmp_path):
    code = "import os, signal; os.dup2(os.open('file', os.O_CREAT | os.O_WRONLY), 2)"
    for end in ("", "; os.kill(os.getpid(), signal.SIGTERM)"):
        tool.torchtrace("run", "-fo", "t", "--python", tool.PYTHON, "-c", code + end, cwd=tmp_path)
        assert (tmp_path / "file").read_text() == ""


# ---- how it ends ----

_EXITS = """end none zero int big huge negative true text bytes float tuple odd failing own builtin
quit nested _exit _exit_big _exit_negative _exit_named _exit_true _exit_bad _exit_bad_name _exit_two
_exit_huge error interrupt own_interrupt chained group syntax recursion import closed_stdout
excepthook"""


@pytest.mark.parametrize("way", _EXITS.split())
def test_exit(tmp_path, way):
    result = assert_same([LAUNCH / "exit.py", way], tmp_path)
    info = run_info(tmp_path)
    if result.status >= 0:
        assert info["exit_code"] == result.status
    else:
        assert info["ended"] == f"signal {-result.status} ({signal.Signals(-result.status).name})"


@pytest.mark.parametrize("way", ["int", "text", "error", "interrupt", "_exit"])
def test_exit_of_other_programs(tmp_path, way):
    code = (LAUNCH / "exit.py").read_text()
    assert_same(["-c", code, way], tmp_path)
    assert_same(["-", way], tmp_path, stdin=code)
    assert_same(["-m", "exit", way], tmp_path, cwd=LAUNCH)


def test_inspect_after_the_end(tmp_path):
    code = "print('then')\nimport sys\nsys.exit(3)\n"
    assert_same([LAUNCH / "debug.py"], tmp_path, python_args=("-i",), stdin=code)
    assert_same([LAUNCH / "exit.py", "int"], tmp_path, env={"PYTHONINSPECT": "1"}, stdin="")


@pytest.mark.parametrize("way", ["", "run", "clear"])
def test_atexit_order(tmp_path, way):
    assert_same([LAUNCH / "atexit_order.py", way], tmp_path)
    assert run_info(tmp_path)["exit_code"] == 0


def test_os_exit_in_an_exit_function(tmp_path):
    assert_same([LAUNCH / "exit_in_atexit.py"], tmp_path)
    assert run_info(tmp_path)["exit_code"] == 42


def test_error_in_a_thread(tmp_path):
    assert_same([LAUNCH / "thread_error.py"], tmp_path)


def test_daemon_threads(tmp_path):
    for _ in range(3):
        assert_same([LAUNCH / "daemons.py"], tmp_path)
        assert run_info(tmp_path)["exit_code"] == 0


@pytest.mark.parametrize("way", ["segv", "abort", "exit", "_exit", "fatal", "dup"])
def test_end_in_c(tmp_path, way):
    result = assert_same([LAUNCH / "crash.py", way], tmp_path)
    if result.status < 0:
        info = tool.torchtrace("info", "trace", cwd=tmp_path)
        assert f"signal {-result.status}" in info.out


_SIGNALS = """SIGTERM SIGHUP SIGQUIT SIGUSR1 SIGALRM SIGABRT SIGSEGV SIGBUS SIGFPE SIGILL SIGTRAP
SIGSYS SIGINT SIGKILL"""


@pytest.mark.parametrize("name", [*_SIGNALS.split(), "SIGPIPE", "SIGCHLD", "SIGXFSZ"])
def test_signal(tmp_path, name):
    assert_same([LAUNCH / "signals.py", name, "plain"], tmp_path)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
@pytest.mark.parametrize("mode", ["handled", "ignored", "back", "child", "blocked"])
def test_signal_settings(tmp_path, name, mode):
    assert_same([LAUNCH / "signals.py", name, mode], tmp_path)


def test_interrupt_that_is_caught(tmp_path):
    assert_same([LAUNCH / "signals.py", "SIGINT", "caught"], tmp_path)


def test_faulthandler(tmp_path):
    assert_same([LAUNCH / "signals.py", "SIGSEGV", "faulthandler"], tmp_path)
    assert_same([LAUNCH / "crash.py", "segv"], tmp_path, python_args=("-Xfaulthandler",))


def test_standard_error_that_nobody_reads(tmp_path):
    """Our messages must not cause a SIGPIPE that kills the program."""
    for end, status in (("sys.exit(7)", 7), ("os.kill(os.getpid(), signal.SIGTERM)", -15)):
        reader, writer = os.pipe()
        os.close(reader)
        code = f"import os, signal, sys; signal.signal(signal.SIGPIPE, signal.SIG_DFL); {end}"
        done = subprocess.run(
            [tool.TORCHTRACE, "run", "-fo", "trace", "--python", tool.PYTHON, "-c", code],
            cwd=tmp_path,
            env=tool.environment(),
            stderr=writer,
            timeout=120,
        )
        os.close(writer)
        assert done.returncode == status, end


def test_ignored_signals_are_inherited(tmp_path):
    def both(setup):
        code = (
            "import signal; print(signal.getsignal(1), signal.getsignal(2), signal.getsignal(15))"
        )
        run = [tool.TORCHTRACE, "run", "-qfo", "t", "--python", tool.PYTHON]
        outputs = []
        for command in ([tool.PYTHON], run):
            shell = f'{setup}; exec "$@"'
            outputs.append(tool.execute(["sh", "-c", shell, "sh", *command, "-c", code], tmp_path))
        return outputs

    untraced, traced = both("trap '' 1 2 15")
    check(untraced, traced)
    assert traced.out == "1 1 1\n"


def test_killed_by_the_shell(tmp_path):
    """A signal from outside, in the middle of a sleep."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        code = "import time; print('up', flush=True); time.sleep(60)"
        process = subprocess.Popen(
            [tool.TORCHTRACE, "run", "-fo", "t", "--python", tool.PYTHON, "-c", code],
            cwd=tmp_path,
            env=tool.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "up\n"
        time.sleep(0.1)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
        assert process.returncode == -number
        if number == signal.SIGTERM:
            assert tool.named_shortly(err) == (
                "torchtrace: the program died of a signal; its trace is in t\n"
                "torchtrace: for the files, type: torchtrace render t\n"
            )
        assert tool.torchtrace("render", "t", "-fo", "files", cwd=tmp_path).status == 0


@pytest.mark.torch
def test_daemon_threads_inside_torch(tmp_path):
    """Plain python aborts; the files must still be written."""
    untraced = tool.execute([tool.PYTHON, LAUNCH / "torch_daemons.py"], tmp_path)
    options = ("-fo", "trace", "--python", tool.PYTHON)
    loud = tool.torchtrace("run", *options, LAUNCH / "torch_daemons.py", cwd=tmp_path)
    # Which thread prints the first before another ends the process is random.
    others = re.compile("terminate called .*\n|^torchtrace: .*\n", re.M)
    check(*(replace(result, err=others.sub("", result.err)) for result in (untraced, loud)))
    assert run_info(tmp_path)["counts"]["calls"] > 0
    assert (tmp_path / "trace/api_trace.txt").stat().st_size > 0
    if loud.status < 0:
        assert "torchtrace: the program died of a signal; its trace is in trace\n" in loud.err
    else:
        assert "torchtrace: the trace is in trace: " in loud.err


# ---- processes ----


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_and_pickles(tmp_path, method):
    assert_same([LAUNCH / "pickles.py", method], tmp_path)


def test_forked_children(tmp_path):
    assert_same([LAUNCH / "forks.py"], tmp_path)
    assert run_info(tmp_path)["exit_code"] == 0


def test_exec_replaces_the_program(tmp_path):
    code = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'print(6 * 7)'])"
    assert_same(["-c", code], tmp_path)
    assert_same(["-c", "import os; os.execv('/nowhere', ['x'])"], tmp_path)


@pytest.mark.torch
@pytest.mark.parametrize(("method", "bad"), [("fork", "-1"), ("spawn", "-1"), ("fork", "5")])
def test_data_loader(tmp_path, method, bad):
    assert_same([LAUNCH / "torch_loader.py", method, bad], tmp_path)


# ---- imports ----


@pytest.mark.torch
def test_torch_imported_in_threads(tmp_path):
    assert_same([LAUNCH / "torch_threads.py"], tmp_path, options=("-l", "1,2"))
    apis = (tmp_path / "trace/api_trace.txt").read_text().splitlines()
    assert apis.count("torch.ones(2)") == 4


def test_failing_imports_of_torch(tmp_path):
    assert_same([LAUNCH / "imports_failing.py"], tmp_path)


@pytest.mark.torch
def test_torch_looks_untraced(tmp_path):
    code = """
import sys
import torch
print(torch.__spec__, torch.__loader__, vars(torch.__spec__.loader), sys.meta_path)
print(torch.__spec__.loader is torch.__loader__, torch.__spec__._initializing)
print(type(torch.__loader__), sorted(vars(type(torch.__loader__))))
import importlib.util
print(importlib.util.find_spec("json"), importlib.util.find_spec("torch") is torch.__spec__)
"""
    assert_same(["-c", code], tmp_path, options=("-l", "1,2"))


def test_what_a_python_answers_is_kept_until_it_changes(tmp_path):
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment = tmp_path / "venv"
    for name in ("bin/python3", "pyvenv.cfg"):
        (environment / name).parent.mkdir(parents=True, exist_ok=True)
    (environment / "bin/python3").symlink_to(os.path.realpath(tool.PYTHON))
    (environment / "pyvenv.cfg").write_text("include-system-site-packages = false\n")

    def run():
        words = ("run", "-qf", "--formats", "none", "-o", "t", "--python", str(environment))
        return tool.torchtrace(*words, "-c", "pass", cwd=tmp_path, env=cache)

    first = run()
    assert first.status == 0, first.err
    (kept,) = (tmp_path / "cache/torchtrace/python").iterdir()
    answer = kept.read_bytes()
    other = answer.replace(b"\0cpython\0", b"\0jython\0")
    kept.write_bytes(other)
    assert "is jython; torchtrace traces" in run().err
    kept.write_bytes(b"no answer")
    assert run().status == 0
    assert kept.read_bytes() == answer
    # Another environment, as far as its file says.
    kept.write_bytes(other)
    (environment / "pyvenv.cfg").write_text("include-system-site-packages = true\n")
    assert run().status == 0
