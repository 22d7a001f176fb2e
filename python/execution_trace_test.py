"""torchtrace.ExecutionTraceObserver in place of torch.profiler's.

The first part asserts what PyTorch's own test/profiler/test_execution_trace.py asserts for its
observer on the CPU; the rest is what that observer gets wrong (docs/PYTHON.md), and `export et`.
"""

import collections
import gzip
import json
import subprocess

import pytest

from python.module_testing import TORCHTRACE
from python.warm_testing import python

pytestmark = pytest.mark.torch

PROCESS = "[pytorch|profiler|execution_trace|process]"
THREAD = "[pytorch|profiler|execution_trace|thread]"

PAYLOAD = """
import json, os, sys
import torch
from torch.autograd import _record_function_with_args_enter, _record_function_with_args_exit
from torch.profiler import profile, record_function
import torchtrace
from torchtrace import ExecutionTraceObserver

def payload():
    u = torch.randn(3, 4, 5, requires_grad=True)
    with record_function("## TEST 1 ##", "1, 2, 3"):
        scope = _record_function_with_args_enter(
            "## TEST 2 ##", 1, False, 2.5, [u, u], (u, u), "hello", u,
            float("inf"), float("-inf"), float("nan"),
        )
        x = torch.randn(10, 10, requires_grad=True)
        y = torch.randn(10, 10, requires_grad=True)
        z = x + y + x * y + x * y
        z.backward(z)
        torch.nn.GELU()(torch.randn(2))
        _record_function_with_args_exit(scope)
"""


def run(tmp_path, body, **environment):
    return python(PAYLOAD + body, tmp_path, env=environment).check()


def read(path):
    opened = gzip.open(path, "rt") if str(path).endswith(".gz") else open(path)
    with opened as file:
        trace = json.load(file)
    assert trace["schema"] == "1.1.1-chakra.0.0.4"
    nodes = trace["nodes"]
    ids = [node["id"] for node in nodes]
    assert len(set(ids)) == len(ids)
    assert [node["id"] for node in nodes if node["name"] == PROCESS] == [1]
    for node in nodes:
        # Its parent exists, and began before.
        assert node["ctrl_deps"] in ids
        assert node["ctrl_deps"] < node["id"] or node["name"] == PROCESS
        for side in ("inputs", "outputs"):
            told = node[side]
            assert len({len(told[key]) for key in ("values", "shapes", "types", "strides")}) == 1
    return nodes


def attributes(node):
    return {attribute["name"]: attribute["value"] for attribute in node["attrs"]}


def loops(nodes):
    return [node["name"] for node in nodes if node["name"].startswith("## LOOP ")]


def record_ids(nodes):
    return sorted(
        attributes(node)["rf_id"] for node in nodes if node["name"] not in (PROCESS, THREAD)
    )


def test_alone_and_packed(tmp_path):
    run(
        tmp_path,
        """
et = ExecutionTraceObserver().register_callback("et.json.gz")
et.start()
for i in range(5):
    with record_function(f"## LOOP {i} ##"):
        payload()
et.stop()
assert et.get_output_file_path() == "et.json.gz"
et.unregister_callback()
et.unregister_callback()
""",
    )
    nodes = read(tmp_path / "et.json.gz")
    assert len(loops(nodes)) == 5
    scopes = [node for node in nodes if node["name"] == "## TEST 2 ##"]
    assert len(scopes) == 5
    inputs = scopes[0]["inputs"]
    assert inputs["types"] == [
        "Int", "Bool", "Double", "GenericList[Tensor(float),Tensor(float)]",
        "Tuple[Tensor(float),Tensor(float)]", "String", "Tensor(float)",
        "Double", "Double", "Double",
    ]  # fmt: skip
    assert len(inputs["values"][3][0]) == 6
    assert inputs["values"][3][0] == inputs["values"][6] == inputs["values"][4][1]
    assert inputs["values"][7:] == ["inf", "-inf", "nan"]
    assert inputs["shapes"][6] == [3, 4, 5] and inputs["strides"][6] == [20, 5, 1]
    # Everything that a replay needs of an operator.
    adds = [node for node in nodes if node["name"] == "aten::add"]
    assert adds
    schema = attributes(adds[0])["op_schema"]
    assert schema.startswith("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)")
    assert adds[0]["inputs"]["types"] == ["Tensor(float)", "Tensor(float)", "Int"]
    assert adds[0]["outputs"]["shapes"] == [[10, 10]]
    # The backward node refers to its forward call.
    by_id = {node["id"]: node for node in nodes}
    backward = [node for node in nodes if node["name"] == "AddBackward0"]
    assert backward
    for node in backward:
        told = attributes(node)
        forward = by_id[told["fw_parent"]]
        assert forward["name"] == "aten::add" and attributes(forward)["seq_id"] == told["seq_id"]


def test_with_the_profiler(tmp_path):
    run(
        tmp_path,
        """
ready = []
with profile(
    activities=[torch.profiler.ProfilerActivity.CPU],
    schedule=torch.profiler.schedule(skip_first=3, wait=1, warmup=1, active=2, repeat=1),
    on_trace_ready=ready.append,
    execution_trace_observer=ExecutionTraceObserver().register_callback("et.json"),
) as p:
    for i in range(10):
        with record_function(f"## LOOP {i} ##"):
            payload()
        p.step()
    assert p.execution_trace_observer.get_output_file_path() == "et.json"
p.export_chrome_trace("kineto.json")
assert len(ready) == 1
""",
    )
    nodes = read(tmp_path / "et.json")
    assert len(loops(nodes)) == 2
    events = json.loads((tmp_path / "kineto.json").read_text())["traceEvents"]
    kineto = sorted(
        event["args"]["Record function id"]
        for event in events
        if event.get("cat") in ("cpu_op", "user_annotation")
    )
    assert record_ids(nodes) == kineto
    assert len(set(kineto)) == len(kineto) > 90


def test_from_the_environment(tmp_path):
    run(
        tmp_path,
        """
assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
os.environ["ENABLE_PYTORCH_EXECUTION_TRACE"] = "1"
os.environ["ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS"] = "1"
et = ExecutionTraceObserver.build_execution_trace_obs_from_env()
et.start()
payload()
et.cleanup()
assert os.path.isdir(et.get_resources_dir()) and os.listdir(et.get_resources_dir()) == []
os.rename(et.get_output_file_path(), "et.json")
""",
        TMPDIR=str(tmp_path),
    )
    assert any(node["name"] == "aten::mul" for node in read(tmp_path / "et.json"))


def test_start_and_stop(tmp_path):
    ended = run(
        tmp_path,
        """
et = ExecutionTraceObserver()
et.register_callback("et.json")
expected = 0
for i in range(10):
    {3: et.start, 5: et.stop, 8: et.start, 9: et.stop}.get(i, lambda: None)()
    expected += et._execution_trace_running
    with record_function(f"## LOOP {i} ##"):
        payload()
et.unregister_callback()
print(expected)
""",
    )
    assert len(loops(read(tmp_path / "et.json"))) == int(ended.out) == 3


def test_one_file_a_time_in_a_loop(tmp_path):
    run(
        tmp_path,
        """
for i in range(10):
    if i in (3, 4, 6, 8):
        et = ExecutionTraceObserver().register_callback(f"et-{i}.json")
        et.start()
    with record_function(f"## LOOP {i} ##"):
        payload()
    if i in (3, 4, 6, 8):
        et.stop()
        et.unregister_callback()
""",
    )
    for i in (3, 4, 6, 8):
        assert loops(read(tmp_path / f"et-{i}.json")) == [f"## LOOP {i} ##"]


def test_nothing_captured(tmp_path):
    run(
        tmp_path,
        """
et = ExecutionTraceObserver().register_callback("et.json")
payload()
et.unregister_callback()
et = ExecutionTraceObserver().register_callback("end.json")
et.start()
payload()
""",
    )
    assert [node["name"] for node in read(tmp_path / "et.json")] == [PROCESS]
    # At its end, the program writes traces that are still open.
    assert any(node["name"] == "aten::mul" for node in read(tmp_path / "end.json"))


def test_nested_tensors(tmp_path):
    run(
        tmp_path,
        """
with profile(execution_trace_observer=ExecutionTraceObserver().register_callback("et.json")):
    for i in range(3):
        values = torch.rand((8 + i, 4 + i))
        offsets = torch.tensor([0, 2, 4, 6, 8 + i])
        torch.nested.nested_tensor_from_jagged(values, offsets).sin().cos()
    torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(4, 3)]) + 1
""",
    )
    assert any("cos" in node["name"] for node in read(tmp_path / "et.json"))


# What PyTorch's own observer gets wrong.
def test_doubles_failures_and_identities(tmp_path):
    run(
        tmp_path,
        """
et = ExecutionTraceObserver().register_callback("et.json")
et.start()
torch.nn.functional.layer_norm(torch.randn(2, 8), (8,), eps=1e-12)
try:
    torch.mm(torch.randn(2, 3), torch.randn(2, 3))
except RuntimeError:
    pass
for _ in range(20):
    torch.exp(torch.zeros(64))
base = torch.arange(8)
base[3:6] + 1
if os.fork() == 0:
    with record_function("## TEST 1 ##"):
        torch.zeros(2) + 1
    os._exit(0)
os.wait()
et.unregister_callback()
""",
    )
    nodes = read(tmp_path / "et.json")
    layer_norm = next(node for node in nodes if node["name"] == "aten::layer_norm")
    assert layer_norm["inputs"]["values"][4] == 1e-12
    # It failed, and later calls are not its children.
    failed = next(node for node in nodes if node["name"] == "aten::mm")
    assert failed["outputs"]["values"] == []
    assert all(node["ctrl_deps"] != failed["id"] for node in nodes)
    # Two tensors have two numbers, even if memory is reused.
    inputs = [node["inputs"]["values"][0] for node in nodes if node["name"] == "aten::exp"]
    assert len({value[0] for value in inputs}) == len({value[1] for value in inputs}) == 20
    # A view has its base's storage, with its offset there.
    view = [node for node in nodes if node["name"] == "aten::add"][-1]["inputs"]["values"][0]
    base = next(node for node in nodes if node["name"] == "aten::arange")["outputs"]["values"][0]
    assert (view[1], view[2]) == (base[1], 3) and view[0] != base[0]
    # The forked process isn't in it.
    assert not any(node["name"] == "## TEST 1 ##" for node in nodes)


def test_ranges_of_integers(tmp_path):
    run(
        tmp_path,
        """
et = ExecutionTraceObserver().register_callback("et.json")
et.start()
torch.nn.functional.embedding(torch.tensor([7, 3, 5]), torch.randn(10, 4))
et.unregister_callback()
""",
        ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_RANGE="1",
    )
    embedding = next(n for n in read(tmp_path / "et.json") if n["name"] == "aten::embedding")
    assert json.loads(attributes(embedding)["tensor_range"]) == {"1": [3, 7]}


def test_threads(tmp_path):
    run(
        tmp_path,
        """
import threading
et = ExecutionTraceObserver().register_callback("et.json")
et.start()
threads = [threading.Thread(target=payload) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
et.unregister_callback()
""",
    )
    nodes = read(tmp_path / "et.json")
    roots = {n["id"]: attributes(n)["tid"] for n in nodes if n["name"] == THREAD}
    assert len(set(roots.values())) == len(roots) >= 4
    by_id = {node["id"]: node for node in nodes}
    for node in nodes:
        if node["name"] in (PROCESS, THREAD):
            continue
        at = node
        while at["name"] != THREAD:
            at = by_id[at["ctrl_deps"]]
        assert attributes(at)["tid"] == attributes(node)["tid"]


# Triton records its kernels' files in keyword inputs, while a profiler runs; there is no Triton
# here, so this imitates it.
def test_kernel_files(tmp_path):
    run(
        tmp_path,
        """
with profile(
    record_shapes=True,
    execution_trace_observer=ExecutionTraceObserver().register_callback("et.json"),
):
    with torch._C._profiler._RecordFunctionFast(
        "triton_poi_fused_0", [torch.zeros(4), 4],
        {"kernel_backend": "triton", "kernel_file": "/x/kernel.py", "grid": "(4,)", "stream": 7},
    ):
        torch.zeros(1)
""",
    )
    kernel = next(n for n in read(tmp_path / "et.json") if n["name"] == "triton_poi_fused_0")
    assert attributes(kernel)["kernel_file"] == "kernel.py"
    assert attributes(kernel)["kernel_backend"] == "triton"
    assert kernel["inputs"]["values"][-2:] == ["(4,)", 7]
    assert kernel["inputs"]["types"][-2:] == ["String", "Int"]
    assert kernel["outputs"]["values"] == []


def test_within_a_trace(tmp_path):
    ended = run(
        tmp_path,
        """
with torchtrace.trace(output="out"):
    et = ExecutionTraceObserver().register_callback("et.json")
    et.start()
    payload()
    et.unregister_callback()
""",
    )
    assert "PyTorch's own ExecutionTraceObserver writes this file" in ended.err
    assert "aten::mul" in (tmp_path / "et.json").read_text()


def test_a_file_that_cannot_be_written(tmp_path):
    run(
        tmp_path,
        """
et = ExecutionTraceObserver()
try:
    et.register_callback("nowhere/et.json")
except FileNotFoundError:
    assert not et.is_registered and not torchtrace.is_tracing()
else:
    raise AssertionError
""",
    )


# The same nodes as in PyTorch's observer, by name and number.
def test_the_same_calls_as_pytorch_tells(tmp_path):
    run(
        tmp_path,
        """
payload()
theirs = torch.profiler.ExecutionTraceObserver().register_callback("theirs.json")
ours = ExecutionTraceObserver().register_callback("ours.json")
ours.start(); theirs.start()
payload()
theirs.stop(); ours.stop()
theirs.unregister_callback(); ours.unregister_callback()
""",
    )
    theirs = json.loads((tmp_path / "theirs.json").read_text())["nodes"]
    ours = read(tmp_path / "ours.json")
    for nodes in (theirs, ours):
        nodes[:] = [node for node in nodes if not node["name"].startswith("[pytorch|")]
    names = collections.Counter(node["name"] for node in theirs)
    assert collections.Counter(node["name"] for node in ours) == names
    by_record = {attributes(node)["rf_id"]: node for node in ours}
    for node in theirs:
        own, told = by_record[attributes(node)["rf_id"]], attributes(node)
        assert own["name"] == node["name"]
        for key in ("op_schema", "scope", "seq_id", "tid", "fw_tid"):
            assert attributes(own)[key] == told[key], (key, own, node)
        for side in ("inputs", "outputs"):
            for key in ("shapes", "strides"):
                if "Double" in own[side]["types"] and key == "shapes":
                    continue
                assert own[side][key] == node[side][key], (own, node)


def test_export_and_import(tmp_path):
    run(tmp_path, 'with torchtrace.trace(output="out", levels=[2]): payload()\n')
    ended = subprocess.run(
        [TORCHTRACE, "export", "et", "out", "-o", "et.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert "each tensor is written as a new one" in ended.stderr
    nodes = read(tmp_path / "et.json")
    assert all(attributes(n)["op_schema"] for n in nodes if n["name"].startswith("aten::"))

    def configs(path):
        listed = subprocess.run(
            [TORCHTRACE, "dedup", path, "--counts", "--level", "2", "-q"],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        return sorted(listed.stdout.splitlines())

    # The import restores what was exported; a number passed for a tensor stays a number.
    assert configs("et.json") == configs("out")
