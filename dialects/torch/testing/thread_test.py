"""Threads, processes and bad ends: each call is in the log of the process that made it."""

import functools
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from dialects.torch.testing.trace_testing import (
    environment,
    program,
    read_calls,
    trace,
    trace_command,
    untraced,
)
from python.module_testing import PACKAGE

pytestmark = [pytest.mark.torch, pytest.mark.slow]

THREADS = {
    "thread": 1,
    "several threads": 4,
    "thread subclass": 1,
    "pool": 8,
    "low-level thread": 2,
    "thread of a thread": 1,
    "outer thread": 1,
    "timer": 1,
    "failing thread": 1,
    "daemon thread": 1,
    "backward": 1,
}


@functools.cache
def threads_run(levels):
    return trace("threads.py", levels=levels)


def threads(levels="1,2"):
    return threads_run(levels).check()


def count(calls, api):
    return sum(call.api == api for call in calls)


@pytest.mark.parametrize("kind", THREADS)
def test_calls_on_threads(kind):
    section = threads().section(kind)
    for api in ("torch.cos", "torch.nn.functional.relu", "aten::cos", "aten::relu"):
        assert count(section, api) == 100 * THREADS[kind]


def test_backward_on_a_new_thread():
    section = threads().section("backward")
    assert count(section, "torch.Tensor.backward") == 1
    assert count(section, "aten::ones_like") == 1
    assert count(section, "aten::mul.Tensor") == 1


def test_a_thread_older_than_torch():
    before = threads().calls[: threads().calls.index(threads().of("marks.mark")[0])]
    assert count(before, "torch.add") == 1
    assert count(before, "torch.sin") == 1
    # Its first call puts the operators' hook in place.
    assert count(before, "aten::sin") == 1


def test_calls_of_a_thread_do_not_nest_in_another_one():
    calls = {call.number: call for call in threads().calls}
    for call in threads().calls:
        assert call.parent is None or calls[call.parent].thread == call.thread


def test_a_thread_ends_with_an_exception():
    (call,) = [call for call in threads().calls if call.outcome == "raised"][:1]
    assert (call.api, call.exception) == ("torch.add", "RuntimeError")
    assert threads().stdout == "RuntimeError\n[4.0, 4.0]\n"


def test_level_2_alone_sees_threads():
    alone = Counter(call.api for call in threads("2").calls)
    both = Counter(call.api for call in threads().level(2))
    assert alone["aten::cos"] == both["aten::cos"] == 100 * sum(THREADS.values())


def test_threads_that_live_on_or_end_at_the_end():
    for _ in range(2):
        run = trace("daemons.py").check()
        assert run.stdout == "20\n"
        assert count(run.calls, "torch.nn.functional.relu") == 40


# How many workers and epochs. Spawned workers are slow: each imports torch.
LOADERS = {"fork": (2, 2), "spawn": (1, 1)}


@functools.cache
def loader_run(start):
    return trace("loader.py", start, *LOADERS[start])


def test_fork_workers_have_logs_of_their_own():
    run = loader_run("fork").check()
    logs = sorted(path.name.split("-")[0] for path in (run.folder / "log").iterdir())
    assert logs == ["fork"] * 4 + ["main"]
    by_process = {}
    for call in run.calls:
        by_process.setdefault(call.process, Counter())[call.api] += 1
    (main,) = [name for name in by_process if name.startswith("main")]
    workers = [name for name in by_process if name.startswith("DataLoader worker")]
    assert by_process[main]["torch.cos"] == 10
    assert by_process[main]["torch.sin"] == 0
    assert sum(by_process[worker]["torch.sin"] for worker in workers) == 40
    assert sum(by_process[worker]["aten::sin"] for worker in workers) == 40
    assert all(by_process[worker]["torch.cos"] == 0 for worker in workers)
    assert not run.run["damage"]["damaged"]


def test_workers_compute_the_same():
    plain = untraced("loader.py", "fork", *LOADERS["fork"]).check().stdout
    assert loader_run("fork").check().stdout == plain
    assert loader_run("spawn").check().stdout == plain.splitlines(keepends=True)[0]


def test_spawn_workers_are_left_alone():
    run = loader_run("spawn").check()
    assert count(run.calls, "torch.cos") == 6
    assert run.section_apis("after", 1)[-2:] == ["torch.ones", "torch.cos"]


@functools.cache
def forking_run():
    return trace("forking.py")


def test_forks():
    run = forking_run().check()
    assert run.stdout == untraced("forking.py").check().stdout
    children = Counter()
    for call in run.calls:
        if call.process.startswith("fork"):
            children[call.api, call.process] += 1

    def counts(api):
        return sorted(number for (each, _), number in children.items() if each == api)

    # One is in a backward function.
    assert counts("aten::cos") == counts("torch.cos") == [5] * 5 + [6, 10, 20, 30, 40]
    assert counts("torch.tan") == counts("aten::tan") == [7]


def test_forks_leave_the_parents_log_alone():
    run = forking_run().check()
    parent = [call for call in run.calls if call.process.startswith("main")]
    assert count(parent, "torch.sin") == count(parent, "aten::sin") == 200
    assert count(parent, "torch.cos") == count(parent, "torch.tan") == 0
    assert not run.run["damage"]["damaged"]


def kill_at_a_random_moment(delay):
    """Returns how many calls the script had announced, and the trace's."""
    with tempfile.TemporaryDirectory() as temporary:
        announced = Path(temporary) / "announced"
        folder = Path(temporary) / "out"
        process = subprocess.Popen(
            trace_command(folder, program("endless.py", announced), "1,2"),
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.kill()
        process.wait()
        process.stdout.close()
        numbers = announced.read_text().split()
        return len(numbers), read_calls(folder)


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_loses_no_call(seed):
    announced, calls = kill_at_a_random_moment(random.Random(seed).uniform(0.005, 0.1))
    assert announced > 0
    adds = [call for call in calls if call.api == "torch.add"]
    operators = [call for call in calls if call.api == "aten::add.Tensor"]
    for recorded in (adds, operators):
        assert announced <= len(recorded) <= announced + 1
        assert [call.args[1] for call in recorded] == list(range(1, len(recorded) + 1))


def test_a_signal_closes_the_log():
    run = trace("import os, signal, torch\ntorch.ones(1)\nos.kill(os.getpid(), signal.SIGTERM)\n")
    assert run.exit_code == -signal.SIGTERM
    assert [call.api for call in read_calls(run.folder)] == ["torch.ones", "aten::ones"]


def test_os_exit_closes_the_log():
    run = trace("import os, torch\ntorch.ones(1)\nos._exit(7)\n")
    assert run.exit_code == 7
    assert [call.api for call in read_calls(run.folder)] == ["torch.ones", "aten::ones"]


def stopped_lines(stderr):
    lines = stderr.splitlines()
    return [line for line in lines if line.startswith("torchtrace: tracing stopped: ")]


def test_a_full_disk_stops_tracing_only():
    plain = untraced("varied.py", 30000).check()
    with tempfile.TemporaryDirectory() as disk:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk])
        if mounted.returncode:
            pytest.skip("needs the right to mount a small disk")
        try:
            ended = subprocess.run(
                trace_command(Path(disk) / "out", program("varied.py", 30000)),
                capture_output=True,
                text=True,
                env=environment(),
            )
        finally:
            subprocess.run(["umount", disk], check=True)
    assert ended.stdout == plain.stdout
    assert ended.returncode == 0, ended.stderr
    assert len(stopped_lines(ended.stderr)) == 1


def test_a_limit_on_files_stops_tracing_only():
    plain = untraced("varied.py", 30000).check()
    run = trace(
        "varied.py", 30000, options=["--formats", "none"], limit_file_bytes=512 << 10
    ).check()
    assert run.stdout == plain.stdout
    assert len(stopped_lines(run.stderr)) == 1
    assert run.calls


def test_a_folder_that_goes_away():
    code = (
        "import os, shutil, sys, torch\n"
        "shutil.rmtree(sys.argv[1])\n"
        "x = torch.ones(2)\n"
        "for index in range(30000): torch.add(x, index)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    torch.add(x, 1)\n"
        "    os._exit(0)\n"
        "print(os.waitpid(pid, 0)[1], 'done')\n"
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "out"
        ended = subprocess.run(
            trace_command(folder, program(code, folder)),
            capture_output=True,
            text=True,
            env=environment(),
        )
    assert ended.stdout == "0 done\n"
    assert ended.returncode == 0, ended.stderr


def test_a_folder_that_cannot_be_made():
    ended = subprocess.run(
        trace_command(Path("/proc/no/such"), program("import torch\nprint('ran')")),
        capture_output=True,
        text=True,
        env=environment(),
    )
    assert ended.returncode == 125
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


def test_static_thread_locals_overlap_nothing():
    """The linker loses the place of one without a name (tracer/record/static_tls.h)."""
    libraries = sorted(PACKAGE.glob("*.so"))
    command = ["readelf", "--relocs", "--wide", *map(str, libraries)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    places = [line for line in found.splitlines() if "_TPOFF" in line or "_TLS_TPREL" in line]
    assert len(libraries) > 2 and len(places) > 5
    assert [line for line in places if "torchtrace" not in line] == []


def test_a_million_calls_in_flat_memory():
    run = trace("many.py", levels="1", options=["--formats", "none", "-q"]).check()
    assert int(run.stdout) < 8 << 10  # KiB
    assert run.run["counts"]["calls"] == 1_000_001


def test_python_is_the_one_under_test():
    run = trace("import sys\nprint(sys.executable)\n").check()
    assert run.stdout == sys.executable + "\n"


ON_THREADS = "operators called on threads that C++ made"
IN_REGIONS = "operators called in parallel regions"
ZEROS = "[0.0, 0.0, 0.0, 0.0]\n"


def test_threads_that_c_made():
    """Some call Python, and then one calls an operator alone."""
    traced = trace("c_threads.py", "python", "thread").check()
    assert traced.stdout == "[3.0, 3.0, 3.0]\n" + ZEROS
    assert traced.apis(1).count("torch.nn.functional.relu") == 3
    assert traced.apis(2).count("aten::relu") == 3
    assert any(ON_THREADS in text for text in traced.run["not_seen"])
    assert not any(IN_REGIONS in text for text in traced.run["not_seen"])


def test_an_early_thread_that_c_made_and_a_parallel_region():
    traced = trace("c_threads.py", "early", "region").check()
    assert traced.stdout == ZEROS * 2
    for what in (ON_THREADS, IN_REGIONS):
        assert any(what in text for text in traced.run["not_seen"])


KERNELS_WITH_REGIONS = """
import torch
torch.set_num_threads(2)
q = torch.ones(2, 4, 256, 32, requires_grad=True)
torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()
with torch.backends.mkldnn.flags(enabled=False):
    torch.nn.functional.conv_transpose2d(torch.ones(8, 4, 32, 32), torch.ones(4, 4, 3, 3))
"""


def test_kernels_that_call_operators_in_parallel_regions():
    """They are inside their own operator, which is recorded."""
    traced = trace(KERNELS_WITH_REGIONS).check()
    assert traced.run["not_seen"] == []
    assert traced.of("aten::_scaled_dot_product_flash_attention_for_cpu")
    assert traced.of("aten::convolution")


OWN_OPENMP = b"""
#define _GNU_SOURCE
#include <dlfcn.h>
static int count;
int regions() { return count; }
typedef void (*Parallel)(void (*)(void*), void*, unsigned, unsigned);
void GOMP_parallel(void (*function)(void*), void* data, unsigned threads, unsigned flags) {
  ++count;
  ((Parallel)dlsym(RTLD_NEXT, "GOMP_parallel"))(function, data, threads, flags);
}
"""
REGIONS = """
import ctypes, os, torch
torch.set_num_threads(2)
own = ctypes.CDLL(os.environ["OWN_OPENMP"])
x = torch.zeros(1_000_000)
regions = own.regions()
x.add_(1)
print(own.regions() - regions, x.min().item(), x.max().item())
"""


def test_kernels_keep_the_openmp_that_the_program_gives_them(tmp_path):
    """As with LD_PRELOAD=libiomp5.so."""
    library = tmp_path / "own.so"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=OWN_OPENMP, check=True)
    env = {"LD_PRELOAD": str(library), "OWN_OPENMP": str(library)}
    assert trace(REGIONS, env=env).check().stdout == "1 1.0 1.0\n"


# glibc keeps 1,664 bytes for the thread-local variables of all libraries that are loaded later and
# reach them by one instruction; libgomp, of which a program may have several, takes 120 to 136.
IN_LITTLE_ROOM = """
import contextlib, ctypes, sys
ctypes.CDLL(sys.argv[1])
import torch
within = contextlib.nullcontext()
if len(sys.argv) > 2:
    import torchtrace
    within = torchtrace.trace(sys.argv[2], levels=[1, 2, 4])
with within: torch.relu(torch.ones(2))
"""


def test_other_libraries_have_thread_local_variables(tmp_path):
    library, out = tmp_path / "taken.so", tmp_path / "out"
    code = b"""
__attribute__((tls_model("initial-exec"))) __thread char taken[700];
char* at() { return taken; }
"""
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=code, check=True)
    run = trace(IN_LITTLE_ROOM, library, levels="1,2,4").check()
    command = [sys.executable, *program(IN_LITTLE_ROOM, library, out)]
    subprocess.run(command, env={**environment(), "PYTHONPATH": str(PACKAGE)}, check=True)
    for calls in run.calls, read_calls(out):
        assert count(calls, "torch.relu") == 1
        assert [call.level for call in calls if call.api == "aten::relu"] == [4, 2]


@pytest.mark.parametrize("which", ["small", "libpython"])
def test_a_thread_that_does_not_arm_itself(which):
    traced = trace("c_threads.py", which).check()
    assert traced.stdout == ZEROS
    assert any(ON_THREADS in text for text in traced.run["not_seen"])


def test_a_thread_that_python_ends_inside_an_operator():
    # PyTorch ends the process then, as it does untraced.
    plain = untraced("ending_operator.py")
    traced = trace("ending_operator.py", levels="2")
    assert traced.exit_code == plain.exit_code
    assert "exception not rethrown" not in traced.stderr
    assert traced.of("aten::add.Tensor")
