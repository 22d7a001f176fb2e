"""Level 0 within a program: any number of traces, and nothing left behind."""

import pytest

from python import module_testing as testing
from python import warm_testing

fresh, python = testing.python, warm_testing.python

pytestmark = pytest.mark.torch

# Everything that hooks might change and the program can see.
NAMESPACE = """
import importlib.machinery, sys
ROOTS = ("torch", "numpy", "importlib", "_frozen_importlib_external", "builtins", "_thread")
def namespace():
    import torch
    Loader = importlib.machinery.SourceFileLoader
    owners = [m for name, m in sorted(sys.modules.items()) if name.partition(".")[0] in ROOTS]
    owners += [torch.Tensor, torch._C.TensorBase, torch.nn.Module, torch.nn.Linear]
    owners += [*Loader.__mro__[:-1], importlib.machinery.PathFinder]
    return {(repr(owner), name): value for owner in owners
            for name, value in list(vars(owner).items()) if not name.startswith("__warning")}
def same(before, after):
    changed = [key for key in before if before[key] is not after.get(key)]
    return changed + [key for key in after if key not in before]
"""


@pytest.mark.parametrize("levels", ["0", "[0]", "[0, 1]", "[0, 2]", "[0, 1, 2]", "'setattr'"])
def test_levels(tmp_path, levels):
    ended = python(
        f"""
        import torch, torchtrace
        model = torch.nn.Linear(4, 2)
        with torchtrace.trace("out", levels={levels}):
            torch.nn.Linear(2, 2)
            torch.nn.functional.relu(model(torch.ones(3, 4)))
        torch.zeros(1)
        """,
        tmp_path,
    ).check()
    calls = ended.calls()
    outer = [call["api"] for call in calls if call["level"] == 0 and call["depth"] == 0]
    assert outer[0] == "torch.nn.Linear" and outer[-1] == "torch.nn.functional.relu"
    inner = calls[[call["api"] for call in calls].index("torch.nn.functional.relu") + 1]
    assert inner["api"] == ("torch.nn.functional.relu" if "1" in levels else "torch.relu")
    assert ("aten::relu" in ended.apis()) == ("2" in levels)
    assert "torch.zeros" not in ended.apis() and ended.info()["open_calls"] == 0


def test_torch_is_imported_within_and_after(tmp_path):
    ended = fresh(
        """
        import torchtrace
        with torchtrace.trace("none", levels=[0, 1, 2]):
            pass
        with torchtrace.trace("out", levels=[0, 1, 2]):
            import torch
            torch.relu(torch.ones(1))
        with torchtrace.trace("again", levels=0):
            torch.relu(torch.ones(1))
        """,
        tmp_path,
    ).check()
    for trace in ("out", "again"):
        level_0 = [call["api"] for call in ended.calls(trace) if call["level"] == 0]
        assert level_0[-2:] == ["torch.ones", "torch.relu"]
    assert any("did not import torch" in each for each in ended.info("none")["not_seen"])


def test_torch_whose_import_fails(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libtorch_cpu.so is not there')\n")
    ended = fresh(
        """
        import sys, torchtrace
        with torchtrace.trace("out", levels=[1, 2]):
            try:
                import torch
            except ImportError:
                pass
        """,
        tmp_path,
    ).check()
    assert ended.info("out")["not_seen"] == ["any call: the program's import of torch failed"]


def test_list_and_outermost(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def outer(x):\\n    return inner(x)\\ndef inner(x):\\n    return x\\n".replace("\\n", "\n")
    )
    (tmp_path / "list.txt").write_text("mine.outer\nmine.inner\n")
    ended = python(
        """
        import mine, torch, torchtrace
        with torchtrace.trace("file", levels=0, api_list="list.txt"):
            mine.outer(1); torch.ones(1)
        with torchtrace.trace("names", levels=[0, 1], api_list=["mine.outer", "torch.ones"]):
            mine.outer(2); torch.ones(1)
        with torchtrace.trace("outermost", levels=0, api_list="list.txt", outermost=True):
            mine.outer(3)
        with torchtrace.trace("torch", levels=0):
            mine.outer(4); torch.ones(1)
        """,
        tmp_path,
    ).check()
    assert ended.lines("file") == ["mine.outer(1)", "mine.inner(1)"]
    assert ended.lines("names") == ["mine.outer(2)", "torch.ones(1)", "torch.ones(1)"]
    assert ended.lines("outermost") == ["mine.outer(3)"]
    assert ended.lines("torch") == ["torch.ones(1)"]
    assert ended.info("outermost")["outermost"] is True


@pytest.mark.parametrize(
    "options, error",
    [
        ("levels=1, outermost=True", "ValueError: outermost is for level 0, which isn't traced"),
        ("levels=1, api_list=['a.b']", "ValueError: api_list is for level 0, which isn't traced"),
        ("levels=[1, 2], api_list='x'", "ValueError: api_list is for level 0"),
        ("levels=1, library='numpy'", "ValueError: library is for level 0"),
        ("disable_torch_api_list=True", "ValueError: disable_torch_api_list is for level 0"),
        (
            "levels=0, api_list='ops.txt', disable_torch_api_list=True",
            "ValueError: disable_torch_api_list traces everything that is found, and api_list",
        ),
        ("levels=0, api_list=['a.b'], library='numpy'", "ValueError: api_list names all"),
        ("levels=0, library='a b'", "ValueError: 'a b' is not the name of a Python module"),
        ("dialect='torch:nn', outermost=True", "ValueError: "),
        ("levels=0, api_list=[]", "ValueError: api_list is empty"),
        ("levels=0, api_list=[1]", "TypeError: api_list must be a file's name or a list"),
        ("levels=0, api_list='none.txt'", "FileNotFoundError: cannot read none.txt"),
        ("levels=0, api_list='ops.txt'", "ValueError: ops.txt: only operators"),
    ],
)
def test_errors(tmp_path, options, error):
    (tmp_path / "ops.txt").write_text("aten::add\n")
    ended = python(f"import torchtrace\ntorchtrace.trace('out', {options}).start()\n", tmp_path)
    assert ended.status == 1 and ended.err.splitlines()[-1].startswith(error)
    assert not (tmp_path / "out").exists()


WORK = """
import torch, torchtrace, numpy
import torch._dynamo.callback

model = torch.nn.Linear(4, 2)
class Mine(torch.nn.Linear): pass
mine = Mine(4, 2)
def work():
    x = torch.nn.functional.relu(model(torch.ones(3, 4)) + mine(torch.ones(3, 4)))
    x.sum().backward()
    return x[0], len(x), torch.Tensor.shape, x.grad_fn, x == x
"""


def test_a_hundred_traces(tmp_path):
    # A trace leaves some kilobytes in memory: options that other threads may be reading.
    ended = python(
        NAMESPACE
        + WORK
        + """
import ctypes, gc, shutil

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keep".split()]
mallinfo2 = ctypes.CDLL(None).mallinfo2
mallinfo2.restype = Heap
def used():
    gc.collect()
    heap = mallinfo2()
    return heap.uordblks + heap.hblkhd

levels = [[0, 1, 2], [0], [1], [2], [0, 1], [0, 2]]
def trace(i):
    with torchtrace.trace("out", levels=levels[i % 6], force=True, formats="apis.txt"):
        work()
        class Later(torch.nn.Linear): pass
    work()

trace(0)
before = namespace()
for i in range(1, 40): trace(i)
start = used()
for i in range(40, 100): trace(i)
grown = used() - start
print(grown // 60)
assert grown < 60 * 16384, grown
print(same(before, namespace()))
with torchtrace.trace("last", levels=[0, 1, 2]): work()
with torchtrace.trace("last-0", levels=0): work()
""",
        tmp_path,
    ).check()
    assert ended.out.splitlines()[1] == "[]"
    first = python(
        WORK
        + """
work()
with torchtrace.trace("fresh", levels=[0, 1, 2]): work()
""",
        tmp_path,
    ).check()

    def shape(trace):
        calls = [call for call in ended.calls(trace) if call["thread"] == 0]
        return [(call["level"], call["api"], call["depth"]) for call in calls]

    assert shape("last") == shape("fresh") and first.calls("fresh")
    level_0 = [call[1] for call in shape("fresh") if call[0] == 0]
    assert [api for _, api, _ in shape("last-0")] == level_0


def test_threads_call_while_traces_begin_and_end(tmp_path):
    ended = python(
        """
        import threading, torch, torchtrace
        stop = threading.Event()
        model = torch.nn.Linear(4, 2)
        counts = [0, 0]
        def work(i):
            while not stop.is_set():
                x = torch.nn.functional.relu(model(torch.ones(3, 4)))
                assert (x + 1)[0].shape == (2,) and len(x) == 3
                x.sum().backward()
                counts[i] += 1
        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        for thread in threads: thread.start()
        for i in range(40):
            levels = [0] if i % 2 else [0, 1, 2]
            with torchtrace.trace("out", levels=levels, force=True, formats="apis.txt"):
                seen = list(counts)
                while counts[0] < seen[0] + 3 or counts[1] < seen[1] + 3:
                    torch.relu(torch.ones(1))
        stop.set()
        for thread in threads: thread.join()
        """,
        tmp_path,
    ).check()
    info = ended.info()
    assert info["stopped"] == [] and "torch.nn.functional.relu" in ended.apis()


def test_libraries(tmp_path):
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("from mine.ops import double\n")
    (package / "ops.py").write_text(
        "def double(x):\n    return _twice(x)\ndef _twice(x):\n    return 2 * x\n"
    )
    ended = python(
        """
        import torch, torchtrace
        with torchtrace.trace("public", levels=0, library="mine"):
            import mine
            mine.double(1); torch.ones(1)
        with torchtrace.trace("all", levels=[0, 1], library=["mine"], disable_torch_api_list=True):
            mine.double(2); torch.ones(1)
        with torchtrace.trace("both", levels=0, library=["mine", "torch"]):
            mine.double(3); torch.ones(1)
        """,
        tmp_path,
        env={"XDG_CACHE_HOME": str(tmp_path / "cache")},
    ).check()
    assert ended.lines("public") == ["mine.double(1)"]
    assert ended.lines("all") == ["mine.double(2)", "mine.ops._twice(2)", "torch.ones(1)"]
    assert ended.lines("both") == ["mine.double(3)", "torch.ones(1)"]
    lists = [(each["list"], each["library"]) for each in ended.info("all")["api_list"]]
    assert lists == [("everything", "mine")]


def test_the_program_itself(tmp_path):
    ended = python(
        """
        import torchtrace
        def before(x): return x
        for name in ("first", "second"):
            before(0)
            with torchtrace.trace(name, levels=0, library="__main__"):
                before(1)
                def within(x): return before(x)
                within(2)
            within(3)
        """,
        tmp_path,
    ).check()
    lines = ["__main__.before(1)", "__main__.within(2)", "__main__.before(2)"]
    assert ended.lines("first") == ended.lines("second") == lines


def test_what_the_program_drops_while_its_calls_run(tmp_path):
    """Each trace lets go of it at its end, and the calls go on."""
    ended = python(
        """
        import functools, gc, threading, weakref, torchtrace
        for name in ("first", "second"):
            started, end = threading.Barrier(4), threading.Event()
            results = []
            with torchtrace.trace(name, levels=0, library="__main__"):
                def stay(kind):
                    started.wait()
                    end.wait()
                    results.append(kind)
                class A:
                    def __init__(self): stay("class")
                class Once:
                    def __init__(self): self.__name__ = "once"
                    def __call__(self): stay("instance")
                once = Once()
                cached = functools.lru_cache(lambda: stay("cache"))
                threads = [threading.Thread(target=each) for each in (A, once, cached)]
                for thread in threads: thread.start()
                started.wait()
                dropped = [weakref.ref(each) for each in (A, Once, once, cached)]
                del A, Once, once, cached
            gc.collect()
            end.set()
            for thread in threads: thread.join()
            del thread, threads
            gc.collect()
            print(sorted(results), [each() for each in dropped])
        """,
        tmp_path,
    ).check()
    freed = "['cache', 'class', 'instance'] [None, None, None, None]\n"
    assert ended.out == 2 * freed
    assert sorted(ended.lines("first")) == sorted(ended.lines("second"))
