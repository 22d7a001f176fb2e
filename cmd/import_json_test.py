"""Traces that PyTorch's own tools write, read by torchtrace's verbs."""

import collections
import datetime
import gzip
import json

import pytest

from tools.testing import whole_tool as tool

SAMPLES = tool.ROOT / "testdata/imports"

# The step is a training step of an MLP; OBSERVE is the observing code.
PROGRAM = """
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
x, y = torch.randn(2, 8), torch.tensor([1, 3])


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()


step()
OBSERVE
"""
PLAIN = """
torch.neg(x)  # where the step begins
step()
"""
OBSERVED = """
import time
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

observer = ExecutionTraceObserver()
observer.register_callback("et.json")
with profile(
    activities=[ProfilerActivity.CPU],
    record_shapes=True,
    with_stack=True,
    execution_trace_observer=observer,
) as profiler:
    print(time.time(), file=open("began", "w"))
    BODY
profiler.export_chrome_trace("chrome.json")
"""


def torchtrace(*args, cwd="/", **kwargs):
    return tool.torchtrace(*args, cwd=cwd, **kwargs)


def dump(path):
    result = torchtrace("dump", "--format", "jsonl", path)
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def observe(folder, body, program=PROGRAM):
    """The traces of a program by both of PyTorch's tools, as torchtrace reads them."""
    code = program.replace("OBSERVE", OBSERVED.replace("BODY", body.replace("\n", "\n    ")))
    (folder / "observed.py").write_text(code)
    result = tool.execute([tool.PYTHON, "observed.py"], folder)
    assert result.status == 0, result.err
    return dump(folder / "et.json"), dump(folder / "chrome.json")


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    """One training step: the observer's calls, the profiler's, torchtrace's level 2."""
    folder = tmp_path_factory.mktemp("step")
    et, chrome = observe(folder, "step()")
    (folder / "plain.py").write_text(PROGRAM.replace("OBSERVE", PLAIN))
    args = ("--levels", "2", "-qo", "trace", "--python", tool.PYTHON, "plain.py")
    result = torchtrace("run", *args, cwd=folder)
    assert result.status == 0, result.err
    own = dump(folder / "trace")
    start = max(i for i, call in enumerate(own) if call["api"] == "aten::neg")
    return folder, et, chrome, own[start + 1 :]


def same(own, other):
    """Whether an argument recorded by torchtrace matches the observer's, as far as both record
    it."""
    if isinstance(own, dict) and isinstance(other, dict):
        # Only torchtrace records these.
        own = {k: v for k, v in own.items() if k not in ("requires_grad", "subclass")}
        return own.keys() == other.keys() and all(same(own[key], other[key]) for key in own)
    if isinstance(own, list) and isinstance(other, list):
        return len(own) == len(other) and all(map(same, own, other))
    # A number passed for a tensor: PyTorch records it as a tensor, torchtrace as the number.
    wrapped = {bool: "torch.bool", int: "torch.int64", float: "torch.float64"}.get(type(own))
    if wrapped is not None and isinstance(other, dict):
        return (other.get("shape"), other.get("dtype")) == ([], wrapped)
    return type(own) is type(other) and own == other


def same_call(own, other):
    return own["api"] == other["api"] and all(same(own[k], other[k]) for k in ("args", "kwargs"))


def tensors(value):
    """All tensors in an argument: shape, dtype, stride."""
    if isinstance(value, list):
        return [tensor for item in value for tensor in tensors(item)]
    if not isinstance(value, dict):
        return []
    if value["type"] == "torch.Tensor" and "shape" in value:
        return [(value["shape"], value["dtype"], value.get("stride"))]
    return tensors(value["value"]) if value["type"] in ("list", "tuple") else []


@pytest.mark.torch
def test_execution_trace_has_the_calls_of_level_2(step):
    _, et, _, own = step
    assert len(own) > 30
    # Level 2 is below autograd, the observer sees the whole dispatcher: every call of the first
    # occurs in the second, in the same order, with the same arguments. Except the operators of
    # record_function, which PyTorch doesn't observe.
    rest = iter(et)
    for call in own:
        if not call["api"].startswith("profiler::"):
            assert any(same_call(call, other) for other in rest), call


@pytest.mark.torch
def test_execution_trace_nests(step):
    _, et, _, _ = step
    parents = collections.defaultdict(set)
    for call in et:
        if "parent" in call:
            parents[call["api"]].add(et[call["parent"]]["api"])
            assert call["depth"] == et[call["parent"]]["depth"] + 1
        else:
            assert call["depth"] == 0
    assert parents["aten::addmm"] == {"aten::linear"}
    assert parents["aten::transpose.int"] == {"aten::t"}
    # Autograd's nodes and optimizers' ranges around it are not calls.
    assert "aten::nll_loss_backward" not in parents


@pytest.mark.torch
def test_profiler_trace_agrees_with_the_execution_trace(step):
    """Names except overloads, order, nesting, shapes, strides; dtypes except in lists."""
    _, et, chrome, _ = step

    def outline(call):
        shapes = [tensor[0] for tensor in tensors([*call["args"], *call["kwargs"].values()])]
        return call["api"].split(".")[0], call["depth"], call.get("parent"), shapes

    assert [outline(call) for call in chrome] == [outline(call) for call in et]
    for one, other in zip(chrome, et):
        pairs = zip(tensors(one["args"]), tensors([*other["args"], *other["kwargs"].values()]))
        for (_, dtype, stride), (_, other_dtype, other_stride) in pairs:
            assert stride == other_stride
            assert dtype in (other_dtype, "torch.unknown")
    # Times are wall clock times, and nested.
    for call in chrome:
        assert call["duration_ns"] > 0
        if "parent" in call:
            around = chrome[call["parent"]]
            assert around["time_ns"] <= call["time_ns"]
            end = call["time_ns"] + call["duration_ns"]
            assert end <= around["time_ns"] + around["duration_ns"]


@pytest.mark.torch
def test_verbs_read_them(step):
    folder, et, chrome, _ = step
    for name, calls in (("et.json", et), ("chrome.json", chrome)):
        for verb in ("stats", "info", "dump"):
            result = torchtrace(verb, folder / name)
            assert result.status == 0, result.err
            assert "aten::addmm" in result.out or verb == "info"
        stats = torchtrace("stats", "--format", "json", folder / name)
        assert json.loads(stats.out)["total_calls"] == len(calls)


@pytest.mark.torch
def test_a_profile_starts_when_it_began(step):
    folder, *_ = step
    info = json.loads(torchtrace("info", folder / "chrome.json", "--format", "json").out)
    started = datetime.datetime.fromisoformat(info["started"].replace("Z", "+00:00")).timestamp()
    assert -1.5 < started - float((folder / "began").read_text()) < 1


@pytest.mark.torch
def test_every_dtype_layout_and_memory_format_has_its_name(tmp_path):
    """Their C++ names and numbers in the files are those of torch."""
    program = "import torch\nOBSERVE"
    body = """
for name in sorted(dir(torch)):
    dtype = getattr(torch, name)
    if isinstance(dtype, torch.dtype) and not str(dtype).startswith(("torch.q", "torch.bits")):
        torch.ops.aten.detach(torch.empty(1, dtype=dtype))
for format in (torch.contiguous_format, torch.channels_last):
    torch.empty(1, 1, 2, 2, memory_format=format)
torch.empty(1, 1, 2, 2, 2, memory_format=torch.channels_last_3d)
torch.empty_like(torch.empty(3), memory_format=torch.preserve_format)
torch.empty(2, 2, layout=torch.sparse_coo)
torch.empty_like(torch.empty(2, 2), layout=torch.strided)
"""
    et, chrome = observe(tmp_path, body, program)
    seen = []
    for empty, detach in zip(et, et[1:]):
        if detach["api"] == "aten::detach" and empty["api"] == "aten::empty.memory_format":
            assert detach["args"][0]["dtype"] == empty["kwargs"]["dtype"]["value"]
            seen.append(detach["args"][0]["dtype"])
    # float32 never appears: it is the default dtype.
    assert {"torch.bfloat16", "torch.complex32", "torch.uint64", "torch.float8_e4m3fn"} <= set(seen)
    code = "import torch, sys; print(all(isinstance(eval(d), torch.dtype) for d in sys.argv[1:]))"
    assert tool.execute([tool.PYTHON, "-c", code, *seen], tmp_path).out == "True\n"
    assert len(set(seen)) > 15
    detached = [call["args"][0]["dtype"] for call in chrome if call["api"] == "aten::detach"]
    assert detached == [call["args"][0]["dtype"] for call in et if call["api"] == "aten::detach"]
    named = {json.dumps(value) for call in et for value in call["kwargs"].values()}
    for kind, names in {
        "layout": ["sparse_coo", "strided"],
        "memory_format": [
            "contiguous_format",
            "channels_last",
            "channels_last_3d",
            "preserve_format",
        ],
    }.items():
        for name in names:
            value = {"type": f"torch.{kind}", "value": f"torch.{name}"}
            assert json.dumps(value) in named, name


@pytest.mark.torch
def test_every_schema_of_torch_is_read(tmp_path):
    """Each with all of its defaults as inputs, which leaves no argument."""
    code = """
import json, torch

def node(id, schema, inputs):
    values, types = [], []
    for value in inputs:
        kind = {bool: "Bool", int: "Int", float: "Double", str: "String", type(None): "None"}
        values.append(round(value, 6) if isinstance(value, float) else value)
        is_list = isinstance(value, list)
        types.append("GenericList[" + ",".join(kind[type(v)] for v in value) + "]" if is_list
                     else kind[type(value)])
    return {"id": id, "name": "op", "ctrl_deps": 1,
            "inputs": {"values": values, "shapes": [[] for _ in values], "types": types},
            "attrs": [{"name": "op_schema", "type": "string", "value": str(schema)}]}

nodes, names = [], []
for schema in torch._C._jit_get_all_schemas():
    if "::" not in schema.name:
        continue
    names.append(schema.name + ("." + schema.overload_name if schema.overload_name else ""))
    inputs = [a.default_value for a in schema.arguments]
    if not all(a.has_default_value() for a in schema.arguments):
        inputs = []
    nodes.append(node(len(nodes) + 2, schema, inputs))
json.dump({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": nodes}, open("all.json", "w"))
json.dump(names, open("names.json", "w"))
"""
    result = tool.execute([tool.PYTHON, "-c", code], tmp_path)
    assert result.status == 0, result.err
    names = json.loads((tmp_path / "names.json").read_text())
    assert len(names) > 3000
    calls = dump(tmp_path / "all.json")
    assert [call["api"] for call in calls] == names
    unknown = [{"type": "symbol", "value": "..."}]
    assert [call for call in calls if call["args"] not in ([], unknown) or call["kwargs"]] == []
    assert 50 < len([call for call in calls if call["args"] == []]) < len(calls)


# ---- without torch ----


@pytest.mark.parametrize("sample", ["execution_trace/1.0.1.json", "execution_trace/1.1.1.json"])
def test_committed_execution_traces(sample):
    calls = dump(SAMPLES / sample)
    assert calls[0]["api"] == "aten::add.Tensor" and calls[0]["kwargs"] == {"alpha": 10}
    result = torchtrace("stats", SAMPLES / sample)
    assert result.status == 0 and "aten::cat" in result.out


def test_committed_profiler_trace():
    calls = dump(SAMPLES / "chrome_trace/2.13.json")
    assert calls[0]["api"] == "aten::add"
    assert calls[0]["duration_ns"] > 0


@pytest.mark.parametrize("sample", ["execution_trace/1.1.1.json", "chrome_trace/2.13.json"])
def test_damaged_files(sample, tmp_path):
    text = (SAMPLES / sample).read_text()
    whole = dump(SAMPLES / sample)
    path = tmp_path / "trace.json"

    # Cut in the middle, as by a program that was killed: the beginning is read.
    path.write_text(text[: len(text) // 2])
    part = dump(path)
    assert 0 < len(part) < len(whole)

    # Broken in the middle: an error, and nothing on standard output.
    middle = text.index('"name"', len(text) // 2)
    for broken in ("?", "\0", "[" * 100000):
        path.write_text(text[:middle] + broken + text[middle:])
        for verb in ("stats", "info", "dump"):
            result = torchtrace(verb, path)
            assert result.status == 2, (verb, broken[:1])
            assert result.out == ""
            assert len(result.err.splitlines()) == 1
            assert str(path) in result.err and "offset" in result.err


def test_a_file_packed_by_gzip(tmp_path):
    sample = SAMPLES / "chrome_trace/2.13.json"
    (tmp_path / "trace.json").write_bytes(sample.read_bytes())
    (tmp_path / "trace.json.gz").write_bytes(gzip.compress(sample.read_bytes()))
    for verb in (["stats"], ["dump"], ["dump", "--format", "jsonl"]):
        plain = torchtrace(*verb, tmp_path / "trace.json")
        packed = torchtrace(*verb, tmp_path / "trace.json.gz")
        assert plain.status == packed.status == 0
        assert packed.out == plain.out
    cut = tmp_path / "cut.json.gz"
    cut.write_bytes((tmp_path / "trace.json.gz").read_bytes()[:-100])
    result = torchtrace("stats", cut)
    assert (result.status, result.out) == (2, "")
    assert f"{cut} is compressed by gzip and cut, at byte " in result.err


def test_a_trace_of_another_program(tmp_path):
    path = tmp_path / "browser.json"
    path.write_text('{"traceEvents": [{"ph": "X", "cat": "v8", "name": "a", "ts": 1, "dur": 1}]}')
    result = torchtrace("stats", path)
    assert result.status == 2
    assert "none of its 1 events is a cpu_op" in result.err


def schemas(path):
    attributes = [node.get("attrs", []) for node in json.loads(path.read_text())["nodes"]]
    flat = [node.get("op_schema") for node in json.loads(path.read_text())["nodes"]]
    named = [a["value"] for node in attributes for a in node if a["name"] == "op_schema"]
    return sorted(schema for schema in [*flat, *named] if schema)


def by_thread(path):
    told = ("thread", "api", "args", "kwargs")
    return sorted(([call[k] for k in told] for call in dump(path)), key=lambda call: call[0])


@pytest.mark.parametrize("version", ["1.0.1", "1.1.1"])
def test_an_execution_trace_that_is_written_again(version, tmp_path):
    sample = SAMPLES / f"execution_trace/{version}.json"
    told = json.loads(sample.read_text())
    again, part, filtered = (tmp_path / name for name in ("again.json", "part", "filtered.json"))
    for source, target in ((sample, again), (part, filtered)):
        if source is part:
            filter = torchtrace("filter", sample, "-o", part)
            assert filter.status == 0, filter.err
        written = torchtrace("export", "et", source, "-o", target)
        assert written.status == 0 and "without a schema" not in written.err, written.err
        assert schemas(target) == schemas(sample) != []
        head = json.loads(target.read_text())
        for member in ("pid", "time", "start_ts"):
            assert head[member] == told[member]
        # Without times, the order of calls on different threads is unknown.
        for one, other in zip(by_thread(target), by_thread(sample), strict=True):
            assert one == other


def test_operators_without_schemas(tmp_path):
    sample = (SAMPLES / "execution_trace/1.1.1.json").read_text()
    whole = dump(SAMPLES / "execution_trace/1.1.1.json")
    told = json.loads(sample)
    for node in told["nodes"]:
        for attribute in node["attrs"]:
            if attribute["name"] == "op_schema":
                attribute["value"] = ""
    path = tmp_path / "bare.json"
    path.write_text(json.dumps(told))
    assert [call["api"] for call in dump(path)] == [call["api"].split(".")[0] for call in whole]
    stats = torchtrace("stats", path)
    assert "calls of operators without a schema" in stats.err


UNKNOWN = {"name": "aten::mm", "ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 5}


def test_arguments_that_are_not_known(tmp_path):
    """No form shows them as calls without arguments."""
    profile = tmp_path / "profile.json"
    none = {**UNKNOWN, "ts": 9, "args": {"Input Dims": [], "Input type": []}}
    profile.write_text(json.dumps({"traceEvents": [UNKNOWN, none]}))
    result = torchtrace("dump", profile)
    assert [line.split()[1] for line in result.out.splitlines()] == ["aten::mm(...)", "aten::mm()"]
    assert "the arguments of 1 call" in result.err
    for form in ("text", "yaml", "json", "jsonl", "csv", "chrome"):
        path = tmp_path / f"calls.{form}"
        written = torchtrace("export", form, profile, "-o", path)
        assert written.status == 0, written.err
        read = torchtrace("dedup", path).out.splitlines()
        assert sorted(read) == ["aten::mm()", "aten::mm(...)"], form
    stats = json.loads(torchtrace("stats", profile, "--format", "json").out)
    assert stats["apis"][0]["configs"] == 2
    for where, count in (("nargs = 0", 1), ("nargs > 0", 0), ("arg(0) != 1", 0)):
        dumped = torchtrace("dump", profile, "--where", where)
        assert len(dumped.out.splitlines()) == count, (where, dumped)
    coarse = torchtrace("dedup", profile, "--ignore", "scalars").out
    assert sorted(coarse.splitlines()) == ["aten::mm()", "aten::mm(...)"]
    bench = torchtrace("export", "torchbench", profile)
    assert "arguments that aren't known" in bench.err and "cnt: 1, ((), {})" in bench.out
    shapes = torchtrace("stats", "--by", "shapes", profile)
    assert shapes.status == 0, shapes.err


@pytest.mark.torch
def test_replay_skips_arguments_that_are_not_known(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({"deviceProperties": [], "traceEvents": [UNKNOWN]}))
    result = torchtrace("replay", "-j", "1", "--python", tool.PYTHON, path)
    assert (result.status, "its arguments aren't known" in result.out) == (0, True), result
