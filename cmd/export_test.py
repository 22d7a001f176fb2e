"""torchtrace export: every format as its consumers read it."""

import csv
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest
import yaml

from tools.testing import whole_tool as tool

LOGS = sorted((tool.ROOT / "testdata/logs").glob("*/*.ttlog"))
# Those that list all their calls.
LISTED = [log for log in LOGS if log.stem != "counts"]
SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"
CONFIG_COLUMNS = (
    "level api config args kwargs shapes dtypes calls time_ns trace host pid rank "
    "module file line tags step M N K flops bytes device_ns first_call"
).split()
CALL_COLUMNS = (
    "call parent depth level api config args kwargs shapes dtypes start_ns duration_ns outcome "
    "exception process thread trace host pid rank file line tags device_ns "
    "module step M N K flops bytes"
).split()


def torchtrace(*args, cwd="/", env=None, **kwargs):
    return tool.torchtrace(*args, cwd=cwd, env=tool.WITH_PYARROW | (env or {}), **kwargs)


def export(*args, **kwargs):
    result = torchtrace("export", *args, **kwargs)
    assert result.status == 0, result.err
    return result


def config_counts(*traces):
    """{(level, config): calls} as counted by stats."""
    report = json.loads(torchtrace("stats", *traces, "--by", "config", "--format", "json").out)
    return {(row["level"], row["config"]): row["calls"] for row in report["configs"]}


def sums(rows):
    """The same for the rows of an export."""
    counts = Counter()
    for row in rows:
        counts[int(row["level"]), row["config"]] += int(row["calls"])
    return dict(counts)


def code_block(page, language, number=0):
    text = (tool.ROOT / "docs" / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)[number]


@pytest.fixture(scope="session")
def configs_folder(tmp_path_factory):
    """configs/*.parquet, a file per trace, see docs/SCALE.md."""
    folder = tmp_path_factory.mktemp("scale")
    (folder / "configs").mkdir()
    for i in range(3):
        for log in LOGS:
            export("parquet", log, "-o", folder / f"configs/{log.stem}-{i}.parquet")
    return folder


# ---- each format ----


def test_text_and_yaml_are_the_rendered_files(tmp_path):
    rendered = torchtrace("render", SAMPLE, "-o", tmp_path, "--formats", "configs")
    assert rendered.status == 0
    assert export("text", SAMPLE).out == (tmp_path / "api_configs.txt").read_text()
    assert export("yaml", SAMPLE).out == (tmp_path / "api_configs.yaml").read_text()
    rows = yaml.safe_load(export("yaml", SAMPLE).out)
    assert sum(row["calls"] for row in rows) == sum(config_counts(SAMPLE).values())


def test_text_with_counts():
    lines = export("text", SAMPLE, "--counts").out.splitlines()
    counted = {line[9:]: int(line[:7]) for line in lines}
    assert counted == {config: calls for (_, config), calls in config_counts(SAMPLE).items()}


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}-{log.stem}")
def test_csv_and_json_tell_the_same(log):
    rows = list(csv.DictReader(export("csv", log).out.splitlines()))
    assert not rows or list(rows[0]) == CONFIG_COLUMNS
    assert sums(rows) == config_counts(log)
    lines = [json.loads(line) for line in export("jsonl", log).out.splitlines()]
    assert [(row["api"], row["calls"], row["trace"]) for row in lines] == [
        (row["api"], int(row["calls"]), row["trace"]) for row in rows
    ]
    listed = json.loads(export("json", log).out)
    assert sum(row["calls"] for row in listed) == sum(row["calls"] for row in lines)


def test_several_traces_are_told_apart_or_added_up(tmp_path):
    copy = tmp_path / "copy.ttlog"
    shutil.copy(SAMPLE, copy)
    once = config_counts(SAMPLE)
    rows = list(csv.DictReader(export("csv", SAMPLE, copy).out.splitlines()))
    assert {row["trace"] for row in rows} == {str(SAMPLE), str(copy)}
    assert sums(rows) == {config: 2 * calls for config, calls in once.items()}
    added = yaml.safe_load(export("yaml", SAMPLE, copy).out)
    assert len(added) == len(once)
    assert sum(row["calls"] for row in added) == 2 * sum(once.values())


def test_filters():
    rows = list(csv.DictReader(export("csv", SAMPLE, "--level", "2").out.splitlines()))
    assert rows and {row["level"] for row in rows} == {"2"}
    rows = list(csv.DictReader(export("csv", SAMPLE, "--include", "aten::mm").out.splitlines()))
    assert {row["api"] for row in rows} == {"aten::mm"}
    out = export("csv", SAMPLE, "--calls", "--exclude", "aten::*").out
    rows = list(csv.DictReader(out.splitlines()))
    assert rows and not any(row["api"].startswith("aten::") for row in rows)


def test_calls_are_those_of_dump():
    dumped = {}
    for line in torchtrace("dump", SAMPLE, "--format", "jsonl").out.splitlines():
        row = json.loads(line)
        dumped[row["call"]] = row
    lines = [json.loads(line) for line in export("jsonl", SAMPLE, "--calls").out.splitlines()]
    assert [row["call"] for row in lines] == sorted(dumped)
    for row in lines:
        call = dumped[row["call"]]
        for key in ("parent", "depth", "level", "api", "process", "thread", "outcome"):
            assert row.get(key) == call.get(key), key
        assert row.get("duration_ns") == call.get("duration_ns")
        assert row["start_ns"] == call["time_ns"]
        assert row.get("exception") == call.get("exception")
    rows = list(csv.DictReader(export("csv", SAMPLE, "--calls").out.splitlines()))
    assert list(rows[0]) == CALL_COLUMNS
    assert [row["config"] for row in rows] == [row["config"] for row in lines]


def test_arguments_are_structures_in_lines_and_texts_of_json_in_cells():
    for calls in ([], ["--calls"]):
        rows = list(csv.DictReader(export("csv", SAMPLE, *calls).out.splitlines()))
        lines = [json.loads(line) for line in export("jsonl", SAMPLE, *calls).out.splitlines()]
        assert len(rows) == len(lines)
        for row, line in zip(rows, lines):
            for column in ("args", "kwargs", "shapes", "dtypes"):
                assert json.loads(row[column]) == line[column]
            tensors = re.findall(r"Tensor\(\[([^]]*)\], \"(\w+)\"", row["config"])
            if not re.search(r"ndarray|Sym|Tensor\(\*", row["config"]):
                assert [dtype for _, dtype in tensors] == line["dtypes"]
                assert [f"[{shape}]" for shape, _ in tensors] == list(map(str, line["shapes"]))


def test_calls_tell_their_line():
    log = tool.ROOT / "testdata/logs/v1/stacks.ttlog"
    lines = [json.loads(line) for line in export("jsonl", log, "--calls").out.splitlines()]
    places = {(row.get("file"), row.get("line")) for row in lines}
    assert {("/home/me/train.py", line) for line in (12, 13, 30)} <= places


@pytest.mark.torch
def test_calls_tell_their_tags(tmp_path):
    code = "import torch, torchtrace; torch.ones(2); torchtrace.annotate(step=3); torch.zeros(2)"
    run = torchtrace("run", "-qo", "out", "--python", tool.PYTHON, "-c", code, cwd=tmp_path)
    assert run.status == 0, run.err
    lines = export("jsonl", "out", "--calls", cwd=tmp_path).out.splitlines()
    assert [json.loads(line).get("tags") for line in lines] == [None, {"step": 3}]
    rows = csv.DictReader(export("csv", "out", "--calls", cwd=tmp_path).out.splitlines())
    assert [row["tags"] for row in rows] == ["", '{"step":3}']


# ---- the format by the suffix ----


def test_the_suffix_tells_the_format(tmp_path):
    for suffix, format in {
        "txt": "text",
        "yml": "yaml",
        "jsonl": "jsonl",
        "CSV": "csv",
        "parquet": "parquet",
    }.items():
        out = tmp_path / f"x.{suffix}"
        export(SAMPLE, "-o", out)
        export(format, SAMPLE, "-o", tmp_path / "named")
        assert out.read_bytes() == (tmp_path / "named").read_bytes()
        os.unlink(tmp_path / "named")
    export(SAMPLE, "-o", tmp_path / "x.html")
    assert (tmp_path / "x.html").read_text().startswith("<!")


def test_a_trace_may_be_called_as_a_format(tmp_path):
    shutil.copy(SAMPLE, tmp_path / "csv")
    assert export("./csv", "-o", "x.txt", cwd=tmp_path).out == ""
    assert (tmp_path / "x.txt").read_text() == export("text", SAMPLE).out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((SAMPLE,), "no format: name one (text, yaml, "),
        ((SAMPLE, "-o", "x"), "'x' has no known suffix: expected .txt, .yaml, "),
        ((SAMPLE, "-o", "x.xlsx"), ".perfetto-trace, .html, .folded"),
        ((SAMPLE, "-o", "x.json", "--calls"), "x.json: which .json? Name the format "),
        ((), "TRACE is required"),
        ((SAMPLE, "chrome"), f"before the traces: torchtrace export chrome {SAMPLE}"),
        (
            (SAMPLE, "--format", "chrome"),
            "name a format before the traces: torchtrace export chrome TRACE",
        ),
        ((SAMPLE, "--format", "nothing"), "expected json or csv, found 'nothing'"),
    ],
)
def test_no_format(tmp_path, args, message):
    result = torchtrace("export", *args, cwd=tmp_path)
    assert result.status == 2 and message in result.err
    assert os.listdir(tmp_path) == []


# ---- reading back ----


@pytest.mark.parametrize("log", LOGS, ids=lambda log: f"{log.parent.name}-{log.stem}")
def test_csv_is_read_back(tmp_path, log):
    """CSV and JSON lines read back equally, as far as both can express it."""
    for calls in ([], ["--calls"]) if log in LISTED else ([],):
        for format in ("csv", "jsonl"):
            export(format, log, *calls, "-o", tmp_path / f"x.{format}", "-f")
        one = torchtrace("export", "csv", "x.csv", *calls, cwd=tmp_path)
        other = torchtrace("export", "csv", "x.jsonl", *calls, cwd=tmp_path)
        assert one.status == other.status == 0, one.err + other.err
        assert one.out == other.out.replace("x.jsonl", "x.csv")
    counts = ("--no-times", "--sort", "name")
    assert torchtrace("stats", "x.csv", *counts, cwd=tmp_path).out == (
        torchtrace("stats", log, *counts, cwd=tmp_path).out
    )


def test_dedup_reads_its_csv(tmp_path):
    for ignore in ([], ["--ignore", "shape,level"]):
        csv_file = tmp_path / "x.csv"
        assert torchtrace("dedup", SAMPLE, *ignore, "-qfo", csv_file).status == 0
        again = torchtrace("dedup", csv_file, "--counts")
        assert again.out == torchtrace("dedup", SAMPLE, *ignore, "--counts").out


def test_paddle_lines():
    lines = export("paddle", SAMPLE, "-q").out.splitlines()
    assert lines and len(set(lines)) == len(lines)
    assert all(re.fullmatch(r"[\w.:]+\((.*, )?\)", line) for line in lines)


# ---- Parquet ----


def test_parquet_types_and_values(tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "x.parquet"
    said = export("parquet", SAMPLE, "-o", out)
    assert said.err == f"torchtrace: wrote {out}\n"
    table = pq.read_table(out)
    assert table.column_names == CONFIG_COLUMNS
    types = {field.name: str(field.type) for field in table.schema}
    assert types["calls"] == "int64"
    assert types["config"] == "dictionary<values=string, indices=int32, ordered=0>"
    assert table.schema.metadata[b"torchtrace.table"] == b"configs"
    expected = list(csv.DictReader(export("csv", SAMPLE).out.splitlines()))
    for row, wanted in zip(table.to_pylist(), expected):
        assert {key: "" if value is None else str(value) for key, value in row.items()} == wanted
    assert table.num_rows == len(expected)


def test_parquet_of_calls(tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "calls.parquet"
    export("parquet", "--calls", *LOGS, "-o", out)
    table = pq.read_table(out)
    assert table.column_names == CALL_COLUMNS
    text = export("csv", "--calls", *LOGS).out
    expected = list(csv.DictReader(text.splitlines()))
    assert table.num_rows == len(expected)
    for row, wanted in zip(table.to_pylist(), expected):
        assert {key: "" if value is None else str(value) for key, value in row.items()} == wanted


def test_parquet_without_rows(tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "x.parquet"
    export("parquet", SAMPLE, "--include", "?nothing", "-o", out)
    assert pq.read_table(out).num_rows == 0


def test_parquet_on_standard_output(tmp_path):
    with open(tmp_path / "x.parquet", "wb") as out:
        command = [tool.TORCHTRACE, "export", "parquet", SAMPLE]
        subprocess.run(command, stdout=out, check=True, env=tool.environment(tool.WITH_PYARROW))
    data = (tmp_path / "x.parquet").read_bytes()
    assert data[:4] == data[-4:] == b"PAR1"


def test_parquet_is_not_for_a_terminal():
    main, other = pty.openpty()
    done = subprocess.run(
        [tool.TORCHTRACE, "export", "parquet", SAMPLE],
        stdout=other,
        stderr=subprocess.PIPE,
        text=True,
        env=tool.environment(tool.WITH_PYARROW),
    )
    os.close(other)
    os.close(main)
    assert done.returncode == 2
    assert "standard output is a terminal; -o FILE" in done.stderr


def make_environment(folder, version=None):
    """A virtual environment with a fake pyarrow that only has a version."""
    subprocess.run([tool.PYTHON, "-m", "venv", "--without-pip", folder], check=True)
    if version:
        site = next(folder.glob("lib/python3*/site-packages"))
        (site / "pyarrow").mkdir()
        (site / "pyarrow/__init__.py").write_text(f"__version__ = '{version}'\n")
        (site / "pyarrow/parquet.py").write_text("")
    return folder


@pytest.mark.parametrize(("version", "there_is"), [(None, ""), ("17.0.0", " (there is 17.0.0)")])
def test_parquet_without_pyarrow(tmp_path, version, there_is):
    """The error says what to install, and where."""
    venv = make_environment(tmp_path / "my venv", version)
    out = tmp_path / "x.parquet"
    result = torchtrace("export", "parquet", SAMPLE, "--python", venv, "-o", out)
    assert (result.status, result.out) == (2, "")
    assert result.err == (
        f"torchtrace: Parquet needs pyarrow 18 or newer{there_is}: install it: "
        f"'{venv}/bin/python3' -m pip install 'pyarrow>=18'; "
        "or name a Python that has it by --python\n"
    )
    assert os.listdir(tmp_path) == ["my venv"]


def test_parquet_names_the_python_of_the_trace(tmp_path):
    venv = make_environment(tmp_path / "venv")
    recorded = make_environment(tmp_path / "recorded", "99.0")
    site = next(recorded.glob("lib/python3*/site-packages"))
    (site / "pyarrow-99.0.dist-info").mkdir()
    (site / "pyarrow-99.0.dist-info/METADATA").write_text("Name: pyarrow\nVersion: 99.0\n")
    script = tmp_path / "program.py"
    script.write_text("pass\n")
    python = recorded / "bin/python3"
    done = torchtrace(
        "run",
        "-qo",
        "out",
        "-l",
        "0",
        "--library",
        "json",
        "--python",
        python,
        script,
        cwd=tmp_path,
    )
    assert done.status == 0, done.err
    for verb in (["export", "out"], ["dedup", "out"]):
        result = torchtrace(*verb, "-o", "x.parquet", "--python", venv, cwd=tmp_path)
        assert result.status == 2
        assert result.err.endswith(
            f"; or use the Python that recorded out, which has it: --python {python}\n"
        )


def test_parquet_with_a_broken_pyarrow(tmp_path):
    venv = make_environment(tmp_path / "venv", "99.0")
    result = torchtrace("export", "parquet", SAMPLE, "--python", venv, "-o", tmp_path / "x.parquet")
    assert result.status == 2 and os.listdir(tmp_path) == ["venv"]
    assert result.err.startswith("torchtrace: pyarrow cannot write Parquet: AttributeError: ")
    assert len(result.err.splitlines()) == 1


def test_parquet_without_a_python(tmp_path):
    result = torchtrace("export", "parquet", SAMPLE, "--python", tmp_path)
    assert result.status == 2
    assert result.err == f"torchtrace: no Python at {tmp_path}/bin/python3, which --python names\n"


def test_parquet_without_the_library(tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(tool.TORCHTRACE, tmp_path / "bin")
    done = tool.execute([tmp_path / "bin/torchtrace", "export", "parquet", SAMPLE], tmp_path)
    assert done.status == 2 and done.out == ""
    library = tmp_path / "lib/torchtrace/libtorchtrace_verbs.so"
    assert f"needs {library}; `tools/torchtrace export ...` builds it" in done.err


def test_parquet_takes_no_module_of_the_working_folder(tmp_path):
    for name in ("ctypes", "pyarrow", "numpy"):
        (tmp_path / f"{name}.py").write_text("print('mine')")
    said = export("parquet", SAMPLE, "-o", "x.parquet", cwd=tmp_path)
    assert (said.out, said.err) == ("", "torchtrace: wrote x.parquet\n")


def test_dedup_writes_parquet(tmp_path):
    import pyarrow.parquet as pq

    out = tmp_path / "x.parquet"
    assert torchtrace("dedup", SAMPLE, "-qo", out).status == 0
    expected = torchtrace("dedup", SAMPLE, "--format", "csv").out
    rows = list(csv.DictReader(expected.splitlines()))
    assert [row["config"] for row in pq.read_table(out).to_pylist()] == [r["config"] for r in rows]


def test_arrow_is_loaded_for_parquet_alone(tmp_path):
    for verb in (["export", "csv"], ["stats"]):
        done = subprocess.run(
            [tool.TORCHTRACE, *verb, SAMPLE],
            env=tool.environment({"LD_DEBUG": "libs"}),
            capture_output=True,
            text=True,
            check=True,
        )
        assert "libc.so" in done.stderr and "libarrow" not in done.stderr


def test_duckdb_reads_a_folder_as_documented(configs_folder):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    query = code_block("SCALE.md", "sql").replace("configs/", f"{configs_folder}/configs/")
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row)) for row in cursor.fetchall()]
    expected = config_counts(*LOGS)
    assert sums(rows) == {config: 3 * calls for config, calls in expected.items()}
    assert len(rows) == len(expected)
    assert all(1 <= row["traces"] <= row["processes"] for row in rows)


def test_duckdb_reads_arguments_as_documented(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    export(SAMPLE, "-o", tmp_path / "configs.parquet")
    query = code_block("EXPORT.md", "sql").replace("configs.parquet", f"{tmp_path}/configs.parquet")
    query = query.replace("bfloat16", "float32")
    rows = duckdb.connect().execute(query).fetchall()
    lines = [json.loads(line) for line in export("jsonl", SAMPLE).out.splitlines()]
    expected = Counter()
    for line in lines:
        if line["dtypes"][:1] == ["float32"]:
            expected[line["api"], json.dumps(line["shapes"][0])] += line["calls"]
    assert {(api, json.dumps(json.loads(first))): calls for api, first, calls in rows} == expected


def test_duckdb_sums_self_time_as_stats_does(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    (tmp_path / "calls").mkdir()
    export("parquet", "--calls", SAMPLE, "-o", tmp_path / "calls/x.parquet")
    query = code_block("SCALE.md", "sql", 1).replace("calls/*", f"{tmp_path}/calls/*")
    rows = duckdb.connect().execute(query).fetchall()
    report = json.loads(torchtrace("stats", SAMPLE, "--format", "json").out)
    expected = {(row["level"], row["api"]): row["self_time_ns"] for row in report["apis"]}
    assert {(row[0], row[1]): row[3] or 0 for row in rows} == expected


@pytest.mark.slow
def test_spark_reads_a_folder_as_documented(configs_folder):
    """In the Python of $SPARK_PYTHON, or in this one if it has pyspark."""
    python = os.environ.get("SPARK_PYTHON", sys.executable)
    if not shutil.which("java"):
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    if subprocess.run([python, "-c", "import pyspark"], capture_output=True).returncode != 0:
        pytest.skip(f"there is no pyspark: {python} -m pip install pyspark (or SPARK_PYTHON)")
    code = code_block("SCALE.md", "python").replace("unique.show(50, truncate=False)", "")
    code += "import json\nprint('ROWS', json.dumps([r.asDict() for r in unique.collect()]))\n"
    done = subprocess.run(
        [python, "-c", code], cwd=configs_folder, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(re.search(r"^ROWS (.*)$", done.stdout, re.M).group(1))
    expected = config_counts(*LOGS)
    assert sums(rows) == {config: 3 * calls for config, calls in expected.items()}


# ---- operator benchmarks ----

ABBREVIATIONS = {
    "bf16": "bfloat16",
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "c32": "complex32",
    "c64": "complex64",
    "c128": "complex128",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "b8": "bool",
    "u8": "uint8",
}


class FakeTorch:
    """torch.float8_e4m3fn, torch.strided, torch.Size: accepts any name."""

    Size = tuple

    def __getattr__(self, name):
        return f"torch.{name}"


def evaluate(inputs):
    """Like the loader: dtypes lose their quotes, and only its own names exist."""

    def tensor(size, dtype, stride=None):
        assert isinstance(size, list) and (stride is None or len(stride) == len(size))
        return ("tensor", size, dtype, stride)

    scope = {"T": tensor, "inf": float("inf"), "torch": FakeTorch(), "th": FakeTorch()}
    scope.update(ABBREVIATIONS)
    for abbreviation in ABBREVIATIONS:
        inputs = inputs.replace(f"'{abbreviation}'", abbreviation)
    args, kwargs = eval(inputs.strip().strip("'").strip('"'), scope)
    assert isinstance(args, tuple) and isinstance(kwargs, dict)
    return args, kwargs


def load_operators(text):
    """{operator: {inputs: count}} of a file of operator inputs; asserts the loader's
    assumptions."""
    operators, name = {}, None
    for line in text.splitlines():
        if header := re.fullmatch(r"Operator: (.*)", line):
            name = header.group(1)
            assert re.fullmatch(r"aten\.\w+\.\w+", name) and name not in operators
            operators[name] = {}
            continue
        count, inputs = re.fullmatch(r"cnt: (\d+), (.*)", line).groups()
        assert inputs not in operators[name]
        evaluate(inputs)
        operators[name][inputs] = int(count)
    assert list(operators) == sorted(operators)
    return operators


def operator_calls(*traces):
    counts = Counter()
    for (level, config), calls in config_counts(*traces).items():
        if level == 2 and config.startswith("aten::"):
            api = config.partition("(")[0].removeprefix("aten::")
            counts["aten." + (api if "." in api else api + ".default")] += calls
    return counts


def test_torchbench_file_is_what_its_loader_needs():
    result = export("torchbench", *LOGS)
    operators = load_operators(result.out)
    calls = {name: sum(counts.values()) for name, counts in operators.items()}
    assert calls == operator_calls(*LOGS)
    assert re.search(
        r"^torchtrace: torchbench leaves out \d+ configs .*: not of level 2$", result.err, re.M
    )
    assert export("torchbench", "-q", *LOGS).err == ""
    assert export("torchbench", "--level", "2", SAMPLE).err == ""


def test_operator_inputs_are_read_back(tmp_path):
    """torchtrace's own importer reads the same lines."""
    for kind, name in (("torchbench", "ops.txt"), ("tritonbench", "ops.json")):
        export(kind, "-q", *LOGS, "-o", tmp_path / name)
        again = export(kind, "-q", tmp_path / name).out
        if kind == "torchbench":
            assert again == (tmp_path / name).read_text()
        else:
            loaded = json.loads((tmp_path / name).read_text())
            assert {**json.loads(again), "metadata": {}} == {**loaded, "metadata": {}}


def test_paddle_lines_are_read_back(tmp_path):
    export("paddle", "-q", *LOGS, "-o", tmp_path / "paddle.txt")
    again = export("paddle", "-q", tmp_path / "paddle.txt").out
    assert again == (tmp_path / "paddle.txt").read_text()


@pytest.mark.parametrize("name", ["yaml", "json", "jsonl"])
def test_configs_are_read_back(name, tmp_path):
    path = tmp_path / f"configs.{name}"
    export(name, *LOGS, "-o", path)
    assert config_counts(path) == config_counts(*LOGS, "--sum")
    stats = torchtrace("stats", path, "--format", "json")
    row = json.loads(stats.out)["apis"][0]
    # The total time of a config's calls is not the time of day of one call.
    assert "time_ns" not in row and "has no times" in stats.err or name == "yaml"
    if name == "jsonl":
        processes = json.loads(torchtrace("info", path, "--format", "json").out)["processes"]
        rows = {(row["trace"], row.get("pid")) for row in map(json.loads, path.open())}
        assert len(processes) == len(rows) > 2


@pytest.mark.parametrize("log", LISTED, ids=lambda log: log.stem)
def test_calls_are_read_back(log, tmp_path):
    path = tmp_path / "calls.jsonl"
    export("jsonl", "--calls", log, "-o", path)
    assert config_counts(path) == config_counts(log)

    def calls(trace):
        rows = map(json.loads, torchtrace("dump", trace, "--format", "jsonl").out.splitlines())
        keys = "depth thread time_ns duration_ns outcome exception level api".split()
        return [{key: row.get(key) for key in keys} for row in rows if "api" in row]

    # Long open calls are exported with their ends.
    key = json.dumps
    assert sorted(map(key, calls(path))) == sorted(map(key, calls(log)))


def test_tritonbench_holds_the_same():
    loaded = json.loads(export("tritonbench", *LOGS).out)
    metadata = loaded.pop("metadata")
    assert metadata["generator"].startswith("torchtrace ")
    assert str(SAMPLE) in metadata["traces"]
    operators = load_operators(export("torchbench", *LOGS).out)
    assert {
        name: {row["inputs"]: row["count"] for row in rows} for name, rows in loaded.items()
    } == operators


@pytest.mark.torch
def test_torchbench_file_of_a_training_run(tmp_path):
    """The operators accept its inputs, made into tensors as the loader makes them."""
    import torch

    trace = tmp_path / "trace"
    script = tool.SCRIPTS / "train_mlp.py"
    ran = torchtrace(
        "run", "-qo", trace, "-l2", "--formats=none", "--python", tool.PYTHON, script, cwd=tmp_path
    )
    assert ran.status == 0, ran.err
    operators = load_operators(export("torchbench", "-q", trace).out)
    scope = {
        "T": lambda size, dtype, stride=None: (
            torch.ones(size, dtype=dtype)
            if stride is None
            else torch.empty_strided(size, stride, dtype=dtype).fill_(1)
        ),
        "inf": float("inf"),
        "torch": torch,
    }
    scope.update({short: getattr(torch, name) for short, name in ABBREVIATIONS.items()})
    assert any(name.startswith("aten.addmm.") for name in operators)
    for name, counts in operators.items():
        _, packet, overload = name.split(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        for inputs in counts:
            args, kwargs = eval(inputs, scope)
            operator(*args, **kwargs)


# ---- output and errors ----


def test_output_is_not_overwritten(tmp_path):
    out = tmp_path / "x.csv"
    out.write_text("mine")
    refused = torchtrace("export", "csv", SAMPLE, "-o", out)
    assert refused.status == 2 and f"{out} exists; --force replaces it" in refused.err
    assert out.read_text() == "mine"
    assert export("csv", SAMPLE, "-fo", out).err == f"torchtrace: wrote {out}\n"
    assert out.read_text() == export("csv", SAMPLE, "-o", "-").out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("jpeg", SAMPLE), "unknown format 'jpeg'; there are text, yaml"),
        (("parket", SAMPLE), "did you mean parquet?"),
        (("csv",), "TRACE is required"),
        (("yaml", "--calls", SAMPLE), "jsonl, csv and parquet hold calls"),
        (("csv", "/not/there"), "/not/there"),
        (("csv", SAMPLE, "/etc/passwd"), "/etc/passwd"),
        (("csv", SAMPLE, "-o", "/not/there/x.csv"), "/not/there/x.csv"),
        (("csv", SAMPLE, "-fo", "/tmp"), "/tmp is a folder"),
        (("csv", "--level", "9", SAMPLE), "unknown level '9'"),
    ],
)
def test_trouble(args, message):
    result = torchtrace("export", *args)
    assert result.status == 2 and message in result.err
    assert all(line.startswith("torchtrace: ") for line in result.err.splitlines())


def test_trouble_leaves_the_output_as_it_was(tmp_path):
    bad = tmp_path / "bad.ttlog"
    bad.write_bytes(os.urandom(5000))
    out = tmp_path / "x"
    out.write_text("mine")
    for kind in ("csv", "parquet", "torchbench"):
        result = torchtrace("export", kind, SAMPLE, bad, "-fo", out)
        assert result.status == 2 and str(bad) in result.err
        assert out.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)) == ["bad.ttlog", "x"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "torchbench", "json"])
def test_a_full_disk_is_said(kind):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [tool.TORCHTRACE, "export", kind, SAMPLE],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=tool.environment(tool.WITH_PYARROW),
        )
    assert done.returncode == 2
    assert "cannot write to standard output: No space left on device" in done.stderr


def test_reader_that_has_gone_is_no_failure():
    process = subprocess.Popen(
        [tool.TORCHTRACE, "export", "csv", SAMPLE], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    assert (process.stderr.read(), process.wait()) == (b"", 0)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_file_that_cannot_grow(tmp_path, kind):
    """The error names the file, and nothing is left behind."""
    out = tmp_path / f"x.{kind}"

    def limit():
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = subprocess.run(
        [tool.TORCHTRACE, "export", kind, SAMPLE, "-o", out],
        stderr=subprocess.PIPE,
        text=True,
        env=tool.environment(tool.WITH_PYARROW),
        preexec_fn=limit,
    )
    assert done.returncode == 2 and f"cannot write {out}" in done.stderr
    assert os.listdir(tmp_path) == []


def test_no_format_is_undocumented():
    rows = (tool.ROOT / "docs/EXPORT.md").read_text().splitlines()
    first_cells = " ".join(row.split("|")[1] for row in rows if row.startswith("| `"))
    unknown = torchtrace("export", "jpeg", SAMPLE).err
    for name in re.search(r"there are ([\w, ]*)", unknown).group(1).strip().split(", "):
        assert f"`{name}`" in first_cells
