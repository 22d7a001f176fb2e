"""What a traced program starts is traced too, into the same folder, and notices nothing."""

import json
import shutil
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest

from tools.testing import whole_tool as tool

# A library that is quickly imported; a child that calls it N times.
MINE = "def f(x): return x\n"
CHILD = "import sys; sys.path.insert(0, {folder}); import mine; [mine.f(i) for i in range({calls})]"

# Records the library's calls.
LEVEL_ZERO = ("--library", "mine", "-l", "0", "--python", tool.PYTHON)


class Job:
    """A traced program, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "mine.py").write_text(MINE)

    def child(self, calls=2):
        return CHILD.format(folder=json.dumps(str(self.folder)), calls=calls)

    def run(self, code, *options, status=0, **kwargs):
        (self.folder / "program.py").write_text(code)
        words = ("run", "-fo", "out", *LEVEL_ZERO, *options)
        ended = tool.torchtrace(*words, "program.py", cwd=self.folder, **kwargs)
        assert ended.status == status, ended
        return ended

    def plain(self, code):
        (self.folder / "program.py").write_text(code)
        return tool.execute([tool.PYTHON, "program.py"], cwd=self.folder)

    def info(self):
        return json.loads((self.folder / "out/run.json").read_text())

    def counts(self):
        """Of the calls of each process but the first, by role."""
        processes = self.info()["processes"]
        return sorted((each["role"], each["calls"]) for each in processes if each["role"] != "main")

    def not_seen(self):
        return " ".join(self.info()["not_seen"])


@pytest.fixture
def job(tmp_path):
    return Job(tmp_path)


# Each line starts one Python, which runs CHILD.
WAYS = """
import os, subprocess, sys
PYTHON, CHILD = sys.executable, {child!r}
run = [PYTHON, "-c", CHILD]
def said(*args, **kwargs):
    print(subprocess.run(*args, capture_output=True, text=True, **kwargs), flush=True)
said(run)
for option in ("-I", "-E", "-S", "-O", "-P", "-Xdev", "-B"):
    said([PYTHON, option, *run[1:]])
said([PYTHON, "-"], input=CHILD)
said(["env", *run])
said(["env", "-i", *run])
said(["nohup", *run])
said(run, env={{}})
said(run, close_fds=False)
said(run, preexec_fn=lambda: None)
said(run, start_new_session=True)
said(f"'{{PYTHON}}' -c '{{CHILD}}'", shell=True)
said(["bash", "-c", 'exec "$@"', "bash", *run])
said(["bash", "-c", '"$@"; exit 5', "bash", *run])
said(["bash", "-c", 'exec -a weird "$@"', "bash", *run])
print(os.system(f"'{{PYTHON}}' -c '{{CHILD}}'; exit 3"))
print(os.popen(f"'{{PYTHON}}' -c '{{CHILD}}'").read())
open("script", "w").write(f"#!{{PYTHON}}\\n" + CHILD)
os.chmod("script", 0o755)
said(["./script"])
os.waitpid(os.posix_spawn(PYTHON, run, os.environ), 0)
os.waitpid(os.posix_spawnp("env", ["env", *run], os.environ), 0)
if os.fork() == 0:
    os.execve(PYTHON, run, os.environ)
print(os.wait()[1])
if os.fork() == 0:
    os.execlp("sh", "sh", "-c", 'exec "$0" -c "$1"', PYTHON, CHILD)
print(os.wait()[1])
NEXT = "import subprocess, sys; subprocess.run([sys.executable, *sys.argv[1:]])"
said([PYTHON, "-c", NEXT, *run[1:]])
"""


def test_every_way_of_starting_a_python(job):
    code = WAYS.format(child=job.child())
    assert job.run(code, "-q").lines() == job.plain(code).lines()
    assert job.counts() == [("child", 2)] * 28
    assert job.info()["not_seen"] == [] and not job.info()["started_programs"]


C_WAYS = r"""
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char** environ;
#define IN_CHILD(start) if (fork() == 0) { start; _exit(127); } wait(NULL)
int main(int argc, char** argv) {
  char command[4096];
  char* run[] = {argv[1], "-c", argv[2], NULL};
  pid_t pid;
  IN_CHILD(execv(run[0], run));
  IN_CHILD(execve(run[0], run, environ));
  IN_CHILD(execvp(run[0], run));
  IN_CHILD(execl(run[0], run[0], "-c", run[2], NULL));
  IN_CHILD(execlp(run[0], run[0], "-c", run[2], NULL));
  IN_CHILD(execle(run[0], run[0], "-c", run[2], NULL, environ));
  if (vfork() == 0) { execv(run[0], run); _exit(127); }
  wait(NULL);
  posix_spawn(&pid, run[0], NULL, NULL, run, environ);
  wait(NULL);
  posix_spawnp(&pid, run[0], NULL, NULL, run, environ);
  wait(NULL);
  snprintf(command, sizeof command, "'%s' -c '%s'; echo $0; exit 4", run[0], run[2]);
  printf("%d\n", system(command)); fflush(stdout);
  FILE* const pipe = popen(command, "r");
  while (fgets(command, sizeof command, pipe)) fputs(command, stdout);
  printf("%d\n", pclose(pipe));
  return 3;
}
"""
RUN_C = """
import subprocess, sys
print(subprocess.run(["./starts", sys.executable, {child!r}], capture_output=True, text=True))
"""


def test_programs_that_c_code_starts(job):
    (job.folder / "starts.c").write_text(C_WAYS)
    subprocess.run(["gcc", "-O1", "-w", "-o", "starts", "starts.c"], cwd=job.folder, check=True)
    code = RUN_C.format(child=job.child(3))
    assert job.run(code, "-q").lines() == job.plain(code).lines()
    assert job.counts() == [("child", 3)] * 11


LOOK = """
import json, os, sys, threading
print(json.dumps({
    "environ": list(os.environ.items()), "kernel's": open("/proc/self/environ").read(),
    "argv": sys.argv, "orig_argv": sys.orig_argv, "flags": repr(sys.flags), "path": sys.path,
    "executable": sys.executable, "prefix": sys.prefix, "modules": sorted(sys.modules),
    "options": sys._xoptions, "finders": [type(each).__name__ for each in sys.meta_path],
    "main": sorted(__import__("__main__").__dict__), "files": sorted(os.listdir("/proc/self/fd")),
    "comm": open("/proc/self/comm").read(), "cmdline": open("/proc/self/cmdline").read(),
    "exe": os.readlink("/proc/self/exe"), "tasks": len(os.listdir("/proc/self/task")),
    "auxv": len(open("/proc/self/auxv", "rb").read()),
    "signals": [line for line in open("/proc/self/status") if line[:6] in ("SigBlk", "SigIgn")],
}, indent=0))
"""
LOOKS = """
import os, subprocess, sys
for command, more in (
    ([], {{}}), (["-I"], {{}}), (["-S", "-E"], {{}}), (["-Xdev", "-Wignore"], {{}}),
    ([], {{"env": {{}}}}),
    ([], {{"env": {{"B": "1", "A": "2", "LD_PRELOAD": "libm.so.6"}}}}),
):
    subprocess.run([sys.executable, *command, {look!r}, "an argument"], **more)
for shell in ("$0 $1 | cat", "exec -a weird $0 $1", "LD_PRELOAD=libm.so.6 $0 $1", "env | sort"):
    subprocess.run(["bash", "-c", shell, sys.executable, {look!r}])
subprocess.run(["env"], env={{"B": "1", "A": "2"}})
subprocess.run(["cat", "/proc/self/environ"], env={{"B": "1", "A": "2"}})
"""


def test_a_child_sees_no_difference(job):
    (job.folder / "look.py").write_text(LOOK)
    code = LOOKS.format(look=str(job.folder / "look.py"))
    ours, theirs = job.run(code, "-q").lines(), job.plain(code).lines()
    assert ours == theirs and len(ours) > 100
    # It made no call.
    assert [path.name for path in (job.folder / "out/log").glob("child*")] == []


CANNOT = """
import os, subprocess, sys
os.system("./asan; ./static; test ! -e ./python-own || ./python-own")
for command in (["./static"], ["./setuid"], ["./asan"], ["./unreadable"], ["./static"]):
    subprocess.run(command, check=True)
subprocess.run(["/bin/true"], user=65534, cwd="/", check=True)
"""


def test_what_cannot_be_followed_is_named(job):
    (job.folder / "true.c").write_text("int main() { return 0; }\n")
    gcc = ["gcc", "-o"]
    for name, *options in (
        ("static", "-static"),
        ("setuid",),
        ("asan", "-fsanitize=address"),
        ("unreadable",),
    ):
        subprocess.run([*gcc, name, "true.c", *options], cwd=job.folder, check=True)
    libpython = Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
    if libpython.suffix != ".a":
        linked = ["-Wl,--no-as-needed", libpython, f"-Wl,-rpath,{libpython.parent}"]
        subprocess.run([*gcc, "python-own", "true.c", *linked], cwd=job.folder, check=True)
    (job.folder / "setuid").chmod(0o4755)
    (job.folder / "unreadable").chmod(0o111)
    code = CANNOT
    assert job.run(code, "-q", "--readable").lines() == job.plain(code).lines()
    assert (job.folder / "out/log/.not-followed").stat().st_mode & 0o777 == 0o644
    said = job.not_seen()
    assert "3 processes of ./static: it is linked statically" in said
    assert "1 process of ./setuid: it is setuid" in said
    assert "2 processes of ./asan: its sanitizer" in said
    assert "1 process of /bin/true: it runs as another user" in said
    assert ("1 process of ./python-own: it embeds Python" in said) == (libpython.suffix != ".a")
    text = tool.torchtrace("info", "out", cwd=job.folder).out
    assert "not seen: 3 processes of ./static: it is linked statically" in text


def test_another_python(job):
    found = sorted(Path("/root/.pyenv/versions").glob("3.[89].*/bin/python3"))
    if not found:
        pytest.skip("there is no Python that is too old")
    job.run(
        f"import subprocess\nsubprocess.run([{str(found[0])!r}, '-c', 'pass'], check=True)\n", "-q"
    )
    assert (
        f"1 process of {found[0]} -c pass: torchtrace has no runtime for Python 3."
        in job.not_seen()
    )


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--no-follow", []),
        ("--follow-only=*child.py*", [("child", 3)]),
        ("--follow-only=nothing", []),
    ],
)
def test_some_are_not_followed(job, option, expected):
    (job.folder / "child.py").write_text(job.child(3))
    code = f"""
import subprocess, sys
subprocess.run([sys.executable, "child.py"])
subprocess.run([sys.executable, "-c", {job.child(4)!r}])
"""
    job.run(code, "-q", option)
    assert job.counts() == expected
    assert bool(job.info()["started_programs"]) == (option == "--no-follow")
    shown = tool.torchtrace("info", "out", cwd=job.folder).out
    left_out = "any calls of programs that --follow-only leaves out\n"
    assert (left_out in shown) == ("only" in option)


BACKGROUND = """
import subprocess, time
subprocess.Popen({command!r}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep({seconds})
"""


def test_a_child_outlives_the_run(job):
    child = job.child(3) + "; import time; time.sleep(1.5); [mine.f(i) for i in range(4)]"
    code = BACKGROUND.format(command=[tool.PYTHON, "-c", child], seconds=0.5)
    ended = job.run(code)
    deadline = time.time() + 30
    while job.counts() != [("child", 7)] and time.time() < deadline:
        time.sleep(0.2)
    assert job.counts() == [("child", 7)] and job.info()["not_seen"] == []
    assert "not closed" in ended.err or "still run" in ended.err, ended.err


# `fork` makes a process that lives on for a while, then calls the library.
FORKED = """
import ctypes, multiprocessing, os, sys, threading, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mine
def calls(count):
    for i in range(count): mine.f(i)
def leave():
    null = os.open(os.devnull, os.O_RDWR)
    for output in (1, 2): os.dup2(null, output)
def fork(end, count, after=0.5):
    sys.stdout.flush()
    if os.fork() == 0:
        leave()
        time.sleep(after)
        calls(count)
        end()
"""


def wait_for(job, counts):
    deadline = time.time() + 30
    while job.counts() != counts and time.time() < deadline:
        time.sleep(0.1)
    assert job.counts() == counts


def check_files(job):
    """Those in the folder are the ones that `render` makes, once nobody writes there."""
    while (job.folder / "out/log/.lock").exists():
        time.sleep(0.05)
    made = tool.torchtrace("render", "-q", "-o", "again", "out", cwd=job.folder)
    assert made.status == 0, made
    for path in (job.folder / "again").iterdir():
        assert path.read_text() == (job.folder / "out" / path.name).read_text(), path.name
    shutil.rmtree(job.folder / "again")
    assert [path.name for path in (job.folder / "out").iterdir() if path.name[0] == "."] == []


@pytest.mark.parametrize(
    "end",
    [
        "lambda: os._exit(3)",
        "lambda: sys.exit(3)",
        "lambda: ctypes.CDLL(None).exit(3)",
        "lambda: os.execv('/bin/true', ['true'])",
        "lambda: None",
    ],
)
def test_a_forked_process_outlives_the_run(job, end):
    job.run(FORKED + f"mine.f(0)\nfork({end}, 5)\n", "-q")
    assert job.counts() == []
    wait_for(job, [("fork", 5)])
    check_files(job)
    assert job.info()["not_seen"] == []


def test_a_forked_process_outlives_one_that_was_killed(job):
    code = FORKED + "calls(3)\nfork(lambda: os._exit(0), 4)\nos.kill(os.getpid(), 9)\n"
    job.run(code, "-q", status=-9)
    deadline = time.time() + 30
    while not (job.folder / "out/run.json").exists() and time.time() < deadline:
        time.sleep(0.1)
    wait_for(job, [("fork", 4)])
    check_files(job)


def test_forked_processes_of_a_started_one_outlive_it(job):
    (job.folder / "child.py").write_text(FORKED + "fork(lambda: os._exit(0), 4)\ncalls(2)\n")
    job.run("import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'])\n", "-q")
    assert job.counts() == [("child", 2)]
    wait_for(job, [("child", 2), ("fork", 4)])
    check_files(job)


def test_multiprocessing_forks_outlive_the_run(job):
    code = """
context = multiprocessing.get_context("fork")
def work(count):
    leave()
    time.sleep(0.5)
    calls(count)
for count in (2, 3):
    context.Process(target=work, args=(count,)).start()
sys.stdout.flush()
os._exit(0)
"""
    job.run(FORKED + code, "-q")
    wait_for(job, [("fork", 2), ("fork", 3)])
    check_files(job)
    names = sorted(each["name"].rsplit(" (", 1)[0] for each in job.info()["processes"][1:])
    assert names == ["ForkProcess-1", "ForkProcess-2"]


def test_forked_processes_that_end_at_once(job):
    code = """
go = time.monotonic() + 1
for count in range(1, 31):
    fork(lambda: (time.sleep(max(0, go - time.monotonic())), os._exit(0)), count, 0)
"""
    job.run(FORKED + code, "-q")
    wait_for(job, [("fork", count) for count in range(1, 31)])
    check_files(job)


def test_a_forked_process_after_its_folder_was_removed(job):
    code = "fork(lambda: os._exit(0), 1, 1)\nfork(lambda: (time.sleep(1), os._exit(0)), 1, 0)\n"
    job.run(FORKED + "calls(1)\n" + code, "-q")
    shutil.rmtree(job.folder / "out")
    (job.folder / "out/log").mkdir(parents=True)
    time.sleep(2)
    assert [path.name for path in (job.folder / "out").iterdir()] == ["log"]
    assert not (job.folder / "out/log/.lock").exists()


BUSY = """
def busy():
    while True:
        ctypes.CDLL("libm.so.6"), time.localtime(), [bytearray(4096) for _ in range(100)]
        open("/dev/null").close()
for _ in range(4):
    threading.Thread(target=busy, daemon=True).start()
for count in range(1, 21):
    fork(lambda: os._exit(0), count, count / 20)
os._exit(0)
"""


def test_forks_of_a_program_with_threads_outlive_it(job):
    job.run(FORKED + BUSY, "-q")
    wait_for(job, [("fork", count) for count in range(1, 21)])
    check_files(job)


def test_a_child_that_records_nothing_yet_is_named(job):
    child = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.1)\n" + job.child(3)
    code = BACKGROUND.format(command=[tool.PYTHON, "-c", child], seconds=0.5)
    ended = job.run(code)
    assert "still running" in ended.err
    # Its run's folder is not for others.
    refused = tool.torchtrace("run", "-fo", "out", "-c", "pass", cwd=job.folder)
    assert refused.status == 125 and "is in use" in refused.err
    (job.folder / "go").touch()
    deadline = time.time() + 30
    while job.counts() != [("child", 3)] and time.time() < deadline:
        time.sleep(0.2)
    assert job.counts() == [("child", 3)] and job.info()["not_seen"] == []


def test_a_child_of_an_earlier_run_is_not_of_the_next(job):
    shell = f"sleep 1.5; '{tool.PYTHON}' -c \"$0\"; touch done"
    code = BACKGROUND.format(command=["bash", "-c", shell, job.child(3)], seconds=0)
    job.run(code, "-q")
    job.run("import mine; mine.f(1)", "-q")
    while not (job.folder / "done").exists():
        time.sleep(0.1)
    assert job.counts() == [] and len(list((job.folder / "out/log").glob("*.ttlog"))) == 1


def test_replaced_programs_and_deaths(job):
    code = f"""
import os, signal, subprocess, sys
import mine; mine.f(0)
CHILD = {job.child(2)!r}
for end in ("os._exit(7)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)", "1 / 0",
            "os.abort()", "ctypes.CDLL(None)._exit(6)", "ctypes.CDLL(None).exit(5)"):
    code = CHILD + "; import ctypes, os; " + end
    print(end, subprocess.run([sys.executable, "-c", code]).returncode)
sys.stdout.flush()
os.execv(sys.executable, [sys.executable, "-c", CHILD + "; sys.exit(4)"])
"""
    assert job.run(code, "-q", status=4).lines() == [line for line in job.plain(code).lines()]
    assert job.counts() == [("child", 2)] * 8
    ended = sorted(each["ended"] for each in job.info()["processes"] if each["role"] == "child")
    assert ended == [
        *(f"exit code {code}" for code in (1, 4, 5, 6, 7)),
        "not closed: killed or still running",
        "signal 15 (SIGTERM)",
        "signal 6 (SIGABRT)",
    ]


def test_a_program_that_replaces_itself_first(job):
    code = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', {job.child(3)!r}])\n"
    job.run(code, "-q")
    assert job.counts() == [("child", 3)] and job.info()["not_seen"] == []


def test_a_run_inside_a_run_is_its_own(job):
    words = [tool.TORCHTRACE, "run", "-qfo", "inner", *LEVEL_ZERO]
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {job.child(6)!r}]); "
    words += ["-c", inner + job.child(5)]
    job.run(f"import subprocess\nsubprocess.run({words!r}, check=True)\n", "-q")
    assert job.counts() == []
    inner = json.loads((job.folder / "inner/run.json").read_text())
    assert sorted(each["calls"] for each in inner["processes"]) == [5, 6]


def test_the_task_is_only_taken_from_its_owner(job):
    job.run(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {job.child(2)!r}])\n", "-q"
    )
    (task,) = (job.folder / "out/log").glob(".follow-*")
    assert task.stat().st_mode & 0o777 == 0o600
    library = Path(tool.TORCHTRACE).resolve().parents[1] / "lib/torchtrace/libtorchtrace_preload.so"
    variables = {"LD_PRELOAD": str(library), "TORCHTRACE_FOLLOW": str(task)}

    def logs():
        env = tool.environment() | variables
        subprocess.run([tool.PYTHON, "-c", job.child(2)], env=env, check=True)
        return len(list((job.folder / "out/log").glob("child-*")))

    assert logs() == 2
    task.chmod(0o644)
    assert logs() == 2
    task.chmod(0o600)
    shutil.copy(task, task.with_name("copy"))
    task.unlink()
    task.symlink_to("copy")
    assert logs() == 2


def test_many_at_once(job):
    code = f"""
import subprocess, sys, threading
def start():
    for _ in range(5):
        subprocess.run([sys.executable, "-S", "-c", {job.child(2)!r}], check=True)
        subprocess.run(["true"], check=True)
threads = [threading.Thread(target=start) for _ in range(6)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
"""
    job.run(code, "-q")
    assert job.counts() == [("child", 2)] * 30


def test_processes_are_named_by_what_they_are(job):
    code = f"""
import multiprocessing, os, subprocess, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mine
def work(): mine.f(0)
if __name__ == "__main__":
    mine.f(0)
    for context in map(multiprocessing.get_context, ("fork", "spawn")):
        process = context.Process(target=work)
        process.start(), process.join()
    process = multiprocessing.Process(target=work, name='"Mine" \\\\1')
    process.start(), process.join()
    os.environ |= {{"RANK": "1", "WORLD_SIZE": "3", "TORCHELASTIC_RESTART_COUNT": "2"}}
    subprocess.run([sys.executable, "-c", {job.child(2)!r}])
    process = multiprocessing.Process(target=work)
    process.start(), process.join()
"""
    job.run(code, "-q")
    processes = job.info()["processes"]
    names = sorted(each["name"].rsplit(" (", 1)[0] for each in processes[1:])
    ranked = ["rank 1, Process-4, restart 2", "rank 1, restart 2"]
    assert names == ['"Mine" \\1', "ForkProcess-1", "SpawnProcess-2", *ranked]
    assert [each["rank"] for each in processes if "rank" in each] == [1, 1]
    assert {each["parent"] for each in processes[1:]} == {processes[0]["pid"]}
    child = next(each for each in processes if each["name"].startswith("rank 1, restart 2"))
    assert child["name"].endswith(f" ({child['pid']})") and child["world_size"] == 3
    assert child["command"][1] == "-c" and child["python"]["version"]
    text = tool.torchtrace("stats", "out", "--by", "process", cwd=job.folder).out
    assert "SpawnProcess-2 (" in text
    where = f"process = '{child['name']}'"
    dumped = tool.torchtrace("dump", "out", "--where", where, cwd=job.folder).out
    assert len(dumped.splitlines()) == 2


def test_parents_are_the_nearest_traced_processes_above(job):
    (job.folder / "child.py").write_text(
        f"""
import os, subprocess, sys
{job.child(1)}
start = ["bash", "-c", '"$@"; true', "bash", sys.executable, "-c", {job.child(2)!r}]
subprocess.run(start)
if os.fork() == 0:
    [mine.f(i) for i in range(3)]
    start[-1] = {job.child(4)!r}
    subprocess.run(start)
    os._exit(0)
os.wait()
"""
    )
    code = """
import subprocess, sys
subprocess.run(["bash", "-c", '"$@"; true', "bash", sys.executable, "child.py"])
"""
    job.run(f"{job.child(5)}{code}", "-q")
    processes = job.info()["processes"]
    calls = {each["pid"]: each["calls"] for each in processes}
    parents = {each["calls"]: calls[each["parent"]] for each in processes if "parent" in each}
    # By their numbers of calls, which differ: the child, its child, its fork, the fork's child.
    assert parents == {1: 5, 2: 1, 3: 1, 4: 3}


@pytest.mark.torch
@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_data_loaders(tmp_path, context):
    (tmp_path / "program.py").write_text(
        f"""
import torch
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((3,), float(i)).mul(2)
if __name__ == "__main__":
    for persistent in (False, True):
        loader = DataLoader(Data(), batch_size=2, num_workers=2, persistent_workers=persistent,
                            multiprocessing_context={context!r})
        for _ in range(2):
            print([batch.sum().item() for batch in loader])
"""
    )
    untraced, traced = tool.run_both(["program.py"], tmp_path, options=("-l", "2"))
    assert traced.lines() == untraced.lines()
    text = tool.torchtrace("stats", "trace", "--where", "api=aten::mul.Tensor", cwd=tmp_path).out
    assert "32" in text, text
    info = json.loads((tmp_path / "trace/run.json").read_text())
    names = sorted(each["name"].rsplit(" (", 1)[0] for each in info["processes"][1:])
    assert names == ["DataLoader worker 0"] * 3 + ["DataLoader worker 1"] * 3
