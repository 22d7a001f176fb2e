"""`--library __main__`: every call of the script's own functions and classes, once, in order."""

import json
import re
import sys

import pytest

from dialects.scan.scan_library import SLOTS
from tools.testing import whole_tool as tool

# What is defined is called at once, and then again.
SCRIPT = """
import abc, collections, dataclasses, enum, functools, json, typing
def f(a, b=2, *, c=3): return a
f(1, b=5)
def _private(x): return f(x)
_private(3)
class A:
    def __init__(self, n): self.n = n
    def m(self): return f(self.n)
    def _hidden(self): return self.m()
    @staticmethod
    def s(x): return x
    @classmethod
    def c(cls, x): return x
    @property
    def p(self): return f("p")
    def __add__(self, other): return 5
    def __enter__(self): return self
    def __exit__(self, *error): pass
    class Inner:
        def q(self): pass
    Named = dict
with A(1) as a: a._hidden()
A.s(2), a.c(3), a + 2, a.p
A.Inner().q()
class B(A):
    def extra(self): return self.m()
B(4).extra()
@functools.cache
def cached(x): return f(x)
cached(1), cached(1)
@functools.cache
def another(x): return x
another(2)
@dataclasses.dataclass
class Data:
    x: int
    y: int = 3
Data(1) == Data(1, y=2)
@dataclasses.dataclass(slots=True)
class Slots:
    x: int
Slots(1)
Pair = collections.namedtuple("Pair", "x y")
Pair(1, y=2)
class Typed(typing.NamedTuple):
    x: int
Typed(1)
class Abstract(abc.ABC):
    def go(self): return 1
Abstract().go()
class Color(enum.Enum):
    RED = 1
Color(1)
def decorate(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs): return function(*args, **kwargs)
    return wrapper
@decorate
def decorated(x, y=1): return x
decorated(1, y=2)
class Once:
    def __init__(self, function): functools.update_wrapper(self, function)
    def __call__(self, x): return self.__wrapped__(x)
@Once
def once(x): return x
once(7)
class Single(type):
    def __call__(cls, *args): return super().__call__(*args)
class Only(metaclass=Single): pass
Only()
def steps(n): yield from range(n)
list(steps(2))
def fails(): raise ValueError("x")
try: fails()
except ValueError: pass
short = lambda x: x
list(map(short, [1, 2]))
alias = f
alias("alias")
for i in range(3):
    def loop(x, i=i): return x
    loop(i)
def defines():
    global late
    def late(): return early()
    def local(): pass
    local()
    late()
def early(): pass
defines()
exec("def made(): pass")
made()
json.dumps(1)
"""

CALLS = """
f(1, b=5)
f(3)
A(1)
A.m(object("A"))
f(1)
A.s(2)
A.c(type("A"), 3)
A.__add__(object("A"), 2)
f("p")
A.Inner()
A.Inner.q(object("A.Inner"))
B(4)
B.extra(object("B"))
A.m(object("B"))
f(4)
cached(1)
f(1)
cached(1)
another(2)
Data(1)
Data(1, y=2)
Data.__eq__(object("Data"), object("Data"))
Slots(1)
Pair(1, y=2)
Typed(1)
Abstract()
Abstract.go(object("Abstract"))
Color(1)
decorate(function("decorated"))
decorated(1, y=2)
Once(function("once"))
once(7)
Once.__call__(object("Once"), 7)
Single("Only", tuple(), {})
Only()
Single.__call__(type("Only"))
steps(2)
fails()
short(1)
short(2)
f("alias")
loop(0)
loop(1)
loop(2)
defines()
late()
early()
made()
"""


def trace(folder, *args, options=()):
    """What was recorded, after a run like an untraced one."""
    options = ("-l", "0", "--library", "__main__", *options)
    untraced, traced = tool.run_both(args, folder, options=options, python=sys.executable)
    assert (traced.lines(), traced.status) == (untraced.lines(), 0)
    return (folder / "trace/api_trace.txt").read_text().splitlines()


def own(lines):
    """Lines without the module's name, and without what is in a class that is being made."""
    lines = [line.replace("__main__.", "", 1).replace('("__main__.', '("') for line in lines]
    return [re.sub(r"dict\{.*\}", "{}", line) for line in lines]


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    folder = tmp_path_factory.mktemp("script")
    (folder / "script.py").write_text(SCRIPT)
    return folder


def test_all_calls_once_from_the_definition_on(script):
    assert own(trace(script, "script.py")) == CALLS.split("\n")[1:-1]


def test_private_names_and_properties_on_demand(script):
    lines = own(
        trace(script, "script.py", options=["--disable-torch-api-list", "--include-getters"])
    )
    more = ["_private(3)", 'A._hidden(object("A"))', 'A.p.__get__(object("A"))']
    assert [line for line in lines if line in more] == more
    assert set(CALLS.split("\n")[1:-1]) <= set(lines)


@pytest.mark.parametrize("args", [["-m", "own"], ["own"], ["-c", "def f(x): pass\nf(1)"]])
def test_any_program(tmp_path, args):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/__main__.py").write_text("def f(x): pass\nf(1)\n")
    assert trace(tmp_path, *args) == ["__main__.f(1)"]


SPAWNS = """
import concurrent.futures, multiprocessing, sys
def setup(x): pass
setup(__name__)
class Net:
    def go(self, x): return helper(x)
def helper(x): return x
def work(x): return Net().go(x)
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        print(list(pool.map(work, [5, 6])))
"""


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_spawned_processes(tmp_path, start):
    (tmp_path / "script.py").write_text(SPAWNS)
    lines = trace(tmp_path, "script.py", start)
    in_child = ['__main__.setup("__mp_main__")'] if start != "fork" else []
    name = "__main__" if start == "fork" else "__mp_main__"
    for x in (5, 6):
        in_child += [f"__main__.work({x})", "__main__.Net()"]
        in_child += [f'__main__.Net.go(object("{name}.Net"), {x})', f"__main__.helper({x})"]
    assert lines == ['__main__.setup("__main__")', *in_child]


LIMITS = """
import gc, sys, weakref
count = 0
def recurse(n):
    global count
    count += 1
    recurse(n + 1)
try: recurse(0)
except RecursionError: print(count)
class Held: pass
for i in range(3):
    held = Held()
    def closes(over=held): pass
    closes()
reference = weakref.ref(held)
del held, closes
print(reference())
flags = type(recurse).__call__, recurse.__call__
print(flags, [f.__name__ for f in gc.get_objects() if f is recurse])
"""


def test_the_program_stays_the_same(tmp_path):
    """Recursion goes as deep, and a function that is gone doesn't keep anything alive."""
    (tmp_path / "script.py").write_text(LIMITS)
    assert len(trace(tmp_path, "script.py")) > 900


DEEP = """
import sys
def deep(n): return n and deep(n - 1) + 1
def even(n): return n == 0 or odd(n - 1)
def odd(n): return n != 0 and even(n - 1)
sys.setrecursionlimit(60000)
for _ in range(2): print(deep(50000), even(50000))
print(deep(2))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="each call takes C stack untraced")
def test_recursion_that_takes_no_c_stack_goes_as_deep(tmp_path):
    """The deepest calls are not recorded, which is reported; later ones are."""
    (tmp_path / "script.py").write_text(DEEP)
    calls = trace(tmp_path, "script.py")
    assert calls[-3:] == [f"__main__.deep({n})" for n in (2, 1, 0)]
    assert 4 * 1000 < len(calls) < 4 * 25000
    run = json.loads((tmp_path / "trace/run.json").read_text())
    assert any("part of the C stack" in text for text in run["not_seen"])


DAEMONS = """
import threading, time
def waits():
    while True: time.sleep(0.001)
def outer(): waits()
for _ in range(4): threading.Thread(target=outer, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.parametrize("levels", ["0", "0,3"])
def test_daemon_threads_that_the_interpreter_ends_within_calls(tmp_path, levels):
    (tmp_path / "script.py").write_text(DAEMONS)
    for _ in range(4):
        words = ("run", "-fqo", "trace", "-l", levels, "--library", "__main__")
        ended = tool.torchtrace(*words, "--python", sys.executable, "script.py", cwd=tmp_path)
        assert (ended.status, ended.err) == (0, "")


# The class is made while calls of the constructor that it inherits are too deep to be recorded.
DEEP_CLASS = """
import sys, mine
sys.setrecursionlimit(60000)
made = []
def makes():
    class Sub(mine.Base): pass
    def constructs():
        for _ in range(300): Sub(None)
    made.append(constructs)
    constructs()
mine.deep(20000, lambda: mine.Base(makes))
for _ in range(3): made[0]()
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="each call takes C stack untraced")
def test_a_class_that_is_made_in_a_deep_call(tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Base:\n    def __init__(self, then): then and then()\n"
        "def deep(n, then): return deep(n - 1, then) if n else then()\n"
    )
    (tmp_path / "script.py").write_text(DEEP_CLASS)
    words = ("run", "-qo", "trace", "-l", "0", "--library", "mine", "--python", sys.executable)
    assert tool.torchtrace(*words, "script.py", cwd=tmp_path).status == 0
    calls = (tmp_path / "trace/api_trace.txt").read_text().splitlines()
    assert sum(line.startswith("mine.Base(") for line in calls) >= 900


METACLASSES = """
import torch
class Net(torch.nn.Module):
    def __init__(self): super().__init__(); self.l = torch.nn.Linear(2, 2)
    def forward(self, x): return torch.relu(self.l(x))
net = Net()
torch.compile(net, backend="eager")(torch.ones(1, 2))
class Mine(torch.Tensor): pass
print(type(torch.ones(1).as_subclass(Mine) + 1))
print(torch.export.export(net, (torch.ones(1, 2),)).graph_module.code.count("linear"))
"""


@pytest.mark.torch
@pytest.mark.timeout(120)
def test_metaclasses_whose_calls_other_entries_see(tmp_path):
    """Level 1 enters calls of torch's metaclass, too."""
    (tmp_path / "script.py").write_text(METACLASSES)
    options = ("-q", "-l", "0,1", "--library", "__main__", "-o", "out", "--python", tool.PYTHON)
    ended = tool.torchtrace("run", *options, "script.py", cwd=tmp_path)
    assert (ended.status, ended.out) == (0, "<class '__main__.Mine'>\n4\n"), ended


def test_the_methods_of_operators_are_those_of_scans(tmp_path):
    names = sorted(SLOTS | {"__call__", "__enter__", "__hash__", "__repr__", "__getattr__"})
    code = "class A:\n" + "".join(f"    def {name}(self): pass\n" for name in names)
    code += "".join(f"A.{name}(1)\n" for name in names)
    (tmp_path / "script.py").write_text(code)
    called = sorted(SLOTS | {"__call__"})
    assert trace(tmp_path, "script.py") == [f"__main__.A.{name}(1)" for name in called]


REPLACED = """
import sys, types
sys.modules["__main__"] = types.SimpleNamespace()
def f(x): pass
f(1)
sys.modules["__main__"] = types.ModuleType("__main__")
def g(x): pass
g(2)
sys.modules["__main__"].h = h = lambda x: x
h(3)
"""


def test_a_program_that_replaces_its_main_module(tmp_path):
    (tmp_path / "script.py").write_text(REPLACED)
    assert trace(tmp_path, "script.py") == [f"__main__.{call}" for call in ("f(1)", "g(2)", "h(3)")]


LATER = """
class A: pass
class B(A):
    def __call__(self, x): return x
def method(name):
    def called(self, *args): return name
    return called
for name in ("one", "_two", "__add__"):
    setattr(A, name, method(name))
a, b = A(), B()
a.one(1); a._two(2); b.one(3); a + 4; b(5)
A.__init__ = lambda self, n: None
A(6)
A.one = staticmethod(lambda x: x)
a.one(7)
del A.one
B.three = classmethod(lambda cls, x: x)
b.three(8)
class A: pass
A.one = method("one")
A().one(9)
"""
LATER_CALLS = """
method("one")
method("_two")
method("__add__")
A()
B()
A.one(object("A"), 1)
A.one(object("B"), 3)
A.__add__(object("A"), 4)
B.__call__(object("B"), 5)
A(6)
A.one(7)
B.three(type("B"), 8)
method("one")
A()
A.one(object("A"), 9)
"""


def test_methods_that_a_class_gets_later(tmp_path):
    (tmp_path / "script.py").write_text(LATER)
    assert own(trace(tmp_path, "script.py")) == LATER_CALLS.split("\n")[1:-1]


ENDS = """
import functools, os, sys, threading
def local_classes():
    class Once:
        def __init__(self, function): functools.update_wrapper(self, function)
        def __call__(self, x): return self.__wrapped__(x)
    class Freed:
        def __del__(self): print("freed", flush=True)
    return Once, Freed
def once(function): return local_classes()[0](function)
def start(run):
    started = threading.Event()
    threading.Thread(target=run, args=(started,), daemon=True).start()
    started.wait()
def stay(started):
    started.set()
    threading.Event().wait()
DEFINED
if "fork" in sys.argv and os.fork() > 0: sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
freed = local_classes()[1]()
left = open("left.txt", "w")
left.write("important")
"""
DEFINED = {
    "class": "class A:\n    def f(self): pass\nA().f()",
    "cache": "@functools.lru_cache\ndef cached(x): return x\ncached(1)",
    "instance": "@once\ndef called(x): return x\ncalled(1)",
}
# Threads that run calls as long as the process lives; and a main module that is freed early.
OTHERS = {
    "replaced": "import types\nsys.modules['__main__'] = types.ModuleType('__main__')",
    "class": "class A:\n    def __init__(self, started): stay(started)\nstart(A)",
    "cache": "cached = functools.lru_cache(stay)\nstart(cached)",
    "instance": "called = once(stay)\nstart(called)",
}


def left_behind(folder, script, traced, *args):
    """The output, the status, and what is in the file."""
    (folder / "script.py").write_text(script)
    (folder / "left.txt").unlink(missing_ok=True)
    command = [sys.executable, "script.py", *args]
    if traced:
        options = ("-l", "0", "--library", "__main__", "--python", sys.executable)
        command = [tool.TORCHTRACE, "run", "-qfo", "trace", *options, *command[1:]]
    ended = tool.execute(command, folder)
    return *ended.lines(), (folder / "left.txt").read_text()


@pytest.mark.parametrize("args", [(), ("fork",)])
@pytest.mark.parametrize("defined", DEFINED)
def test_all_is_freed_at_the_end(tmp_path, defined, args):
    """Finalizers run, and a file that was left open gets what was written."""
    script = ENDS.replace("DEFINED", DEFINED[defined])
    untraced = left_behind(tmp_path, script, False, *args)
    assert left_behind(tmp_path, script, True, *args) == untraced
    assert untraced[1] == "freed" and untraced[-1] == "important"


@pytest.mark.parametrize("defined", OTHERS)
def test_what_is_freed_in_other_programs(tmp_path, defined):
    script = ENDS.replace("DEFINED", OTHERS[defined])
    assert left_behind(tmp_path, script, True) == left_behind(tmp_path, script, False)
