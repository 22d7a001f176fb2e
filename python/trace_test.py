"""torchtrace.trace() and the related functions, in programs as users write them."""

import collections
import subprocess
import textwrap

import pytest

from python import module_testing as testing
from python import warm_testing

run = testing.run
# Most programs may start with torch imported, the others are fresh.
fresh, python = testing.python, warm_testing.python

pytestmark = pytest.mark.torch


def test_a_window_is_a_whole_trace(tmp_path):
    ended = fresh(
        """
        import torch, torchtrace
        torch.ones(1)
        with torchtrace.trace(output="out", levels=[1, 2]) as trace:
            torch.add(torch.ones(2, 3), 1, alpha=10)
        torch.zeros(1)
        print(trace.path, torchtrace.is_tracing())
        """,
        tmp_path,
    ).check()
    assert ended.out == "out False\n" and ended.err == ""
    calls = ended.calls()
    assert [call["api"] for call in calls if call["level"] == 1] == ["torch.ones", "torch.add"]
    assert "aten::add.Tensor" in [call["api"] for call in calls if call["level"] == 2]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "log",
        "api_trace.yaml",
        "api_trace.txt",
        "api_apis.txt",
        "api_configs.txt",
        "api_configs.yaml",
        "api_statistics.txt",
        "api_statistics.yaml",
        "run.json",
    }
    info = ended.info()
    assert info["ended"] == "trace closed, and the program went on"
    assert info["recorded_by"] == "torchtrace.trace" and info["levels"] == [1, 2]
    assert info["program"][0].endswith("script.py")
    assert info["packages"]["torch"]["version"].startswith("2.")
    assert info["open_calls"] == 0 and info["stopped"] == []


# Levels 0, 1 and 2 together: level_0_test.py.
@pytest.mark.parametrize("levels", ['"function"', "[2]"])
def test_torch_may_be_imported_after_the_trace_was_opened(tmp_path, levels):
    ended = fresh(
        f"""
        import torchtrace
        with torchtrace.trace("out", levels={levels}):
            import torch
            torch.ones(2)
        """,
        tmp_path,
    ).check()
    assert ended.calls()


def test_levels_have_names(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        for i, levels in enumerate([1, "function", [1, 2], ["1", "dispatch"]]):
            with torchtrace.trace(f"out{i}", levels=levels):
                torch.ones(2)
        """,
        tmp_path,
    ).check()
    assert ended.apis("out0") == ended.apis("out1") == ["torch.ones"]
    assert ended.apis("out2") == ended.apis("out3") == ["torch.ones", "aten::ones"]


def test_many_traces_of_one_process(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        for i in range(5):
            with torchtrace.trace(f"out{i}", levels=[1, 2] if i % 2 else [1]):
                for _ in range(i + 1):
                    torch.relu(torch.ones(i + 1))
            torch.zeros(7)
        with torchtrace.trace("n-%n", levels=2):
            torch.zeros(7)
        """,
        tmp_path,
    ).check()
    for i in range(5):
        apis = ended.apis(f"out{i}")
        assert apis.count("torch.relu") == apis.count("torch.ones") == i + 1
        assert ("aten::relu" in apis) == bool(i % 2) and "torch.zeros" not in apis
    assert ended.apis("n-6") == ["aten::zeros"]


def test_hundreds_of_traces_leave_nothing(tmp_path):
    ended = python(
        """
        import os, torch, torchtrace

        def held():
            with open("/proc/self/maps") as maps, open("/proc/self/status") as status:
                kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
                return sum(1 for _ in maps), len(os.listdir("/proc/self/fd")), kib

        for i in range(160):
            if i == 80:
                before = held()
            with torchtrace.trace("out", levels=[1, 2], formats="apis.txt", force=True, quiet=True):
                torch.ones(2)
        after = held()
        # The interpreter's own memory comes and goes.
        assert after[0] <= before[0] + 5, (before, after)
        assert after[1] == before[1], (before, after)
        assert after[2] <= before[2] + 1200, (before, after)
        """,
        tmp_path,
    ).check()
    assert ended.apis() == ["torch.ones", "aten::ones"]


def test_a_program_survives_its_log(tmp_path):
    ended = python(
        """
        import os, torch, torchtrace
        with torchtrace.trace("out", levels=[1, 2], formats="none", quiet=False):
            torch.ones(2)
            (log,) = (f"out/log/{name}" for name in os.listdir("out/log") if "ttlog" in name)
            assert os.stat(log).st_mode & 0o777 == 0o600
            os.truncate(log, 0)
            for i in range(10):
                torch.ones(i)
            print("the program goes on")
        """,
        tmp_path,
    )
    assert "the program goes on" in ended.out
    assert "tracing stopped: the log was cut by another program, or its disk is gone" in ended.err


@pytest.mark.parametrize(
    "setup", ["faulthandler.enable()", "signal.signal(signal.SIGBUS, lambda *args: None)"]
)
def test_a_program_with_a_handler_of_bus_errors_survives_its_log(tmp_path, setup):
    ended = run(
        f"""
        import faulthandler, os, signal, torch
        torch.ones(2)
        {setup}
        (log,) = (f"out/log/{{name}}" for name in os.listdir("out/log") if "ttlog" in name)
        os.truncate(log, 0)
        for i in range(10):
            torch.ones(i)
        print("the program goes on")
        """,
        tmp_path,
    )
    assert (ended.status, ended.out) == (0, "the program goes on\n")


def test_a_program_that_closes_all_descriptors(tmp_path):
    ended = run(
        """
        import os, torch
        torch.ones(1)
        os.closerange(3, 1024)
        mine = os.open("mine", os.O_RDWR | os.O_CREAT)
        os.write(mine, b"mine")
        for number in range(mine + 1, 1000):
            os.dup2(mine, number)
        for i in range(30_000):  # more than a frame of the log
            torch.ones(1)
        """,
        tmp_path,
        "--formats=none",
    ).check()
    assert (tmp_path / "mine").read_text() == "mine"
    assert len(ended.calls()) == 30_001
    info = ended.info()
    assert info["ended"] == "exit code 0" and info["stopped"] == []


def test_the_program_is_untraced_outside(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        from torch.overrides import _len_torch_function_stack, has_torch_function
        keys = torch._C._dispatch_tls_local_include_set
        keys_before = keys().raw_repr()
        before = {torch.relu: 1, torch.Tensor.add: 2, torch.ones: 3, torch.Tensor.shape: 4}
        for _ in range(3):
            with torchtrace.trace("out", levels=[1, 2], force=True):
                torch.nn.functional.relu(torch.ones(2))
            assert _len_torch_function_stack() == 0
            assert not has_torch_function((torch.ones(1),))
            assert keys().raw_repr() == keys_before
            assert [before[api] for api in (torch.relu, torch.ones)] == [1, 3]
        """,
        tmp_path,
    ).check()
    assert ended.apis()[:2] == ["torch.ones", "aten::ones"]


def test_what_a_program_has_put_in_a_functions_place_is_not_that_function(tmp_path):
    ended = python(
        """
        import functools, torch, torchtrace
        import torch.nn.functional as F
        x, relu = torch.ones(2), F.relu
        F.relu = lambda tensor: tensor.mul(2)
        with torchtrace.trace("other"):
            F.relu(x)

        @functools.wraps(relu)
        def wrapper(*args):
            x.cos()
            return relu(*args)

        F.relu = wrapper
        with torchtrace.trace("wrapper"):
            F.relu(x)
        F.relu = relu
        with torchtrace.trace("itself"):
            F.relu(x)
        """,
        tmp_path,
    ).check()
    assert ended.apis("other") == ["torch.Tensor.mul"]
    assert ended.apis("wrapper") == ["torch.Tensor.cos", "torch.nn.functional.relu"]
    assert ended.apis("itself") == ["torch.nn.functional.relu"]


def test_functions_that_ask_for_overrides_are_seen_wherever_they_are(tmp_path):
    ended = python(
        """
        import functools, gc, torch, torchtrace
        from torch.overrides import handle_torch_function, has_torch_function

        def made():
            def asks(x):
                if has_torch_function((x,)):
                    return handle_torch_function(asks, (x,), x)
            return asks

        def decorated(function):
            @functools.wraps(function)
            def around(*args):
                return function(*args)
            return around

        class Asking:
            static = staticmethod(made())

        kept, wrapped = made(), decorated(made())
        x = torch.ones(2)

        def rounds():
            for _ in range(50):
                made()(x)
                kept(x)
                wrapped(x)
                Asking.static(x)

        rounds()
        with torchtrace.trace("warm"):
            rounds()
        gc.freeze()
        with torchtrace.trace("frozen"):
            rounds()
        """,
        tmp_path,
    ).check()
    for folder in ("warm", "frozen"):
        names = collections.Counter(api.rpartition(".")[2] for api in ended.apis(folder))
        assert names["asks"] + names["kept"] == names.total() == 200


def test_a_folder_in_use_is_refused(tmp_path):
    ended = python(
        """
        import os, signal, stat, torch, torchtrace
        with torchtrace.trace("out"):
            torch.ones(1)
            child = os.fork()
            if child == 0:
                os.closerange(0, 9999)
                signal.pause()
        for _ in range(2):
            try:
                torchtrace.start("out", force=True)
            except FileExistsError as error:
                print(str(error).replace(str(os.getpid()), "PID").replace(os.getcwd(), ""))
            if child:
                os.kill(child, signal.SIGKILL)
                os.waitid(os.P_PID, child, os.WEXITED)
                child = 0
            else:
                torchtrace.stop()
        print([name.startswith(f"main-{os.getpid()}") for name in os.listdir("out/log")])
        print(oct(stat.S_IMODE(os.stat("out").st_mode | os.stat("out/run.json").st_mode)))
        os.umask(0o022)
        with torchtrace.trace("out2", readable=True):
            pass
        print(oct(stat.S_IMODE(os.stat("out2").st_mode | os.stat("out2/run.json").st_mode)))
        """,
        tmp_path,
    ).check()
    assert ended.out.splitlines() == [
        "the output folder /out is in use: process PID, or one that it forked, "
        "still writes its trace there; wait until it ends, or give another output",
        "[True]",
        "0o700",
        "0o755",
    ]


def test_the_folder_of_a_trace_that_is_open_is_refused(tmp_path):
    program = """
        import sys, torchtrace
        try:
            with torchtrace.trace("out", force=True):
                print("open", flush=True)
                input()
        except FileExistsError as error:
            print("in use" in str(error))
        """
    ended = python(
        f"""
        import os, subprocess, sys, torchtrace
        with torchtrace.trace("out"):
            os.closerange(3, 9999)
            print(subprocess.run([sys.executable, "-c", {textwrap.dedent(program)!r}],
                  capture_output=True, text=True, input="x").stdout)
        """,
        tmp_path,
    ).check()
    assert ended.out == "True\n\n"


def test_nothing_is_overwritten_unless_forced(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        with torchtrace.trace("out"): torch.ones(1)
        try:
            with torchtrace.trace("out"): print("not reached")
        except FileExistsError as error:
            print(error)
        assert not torchtrace.is_tracing()
        with torchtrace.trace("out", force=True): torch.zeros(1)
        """,
        tmp_path,
    ).check()
    assert ended.out == (
        f"the output folder {tmp_path}/out is not empty; "
        "force=True overwrites the trace in it, output gives another\n"
    )
    assert ended.apis() == ["torch.zeros"]


@pytest.mark.parametrize(
    "call, error",
    [
        ("trace(levels=[])", "ValueError: levels is empty"),
        ("trace(levels=[7])", "ValueError: unknown level 7: there are 0 (setattr)"),
        ("trace(levels='api')", "ValueError: unknown level 'api'"),
        ("trace(dialect='paddle', levels=[4]).start()", "ValueError: level 4 cannot be traced"),
        ("trace(dialect='jax').start()", "ValueError: unknown dialect 'jax'"),
        ("trace('%x').start()", "ValueError: unknown placeholder"),
        ("trace('a\\0b')", "ValueError: the output folder's name has a null character"),
        ("trace(render_limit=-1)", "ValueError: render_limit is -1"),
        ("trace(render_limit='many')", "TypeError: 'str' object cannot be interpreted"),
        ("trace(formats='pdf').start()", "ValueError: "),
        ("trace(values='1XB')", "ValueError: values: '1XB' is not a size"),
        ("trace(include='%nope').start()", "ValueError: "),
        ("trace(include=[1])", "TypeError: include must be a str"),
        ("trace(include='')", "ValueError: include is an empty list: ''"),
        ("trace('/proc/none/out').start()", "OSError: cannot create the output folder"),
        ("stop()", "RuntimeError: there is no trace to stop"),
        ("trace().stop()", "RuntimeError: this trace is not open"),
        ("traced(int)", "TypeError: torchtrace.trace() decorates functions"),
        ("annotate(a=[1])", "TypeError: the tag a is a list"),
        ("annotate(a=float('nan'))", "ValueError: tags that are floats must be finite"),
        ("annotate(a='x' * 5000)", "ValueError: the tags take more than 4096 bytes"),
    ],
)
def test_errors_are_exceptions_with_one_sentence(tmp_path, call, error):
    ended = python(f"import torchtrace\ntorchtrace.{call}\n", tmp_path)
    assert ended.status == 1
    assert ended.err.splitlines()[-1].startswith(error)
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_sizes_have_units_and_dir_has_all_names(tmp_path):
    python(
        """
        import torchtrace
        for size in ["64KB", "1 MiB", "1m", "7", 7]:
            torchtrace.trace(values=size)
        assert set(torchtrace.__all__) <= set(dir(torchtrace))
        """,
        tmp_path,
    ).check()


def test_a_subinterpreter_is_refused(tmp_path):
    inside = """
import sys
sys.path[:] = PATH
import torchtrace
for begin in (torchtrace.trace(output="out").start, torchtrace.APITracer(output_path="out").start):
    try:
        begin()
    except RuntimeError as error:
        print(error, flush=True)
"""
    ended = fresh(
        f"""
        import sys
        try:
            import _interpreters as interpreters  # from Python 3.13 on
            another = interpreters.create("legacy")
        except ImportError:
            import _xxsubinterpreters as interpreters
            another = interpreters.create(isolated=False)
        interpreters.run_string(another, {inside!r}.replace("PATH", repr(sys.path)))
        interpreters.destroy(another)
        """,
        tmp_path,
    ).check()
    said = "torchtrace traces Python's main interpreter; this is a subinterpreter\n"
    assert (ended.out, ended.err) == (said * 2, "")
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_filters_and_files(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        with torchtrace.trace("out", include=["torch.re*", "%matmul"], exclude="torch.relu",
                              formats=["apis.txt"], include_getters=True):
            x = torch.ones(2, 2).reshape(4).relu()
            torch.relu(x); torch.matmul(x, x)
        """,
        tmp_path,
    ).check()
    assert (tmp_path / "out/api_apis.txt").read_text() == "torch.matmul\n"
    assert not (tmp_path / "out/api_trace.txt").exists()
    assert ended.info()["include"] == ["torch.re*", "%matmul"]


def test_start_and_stop(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        trace = torchtrace.start("out")
        torch.ones(1)
        assert torchtrace.is_tracing() and torchtrace.stop() is trace
        torch.zeros(1)
        """,
        tmp_path,
    ).check()
    assert ended.apis() == ["torch.ones"]


def test_pause_and_resume(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        torchtrace.pause()
        with torchtrace.trace("out", levels=[1, 2]):
            torch.zeros(1)
            torchtrace.resume()
            torch.ones(1)
            with torchtrace.paused():
                torch.zeros(2)
                with torchtrace.paused():
                    assert not torchtrace.is_tracing()
                torch.zeros(3)
            torch.relu(torch.ones(2))
            torchtrace.resume()  # one too many
            torch.tanh(torch.ones(2))
        """,
        tmp_path,
    ).check()
    assert [api for api in ended.apis() if api.startswith("torch")] == [
        "torch.ones",
        "torch.ones",
        "torch.relu",
        "torch.ones",
        "torch.tanh",
    ]


def test_a_nested_trace_joins(tmp_path):
    ended = python(
        """
        import torch, torchtrace, warnings
        warnings.simplefilter("error")
        with torchtrace.trace("out") as outer:
            torch.ones(1)
            with torchtrace.trace() as inner:
                torch.zeros(1)
            assert inner.joined and inner.path == outer.path and not outer.joined
            torch.relu(torch.ones(1))
            try:
                torchtrace.start("other")
            except RuntimeWarning as warning:
                print(warning)
        """,
        tmp_path,
    ).check()
    assert ended.apis() == ["torch.ones", "torch.zeros", "torch.ones", "torch.relu"]
    assert ended.out == (
        "a trace is open already, in out: the calls will be there, and not in other\n"
    )
    assert not (tmp_path / "other").exists()


def test_the_outermost_is_the_last_to_close(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        first = torchtrace.trace("out").start()
        second = torchtrace.trace().start()
        first.stop()
        torch.ones(1)
        second.stop()
        torch.zeros(1)
        """,
        tmp_path,
    ).check()
    assert ended.apis() == ["torch.ones"]


def test_decorators(tmp_path):
    ended = python(
        """
        import asyncio, torch, torchtrace

        @torchtrace.trace("out-%n")
        def count_down(n):
            "Counts down."
            torch.ones(n)
            return count_down(n - 1) if n > 1 else "done"

        @torchtrace.traced
        def plain(x): return torch.relu(x)

        @torchtrace.traced(output="gen", levels=2)
        def generate():
            yield torch.zeros(1)
            yield torch.zeros(2)

        @torchtrace.trace("async")
        async def ask():
            try:
                got = yield torch.ones(1)
                yield torch.ones(got)
            except KeyError:
                yield torch.ones(9)
            finally:
                torch.ones(7)

        async def consume():
            asked = ask()
            await asked.asend(None)
            assert (await asked.asend(4)).shape == (4,)
            assert (await asked.athrow(KeyError())).shape == (9,)
            assert torchtrace.is_tracing()
            await asked.aclose()
            assert not torchtrace.is_tracing()

        @torchtrace.trace("coro")
        async def coroutine():
            await asyncio.sleep(0)
            return torch.ones(5)

        assert count_down(3) == "done" and count_down(1) == "done"
        assert count_down.__name__ == "count_down" and count_down.__doc__ == "Counts down."
        plain(torch.ones(1))
        assert len(list(generate())) == 2
        assert asyncio.run(coroutine()).numel() == 5
        asyncio.run(consume())
        """,
        tmp_path,
    ).check()
    assert ended.apis("out-1") == ["torch.ones"] * 3 and ended.apis("out-2") == ["torch.ones"]
    (folder,) = tmp_path.glob("torchtrace-script-*")
    assert ended.apis(folder.name) == ["torch.relu"]
    assert ended.apis("gen") == ["aten::zeros"] * 2
    assert ended.apis("coro") == ["torch.ones"]
    assert ended.lines("async") == [f"torch.ones({n})" for n in (1, 4, 9, 7)]


@pytest.mark.parametrize("levels", ["[1]", "[2]", "[1, 2]"])
def test_threads_that_were_there_before(tmp_path, levels):
    ended = python(
        f"""
        import threading, torch, torchtrace
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: None).result()
            for i in range(3):
                with torchtrace.trace(f"out{{i}}", levels={levels}):
                    pool.submit(torch.ones, 3).result()
                    torch.ones(2)
                pool.submit(torch.zeros, 3).result()
            # Opened and closed by other threads than the one that calls.
            pool.submit(torchtrace.start, "other", levels={levels}).result()
            torch.ones(7)
            threading.Thread(target=torchtrace.stop).start()
        """,
        tmp_path,
    ).check()
    apis = {"[1]": 1, "[2]": 1, "[1, 2]": 2}[levels]
    for i in range(3):
        assert len(ended.calls(f"out{i}")) == 2 * apis
        assert {call["thread"] for call in ended.calls(f"out{i}")} == {0, 1}
    assert len(ended.calls("other")) == apis


def test_traces_opened_by_many_threads(tmp_path):
    ended = python(
        """
        import threading, torch, torchtrace
        barrier = threading.Barrier(4)
        def work():
            barrier.wait()
            for _ in range(20):
                with torchtrace.trace("out-%n", levels=[1, 2]):
                    torch.relu(torch.ones(4))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        """,
        tmp_path,
    ).check()
    traces = sorted(path.name for path in tmp_path.glob("out-*"))
    apis = [api for trace in traces for api in ended.apis(trace)]
    # Each call is completely in one of them.
    assert apis.count("torch.relu") == apis.count("aten::relu") == 80
    for trace in traces:
        assert ended.info(trace)["open_calls"] == 0


def test_backward_and_compile(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        def f(x): return torch.sin(x) * 2
        compiled = torch.compile(f, backend="eager")
        x = torch.ones(3, requires_grad=True)
        for i in range(3):
            with torchtrace.trace(f"out{i}", levels=[1, 2]):
                compiled(x).sum().backward()
            compiled(x)
        with torchtrace.trace("warm", levels=[0, 1]):
            compiled(x)
        counters = torch._dynamo.utils.counters
        # One for within a trace and one for outside: Dynamo guards what it finds on the thread.
        assert counters["stats"]["unique_graphs"] == 2 and not counters["graph_break"]
        """,
        tmp_path,
    ).check()
    for i in range(3):
        apis = ended.apis(f"out{i}")
        assert "torch.sin" in apis and "aten::cos" in apis and "torch.Tensor.backward" in apis
    # Code that was compiled before is not compiled again.
    for trace in ("out0", "out2", "warm"):
        assert any("torch.compile" in text for text in ended.info(trace)["not_seen"])


def test_an_exception_goes_through(tmp_path):
    ended = python(
        """
        import torch, torchtrace
        with torchtrace.trace("out"):
            torch.ones(2) @ torch.ones(3)
        """,
        tmp_path,
    )
    assert ended.status == 1 and "RuntimeError: " in ended.err.splitlines()[-1]
    last = ended.calls()[-1]
    assert (last["api"], last["outcome"]) == ("torch.Tensor.matmul", "raised")


@pytest.mark.parametrize("of_program", ["", "raise KeyError"])
def test_a_nan_that_comes_at_the_end_is_raised_there(tmp_path, of_program):
    ended = python(
        f"""
        import ctypes, torch, torchtrace
        process = ctypes.CDLL(None)
        get = process["_ZN10torchtrace8Recorder3GetEv"]
        get.restype = ctypes.c_void_p
        tell = process["_ZN10torchtrace8Recorder11SetEndErrorEPKc"]
        with torchtrace.trace("out", levels=[2]):
            torch.ones(2)
            tell(ctypes.c_void_p(get()), b"aten::log made a NaN")
            {of_program}
        """,
        tmp_path,
    )
    last = "KeyError" if of_program else "FloatingPointError: aten::log made a NaN"
    assert ended.status == 1 and ended.err.splitlines()[-1] == last
    assert "aten::log made a NaN" in ended.err and len(ended.lines()) == 1


ENDS = {"raise SystemExit(3)": 3, "os._exit(4)": 4, "raise KeyError('x')": 1, "pass": 0}


def test_the_program_ends_in_an_open_trace(tmp_path):
    # Each end is that of a fork, but the last, and all are Python's own.
    ended = fresh(
        f"""
        import os, torch, torchtrace
        for number, end in enumerate({list(ENDS)}):
            child = 0 if end == "pass" else os.fork()
            if child == 0:
                break
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        torchtrace.start(f"out{{number}}", levels=[1, 2])
        torch.ones(1)
        exec(end)
        """,
        tmp_path,
    ).check()
    assert [*map(int, ended.out.split()), ended.status] == list(ENDS.values())
    for number, status in enumerate(ENDS.values()):
        trace = f"out{number}"
        assert ended.apis(trace) == ["torch.ones", "aten::ones"]
        assert ended.lines(trace)[0] == "torch.ones(1)" and len(ended.lines(trace)) == 2
        assert ended.info(trace)["ended"] == f"exit code {status}"


def test_sys_exit_within_a_window(tmp_path):
    ended = python(
        """
        import sys, torch, torchtrace
        with torchtrace.trace("out"):
            torch.ones(1)
            sys.exit(5)
        """,
        tmp_path,
    )
    assert ended.status == 5 and ended.lines() == ["torch.ones(1)"]
    assert ended.info()["ended"] == "trace closed, and the program went on"


def test_kill_leaves_a_log_that_can_be_read(tmp_path):
    ended = python(
        """
        import os, signal, torch, torchtrace
        with torchtrace.trace("out"):
            torch.ones(1)
            os.kill(os.getpid(), signal.SIGKILL)
        """,
        tmp_path,
    )
    assert ended.status == -9
    assert ended.apis() == ["torch.ones"]


def test_forks_have_logs_of_their_own(tmp_path):
    ended = python(
        """
        import os, torch, torchtrace
        with torchtrace.trace("out", levels=[1]):
            torch.ones(1)
            if (child := os.fork()) == 0:
                torch.zeros(1)
                os._exit(7)
            os.waitpid(child, 0)
            with torchtrace.paused():
                if (child := os.fork()) == 0:
                    torch.zeros(2)
                    os._exit(0)
                os.waitpid(child, 0)
            torch.relu(torch.ones(2))
        """,
        tmp_path,
    ).check()
    assert sorted(ended.apis()) == ["torch.ones", "torch.ones", "torch.relu", "torch.zeros"]
    processes = {each["role"]: each for each in ended.info()["processes"]}
    assert processes["fork"]["exit_code"] == 7
    assert len(list((tmp_path / "out/log").iterdir())) == 2


def test_a_forked_child_leaves_the_window_and_opens_another(tmp_path):
    ended = python(
        """
        import os, torch, torchtrace
        with torchtrace.trace("out"):
            torch.ones(1)
            child = os.fork()
            if child == 0:
                torch.zeros(1)
        if child == 0:
            torch.zeros(2)
            with torchtrace.trace("mine"):
                torch.zeros(3)
        else:
            os.waitpid(child, 0)
        """,
        tmp_path,
    ).check()
    assert sorted(ended.apis()) == ["torch.ones", "torch.zeros"]
    assert ended.lines("mine") == ["torch.zeros(3)"]


def test_multiprocessing(tmp_path):
    ended = python(
        """
        import multiprocessing, torch, torchtrace
        def work(n):
            return torch.ones(n).sum().item()
        if __name__ == "__main__":
            with torchtrace.trace("out"):
                with multiprocessing.get_context("fork").Pool(2) as pool:
                    assert pool.map(work, [1, 2, 3]) == [1, 2, 3]
                    pool.close(); pool.join()
        """,
        tmp_path,
    ).check()
    assert ended.apis().count("torch.Tensor.sum") == 3
    assert all(each["ended"] != "" for each in ended.info()["processes"])


def test_stop_within_a_call(tmp_path):
    # A call that began in one trace doesn't end in it, nor in the next one.
    ended = python(
        """
        import torch, torchtrace
        class Odd(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func is torch.relu:
                    torchtrace.stop()
                    torchtrace.start("second")
                return super().__torch_function__(func, types, args, kwargs or {})
        torchtrace.start("first")
        x = torch.ones(2).as_subclass(Odd)
        torch.relu(x)
        torch.zeros(1)
        torchtrace.stop()
        torch.zeros(2)
        """,
        tmp_path,
    ).check()
    assert "torch.relu" in ended.apis("first")
    assert ended.apis("second")[-1] == "torch.zeros"
    for call in ended.calls("second"):
        assert call["depth"] == 0 and call["outcome"] == "returned"


def test_tags(tmp_path):
    ended = python(
        """
        import threading, torch, torchtrace
        torchtrace.annotate(run="a")
        with torchtrace.trace("out", levels=[1, 2]):
            for step in range(2):
                torchtrace.annotate(step=step)
                torch.ones(1)
                with torchtrace.annotate(phase="eval", step=None):
                    thread = threading.Thread(target=torch.zeros, args=(1,))
                    thread.start()
                    thread.join()
            torchtrace.annotate(step=None, run=None)
            torch.relu(torch.ones(3))
        """,
        tmp_path,
    ).check()
    tags = [(call["api"], call.get("tags")) for call in ended.calls() if call["level"] == 1]
    assert tags == [
        ("torch.ones", {"run": "a", "step": 0}),
        ("torch.zeros", {"run": "a", "phase": "eval"}),
        ("torch.ones", {"run": "a", "step": 1}),
        ("torch.zeros", {"run": "a", "phase": "eval"}),
        ("torch.ones", None),
        ("torch.relu", None),
    ]

    def lines(trace):
        command = [testing.TORCHTRACE, "dump", trace]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout

    assert '{run="a", step=0}' in lines("out").splitlines()[0]
    (log,) = (tmp_path / "out/log").iterdir()
    with log.open("rb") as pipe:
        command = [testing.TORCHTRACE, "dump", "-"]
        piped = subprocess.run(command, stdin=pipe, capture_output=True, text=True).stdout
    assert '{run="a", step=0}' in piped.splitlines()[0]
    # Traces made from this one keep them.
    for verb in (["merge", "out", "-o", "again"], ["filter", "out", "-o", "again", "--level", "1"]):
        subprocess.run(
            [testing.TORCHTRACE, *verb, "-f"], cwd=tmp_path, check=True, capture_output=True
        )
        again = [(c["api"], c.get("tags")) for c in ended.calls("again") if c["level"] == 1]
        assert again == tags


def test_tags_that_are_no_utf_8(tmp_path):
    ended = python(
        """
        import os, torch, torchtrace
        with torchtrace.trace("out", levels=1):
            with torchtrace.annotate(step=3, file=os.fsdecode(b"a-\\xff")):
                torch.ones(1)
        """,
        tmp_path,
    ).check()
    assert ended.calls()[0]["tags"] == {"step": 3, "file": "a-\\udcff"}


# ---- Under `torchtrace run` ----


def test_run_offers_the_module(tmp_path):
    ended = run(
        """
        import sys, torch
        assert "torchtrace" not in sys.modules
        torch.ones(1)
        import torchtrace
        with torchtrace.trace("other") as trace:
            torch.zeros(1)
        assert trace.joined
        torchtrace.annotate(phase="late")
        with torchtrace.paused():
            torch.zeros(2)
        torch.relu(torch.ones(2))
        """,
        tmp_path,
    ).check()
    assert ended.err == "" and not (tmp_path / "other").exists()
    assert ended.apis() == ["torch.ones", "torch.zeros", "torch.ones", "torch.relu"]
    assert [call.get("tags") for call in ended.calls()] == [None, None] + 2 * [{"phase": "late"}]
    assert ended.info()["recorded_by"] == "torchtrace run"


def test_a_module_of_that_name_of_the_program_itself_wins(tmp_path):
    (tmp_path / "torchtrace.py").write_text("mine = True\n")
    run("import torchtrace\nassert torchtrace.mine\n", tmp_path).check()


def test_start_paused(tmp_path):
    ended = run(
        """
        import torch, torchtrace
        torch.zeros(1)
        with torchtrace.trace("window"):
            torch.ones(1)
        torch.zeros(2)
        torchtrace.resume()
        torch.relu(torch.ones(2))
        torchtrace.pause()
        torch.zeros(3)
        """,
        tmp_path,
        "--start-paused",
        "-l",
        "1,2",
    ).check()
    apis = [api for api in ended.apis() if api.startswith("torch")]
    assert apis == ["torch.ones", "torch.ones", "torch.relu"]


def test_start_paused_without_the_module_records_nothing(tmp_path):
    ended = run("import torch\ntorch.ones(1)\n", tmp_path, "--start-paused", quiet=False).check()
    assert ended.calls() == [] and ended.info()["counts"]["calls"] == 0
    assert ended.info()["paused"] and "while tracing was paused" in ended.err
