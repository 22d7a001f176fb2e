"""Dialects and hooks written in Python: the example of docs/EXTENDING.md, and failing ones."""

from pathlib import Path

import pytest

from python import module_testing as testing

python, run = testing.python, testing.run

EXAMPLE = Path(__file__).parent / "examples/numpy_dialect.py"

PROGRAM = """
import numpy
a = numpy.zeros((2, 3), dtype="float32")
numpy.concatenate([a, a], axis=0)
numpy.dot(a, numpy.zeros(3))
try:
    numpy.linalg.solve(a, a)
except numpy.linalg.LinAlgError:
    pass
numpy.linalg.norm(a, ord=None)
"""


def example(folder):
    (folder / "numpy_dialect.py").write_text(EXAMPLE.read_text())


def test_the_example_is_that_of_the_documentation():
    text = (testing.ROOT / "docs/EXTENDING.md").read_text()
    code = EXAMPLE.read_text().split('"""\n', 1)[1].strip()
    shown = text.split("```python\n", 1)[1].split("```", 1)[0].strip()
    assert shown == code


def check_numpy_calls(ended):
    calls = ended.calls()
    assert [call["api"] for call in calls] == [
        "numpy.zeros",
        "numpy.concatenate",
        "numpy.zeros",
        "numpy.dot",
        "numpy.linalg.solve",
        "numpy.linalg.norm",
    ]
    assert {call["level"] for call in calls} == {0}
    assert calls[4]["outcome"] == "raised" and calls[4]["exception"] == "LinAlgError"
    assert calls[1]["args"][0]["value"][0]["shape"] == [2, 3]
    assert ended.info()["packages"]["numpy"]["version"]


def test_run_with_a_dialect_of_python(tmp_path):
    example(tmp_path)
    ended = run(PROGRAM, tmp_path, "--dialect", "numpy_dialect:NumpyDialect").check()
    check_numpy_calls(ended)
    assert ended.err == ""


@pytest.mark.parametrize(
    "dialect",
    ["numpy_dialect.NumpyDialect", "numpy_dialect.NumpyDialect()", "'numpy_dialect:NumpyDialect'"],
)
def test_trace_with_a_dialect_of_python(tmp_path, dialect):
    example(tmp_path)
    code = (
        "import numpy_dialect, torchtrace\n" + f"with torchtrace.trace('out', dialect={dialect}):\n"
    )
    code += "".join(f"    {line}\n" for line in PROGRAM.strip().splitlines())
    code += "numpy.zeros(1)\nassert not hasattr(numpy.zeros, '__wrapped__')\n"
    ended = python(code, tmp_path)
    check_numpy_calls(ended.check())


def test_values(tmp_path):
    ended = python(
        """
        import numpy, torchtrace
        import numpy_dialect
        class Hook(torchtrace.TracingHook):
            level = 3
            def install(self): global hook; hook = self
            def uninstall(self): pass
        class Both(numpy_dialect.NumpyDialect):
            levels = (0, 3)
            def get_hooks(self, levels): return [Hook()]
        with torchtrace.trace("out", dialect=Both):
            cycle = []
            cycle.append(cycle)
            values = (None, True, 1, 2**70, 1.5, 2j, "text", b"bytes", [1], {"a": (2,)}, {3, 1})
            with hook.record("lib.values", values, {"more": slice(1, 2), "rest": ...}):
                hook.record("lib.nested")
            hook.record("lib.objects", (numpy.random.default_rng(0), object(), int, numpy.ones(2)))
            hook.record("lib.cycle", (cycle,))
        hook.record("lib.after")
        """,
        example(tmp_path) or tmp_path,
    ).check()
    first, nested, objects, cycle = ended.calls()
    assert nested["parent"] == first["call"] and first["level"] == 3
    assert first["args"][:3] == [None, True, 1] and first["args"][4] == 1.5
    assert first["args"][3]["value"] == str(2**70) and first["args"][6] == "text"
    kinds = [each["type"] for each in first["args"] if isinstance(each, dict)]
    assert kinds == ["int", "complex", "bytes", "list", "dict", "set"]
    assert list(first["kwargs"]) == ["more", "rest"]
    assert "numpy.random.Generator(PCG64)" in ended.lines()[2]
    assert "float64" in ended.lines()[2] and "object" in ended.lines()[2]
    assert cycle["args"][0]["type"] == "list"


@pytest.mark.parametrize(
    "member, where",
    [
        ("def get_hooks(self, levels): raise OSError('no hooks')", "get_hooks"),
        ("def get_hooks(self, levels): return [3]", "get_hooks"),
        ("def discover_apis(self): raise OSError('no hooks')", "PatchHook.install"),
        ("def serialize_special_type(self, value): raise OSError('no hooks')", "record"),
        ("def serialize_special_type(self, value): return 3", "record"),
        ("def serialize_special_type(self, value): raise SystemExit(3)", "record"),
    ],
)
@pytest.mark.parametrize("quiet", [True, False])
def test_what_fails_is_disabled_once_and_named(tmp_path, member, where, quiet):
    (tmp_path / "failing.py").write_text(
        EXAMPLE.read_text() + f"\n\nclass Failing(NumpyDialect):\n    {member}\n"
    )
    code = PROGRAM + "print('end')"
    ended = run(code, tmp_path, "--dialect", "failing:Failing", quiet=quiet).check()
    assert ended.out == "end\n"
    sentence = f"the extension failing:Failing failed in {where} and is disabled: "
    (note,) = [each for each in ended.info()["not_seen"] if "extension" in each]
    assert note.startswith(sentence)
    said = [line for line in ended.err.splitlines() if sentence in line]
    assert len(said) == (0 if quiet else 2)  # when it happens, and in the summary


@pytest.mark.parametrize(
    "dialect, sentence",
    [
        ("nothing:Here", "the dialect nothing:Here cannot be imported: ModuleNotFoundError"),
        ("numpy_dialect:Nope", "there is no dialect numpy_dialect:Nope"),
        ("json:JSONDecoder", "json:JSONDecoder is not a dialect"),
    ],
)
def test_what_is_no_dialect_is_said_before_the_program_starts(tmp_path, dialect, sentence):
    example(tmp_path)
    ended = run("print('it ran')", tmp_path, "--dialect", dialect, quiet=False)
    assert ended.status == 125 and ended.out == ""
    assert sentence in ended.err and "Traceback" not in ended.err
    assert not (tmp_path / "out").exists()
    code = f"import torchtrace\ntorchtrace.trace('out', dialect={dialect!r}).start()"
    ended = python(code, tmp_path)
    assert ended.status == 1 and ended.err.splitlines()[-1].startswith("ValueError: ")
    assert not (tmp_path / "out").exists()


def test_nothing_of_it_stays(tmp_path):
    example(tmp_path)
    ended = python(
        """
        import gc, weakref, torchtrace, numpy_dialect, numpy
        before, dialects = numpy.zeros, []
        for i in range(5):
            dialect = numpy_dialect.NumpyDialect()
            dialects.append(weakref.ref(dialect))
            with torchtrace.trace(f"out{i}", dialect=dialect): numpy.zeros(i)
            assert numpy.zeros is before
        del dialect
        gc.collect()
        print([each() is None for each in dialects[:-1]])
        """,
        tmp_path,
    ).check()
    assert ended.out == "[True, True, True, True]\n"
    assert ended.lines("out4") == ["numpy.zeros(4)"]


def test_an_interrupt_while_it_is_installed_is_the_programs(tmp_path):
    ended = python(
        """
        import torchtrace
        class Hook(torchtrace.TracingHook):
            def install(self): raise KeyboardInterrupt
            def uninstall(self): pass
        try:
            with torchtrace.trace("out", dialect=Hook):
                for _ in range(10**6): pass
        except KeyboardInterrupt:
            print("interrupted", torchtrace.is_tracing())
        """,
        tmp_path,
    ).check()
    assert ended.out == "interrupted False\n"


def test_a_level_that_it_has_not(tmp_path):
    example(tmp_path)
    ended = run("print('it ran')", tmp_path, "--dialect", "numpy_dialect:NumpyDialect", "-l", "2")
    assert ended.status == 125 and ended.out == "" and not (tmp_path / "out").exists()
