"""Level 0 records each call of code that Python's adaptive interpreter has specialized."""

import sys
from collections import Counter

import pytest

from python import module_testing as testing

python = testing.python

LIBRARY = """
class Hot:
    def __init__(self, x): self.x = x
    @property
    def read(self): return self.x
    @read.setter
    def read(self, x): self.x = x
    def method(self): return self.x
    @staticmethod
    def static(): return 1
    @classmethod
    def made(cls): return 1
    def items(self): yield self.x
    def __getattr__(self, name): return name
    def __call__(self, x): return x
    def __getitem__(self, i): return i
    def __setitem__(self, i, x): pass
    def __add__(self, x): return x
    def __eq__(self, x): return True
    def __lt__(self, x): return True
    def __contains__(self, x): return True
    def __len__(self): return 3
    def __bool__(self): return True
    def __iter__(self): return iter(())
    def __enter__(self): return self
    def __exit__(self, *error): return None
class Slotted:
    __slots__ = ("x",)
    def __init__(self, x, y=2): self.x = x
class Plain:
    pass
class Bare:
    def __init__(self, x): self.x = x
    @property
    def read(self): return self.x
class Heir(Bare): pass
class Asking:
    def __getattribute__(self, name): return name
def function(a, b=2): return a
def collected(*args, **kwargs): return args
def nested(x): return function(x)
async def awaited(x): return x
"""
# Each statement calls its APIs once.
CALLS = {
    "Hot(i)": ["Hot"],
    "a.read": ["Hot.read.__get__"],
    "a.read = i": ["Hot.read.__set__"],
    "a.method()": ["Hot.method"],
    "Hot.static()": ["Hot.static"],
    "Hot.made()": ["Hot.made"],
    "[*a.items()]": ["Hot.items"],
    "a.missing": ["Hot.__getattr__"],
    "a(i)": ["Hot.__call__"],
    "a[i]": ["Hot.__getitem__"],
    "a[i] = i": ["Hot.__setitem__"],
    "a + i": ["Hot.__add__"],
    "a == i": ["Hot.__eq__"],
    "a < i": ["Hot.__lt__"],
    "i in a": ["Hot.__contains__"],
    "len(a)": ["Hot.__len__"],
    "not a": ["Hot.__bool__"],
    "iter(a)": ["Hot.__iter__"],
    "with a: pass": ["Hot.__enter__", "Hot.__exit__"],
    "Slotted(i)": ["Slotted"],
    "Plain()": ["Plain"],
    "bare.read": ["Bare.read.__get__"],
    "heir.read": ["Bare.read.__get__"],
    "Bare(i)": ["Bare"],
    "Heir(i)": ["Bare"],
    "Late(i)": ["Bare"],
    "late.read": ["Bare.read.__get__"],
    "asking.x": ["Asking.__getattribute__"],
    "function(i, b=i)": ["function"],
    "collected(*[i], **{'k': i})": ["collected"],
    "nested(i)": ["nested", "function"],
    "awaited(i).close()": ["awaited"],
}
ROUNDS = 1000


@pytest.mark.parametrize("alone", [False, True], ids=["all", "each_alone"])
def test_every_call_is_seen(tmp_path, alone):
    (tmp_path / "mine.py").write_text(LIBRARY)
    loops = "from mine import *\nLOOPS = []\n"
    for call in CALLS:
        loops += "def loop(a, asking, bare, heir):\n    class Late(Bare): pass\n"
        loops += "    late = Late.__new__(Late)\n    late.x = 1\n"
        loops += f"    for i in range({ROUNDS}):\n        {call}\n"
        loops += "LOOPS.append(loop)\n"
    (tmp_path / "loops.py").write_text(loops)
    every = sorted({f"mine.{api}" for apis in CALLS.values() for api in apis})
    ended = python(
        f"""
        import torchtrace, loops, mine
        objects = mine.Hot(0), mine.Asking(), mine.Bare(0), mine.Heir(0)
        for i, apis in enumerate({list(CALLS.values())}):
            loops.LOOPS[i](*objects)  # hot before tracing begins
            names = ["mine." + api for api in apis] if {alone} else {every}
            with torchtrace.trace(f"out-{{i}}", levels=0, api_list=names, include_getters=True,
                                  formats="none"):
                loops.LOOPS[i](*objects)
        """,
        tmp_path,
    ).check()
    for i, (call, apis) in enumerate(CALLS.items()):
        assert Counter(ended.apis(f"out-{i}")) == {f"mine.{api}": ROUNDS for api in apis}, call


# The interpreter specializes a call site for the class that comes second there, at its first call.
SECOND = """
from mine import Bare
class Foreign:
    read = 1
    def __init__(self, x): pass
class Late(Bare): pass
class Own:
    def __init__(self, x): self.x = x
def constructs(late):
    for made in [Foreign] + [late] * 1000: made(1)
def reads(late):
    for read in [Foreign(1)] + [late] * 1000: read.read
"""


def test_types_that_are_new_at_a_call_that_is_specialized(tmp_path):
    (tmp_path / "mine.py").write_text(LIBRARY)
    (tmp_path / "second.py").write_text(SECOND)
    ended = python(
        """
        import torchtrace, second
        for name in ("Bare", "Bare.read.__get__"):
            with torchtrace.trace(name, levels=0, api_list=["mine." + name], include_getters=True,
                                  formats="none"):
                class Late(second.Bare): pass
                for late in (second.Late, Late):
                    late_object = late.__new__(late)
                    late_object.x = 1
                    second.constructs(late) if name == "Bare" else second.reads(late_object)
        with torchtrace.trace("frames", levels=3, formats="none"):
            class Own:
                def __init__(self, x): self.x = x
            for own in (second.Own, Own): second.constructs(own)
        """,
        tmp_path,
    ).check()
    for name in ("Bare", "Bare.read.__get__"):
        assert Counter(ended.apis(name)) == {"mine." + name: 2000}
    frames = Counter(ended.apis("frames"))
    if sys.version_info < (3, 11):  # no qualified names: Foreign's are among them
        assert (frames["second.__init__"], frames["__main__.__init__"]) == (1002, 1000)
    else:
        assert (frames["second.Own.__init__"], frames["__main__.Own.__init__"]) == (1000, 1000)
