"""torchtrace.read(): the same answers as the verbs give, for Python, Arrow and pandas."""

import ast
import collections
import doctest
import functools
import importlib
import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path

import pandas
import pyarrow
import pyarrow.parquet
import pytest

from python import module_testing as testing
from tools.testing import whole_tool as tool

sys.path.append(str(testing.PACKAGE))
import torchtrace  # noqa: E402
from torchtrace import _read, _tables  # noqa: E402

pytestmark = pytest.mark.torch

LOGS = testing.ROOT / "testdata/logs/v1"
SAMPLE = LOGS / "sample.ttlog"
KILLED = LOGS / "killed.ttlog"

# "out" is the trace of the docstrings' examples.
PROGRAM = """
import torch, torchtrace

x = torch.ones(2, 3)
with torchtrace.trace("out", levels=[1, 2]):
    x = torch.ones(2, 3)
    for _ in range(3):
        torch.add(x, 1)
    torch.sum(torch.ones(20, 20))

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
optimizer = torch.optim.SGD(model.parameters(), 0.1)
with torchtrace.trace("rich", levels=[1, 2, 3], stacks=True, memory=True, ids=True, outputs=True):
    for step in range(4):
        with torchtrace.annotate(phase=f"p{step % 2}"):
            model(torch.randn(3 + step, 4)).sum().backward()
            optimizer.step()
    try:
        torch.mm(x, x)
    except RuntimeError:
        pass

with torchtrace.trace("closed", levels=2) as trace:
    torch.ones(2)
    try:
        torchtrace.read(trace)
    except ValueError as error:
        print(error)
print([row.api for row in torchtrace.read(trace).calls()], trace.read(level=2).path)
"""


@functools.cache
def _folder():
    return tempfile.TemporaryDirectory()


@functools.cache
def traces():
    folder = Path(_folder().name)
    (folder / "printed").write_text(testing.python(PROGRAM, folder).check().out)
    return folder


def rich():
    return traces() / "rich"


def verb(*words):
    done = tool.torchtrace(*words, "-q", cwd="/")
    assert done.status in (0, 1), done.err
    return done.out


def plain(value):
    """A value of a row as JSON has it."""
    if isinstance(value, types.MappingProxyType):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


def dicts(table):
    """Rows as JSON's objects: without what is null, which JSON Lines leave out."""
    return [
        {key: plain(value) for key, value in zip(table.columns, row) if value is not None}
        for row in table
    ]


def without_null(rows):
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


# Statistics.


@pytest.mark.parametrize(
    "by",
    _read.native.call_verb
    and [
        "api",
        "config",
        "family",
        "shapes",
        "level",
        "thread",
        "process",
        "rank",
        "label",
        "line",
        "module",
        "step",
        "tag:phase",
    ],
)
def test_stats_has_the_numbers_of_the_verb(by):
    report = json.loads(verb("stats", rich(), "--by", by, "--times", "all", "--format", "json"))
    table = torchtrace.read(rich()).stats(by, times="all")
    (rows,) = [
        value for key, value in report.items() if isinstance(value, list) and key != "by_level"
    ]
    assert dicts(table) == without_null(rows) and rows
    assert table.totals == {key: value for key, value in report.items() if value is not rows}
    frame = table.to_pandas()
    assert frame["calls"].tolist() == [row["calls"] for row in rows]
    lists = [name for name, kind in table.kinds.items() if kind == "json"]
    found = table.to_arrow().to_pylist()
    for row in found:  # Arrow gets JSON's text
        row.update((name, json.loads(row[name])) for name in lists if row[name] is not None)
    assert without_null(found) == without_null(rows)


def test_options_of_stats():
    def check(words, **options):
        report = json.loads(verb("stats", rich(), "--format", "json", *words))
        assert dicts(torchtrace.read(rich()).stats(**options)) == without_null(report["apis"])

    check(["--sort", "self", "--top", "3"], sort="self", top=3)
    check(["--no-times"], times=False)
    check(["--ignore", "shape,dtype"], ignore=["shape", "dtype"])
    both = json.loads(verb("stats", SAMPLE, KILLED, "--sum", "--format", "json"))
    table = torchtrace.read([SAMPLE, KILLED]).stats()
    assert dicts(table) == without_null(both["apis"]) and table.totals["total_calls"] > 0
    assert dicts(torchtrace.read(rich()).steps()) == dicts(torchtrace.read(rich()).stats("step"))


@pytest.mark.parametrize(
    "words, filters",
    [
        (["--level", "1,2"], {"level": [1, 2]}),
        (["--level", "dispatch"], {"levels": "dispatch"}),
        (["--include", "aten::*", "--include", "torch.mm"], {"include": ["aten::*", "torch.mm"]}),
        (["--exclude", "%nn"], {"exclude": "%nn"}),
        (["--where", "raised"], {"where": "raised"}),
        (["--where", "tag(phase) = p1"], {"where": "tag(phase) = p1"}),
        (["--thread", "0"], {"thread": 0}),
        (["--thread", "Main*"], {"thread": ["Main*"]}),
        (["--skip-steps", "2"], {"skip_steps": 2}),
        (["--calls", "10-30"], {"calls": (10, 30)}),
        (["--calls", "3,5"], {"calls": [3, 5]}),
        (["--calls", "4-6"], {"calls": range(4, 7)}),
    ],
)
def test_filters_are_those_of_the_verbs(words, filters):
    report = json.loads(verb("stats", rich(), "--format", "json", *words))
    trace = torchtrace.read(rich(), **filters)
    assert dicts(trace.stats()) == without_null(report["apis"]) and report["apis"]
    assert len(trace) == report["total_calls"] == sum(1 for _ in trace.calls())
    assert torchtrace.read(rich()).select(**filters).stats().totals == trace.stats().totals


def test_select_replaces_filters_and_joins_conditions():
    trace = torchtrace.read(rich(), level=1, where="api = torch.* or raised")
    assert len(trace.select(level=2)) == len(
        torchtrace.read(rich(), level=2, where="api = torch.* or raised")
    )
    both = trace.select(where="raised")
    assert [call.outcome for call in both.calls()] == ["raised"]
    assert "level=1" in repr(both) and str(rich()) in repr(both)
    assert trace.select(levels=[1, 2], where="raised").complete


# Calls and configs.


def test_calls_are_those_of_the_export(tmp_path):
    for path in (rich(), SAMPLE, KILLED):
        calls = torchtrace.read(path).calls()
        lines = verb("export", "jsonl", "--calls", path).splitlines()
        assert dicts(calls) == [json.loads(line) for line in lines] and lines
        assert len(calls) == len(lines)
        file = tmp_path / f"{Path(path).name}.parquet"
        verb("export", "--calls", path, "-o", file)
        exported = pyarrow.parquet.read_table(file)
        table = calls.to_arrow()
        assert table.schema.names == exported.schema.names
        assert table.to_pylist() == exported.to_pylist()
        assert table.equals(pyarrow.table(calls))


def test_configs_are_those_of_the_export(tmp_path):
    for path in (rich(), SAMPLE):
        trace = torchtrace.read(path)
        configs = trace.configs()
        lines = [json.loads(line) for line in verb("export", "jsonl", path).splitlines()]
        names = [name for name in configs.columns if name != "config"]
        assert [{key: row[key] for key in names if key in row} for row in dicts(configs)] == lines
        file = tmp_path / f"{Path(path).name}.parquet"
        verb("export", path, "-o", file)
        assert configs.to_arrow().to_pylist() == pyarrow.parquet.read_table(file).to_pylist()
        # That of YAML and JSON has a row for each config of all processes.
        counts = collections.Counter()
        for row in dicts(configs):
            counts[row["level"], row["api"], json.dumps([row["args"], row["kwargs"]])] += row[
                "calls"
            ]
        assert counts == {
            (row["level"], row["api"], json.dumps([row["args"], row["kwargs"]])): row["calls"]
            for row in json.loads(verb("export", "json", path))
        }
        assert len(configs) == len(lines)


def test_several_traces_are_read_as_one():
    trace = torchtrace.read([SAMPLE, KILLED])
    of_each = [torchtrace.read(path).calls().to_arrow().num_rows for path in (SAMPLE, KILLED)]
    assert trace.calls().to_arrow().num_rows == sum(of_each) == len(trace)
    assert set(trace.calls()["trace"]) == {str(SAMPLE), str(KILLED)}
    assert trace.paths == [str(SAMPLE), str(KILLED)]
    for refused in (trace.tree, trace.open_calls, lambda: trace.diff(SAMPLE)):
        with pytest.raises(ValueError):
            refused()


def test_values_are_typed():
    call = torchtrace.read(rich(), where="raised", level=1).calls()[0]
    assert call.api == "torch.mm" and call.outcome == "raised" and call.exception == "RuntimeError"
    assert call.shapes == ((2, 3), (2, 3)) and call.dtypes == ("float32", "float32")
    assert call.args[0]["shape"] == (2, 3) and isinstance(call.duration_ns, int)
    with pytest.raises(TypeError):
        call.args[0]["shape"] = ()
    kinds = torchtrace.read(rich()).stats().kinds
    assert kinds["calls"] == "int" and kinds["percent"] == "float" and kinds["api"] == "str"


# Other libraries.


def test_pandas_keeps_whole_numbers_whole():
    frame = torchtrace.read(rich()).calls().to_pandas()
    assert str(frame["parent"].dtype) == "Int64" and frame["parent"].isna().any()
    assert frame["start_ns"].tolist() == torchtrace.read(rich()).calls()["start_ns"]
    assert frame.groupby("api", observed=True)["duration_ns"].sum().max() > 0
    modules = torchtrace.read(rich()).stats("module").to_pandas()
    assert str(modules["percent"].dtype) == "float64"


def test_pandas_alone(monkeypatch):
    with_arrow = torchtrace.read(rich()).calls().to_pandas().astype(object)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    without = torchtrace.read(rich()).calls().to_pandas()
    assert str(without["parent"].dtype) == "Int64"
    for name in with_arrow:
        expected = [None if pandas.isna(value) else value for value in with_arrow[name]]
        assert [None if pandas.isna(value) else value for value in without[name]] == expected
    with pytest.raises(ImportError, match="to_arrow\\(\\) needs pyarrow: pip install pyarrow"):
        torchtrace.read(rich()).calls().to_arrow()


def test_polars_and_others_take_the_capsules(monkeypatch):
    table = torchtrace.read(rich()).stats()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "polars", types.SimpleNamespace(DataFrame=pyarrow.table))
        assert table.to_polars().equals(table.to_arrow())
    assert pyarrow.schema(table) == table.to_arrow().schema
    duckdb = importlib.import_module("duckdb")
    counted = duckdb.from_arrow(table).sum("calls").fetchall()
    assert counted == [(table.totals["total_calls"],)]
    rows = pyarrow.RecordBatchReader.from_stream(torchtrace.read(rich()).calls())
    assert sum(batch.num_rows for batch in rows) == len(torchtrace.read(rich()))
    # Children outlive what they were part of.
    column = pyarrow.table(torchtrace.read(rich()).calls()).column("api")
    assert column.to_pylist() == torchtrace.read(rich()).calls()["api"]


# The other reports.


def test_tree_and_diff_and_open_calls():
    trace = torchtrace.read(rich())
    for by in ("api", "module", "line"):
        nodes = json.loads(verb("tree", rich(), "--by", by, "--depth", "4", "--format", "json"))
        assert dicts(trace.tree(by, depth=4)) == nodes and nodes
    report = json.loads(verb("diff", SAMPLE, rich(), "--format", "json", "--ignore", "counts"))
    diff = torchtrace.read(SAMPLE).diff(rich(), ignore="counts")
    assert diff.different and dicts(diff) == report["configs"]
    assert dicts(diff.apis) == report["apis"] and dicts(diff.changes) == report["changes"]
    assert diff.totals["summary"] == report["summary"]
    same = trace.diff(trace, summary=True)
    assert not same.different and not same and len(same.apis) == 0

    open_calls = torchtrace.read(KILLED).open_calls()
    report = json.loads(verb("info", "--open", KILLED, "--format", "json"))
    threads = [thread for process in report["processes"] for thread in process["threads"]]
    expected = [call["api"] for thread in threads for call in thread["open"]]
    assert [call.api for call in open_calls] == expected and expected
    with pytest.raises(ValueError, match="takes no filters"):
        torchtrace.read(KILLED, level=1).open_calls()


def test_rows_by_number_and_column_by_name():
    table = torchtrace.read(rich()).stats()
    rows = list(table)
    assert (table[0], table[-1], table[1:3], table[::-1]) == (
        rows[0],
        rows[-1],
        rows[1:3],
        rows[::-1],
    )
    assert table["api"] == [row.api for row in rows]
    with pytest.raises(IndexError):
        table[len(rows)]
    with pytest.raises(KeyError, match="no column 'nope': there are api, level"):
        table["nope"]
    assert torchtrace.read(rich()).stats("module")[0].class_ is not ...


# Errors.


def test_errors_are_the_verbs(tmp_path):
    (tmp_path / "text").write_text("\x00\x01")
    trace = torchtrace.read(SAMPLE)
    for kind, words, failing in [
        (FileNotFoundError, ["stats", "nope"], lambda: torchtrace.read("nope")),
        (Exception, ["stats", tmp_path], lambda: torchtrace.read(tmp_path)),
        (Exception, ["stats", tmp_path / "text"], lambda: torchtrace.read(tmp_path / "text")),
        (ValueError, ["stats", SAMPLE, "--by", "x"], lambda: trace.stats("x")),
        (
            ValueError,
            ["stats", SAMPLE, "--include", "torch.nop"],
            lambda: trace.select(include="torch.nop").calls(),
        ),
        (
            ValueError,
            ["stats", SAMPLE, "--where", "x ="],
            lambda: trace.select(where="x =").stats(),
        ),
        (ValueError, ["stats", SAMPLE, "--level", "9"], lambda: trace.select(level=9).configs()),
        (ValueError, ["stats", SAMPLE, "--numbers"], lambda: trace.stats(numbers=True)),
        (ValueError, ["stats", SAMPLE, "--rank", "a"], lambda: trace.select(rank="a").stats()),
        (ValueError, ["tree", SAMPLE, "--min-time", "9"], lambda: trace.tree(min_time="9")),
        (ValueError, ["diff", SAMPLE, SAMPLE, "--nope=1"], lambda: trace.diff(SAMPLE, nope=1)),
    ]:
        told = (
            tool.torchtrace(*words, cwd="/")
            .err.removeprefix("torchtrace: ")
            .split(" (see ")[0]
            .strip()
        )
        with pytest.raises(kind) as error:
            failing()
        assert str(error.value).replace("tools/torchtrace", "torchtrace") == told
    with pytest.raises(TypeError, match="no filter 'api': there are include,"):
        torchtrace.read(SAMPLE, api="x")
    with pytest.raises(TypeError, match="level and levels"):
        torchtrace.read(SAMPLE, level=1, levels=2)
    with pytest.raises(ValueError, match="never opened"):
        torchtrace.read(torchtrace.trace("x"))
    with pytest.raises(ValueError, match="the list is empty"):
        torchtrace.read([])


def test_a_path_is_no_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(SAMPLE, tmp_path / "--help")
    assert len(torchtrace.read("--help")) == len(torchtrace.read(SAMPLE))
    shutil.copy(SAMPLE, os.fsencode(tmp_path) + b"/\xff.ttlog")
    assert len(torchtrace.read(b"\xff.ttlog")) == len(torchtrace.read(SAMPLE))


def test_a_whole_trace_is_complete():
    trace = torchtrace.read(rich())
    assert trace.complete and trace.incomplete_because == []
    assert trace.info["counts"]["calls"] == len(trace)


@pytest.mark.parametrize("at, lost", [(12352, 42), (28736, 10)])
def test_a_damaged_trace_gives_what_is_left(tmp_path, at, lost):
    whole = torchtrace.read(SAMPLE)
    data = bytearray(SAMPLE.read_bytes())
    data[at : at + 8] = b"\xff" * 8
    (tmp_path / "cut.ttlog").write_bytes(data)
    trace = torchtrace.read(tmp_path / "cut.ttlog")
    table = trace.stats()
    assert not trace.complete
    assert f"{lost} calls lost to damage of the log" in trace.incomplete_because
    assert any(f"byte {at // 4096 * 4096} " in line for line in trace.incomplete_because)
    assert len(trace) == len(list(trace.calls())) == len(whole) - lost
    assert any("is damaged" in remark for remark in table.remarks)
    assert "is damaged" in repr(table) and "is damaged" in table._repr_html_()
    killed = torchtrace.read(KILLED)
    assert not killed.complete and "not closed" in str(killed.incomplete_because)


def test_nothing_that_matches_is_an_empty_table():
    trace = torchtrace.read(SAMPLE, where="duration > 100s")
    for table in (trace.stats(), trace.calls(), trace.configs()):
        assert list(table) == [] and len(table) == 0 and not table
        assert table.to_arrow().num_rows == 0 and len(table.to_pandas()) == 0
        assert "<table>" in table._repr_html_() and repr(table)
    assert trace.stats().remarks == ["no call matches --where 'duration > 100s'"]


HOSTILE = "<script>alert(1)</script>\u202e\u2028\x07&"


def test_a_notebook_shows_hostile_text_as_text(tmp_path):
    line = {"api": f"x.{HOSTILE}", "args": ["</td><img src=x onerror=alert(1)>" * 20], "level": 1}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n")
    trace = torchtrace.read(tmp_path / "a.jsonl")
    for table in (trace.calls(), trace.configs(), trace.stats("config")):
        page = table._repr_html_()
        assert "<script" not in page and "<img" not in page and "&lt;script&gt;" in page
        assert page.isprintable()
        assert all(line.isprintable() for line in repr(table).split("\n"))
        assert "<script>" in table[0].api


# Ctrl-C, threads, processes.


@functools.cache
def many():
    """A trace that takes a second to read."""
    file = Path(_folder().name) / "many.jsonl"
    lines = (f'{{"api": "torch.f{i % 999}", "args": [{i}], "level": 1}}\n' for i in range(40_000))
    file.write_text("".join(lines))
    return file


class Stop(Exception):
    pass


def stop(*_):
    raise Stop


@pytest.mark.parametrize(
    "read",
    [
        lambda trace: trace.stats("config"),
        lambda trace: list(trace.calls()),
        lambda trace: trace.calls().to_arrow(),
        lambda trace: trace.diff(many()),
    ],
)
def test_a_signal_stops_reading(read):
    trace = torchtrace.read(many())
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.06)
        with pytest.raises(Stop):
            read(trace)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_meanwhile():
    ticks, ended = 0, threading.Event()

    def tick():
        nonlocal ticks
        while not ended.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    torchtrace.read(many()).stats()
    ended.set()
    thread.join()
    assert ticks > 5
    # And several can read at once.
    results, path = [], rich()
    threads = [
        threading.Thread(target=lambda: results.append(dicts(torchtrace.read(path).calls())))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all(result == results[0] for result in results)


def test_forks_and_half_read_tables(tmp_path):
    count = len(torchtrace.read(SAMPLE))
    ended = testing.python(
        f"""
        import os, sys, torchtrace
        trace = torchtrace.read({str(SAMPLE)!r})
        rows = iter(trace.calls())
        next(rows)
        if os.fork() == 0:
            try:
                list(rows)
            except RuntimeError as error:
                print(error)
            print(sum(1 for _ in trace.calls()), flush=True)
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
        capsule = trace.calls().__arrow_c_stream__()
        print("here", len(list(rows)))
        rows = iter(trace.calls())
        next(rows)
        """,
        tmp_path,
    ).check()
    assert ended.out.splitlines() == [
        "a process was forked while it took rows of a trace: it has to begin again",
        str(count),
        "3",
        f"here {count - 1}",
    ]
    assert ended.err == ""


# The package.


def test_everything_is_listed_and_sizes_are_texts():
    assert set(torchtrace.__all__) <= set(dir(torchtrace))
    assert {"graph", "read", "TraceReader", "Table"} <= set(dir(torchtrace))
    for size, number in (("1MB", 1 << 20), ("64 KiB", 64 << 10), (5, 5)):
        options = torchtrace.trace(values=size, max_size=size)._options
        assert options["values"] == options["max_size"] == number
    with pytest.raises(ValueError, match="values: '1 elephant' is not a size"):
        torchtrace.trace(values="1 elephant")


def test_a_closed_trace_can_be_read():
    told, rows = (traces() / "printed").read_text().splitlines()
    assert told.endswith("is still written: close it before it is read")
    assert rows == "['aten::ones'] closed"


@pytest.mark.parametrize("module", [_read, _tables])
def test_the_examples_run(module, monkeypatch):
    monkeypatch.chdir(traces())
    failed, tried = doctest.testmod(module, extraglobs={"torchtrace": torchtrace})
    assert failed == 0 and tried > 0


def stub_of(name):
    return ast.parse((testing.ROOT / "python/torchtrace" / name).read_text())


def parameters(arguments):
    """Names of a signature in a stub, and which have defaults."""
    first = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(first) - len(arguments.defaults)) + arguments.defaults
    found = [(each.arg, default is not None) for each, default in zip(first, defaults)]
    found += [
        (each.arg, default is not None)
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults)
    ]
    return found


def test_the_stubs_say_what_there_is():
    body = {}
    for node in stub_of("__init__.pyi").body:
        names = [node.name] if hasattr(node, "name") else []
        names += [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]
        for name in names:
            body.setdefault(name, node)
    assert set(torchtrace.__all__) <= set(body)

    def check(runtime, node):
        signature = inspect.signature(runtime)
        found = [
            (each.name, each.default is not each.empty)
            for each in signature.parameters.values()
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
        ]
        variable = any(each.kind == each.VAR_KEYWORD for each in signature.parameters.values())
        told = parameters(node.args)
        assert told[: len(found)] == found and (variable or told == found), node.name

    for name in set(torchtrace.__all__) - {"ExecutionTraceObserver", "graph", "traced"}:
        node, runtime = body[name], getattr(torchtrace, name)
        if isinstance(node, ast.FunctionDef):
            check(runtime, node)
        if not isinstance(node, ast.ClassDef):
            continue
        methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
        public = {key for key in vars(runtime) if not key.startswith("_")}
        attributes = {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
        assert public <= {*methods, *attributes}, name
        for key, method in methods.items():
            if inspect.isfunction(vars(runtime).get(key)) and not method.decorator_list:
                check(vars(runtime)[key], method)
    native = {node.name for node in stub_of("_native.pyi").body if hasattr(node, "name")}
    there = {name for name in dir(_read.native) if not name.startswith("_") and name.islower()}
    assert there <= native


TYPED = """
import torchtrace

with torchtrace.trace(output="out", levels=[1, 2], values="1MB") as trace:
    pass
reader = torchtrace.read(trace, level=1, where="dtype = float16")
table = reader.stats("config", sort="time", top=3)
rows: int = len(table)
apis = [call.api for call in reader.calls()]
different: bool = reader.diff("other").different

@torchtrace.traced
def f(x: int) -> int:
    return x

@torchtrace.traced(levels=2, ids=True)
def g(x: int) -> str:
    return str(x)

text: str = g(f(1))
torchtrace.start("x", levels=1)
torchtrace.stop()
with torchtrace.annotate(step=1), torchtrace.paused():
    pass
torchtrace.read(3)
torchtrace.read("x", nope=2)
torchtrace.trace(valus=1)
torchtrace.start(valus=1)
reader.stats(to=1)
number: int = g(1)
"""
WRONG = [
    lineno
    for lineno, line in enumerate(TYPED.splitlines(), 1)
    if line.startswith(
        (
            "torchtrace.read(3)",
            'torchtrace.read("x", nope',
            "torchtrace.trace(valus",
            "torchtrace.start(valus",
            "reader.stats(to",
            "number: int",
        )
    )
]


def lines_of_errors(text):
    return sorted({int(line.split(":")[1]) for line in text.splitlines() if "typed.py:" in line})


def test_mypy_checks_programs(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "typed.py").write_text(TYPED)
    options = ["--strict", "--no-site-packages", "--ignore-missing-imports"]
    options += [
        "--allow-subclassing-any",
        "--cache-dir",
        tmp_path / "cache",
        "--hide-error-context",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "typed.py"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(testing.PACKAGE)},
    )
    assert lines_of_errors(done.stdout) == WRONG, done.stdout + done.stderr
    assert ".pyi" not in done.stdout


def test_pyright_checks_programs(tmp_path):
    pyright = testing.ROOT / ".build/node/node_modules/.bin/pyright"
    if not pyright.exists():
        pytest.skip("tools/test installs pyright")
    (tmp_path / "typed.py").write_text(TYPED)
    config = {
        "extraPaths": [str(testing.PACKAGE)],
        "pythonVersion": "3.10",
        "include": ["typed.py"],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [pyright, "--outputjson", "-p", tmp_path], capture_output=True, text=True, cwd=tmp_path
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = sorted(
        {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}
    )
    assert lines == WRONG, done.stdout
