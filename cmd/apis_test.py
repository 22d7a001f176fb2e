"""`torchtrace apis`: names, lists of a library's APIs, coverage of traces against lists."""

import csv
import io
import json
import subprocess
import textwrap

import pytest
import yaml

from dialects.torch.api_list import put_api_list
from tools.testing import whole_tool as tool

SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"


def apis(*args, **kwargs):
    return tool.torchtrace("apis", *args, **{"cwd": "/", **kwargs})


@pytest.fixture
def backend(tmp_path):
    path = tmp_path / "backend.yaml"
    path.write_text("backend: Mine\nsupported:\n- mm\n- add.Tensor\n- never_heard_of\n")
    return path


def test_help():
    result = apis("--help")
    assert result.status == 0 and "coverage" in result.out
    assert tool.torchtrace("help", "apis", cwd="/").out == result.out
    result = apis("coverage", "--help")
    assert result.status == 0 and "--fail-under" in result.out


def test_coverage_agrees_with_stats(backend):
    result = apis(
        "coverage", SAMPLE, "--list", backend, "--format", "json", "--show=called,never,outside"
    )
    assert result.status == 0 and result.err == ""
    report = json.loads(result.out)
    stats = json.loads(tool.torchtrace("stats", SAMPLE, "--format=json", cwd="/").out)["apis"]
    operators = {row["api"]: row for row in stats if "::" in row["api"]}
    rows = {row["api"]: row for row in report["apis"]}
    assert rows["aten::mm"]["calls"] == operators["aten::mm"]["calls"]
    assert rows["aten::mm"]["configs"] == operators["aten::mm"]["configs"]
    assert rows["aten::never_heard_of"]["called"] is False
    assert report["called"] == sum(row["called"] for row in report["apis"])
    outside = {row["api"]: row["calls"] for row in report["not_in_list"]}
    others = {api: row["calls"] for api, row in operators.items() if api not in rows}
    assert outside == others and report["outside"] == len(others)


def test_operators_in_any_spelling(tmp_path):
    calls = tmp_path / "calls.txt"
    calls.write_text(
        'aten::mm(Tensor([2, 2], "float32"))\n'
        'torch.ops.aten.mul.Tensor(Tensor([2], "float32"), 2)\n'
    )
    spellings = ["aten::mm", "aten::mm.default", "aten.mm.default", "torch.ops.aten.mm"]
    for one in spellings:
        stats = tool.torchtrace("stats", "-q", calls, "--include", one, cwd=tmp_path)
        assert stats.out.startswith("1 call of 1 API"), one
        where = tool.torchtrace("dump", "-q", calls, "--where", f"api = {one}", cwd=tmp_path)
        assert where.out.count("aten::mm(") == 1, one
        for other in spellings:
            (tmp_path / "list.txt").write_text(f"{one}\n{other}\n")
            covered = apis(
                "coverage", calls, "--list", "list.txt", "--fail-under", "100", cwd=tmp_path
            )
            assert covered.status == 0 and covered.out.startswith("1 of 1 operators"), (one, other)
            assert ("count once" in covered.err) == (one != other)
    assert tool.torchtrace(
        "stats", "-q", calls, "--include", "aten::*", cwd=tmp_path
    ).out.startswith("2 calls of 2 APIs")
    other = tmp_path / "other.txt"
    other.write_text(calls.read_text().replace("aten::mm(", "aten::mm.default("))
    assert tool.torchtrace("diff", "-q", calls, other, cwd=tmp_path).status == 0
    assert tool.torchtrace("dedup", "-q", calls, other, cwd=tmp_path).out.count("mm") == 1


def test_coverage_by_namespace(backend):
    text = apis("coverage", SAMPLE, "--list", backend).out
    assert "(--show called,never lists them)" in text and "\nnever called" not in text
    report = json.loads(apis("coverage", SAMPLE, "--list", backend, "--format=json").out)
    assert sum(row["known"] for row in report["namespaces"]) == report["total"]
    assert sum(row["called"] for row in report["namespaces"]) == report["called"]
    args = ("coverage", SAMPLE, "--list", backend, "--format=csv")
    table = list(csv.DictReader(io.StringIO(apis(*args, "--show=namespaces").out)))
    assert [row["namespace"] for row in table] == [row["namespace"] for row in report["namespaces"]]
    assert "give it alone" in apis(*args, "--show=namespaces,never").err


def test_coverage_of_all_that_was_called(tmp_path):
    names = tmp_path / "names.txt"
    stats = json.loads(tool.torchtrace("stats", SAMPLE, "--format=json", cwd="/").out)["apis"]
    names.write_text("".join(f"{row['api']}\n" for row in stats))
    result = apis("coverage", SAMPLE, "--list", names, "--format=csv", "--fail-under", "100")
    assert result.status == 0
    table = list(csv.DictReader(io.StringIO(result.out)))
    assert sorted(row["api"] for row in table) == sorted({row["api"] for row in stats})
    assert {row["status"] for row in table} == {"called"}


def test_fail_under(backend):
    result = apis("coverage", SAMPLE, "--list", backend, "--fail-under", "67", "--show", "none")
    assert result.status == 1 and len(result.out.splitlines()) == 2
    assert result.err == f"torchtrace: fewer than 67% of {backend} were called\n"
    assert apis("coverage", SAMPLE, "--list", backend, "--fail-under", "66%").status == 0
    result = apis("coverage", SAMPLE, "--list", backend, "--fail-under", "67%")
    assert result.err == f"torchtrace: fewer than 67% of {backend} were called\n"


def test_what_a_damaged_log_lost_is_told(tmp_path, backend):
    cut = tmp_path / "cut.ttlog"
    cut.write_bytes(SAMPLE.read_bytes()[: SAMPLE.stat().st_size // 2])
    result = apis("coverage", cut, "--list", backend)
    assert result.status == 0 and result.out
    assert result.err == tool.torchtrace("dump", cut, cwd="/").err
    assert str(cut) in result.err


def test_all_unknown_names_of_a_list_are_told(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("torch.add\ntorch.asb\n" + "".join(f"torch.no_{i}\n" for i in range(12)))
    result = apis("coverage", SAMPLE, "--list", names)
    assert result.status == 2
    assert f"{names}:2: unknown API or operator torch.asb" in result.err
    assert "also unknown: torch.no_0 (line 3), " in result.err
    assert "torch.no_8 (line 11)" in result.err and "torch.no_9 (" not in result.err


def test_unknown_names_of_a_list_may_be_kept(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("torch.add\ntorch.asb\ntorch.no_1\n")
    result = apis("coverage", SAMPLE, "--list", names, "--unknown", "keep", "--format", "json")
    report = json.loads(result.out)
    assert result.status == 0 and report["total"] == 3
    never = {row["api"] for row in report["apis"] if row["calls"] == 0}
    assert {"torch.asb", "torch.no_1"} <= never
    assert result.err == f"torchtrace: {names} has 2 names of no known API: torch.asb, torch.no_1\n"
    refused = apis("coverage", SAMPLE, "--unknown", "keep")
    assert refused.status == 2 and "--unknown is for the names of a file" in refused.err


def test_trouble(tmp_path, backend):
    bad = tmp_path / "bad.yaml"
    bad.write_text("apis:\n- torch.abs\n- torch.linalg.*\n")
    for args, words in (
        ([], "apis: no verb was given"),
        (["coverag"], "unknown verb 'coverag', did you mean coverage?"),
        (["coverage", "--list", backend], "TRACE"),
        (["coverage", SAMPLE, "--list", bad], f'{bad}:3: "torch.linalg.*" is a pattern'),
        (["coverage", SAMPLE, "--list", tmp_path / "none"], "No such file or directory"),
        (["coverage", tmp_path / "none", "--list", backend], str(tmp_path / "none")),
        (["coverage", SAMPLE, "--list", backend, "--fail-under", "101"], "not a percentage"),
        (["coverage", SAMPLE, "--list", backend, "--fail-under", "0.4"], "--fail-under 40%"),
        (["coverage", SAMPLE, "--list", backend, "--show", "neve"], "did you mean never?"),
        (["coverage", SAMPLE, "--list", backend, "--include", "?x*"], "leave nothing of"),
    ):
        result = apis(*args)
        assert result.status == 2 and result.out == "", args
        assert words in result.err and result.err.startswith("torchtrace: "), result.err


# ---- scan ----

LIBRARY = {
    "__init__": """
        __all__ = ["twice", "Box", "shown"]
        __version__ = "1.5"
        from ._hidden import shown
        def twice(x): return 2 * x
        def helper(): pass
        class _Base:
            def inherited(self): pass
        class _Ink:
            __slots__ = ("colour",)
        class Box(_Base):
            colour = _Ink.colour
            side: int = 1
            def __init__(self): pass
            def __add__(self, other): pass
            def __getattribute__(self, name): return object.__getattribute__(self, name)
            def grow(self): pass
            def _private(self): pass
            @classmethod
            def make(cls): pass
            @staticmethod
            def check(): pass
            @property
            def area(self): pass
            class Inner:
                def deep(self): pass
        also_twice = twice
        """,
    "_hidden": "def shown(): pass\n",
    "sub/__init__": "import os\nfrom .. import twice as doubled\nfrom math import sqrt\n",
    "sub/plain": "def found(): pass\nopen('left_behind', 'w').close()\n",
    "bad/missing": "import no_such_module_anywhere\n",
    "bad/__init__": "",
    "bad/exits": "import sys\nprint('to stdout')\nsys.exit('bye')\n",
    "bad/exits_hard": "import os\nprint('x', flush=True)\nos._exit(3)\n",
    "bad/crashes": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n",
    "bad/hangs": "import time\ntime.sleep(1000)\n",
    "bad/interrupts": "raise KeyboardInterrupt\n",
    "bad/wrong": "def (:\n",
    "loud": "import os, sys, warnings\nprint('loud')\nsys.stderr.write('loud')\n"
    "os.write(1, b'loud')\n"
    "warnings.warn('loud')\ndef whisper(): pass\n",
    "__main__": "open('ran', 'w').close()\n",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    for name, text in LIBRARY.items():
        path = folder / "mine" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    # Python must not import this instead of the standard library's.
    (folder / "json.py").write_text("raise SystemExit('the wrong json')\n")
    return folder


@pytest.fixture(scope="module")
def scanned(library):
    result = apis(
        "scan", "--library", "mine", "--timeout", "5", "--python", tool.PYTHON, cwd=library
    )
    assert result.status == 0, result.err
    return result


def test_scan_finds_everything(scanned, library):
    data = yaml.safe_load(scanned.out)
    assert data["library"] == "mine" and data["version"] == "1.5"
    found = {entry["api"]: entry for entry in data["apis"]}
    kinds = {api.removeprefix("mine."): entry["kind"] for api, entry in found.items()}
    assert kinds == {
        "twice": "function",
        "helper": "function",
        "shown": "function",
        "Box": "class",
        "Box.__add__": "slot",
        "Box.__init__": "method",
        "Box.grow": "method",
        "Box._private": "method",
        "Box.inherited": "method",
        "Box.make": "classmethod",
        "Box.check": "staticmethod",
        "Box.area": "property",
        "Box.colour": "property",
        "Box.Inner": "class",
        "Box.Inner.deep": "method",
        "_Base": "class",
        "_Ink": "class",
        "sub.plain.found": "function",
        "loud.whisper": "function",
    }
    public = {api.removeprefix("mine.") for api, entry in found.items() if entry.get("public")}
    assert public == set(kinds) - {"helper", "_Base", "_Ink", "Box._private", "Box.__init__"}
    assert found["mine.twice"]["elsewhere"] == ["mine.also_twice", "mine.sub.doubled"]
    assert found["mine.shown"]["elsewhere"] == ["mine._hidden.shown"]
    assert found["mine.Box.colour"]["elsewhere"] == ["mine._Ink.colour"]
    assert not (library / "left_behind").exists() and not (library / "ran").exists()
    assert not list(library.rglob("__pycache__"))


def test_scan_tells_what_it_could_not_import(scanned):
    data = yaml.safe_load(scanned.out)
    reasons = {item["module"]: item["reason"] for item in data["not_imported"]}
    assert reasons == {
        "mine.__main__": "it is a program and would run",
        "mine.bad.crashes": "the process died of signal 11 when importing it",
        "mine.bad.exits": "SystemExit: bye",
        "mine.bad.exits_hard": "ends the process with exit code 3 when imported",
        "mine.bad.hangs": "takes longer than 5 s to import",
        "mine.bad.interrupts": "KeyboardInterrupt",
        "mine.bad.missing": "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
        "mine.bad.wrong": reasons["mine.bad.wrong"],
    }
    assert reasons["mine.bad.wrong"].startswith("SyntaxError: ")
    assert "loud" not in scanned.err and scanned.err.splitlines()[-1] == (
        "torchtrace: 19 APIs of mine 1.5; 8 modules could not be imported: "
        "the end of the list has the reasons"
    )


def test_scan_default(library, tmp_path):
    args = ("scan", "--library", "mine.sub", "--default", "-q", "--python", tool.PYTHON)
    target = tmp_path / "list.yaml"
    result = apis(*args, "-o", target, cwd=library)
    assert (result.status, result.out, result.err) == (0, "", "")
    assert [entry["api"] for entry in yaml.safe_load(target.read_text())["apis"]] == [
        "mine.sub.plain.found"
    ]
    again = apis(*args, "-o", target, cwd=library)
    assert again.status == 2 and "--force" in again.err


@pytest.mark.parametrize(
    "args, words",
    [
        (["--library", "no_such_library"], "No module named 'no_such_library'"),
        (["--library", "mine.bad.hangs", "--timeout", "1"], "takes longer than 1 s to import"),
        (["--library", "mine.bad.crashes"], "signal 11"),
        (
            ["--library", "mine.sub", "--import", "mine.bad.exits"],
            "mine.bad.exits: SystemExit: bye",
        ),
        (["--library", "../x"], "is not the name of a Python module"),
        (["--dialect", "jax"], "unknown dialect"),
        (["--timeout", "soon"], "is not a number of seconds"),
        (["--library", "mine.sub", "--python", "/nowhere/python"], "/nowhere/python"),
    ],
)
def test_scan_trouble(args, words, library, tmp_path):
    if "--python" not in args:
        args = [*args, "--python", tool.PYTHON]
    target = tmp_path / "list.yaml"
    result = apis("scan", "-o", target, *args, cwd=library)
    assert result.status == 2 and result.out == "" and not target.exists()
    assert words in result.err


def test_scan_numpy(tmp_path):
    result = apis("scan", "--library", "numpy", "--default", "--python", tool.PYTHON, cwd=tmp_path)
    assert result.status == 0, result.err
    found = {entry["api"]: entry["kind"] for entry in yaml.safe_load(result.out)["apis"]}
    for api, kind in {
        "numpy.add": "builtin",
        "numpy.sum": "builtin",
        "numpy.linalg.norm": "builtin",
        "numpy.fft.fft": "builtin",
        "numpy.ndarray.reshape": "method",
        "numpy.ndarray.__add__": "slot",
        "numpy.random.default_rng": "builtin",
        "numpy.ndarray": "class",
    }.items():
        assert found.get(api) == kind, (api, found.get(api))
    assert not [api for api in found if "._" in api.replace(".__", "")]


# ---- name ----


def test_name():
    result = apis("name", "torch.nn.functional.relu_")
    assert (result.status, result.err) == (0, "")
    assert result.out == (
        "torch.relu_\n"
        "  kind       builtin\n"
        "  aliases    torch.nn.functional.relu_\n"
        "  seen by    0 (setattr), 1 (function)\n"
        "  operators  aten::relu_\n"
    )
    data = json.loads(apis("name", "torch.nn.functional.linear", "--format", "json").out)
    assert data["operators"] == ["aten::linear"] and data["composite"] == ["aten::linear"]
    assert data["levels"] == [0, 1] and data["library"] == "torch"
    assert "0 (setattr)\n" in apis("name", "torch.nn.Linear").out


def test_name_of_an_operator():
    result = apis("name", "aten::relu_.default")
    assert result.status == 0 and result.out.startswith(
        "aten::relu_.default\n  kind       operator\n"
    )
    assert "  seen by    2 (dispatch)\n" in result.out
    callers = result.out.split("called by")[1].strip().split(", ")
    assert {"torch.relu_", "torch.Tensor.relu_", "torch.nn.functional.relu"} <= set(callers)
    data = json.loads(apis("name", "aten::relu_", "--format", "json").out)
    assert data["called_by"] == callers and data["levels"] == [2]
    for spelling in ["aten.relu_", "aten.relu_.default", "torch.ops.aten.relu_.default"]:
        told = apis("name", spelling)
        assert (
            told.status == 0 and told.out.split("called by")[1] == result.out.split("called by")[1]
        )
    result = apis("name", "aten::reluu_")
    assert result.status == 2 and "did you mean aten::relu_?" in result.err
    assert "is not the name of an API" in apis("name", "torch.add(x)").err


def test_name_in_a_python(library):
    result = apis("name", "mine.sub.doubled", "--python", tool.PYTHON, cwd=library)
    assert result.status == 0, result.err
    assert result.out.startswith("mine.twice\n  kind       function\n")
    # Parent modules are imported.
    result = apis("name", "mine.sub.plain.found", "--python", tool.PYTHON, cwd=library)
    assert result.out.startswith("mine.sub.plain.found\n")


@pytest.mark.parametrize(
    "name, words",
    [
        ("mine.twic", "there is no API 'mine.twic', did you mean mine.twice?"),
        ("mine.sub.whispr", "there is no API 'mine.sub.whispr'\n"),
        ("mine.sub.twic", "there is no API 'mine.sub.twic', did you mean mine.twice?"),
        ("mine.other.grow", "there is no API 'mine.other.grow', did you mean mine.Box.grow?"),
        ("no_such_library.f", "No module named 'no_such_library'"),
    ],
)
def test_name_that_is_wrong(name, words, library):
    result = apis("name", name, "--python", tool.PYTHON, cwd=library)
    assert (result.status, result.out) == (2, "")
    assert words in result.err


def test_name_in_a_list(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("torch.abs\n")
    assert apis("name", "torch.abs", "--list", names).out == "torch.abs\n"
    result = apis("name", "torch.asb", "--list", names)
    assert result.status == 2
    assert result.err == (
        f"torchtrace: there is no API 'torch.asb' in {names}, did you mean torch.abs?\n"
    )


# ---- with torch ----


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trace")
    code = (
        "import torch; x = torch.ones(2, 3, requires_grad=True)\n"
        "y = torch.nn.functional.linear(x, x) + 1; y.sum().backward(); x.shape; y.relu_()\n"
        "torch.linalg.norm(y); torch.fft.fft(y); y[0]; 2 - y; y @ y; torch.tensor([1])\n"
    )
    args = ("run", "-qo", folder / "out", "-l", "1,2", "--python", tool.PYTHON, "-c", code)
    result = tool.torchtrace(*args, cwd=folder)
    assert result.status == 0, result.err
    return folder / "out"


@pytest.mark.torch
def test_coverage_of_pytorch(trace):
    result = apis("coverage", trace, "--format=json", "--show=called,never,outside")
    assert result.status == 0, result.err
    report = json.loads(result.out)
    called = {row["api"] for row in report["apis"] if row["called"]}
    assert called >= {
        "torch.ones",
        "torch.nn.functional.linear",
        "torch.Tensor.sum",
        "torch.Tensor.backward",
        "torch.linalg.norm",
        "torch.fft.fft",
        "torch.Tensor.__getitem__",
        "torch.tensor",
    }
    # All calls of level 1 have a name of the list.
    assert [row["api"] for row in report["not_in_list"]] == []
    rows = {row["api"]: row for row in report["apis"]}
    assert rows["torch.Tensor.add"]["called"]
    assert rows["torch.Tensor.__add__"] == {
        "api": "torch.Tensor.__add__",
        "called": False,
        "calls": 0,
        "configs": 0,
        "levels": [],
        "visible": False,
    }


@pytest.mark.torch
def test_coverage_of_aten(trace, tmp_path):
    args = ("--list", "aten", "--format=json", "--show=called,never,outside")
    result = apis("coverage", trace, *args)
    assert result.status == 0, result.err
    report = json.loads(result.out)
    assert report["total"] > 3000 and report["not_in_list"] == []
    stats = json.loads(tool.torchtrace("stats", trace, "--format=json", cwd="/").out)["apis"]
    operators = {row["api"]: row["calls"] for row in stats if row["level"] == 2}
    assert {row["api"]: row["calls"] for row in report["apis"] if row["called"]} == operators
    # They are in the log, not in run.json.
    assert "operators" not in json.loads((trace / "run.json").read_text())
    # Merging and filtering keep them; merging keeps one copy.
    merged, filtered = tmp_path / "merged", tmp_path / "filtered"
    assert tool.torchtrace("merge", trace, trace, "-o", merged, cwd="/").status == 0
    result = tool.torchtrace("filter", merged, "--level", "2", "-o", filtered, cwd="/")
    assert result.status == 0, result.err
    for folder in (merged, filtered):
        again = json.loads(apis("coverage", folder, *args).out)
        assert again["total"] == report["total"] and again["called"] == report["called"]
        logs = b"".join(path.read_bytes() for path in folder.rglob("*.ttlog"))
        assert logs.count(b'"operators":{') == 1


@pytest.mark.torch
def test_operators_stand_once_in_a_trace(tmp_path):
    code = (
        "import os, torch\nif os.fork() == 0: torch.ones(1); os._exit(0)\nos.wait(); torch.ones(1)"
    )
    args = ("run", "-qo", tmp_path / "out", "-l", "2", "--python", tool.PYTHON, "-c", code)
    result = tool.torchtrace(*args, cwd=tmp_path)
    assert result.status == 0, result.err
    logs = {path.name.split("-")[0]: path for path in (tmp_path / "out/log").iterdir()}
    told = {name: b'"operators":{' in path.read_bytes() for name, path in logs.items()}
    assert told == {"main": True, "fork": False}
    args = ("--list", "aten", "--format=csv", "--show=called")
    assert "aten::ones,called,2,1,2\n" in apis("coverage", tmp_path / "out", *args).out
    # The log of a fork doesn't have the list.
    assert apis("coverage", logs["fork"], "--list", "aten").status == 2


def test_coverage_of_aten_needs_a_trace_that_tells(tmp_path):
    result = apis("coverage", SAMPLE, "--list", "aten")
    assert result.status == 2 and result.out == ""
    assert f"{SAMPLE} does not say which operators its PyTorch had" in result.err


@pytest.mark.torch
@pytest.mark.slow
def test_default_list_is_what_the_rules_give(tmp_path):
    args = ("scan", "--default", "-q", "--python", tool.PYTHON)
    result = tool.torchtrace("apis", *args, cwd=tmp_path, timeout=600)
    assert result.status == 0, result.err
    kept = put_api_list.LIST.read_text("utf-8")
    (version,), _ = put_api_list.read(result.out)
    if version not in put_api_list.read(kept)[0]:
        pytest.skip(f"the list has no torch {version}")
    assert names_at(version, put_api_list.put(kept, result.out)) == names_at(version, kept)
    code = "import sys; sys.exit(sys.version_info[:2] != (3, 11))"
    # The operators that a function's bytecode names depend on the version of Python.
    if subprocess.run([tool.PYTHON, "-c", code], check=False).returncode == 0:
        assert put_api_list.put(kept, result.out).splitlines() == kept.splitlines()


def names_at(version, text):
    return {
        name for (name, _), versions in put_api_list.read(text)[1].items() if version in versions
    }
