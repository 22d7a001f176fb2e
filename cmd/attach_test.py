"""`torchtrace attach` to programs that know nothing of it, and notice nothing."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tools.testing import whole_tool as tool

# A library that is quickly imported.
MINE = "def f(x): return x\n"
LEVEL_ZERO = ("-l", "0", "--library", "mine")

# Calls it until there is a file `stop`.
CALLS = """
import os, sys, time
sys.path.insert(0, os.getcwd())
import mine
print("ready", flush=True)
calls = 0
while not os.path.exists("stop"):
    assert mine.f(calls) == calls
    calls += 1
    if not os.path.exists("fast"):
        time.sleep(0.001)
print("done")
"""


class Program:
    """A running program, in the test's folder."""

    def __init__(self, folder, code=CALLS, python=tool.PYTHON, **kwargs):
        self.folder = folder
        (folder / "mine.py").write_text(MINE)
        (folder / "program.py").write_text(code)
        self.process = subprocess.Popen(
            [python, "program.py"],
            cwd=folder,
            env=tool.environment(kwargs.pop("env", None)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )
        assert self.process.stdout.readline() == "ready\n", self.process.communicate()
        self.pid = self.process.pid

    def attach(self, *options, status=0, **kwargs):
        ended = tool.torchtrace("attach", str(self.pid), *options, cwd=self.folder, **kwargs)
        assert ended.status == status, ended
        return ended

    def attaching(self, *options):
        """Attaches in the background."""
        return subprocess.Popen(
            [tool.TORCHTRACE, "attach", str(self.pid), *options],
            cwd=self.folder,
            env=tool.environment(),
            stderr=subprocess.PIPE,
            text=True,
        )

    def info(self, folder="out"):
        return json.loads((self.folder / folder / "run.json").read_text())

    def ends(self, out="done\n"):
        (self.folder / "stop").touch()
        assert self.process.communicate(timeout=60) == (out, "")
        assert self.process.returncode == 0


@pytest.fixture
def start(tmp_path):
    started = []

    def start(*args, **kwargs):
        started.append(Program(tmp_path, *args, **kwargs))
        return started[-1]

    yield start
    (tmp_path / "stop").touch()
    for program in started:
        program.process.kill()
        program.process.communicate()


def line_of(process):
    return process.stderr.readline()


def wait_for(condition, seconds=30):
    deadline = time.time() + seconds
    while not condition() and time.time() < deadline:
        time.sleep(0.02)
    return condition()


def test_for_a_time_for_some_calls_and_until_ctrl_c(start):
    program = start()
    ended = program.attach(*LEVEL_ZERO, "--duration", "300ms", "-o", "out")
    said = ended.err.splitlines()
    assert said[-3].endswith(f"attached to process {program.pid}; Ctrl-C ends the trace")
    assert said[-2].startswith("torchtrace: the trace is in out: ")
    info = program.info()
    assert info["recorded_by"] == "torchtrace attach"
    assert info["ended"] == "trace closed, and the program went on" and info["stopped"] == []
    assert info["program"] == ["program.py"] and info["levels"] == [0]
    assert 20 <= info["counts"]["calls"] <= 400

    program.attach(*LEVEL_ZERO, "--max-calls", "50", "-q", "-o", "some")
    assert 50 <= program.info("some")["counts"]["calls"] <= 400

    attaching = program.attaching(*LEVEL_ZERO, "-o", "interrupted")
    assert "attached to" in line_of(attaching)
    time.sleep(0.1)
    attaching.send_signal(signal.SIGINT)
    assert attaching.wait(30) == 0
    assert program.info("interrupted")["counts"]["calls"] > 0
    # Nothing of torchtrace stays in the folders.
    assert not [path for path in program.folder.glob("*/log/.*")]
    program.ends()


def test_if_torchtrace_is_killed_the_program_ends_the_trace(start):
    program = start()
    attaching = program.attaching(*LEVEL_ZERO, "-o", "out")
    line_of(attaching)
    attaching.kill()
    attaching.communicate()
    (program.folder / "fast").touch()

    def is_closed():
        tool.torchtrace("render", "-qf", "out", cwd=program.folder)
        return program.info()["ended"] == "trace closed, and the program went on"

    assert wait_for(is_closed)
    calls = program.info()["counts"]["calls"]
    assert 0 < calls < 100_000
    program.attach(*LEVEL_ZERO, "--duration", "100ms", "-qfo", "out")
    program.ends()


LOOK = """
import os, sys, threading, signal
def look():
    return {
        "path": list(sys.path), "finders": [type(each).__name__ for each in sys.meta_path],
        "files": sorted(os.listdir("/proc/self/fd")), "environ": dict(os.environ),
        "threads": [each.name for each in threading.enumerate()],
        "tasks": len(os.listdir("/proc/self/task")),
        "main": sorted(__import__("__main__").__dict__),
        "handlers": [str(signal.getsignal(each)) for each in signal.valid_signals()],
        "masks": [line for line in open("/proc/self/status") if line.startswith("Sig")],
        "hooks": [sys.gettrace(), sys.getprofile(), sys.excepthook is sys.__excepthook__],
        "stack": sys._getframe().f_back.f_back is None, "builtins": sorted(dir(__builtins__)),
    }
modules, error = set(sys.modules), None
before = look()
"""
LOOKS = (
    LOOK
    + CALLS
    + """
after = look()
names = {"mine", "calls", "modules", "before"}
for name in after["main"][:]:
    if name not in before["main"]:
        after["main"].remove(name)
for key in before:
    if key != "path" and before[key] != after[key]:
        print(key, before[key], after[key])
print(sorted({each.split(".")[0] for each in sys.modules if each not in modules} & {"torchtrace"}))
"""
)


def test_what_the_program_sees(start):
    program = start(LOOKS)
    program.attach(*LEVEL_ZERO, "--duration", "100ms", "-qo", "out")
    program.ends("done\n['torchtrace']\n")


BLOCKED = """
import os, sys, threading, time
sys.path.insert(0, os.getcwd())
import mine
def work():
    for i in range(10**6):
        mine.f(i)
        if os.path.exists("stop"):
            break
        time.sleep(0.001)
thread = threading.Thread(target=work)
thread.start()
print("ready", flush=True)
{wait}
print("done")
"""


def test_a_main_thread_that_waits_for_another_is_woken(start):
    program = start(BLOCKED.format(wait="thread.join()"))
    began = time.time()
    program.attach(*LEVEL_ZERO, "--duration", "200ms", "-qo", "out")
    assert time.time() - began < 10
    assert program.info()["counts"]["calls"] > 0
    program.ends()


def test_a_main_thread_that_sleeps_is_waited_for(start):
    wait = "while not os.path.exists('stop'): os.path.exists('awake') or time.sleep(5)"
    program = start(BLOCKED.format(wait=wait))
    attaching = program.attaching(*LEVEL_ZERO, "-o", "out")
    assert "now it waits in the system call clock_nanosleep (sleep)" in line_of(attaching)
    attaching.send_signal(signal.SIGINT)
    said = f"process {program.pid} was not traced: its main thread has run no Python code meanwhile"
    assert attaching.communicate(timeout=30)[1] == f"torchtrace: {said}\n"
    assert attaching.returncode == 2 and not (program.folder / "out").exists()
    (program.folder / "awake").touch()
    program.attach(*LEVEL_ZERO, "--duration", "100ms", "-qo", "out")
    program.ends()


SIGNALLED = """
import os, signal, sys, time
sys.path.insert(0, os.getcwd())
import mine
def raises(*args):
    raise ZeroDivisionError
signal.signal(signal.SIGUSR1, raises)
def only_in_call(how):
    signal.pthread_sigmask(how, {signal.SIGUSR1})
def call():
    only_in_call(signal.SIG_UNBLOCK)
    while not os.path.exists("stop"):
        mine.f(1)
        time.sleep(0.001)
only_in_call(signal.SIG_BLOCK)
print("ready", flush=True)
while not os.path.exists("stop"):
    try:
        call()
    except ZeroDivisionError:
        only_in_call(signal.SIG_BLOCK)
        print("caught", flush=True)
print("done")
"""


def test_an_exception_of_a_signal_within_the_attaching_is_not_lost(start):
    program = start(SIGNALLED)
    attaching = program.attaching(*LEVEL_ZERO, "-o", "out", "--duration", "1s")
    for _ in range(20):
        os.kill(program.pid, signal.SIGUSR1)
        assert program.process.stdout.readline() == "caught\n"
        time.sleep(0.01)
    assert attaching.wait(30) == 0
    program.ends()


def test_the_program_ends_or_is_killed_while_it_is_traced(start):
    program = start()
    attaching = program.attaching(*LEVEL_ZERO, "-o", "out")
    line_of(attaching)
    program.ends()
    assert attaching.wait(30) == 0
    assert program.info()["ended"] == "exit code 0"

    (program.folder / "stop").unlink()
    program = start()
    attaching = program.attaching(*LEVEL_ZERO, "-o", "killed")
    line_of(attaching)
    time.sleep(0.1)
    program.process.kill()
    assert attaching.wait(30) == 0
    assert program.info("killed")["ended"].startswith("not closed")
    assert program.info("killed")["counts"]["calls"] > 0


def test_torchtrace_ctl_ends_it(start):
    program = start()
    attaching = program.attaching(*LEVEL_ZERO, "-o", "out")
    assert "attached to process" in line_of(attaching)
    ended = tool.torchtrace("ctl", "out", "stop", cwd=program.folder)
    assert ended.status == 0, ended
    assert attaching.wait(30) == 0
    assert program.info()["counts"]["calls"] > 0
    program.ends()


RANKS = f"""
import os, subprocess, sys
run = [{tool.PYTHON!r}, "calls.py", "torch._inductor.compile_worker"]  # no helper
ranks = [subprocess.Popen(run, env=dict(os.environ, RANK=str(i)), stdout=-1) for i in range(3)]
for rank in ranks:
    rank.stdout.readline()
print("ready", flush=True)
for rank in ranks:
    assert rank.communicate()[0] == b"done\\n" and rank.returncode == 0
print("done")
"""


def test_the_ranks_of_a_job(start, tmp_path):
    (tmp_path / "calls.py").write_text(CALLS)
    program = start(RANKS)
    attaching = program.attaching(*LEVEL_ZERO, "--rank", "0,2", "-o", "two")
    assert "attached to 2 of 2 processes" in line_of(attaching)
    time.sleep(0.1)
    attaching.send_signal(signal.SIGINT)
    assert attaching.wait(30) == 0
    processes = program.info("two")["processes"]
    assert len(processes) == 2 and all(each["calls"] > 0 for each in processes)
    everybody = ("--children", "--duration", "1s", "-qo", "all")
    said = program.attach(*LEVEL_ZERO, *everybody).err
    # The job's own process waits for the ranks.
    assert f"process {program.pid} was not traced" in said
    (missing,) = [text for text in program.info("all")["not_seen"] if "1 process of" in text]
    assert f"({program.pid}): its main thread has run no Python code meanwhile" in missing
    assert [each["calls"] > 0 for each in program.info("all")["processes"]] == [True] * 3
    missing = program.attach(*LEVEL_ZERO, "--rank", "2-3", "-o", "out", status=2)
    assert f"no process below {program.pid} has the variable RANK=3" in missing.err
    program.ends()


def test_what_cannot_be_attached_to(start, tmp_path):
    def refused(pid, *options, **kwargs):
        ended = tool.torchtrace("attach", str(pid), *options, cwd="/tmp", **kwargs)
        assert ended.status == 2 and ended.err.count("\n") == 1, ended
        return ended.err

    assert "there is no process 4194305" in refused(4194305)
    sleep = subprocess.Popen(["sleep", "100"])
    time.sleep(0.1)
    assert "runs no CPython that torchtrace can find" in refused(sleep.pid)
    sleep.kill()
    assert sleep.wait() == -signal.SIGKILL

    program = start()
    os.kill(program.pid, signal.SIGSTOP)
    wait_for(lambda: "State:\tT" in Path(f"/proc/{program.pid}/status").read_text())
    assert f"`kill -CONT {program.pid}` lets it go on" in refused(program.pid)
    os.kill(program.pid, signal.SIGCONT)

    seize, detach = 0x4206, 17
    libc = ctypes.CDLL(None)
    assert libc.ptrace(seize, program.pid, None, None) == 0
    assert (
        f"is traced by {Path('/proc/self/comm').read_text().strip()} (process {os.getpid()}): "
        "end that first" in refused(program.pid)
    )
    libc.ptrace(0x4207, program.pid, None, None)
    os.waitpid(program.pid, 0x40000000)
    libc.ptrace(detach, program.pid, None, None)

    assert "--library is for level 0" in refused(program.pid, "--library", "mine")
    assert "is not empty" in refused(program.pid, "-o", str(tmp_path))
    program.attach(*LEVEL_ZERO, "--duration", "100ms", "-qo", "out")
    program.ends()


def test_a_traced_program(start, tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "calls.py").write_text(CALLS)
    run = subprocess.Popen(
        [tool.TORCHTRACE, "run", "-qo", "run", "--python", tool.PYTHON, "calls.py"],
        cwd=tmp_path,
        env=tool.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout.readline() == "ready\n"
    ended = tool.torchtrace("attach", str(run.pid), *LEVEL_ZERO, "-o", "out", cwd=tmp_path)
    assert ended.status == 2 and "torchtrace run traces it already" in ended.err
    (tmp_path / "stop").touch()
    assert run.communicate(timeout=30)[0] == "done\n" and run.returncode == 0


PACKAGE = Path(tool.TORCHTRACE).resolve().parents[1] / "runtime/py{}.{}".format(*sys.version_info)
TRACES = CALLS.replace(
    "calls = 0",
    """calls = 0
import torchtrace
while not torchtrace.is_tracing():
    mine.f(1)
with torchtrace.trace("mine-%n", levels=0, library="mine") as trace:
    assert trace.joined
    while torchtrace.is_tracing():
        mine.f(1)
    mine.f(1)
with torchtrace.trace("mine-%n", levels=0, library="mine") as trace:
    assert not trace.joined
    mine.f(1)
    open("own", "w").close()
    while not os.path.exists("enough"):
        time.sleep(0.001)
""",
)


def test_a_program_with_traces_of_its_own(start):
    program = start(TRACES, env={"PYTHONPATH": str(PACKAGE), "PYTHONWARNINGS": "ignore"})
    attaching = program.attaching(*LEVEL_ZERO, "-qo", "out", "--duration", "500ms")
    assert attaching.wait(30) == 0, attaching.stderr.read()
    assert wait_for((program.folder / "own").exists)
    refused = program.attach(*LEVEL_ZERO, "-o", "two", status=2)
    assert "it has opened a torchtrace.trace() itself" in refused.err
    (program.folder / "enough").touch()
    program.ends()
    assert program.info("mine-2")["counts"]["calls"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_user():
    nobody = 65534
    with tempfile.TemporaryDirectory(prefix="torchtrace-attach-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        python = "/usr/bin/python3"
        version = subprocess.run([python, "-V"], capture_output=True, text=True).stdout.split()[1]
        runtime = Path(tool.TORCHTRACE).parents[1] / f"runtime/py{version.rpartition('.')[0]}"
        if not runtime.exists():
            pytest.skip("Debian's Python has no runtime")
        program = Program(folder, python=python, user=nobody, group=nobody)
        try:
            program.attach(*LEVEL_ZERO, "--duration", "200ms", "-qo", "out")
            assert program.info()["counts"]["calls"] > 0
            for path in [folder / "out", *(folder / "out").rglob("*")]:
                assert path.stat().st_uid == nobody, path
            program.ends()
        finally:
            program.process.kill()
            program.process.communicate()


def test_as_another_user(start):
    program = start()
    attach = [tool.TORCHTRACE, "attach", str(program.pid)]
    if os.geteuid() != 0:
        pytest.skip("needs root")
    ended = subprocess.run(
        attach, cwd="/tmp", user=65534, group=65534, capture_output=True, text=True
    )
    said = f"process {program.pid} belongs to user root: `sudo "
    assert ended.returncode == 2 and said in ended.stderr, ended
    program.ends()


# In these, Python code that torchtrace runs raises before it has begun.
WAIT = """while not os.access("stop", os.F_OK): time.sleep(0.001)"""
RAISING = {
    "audit hook": f"""
def hook(event, args):
    if event == "compile":
        raise ZeroDivisionError
sys.addaudithook(hook)
{WAIT}
""",
    "trace function": f"""
def trace(frame, event, argument):
    raise ZeroDivisionError
sys.settrace(trace)
{WAIT}
""",
    "deep calls": f"""
def call():
    try:
        call()
    except RecursionError:
        {WAIT}
call()
""",
}


@pytest.mark.parametrize("how", RAISING)
def test_nothing_is_raised_in_the_program_if_no_code_can_run(start, how):
    begin = "import os, sys, time\nprint('ready', flush=True)"
    program = start(f"{begin}{RAISING[how]}print('done')")
    refused = program.attach(*LEVEL_ZERO, "-o", "out", status=2)
    assert f"process {program.pid} can't be attached to: it can't run what" in refused.err
    (program.folder / "stop").touch()
    out, err = program.process.communicate(timeout=60)
    assert (out, program.process.returncode) == ("done\n", 0)
    assert "Error" in err and "SystemError" not in err


WITHOUT_MAIN = CALLS.replace("import mine", "import mine\ndel sys.modules['__main__']")


def test_a_main_module_that_the_program_has_taken_out_stays_out(start):
    program = start(WITHOUT_MAIN + "print('__main__' in sys.modules)")
    program.attach(*LEVEL_ZERO, "--duration", "100ms", "-qo", "out")
    program.ends("done\nFalse\n")


TORCH = """
import os, time, torch, torch._dynamo
from torch._dynamo.utils import counters
torch.set_num_threads(1)
@torch.compile(backend="eager")
def compiled(x):
    return x * 2 + 1
x = torch.arange(6.0)
want = compiled(x)
frames = counters["stats"]["unique_graphs"]
print("ready", flush=True)
while not os.path.exists("stop"):
    assert torch.equal(compiled(x), want) and torch.equal(x.add(1).mul(2), x * 2 + 2)
    time.sleep(0.001)
print("done", counters["stats"]["unique_graphs"] - frames)
"""


@pytest.mark.torch
def test_torch_with_compiled_functions(start):
    program = start(TORCH)
    program.attach("--duration", "300ms", "-qo", "out")
    apis = (program.folder / "out/api_apis.txt").read_text().split()
    assert {"torch.Tensor.add", "torch.Tensor.mul", "torch.equal"} <= set(apis)
    refused = program.attach("-l", "1,2", "-o", "two", status=2)
    assert "it has 1 compiled function, and under level 2 each compiles once more" in refused.err
    assert not (program.folder / "two").exists()
    (program.folder / "once").touch()
    program.attach("-l", "1,2", "--recompile", "--duration", "300ms", "-qo", "two")
    assert "aten::add.Tensor" in (program.folder / "two/api_apis.txt").read_text()
    program.ends("done 1\n")


# Often where Dynamo would compile the next function that is called, and may break no graph.
FULL_GRAPH = """
import os, torch
from torch._dynamo.utils import counters
@torch.compile(backend="eager", fullgraph=True)
def compiled(x):
    return x + 1
def counts():
    return {name: dict(each) for name, each in counters.items()}
x = torch.ones(4)
compiled(x)
before = counts()
print("ready", flush=True)
while not os.path.exists("stop"):
    compiled(x)
print("done", counts() == before)
"""


@pytest.mark.torch
def test_dynamo_compiles_nothing_of_ours(start):
    program = start(FULL_GRAPH)
    for _ in range(12):
        program.attach("--duration", "5ms", "-qfo", "out")
    program.ends("done True\n")


def other_pythons():
    runtimes = Path(tool.TORCHTRACE).resolve().parents[1] / "runtime"
    for runtime in sorted(runtimes.glob("py3.*")):
        for python in Path("/root/.pyenv/versions").glob(f"{runtime.name[2:]}.*/bin/python3"):
            yield str(python)


@pytest.mark.parametrize("python", list(other_pythons()))
def test_with_other_pythons(start, python):
    program = start(python=python)
    program.attach(*LEVEL_ZERO, "--duration", "200ms", "-qo", "out")
    assert program.info()["counts"]["calls"] > 0
    program.ends()
