"""torchtrace replay: its results for configs, and what no trace can make it do."""

import csv
import json
import os
import re
import signal
import subprocess
import time
import xml.etree.ElementTree

import pytest

from tools.testing import whole_tool as tool

pytestmark = pytest.mark.torch

ADD = 'torch.add(Tensor([2], "float32"), Tensor([2], "float32"))'
MISFIT = 'torch.add(Tensor([2], "float32"), Tensor([3], "float32"))'


def replay(*args, cwd="/", jobs=1, **kwargs):
    return tool.torchtrace(
        "replay", "--python", tool.PYTHON, "-j", str(jobs), *args, cwd=cwd, **kwargs
    )


def write(path, *lines):
    path.write_text("".join(line + "\n" for line in lines))
    return path


def in_workers(folder, statements):
    """An environment in which a worker first imports torch and runs these statements."""
    lines = ["import sys", "if '-B' in sys.orig_argv:", "    import torch"]
    lines += [f"    {line}" for line in statements.strip().split("\n")]
    (folder / "sitecustomize.py").write_text("\n".join(lines) + "\n")
    return {"PYTHONPATH": str(folder)}


# Replaces an operator's code: REPLACE, then `library.impl(NAME, FUNCTION, "CPU")`.
REPLACE = """
import warnings
warnings.simplefilter("ignore")
library = torch.library.Library("aten", "IMPL")
"""


def results(*args, **kwargs):
    """Results by config, and the exit code."""
    result = replay(*args, "--format", "json", "-q", **kwargs)
    assert result.err == ""
    report = json.loads(result.out)
    summary = report["summary"]
    assert summary["configs"] == len(report["configs"])
    assert result.status == (1 if summary["differ"] else 0)
    return {row["config"]: row for row in report["configs"]}, result.status


RETURNS = (
    """
torch.index_select(Tensor([5, 3], "float32"), 0, Tensor([4], "int64"))
torch.linalg.cholesky(Tensor([2, 4, 4], "float64"))
torch.Tensor.to_dense(Tensor([3, 4], "float32", layout="sparse_csr"))
torch.Tensor.to_dense(Tensor([3, 4], "float32", layout="sparse_coo"))
torch.Tensor.__getitem__(Tensor([5, 5], "float32"), tuple(Tensor([5], "bool"), 0))
torch.Tensor.__setitem__(Tensor([5, 5], "float32"), Tensor([5, 5], "bool"), Tensor([3], "float32"))
torch.Tensor.new_full(Tensor([1], "bfloat16"), tuple(2, 2), 1.0, dtype=torch.int64, device="cpu")
torch.nn.functional.cross_entropy(Tensor([8, 10], "float32"), Tensor([8], "int64"))
torch.nn.functional.embedding(Tensor([3, 7], "int64"), Tensor([11, 4], "float32"))
torch.Tensor.T.__get__(Tensor([2, 3], "float32"))
torch.nn.Linear(3, 4)
aten::_foreach_add.List(list[Tensor([2], "int64")], list[Tensor([2], "int64")], alpha=2)
aten::add.out(Tensor([2, 3], "float32", stride=[1, 2]), 1.5, out=Tensor([2, 3], "float32"))
aten::convolution(Tensor([1, 2, 8, 8], "float32"), Tensor([3, 2, 3, 3], "float32"), None, \
list[1, 1], list[0, 0], list[1, 1], False, list[0, 0], 1)
aten::sum(Tensor([4], "complex64"))
aten::mul.Tensor(Tensor([4, 4], "float32", stride=[0, 1]), Tensor([0, 4, 4], "float32"))
aten::bernoulli.p(Tensor([4], "float32"), 0.5, generator=torch.Generator("cpu"))
aten::_to_copy(Tensor([2], "float8_e4m3fn"), dtype=torch.float32, device=torch.device("cpu"))
aten::dequantize.self(Tensor([4], "quint8"))
aten::as_strided(Tensor([2], "float32"), list[3, 3], list[3, 1], 4)
aten::view.dtype(Tensor([4], "bits8"), torch.uint8)
aten::index_put(Tensor([5], "float32"), list[Tensor([3], "int64")], Tensor([3], "float32"))
torch.logspace(0, Tensor([], "float32"), 4, 2.0, dtype=torch.uint8)
aten::linspace.Tensor_Tensor(Tensor([], "float32"), Tensor([], "int64"), 5, dtype=torch.uint8)
""".replace("\\\n", "")
    .strip()
    .split("\n")
)


def test_kinds_of_arguments(tmp_path):
    rows, status = results(write(tmp_path / "a.txt", *RETURNS))
    assert {config: row for config, row in rows.items() if row["result"] != "ok"} == {}
    assert len(rows) == len(RETURNS) and status == 0


HOSTILE = """
torch.load("x.pt")
aten::from_file("secret", False, 10)
torch.from_file("secret")
torch.os.system("touch pwned")
torch.PyTorchFileWriter("pwned")
torch.Tensor.__class__.__init__(1)
torch.Tensor.__init_subclass__()
torch.nn.functional.warnings.sys.exit(1)
torch.hub.load("a/b", "c")
aten::zeros(list[100000000000000], dtype=torch.float32)
torch.sum(Tensor([1000000000000000], "float32"))
torch.sum(Tensor([2, 2], "float32", stride=[4000000000000000000, 1]))
torch.sum(Tensor([-3], "float32"))
aten::__class__()
aten::add.__class__(1)
torch.ops.aten.add.Tensor.__globals__(1)
torch.relu(object("os.system"))
torch.relu(function("os.system"))
torch.relu(type("subprocess.Popen"))
_c10d_functional::all_reduce(Tensor([2], "float32"), "sum", "0")
torch.distributed.init_process_group("gloo")
prims::nothing(1)
os.system("touch pwned")
__builtins__.eval("1")
torch.relu.__globals__(1)
torch.Tensor.__class__.__base__.__subclasses__()
torch.Tensor.__getattribute__(Tensor([2], "float32"), "__class__")
torch.Tensor.add.__self__(1)
torch.nn.Module.__init__.__globals__.get("os")
torch.nn.modules.module.warnings.warn("pwned")
torch.functional.torch.load("x.pt")
torch.save(Tensor([2], "float32"), "pwned")
torch.Tensor.share_memory_(Tensor([2], "float32"))
torch.Tensor.tofile(Tensor([2], "float32"), "pwned")
torch.ops.aten.from_file("secret")
torch.ops.load_library("pwned.so")
torch.classes.load_library("pwned.so")
torch.nn.Linear.forward(object("torch.nn.modules.linear.Linear"), Tensor([2], "float32"))
torch.relu(object("torch.nn.modules.distance.PairwiseDistance.__class__"))
paddle.add(1, 2)
""".strip().split("\n")


def test_hostile_names_and_sizes(tmp_path):
    deep = "torch.relu(" + "list[" * 60 + "1" + "]" * 60 + ")"
    path = write(tmp_path / "a.txt", *HOSTILE, deep, ADD)
    before = set(tmp_path.iterdir())
    rows, _ = results(path, "--max-memory", "1GiB", cwd=tmp_path)
    assert set(tmp_path.iterdir()) == before
    assert rows.pop(ADD)["result"] == "ok"
    # The API is allowed, but a list is not a tensor.
    assert rows.pop(deep)["result"] == "raised"
    assert {config for config, row in rows.items() if row["result"] != "skipped"} == set()
    reasons = {config: row["reason"] for config, row in rows.items()}
    assert reasons['aten::from_file("secret", False, 10)'] == "it opens a file"
    assert reasons['os.system("touch pwned")'] == "it is not on the list of allowed functions"
    assert "--max-bytes" in reasons['torch.sum(Tensor([1000000000000000], "float32"))']
    assert "--max-memory" in reasons["aten::zeros(list[100000000000000], dtype=torch.float32)"]


WRITTEN_IN_PYTHON = [
    # Includes the first import of the compiler.
    'torch.nested.nested_tensor(list[Tensor([2, 4], "float32"), Tensor([3, 4], "float32")], '
    "layout=torch.jagged)",
    'torch.Tensor.add(Tensor([3], "float32", device="meta"), 1)',
    'aten::_log_softmax(Tensor([3, 4], "float32", device="meta"), 1, False)',
    'aten::gelu(Tensor([3, 4], "float32", device="meta"))',
    'torch.nn.functional.linear_cross_entropy(Tensor([8, 3], "float32"), '
    'Tensor([4, 3], "float32"), Tensor([8], "int64"), options=object('
    '"torch.nn.modules.linear_cross_entropy_options.LinearCrossEntropyOptions"))',
    'torch_nn::_linear_cross_entropy_batch_chunked_no_reduction(Tensor([8, 3], "float32"), '
    'Tensor([4, 3], "float32"), Tensor([8], "int64"), None, None, -100, 2, "compact", '
    "torch.float32)",
    'torch.nn.functional.triplet_margin_with_distance_loss(Tensor([5, 9], "float32"), '
    'Tensor([5, 9], "float32"), Tensor([5, 9], "float32"), '
    'distance_function=object("torch.nn.modules.distance.PairwiseDistance"))',
]


# By config: why it is skipped, None if it returns.
PLACES = {
    "torch.ops.aten.set_grad_enabled(False)": "it is TorchScript's alone",
    'torch.ops.aten.relu(Tensor([2], "float32"))': None,
    'torch.Tensor.cuda(Tensor([2], "float32"))': "there is no cuda here",
    'torch.Tensor.pin_memory(Tensor([2], "float32"))': "it needs an accelerator",
    "torch.zeros(3, pin_memory=True)": "it needs an accelerator",
    'torch.Tensor.detach_(Tensor([2], "float32"))': None,
    'torch.Tensor.detach_(Tensor([2], "float32", stride=[3]))': None,
    'torch.add(Tensor([2], "int64"), numpy_scalar("int64"))': "the value of a NumPy integer",
    'torch.add(Tensor([2], "float32"), numpy_scalar("float32"))': None,
}


@pytest.mark.parametrize("options", [(), ("--sequence",)], ids=["configs", "sequence"])
def test_what_has_no_place_here(tmp_path, options):
    path = write(tmp_path / "a.txt", *PLACES)
    done = replay(path, *options, "-l", "1", "--format", "json", "-q")
    (rows,) = (value for key, value in json.loads(done.out).items() if key != "summary")
    found = {row["config"]: row["reason"] for row in rows}
    assert done.status == 0 and list(found) == list(PLACES)
    for config, reason in PLACES.items():
        assert (found[config] is None) == (reason is None), found[config]
        assert reason is None or found[config].startswith(reason)
    to_cpu = replay(path, *options, "--device", "cpu", "--include", "*cuda", "-q")
    assert to_cpu.status == 0 and ", 1 ok\n" in to_cpu.out


def test_each_call_finds_the_modes_as_they_were(tmp_path):
    env = in_workers(
        tmp_path,
        "def relu6(input):\n"
        "    torch._C._set_grad_enabled(False)\n"
        "def selu(input):\n"
        "    assert torch.is_grad_enabled()\n"
        "for function in (relu6, selu):\n"
        "    function.__module__ = 'torch.nn.functional'\n"
        "    setattr(torch.nn.functional, function.__name__, function)\n",
    )
    calls = [f'torch.nn.functional.{name}(Tensor([2], "float32"))' for name in ("relu6", "selu")]
    rows, _ = results(write(tmp_path / "a.txt", *calls), env=env)
    assert [row["result"] for row in rows.values()] == ["ok", "ok"]


def test_in_place_by_argument(tmp_path):
    """An input that was not a leaf of the graph is one in a replay."""
    script = """
import torch
x = torch.ones(3, requires_grad=True) * 2
torch.nn.functional.relu(x, inplace=True)
torch.nn.functional.dropout(x, 0.5, True, True)
x.detach_()
"""
    rows, status = results(record(tmp_path, script, "-l", "1,2", "--outputs"))
    assert {row["result"] for row in rows.values()} == {"ok"} and status == 0


def test_operators_written_in_python(tmp_path):
    """They import PyTorch's compiler, which still writes no file."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    rows, status = results(
        write(tmp_path / "a.txt", *WRITTEN_IN_PYTHON), env={"TMPDIR": str(folder)}
    )
    failed = {config: row for config, row in rows.items() if row["result"] != "ok"}
    # torch has this loss since 2.13.
    assert {config for config in failed if "linear_cross_entropy" not in config} == set()
    assert {row["result"] for row in failed.values()} <= {"skipped", "raised"}
    assert status == 0 and list(folder.iterdir()) == []


def test_devices_that_are_told_as_text(tmp_path):
    configs = (
        'torch.empty(3, device="xpu:7")',
        'torch.Tensor.to(Tensor([2], "float32"), "xpu:7")',
        'aten::new_zeros(Tensor([2], "float32"), list[2], device="xpu:7")',
    )
    path = write(tmp_path / "a.txt", *configs)
    rows, status = results(path)
    assert {row["reason"] for row in rows.values()} == {
        "there is no xpu:7 here (--device cpu replays it on the CPU)"
    }
    assert status == 0
    rows, _ = results(path, "--device", "cpu")
    assert {row["result"] for row in rows.values()} == {"ok"}


@pytest.mark.parametrize(
    "device, options",
    [("gpu", ()), ("nope", ("--sequence",)), ("cuda:99", ()), ("cuda:x", ("--sequence",))],
)
def test_devices_that_are_not_there(tmp_path, device, options):
    path = write(tmp_path / "a.txt", ADD)
    result = replay(path, "--device", device, *options)
    assert result.status == 2 and result.out == ""
    (line,) = result.err.splitlines()
    assert line.startswith(f"torchtrace: --device {device}: torch ")


PADDLE_API_TEST = """
torch.full(list[2,3,], math.inf, dtype=Dtype(float32), )
torch.concat(tuple(Tensor([3, 7],"float32"),Tensor([1, 7],"float32"),), dim=0, )
torch.sum(Tensor([2, 3], "float32"), list[0, 1], dtype="torch.float64")
torch.Tensor.to(Tensor([2, 3], "float32"), "torch.float16")
torch.Tensor.contiguous(Tensor([1, 2, 3, 4], "float32"), memory_format="torch.channels_last")
torch.nn.functional.gelu("<Unserializable: Foo>")
paddle.concat(tuple(Tensor([31376, 768],"float32"),Tensor([1, 768],"float32"),), axis=0, )
"""
TORCHBENCH = """
Operator: aten.addmm.default
cnt: 48, ((T([8], f16), T([5, 8], f16), T([8, 8], f16, stride=(1, 8))), {})
Operator: aten._to_copy.default
cnt: 1, ((T([4, 8], b8),), {'dtype': f16, 'layout': torch.strided, 'device': 'cuda'})
Operator: aten.sum.SymInt
cnt: 3, ((T([2, 8], f32), [0], True), {})
Operator: aten.embedding.default
cnt: 0, ((T([30, 6], f16, [1, 30]), T([4, 28], i64),), {})
Operator: fbgemm.asynchronous_complete_cumsum.default
cnt: 1, ((T([30], i64),), {})
"""
TRITONBENCH = """
{"aten._foreach_add.List": [{"count": 1, "inputs": "(([T([8], f32)], [T([8], f32)]), {})"}],
 "aten.arange.default": [{"count": 3, "inputs": "((10,), {'dtype': i64, 'device': 'cuda'})"}],
 "metadata": {"a": 1}}
"""


@pytest.mark.parametrize(
    ("name", "text", "reasons", "said"),
    [
        (
            "configs.txt",
            PADDLE_API_TEST,
            {
                "an argument was not written: <Unserializable: Foo>",
                "it is Paddle's: functions and operators of torch alone are called",
            },
            "without times, outcomes, threads and nesting",
        ),
        (
            "inputs.txt",
            TORCHBENCH,
            {"operators of fbgemm may do anything, and aren't called"},
            "without order, times, outcomes and nesting, and no devices of tensors",
        ),
        (
            "inputs.json",
            TRITONBENCH,
            set(),
            "without order, times, outcomes and nesting, and no devices of tensors",
        ),
    ],
)
def test_files_of_other_tools(tmp_path, name, text, reasons, said):
    (tmp_path / name).write_text(text.lstrip())
    rows, status = results(tmp_path / name, "--device", "cpu")
    assert [row for row in rows.values() if row["result"] not in ("ok", "skipped")] == []
    assert {row["reason"] for row in rows.values() if row["result"] == "skipped"} == reasons
    assert status == 0 and len(rows) > len(reasons)
    assert replay(tmp_path / name, "--device", "cpu").err.count(said) == 1


def test_what_a_call_that_raised_was_given_as_text(tmp_path):
    """PaddleAPITest writes dtypes as text, but a call that was given text raises as recorded."""
    out = record(
        tmp_path,
        """
import torch
try:
    torch.sum(torch.ones(2), dtype="torch.float64")
except TypeError:
    pass
""",
        "-l",
        "1",
    )
    rows, status = results(out)
    assert status == 0 and [row["recorded"] for row in rows.values()].count("TypeError") == 1


def test_traces_of_the_profiler():
    """They have no overloads, and incomplete arguments."""
    rows, status = results(tool.ROOT / "testdata/imports/chrome_trace/2.13.json")
    assert {row["reason"] for row in rows.values() if row["result"] == "skipped"} == {
        "a tensor's dtype isn't known",
        "an argument is an object, of which only the type is known: TensorList",
        "an argument is an object, of which only the type is known: unknown",
        "which overload of it was called isn't known",
    }
    assert status == 0 and sum(row["result"] == "ok" for row in rows.values()) == 6


def test_workers_stay_from_trace_to_trace(tmp_path):
    started = tmp_path / "started"
    env = in_workers(tmp_path, f"open({str(started)!r}, 'a').write('once')")
    paths = [
        write(tmp_path / f"{n}.txt", f'torch.add(Tensor([{n}], "float32"), 1)') for n in range(3)
    ]
    rows, _ = results(*paths, env=env)
    assert [row["result"] for row in rows.values()] == ["ok"] * 3
    assert started.read_text() == "once"


@pytest.mark.parametrize("level", ["0", "4"])
def test_single_calls_of_other_levels(tmp_path, level):
    rows, status = results(record(tmp_path, FUNCTIONS, "-l", level, "--outputs"))
    assert {config: row["reason"] for config, row in rows.items() if row["differs"]} == {}
    assert status == 0
    expected = {
        "0": {
            "it is a method of an object, of which a trace has the type alone",
            "it goes through the graph that earlier calls made",
            "it changes the state of the process",
        },
        "4": {"a scope or a node of the backward pass is no operator"},
    }[level]
    reasons = {row["reason"] for row in rows.values() if row["result"] == "skipped"}
    assert expected <= reasons
    assert sum(row["result"] == "ok" for row in rows.values()) >= 8


def test_interrupted(tmp_path):
    """Ctrl-C ends it and its workers; the same command resumes from the kept results."""
    env = in_workers(
        tmp_path,
        "import time\n"
        "def selu(input):\n"
        "    time.sleep(100)\n"
        "selu.__module__ = 'torch.nn.functional'\n"
        "torch.nn.functional.selu = selu\n",
    )
    slow = 'torch.nn.functional.selu(Tensor([2], "float32"))'
    path, kept = write(tmp_path / "a.txt", ADD, slow, MISFIT), tmp_path / "kept.jsonl"
    process = subprocess.Popen(
        [tool.TORCHTRACE, "replay", path, "-j", "1", "--python", tool.PYTHON, "--resume", kept],
        env={**tool.environment(), **env},
        start_new_session=True,
    )
    for _ in range(600):
        if kept.exists() and kept.read_bytes().count(b"\n") == 2:
            break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(20) == -signal.SIGINT
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("a worker outlives what started it")
    again = replay(path, "--resume", kept, "--format", "json")
    assert "1 result was already in" in again.err
    assert [row["config"] for row in json.loads(again.out)["configs"]] == [ADD, slow, MISFIT]


def test_differences_in_each_format(tmp_path):
    path = write(tmp_path / "a.txt", ADD, MISFIT, 'torch.load("x")')
    text = replay(path)
    assert text.status == 1
    assert text.out.startswith(
        f"{MISFIT}\n    differs: raised: RuntimeError: The size of tensor a (2)"
    )
    assert text.out.endswith(
        "skipped:\n      1  it may open a file\n3 configs: 1 differs, 1 ok, 1 raised, 1 skipped\n"
    )
    rows = list(csv.DictReader(replay(path, "--format", "csv", "-q").out.splitlines()))
    assert [row["result"] for row in rows] == ["ok", "raised", "skipped"]
    assert replay(path, "-qo", tmp_path / "r.json").status == 1
    assert json.loads((tmp_path / "r.json").read_text())["summary"]["configs"] == 3
    assert replay(path, "-qo", tmp_path / "r").status == 1
    assert (tmp_path / "r").read_text() == text.out
    junit = tmp_path / "junit.xml"
    assert replay(path, "-o", junit).status == 1  # format by suffix
    suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == list("3101")
    assert len(suite.findall("testcase")) == 3


def test_calls_that_raised(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "for other in (torch.ones(3), torch.ones(2)):\n"
        "    try:\n"
        "        torch.add(torch.ones(2), other)\n"
        "    except RuntimeError:\n"
        "        pass\n"
        "x = torch.nn.Parameter(torch.ones(2))\n"
        "with torch.no_grad():\n"
        "    x.add_(1)\n"
    )
    out = tmp_path / "out"
    run = tool.torchtrace(
        "run", "--python", tool.PYTHON, "-q", "-l", "1,2", "-o", out, script, cwd=tmp_path
    )
    assert run.status == 0
    rows, status = results(out)
    assert rows[MISFIT] | {"seconds": 0, "reason": ""} == {
        "config": MISFIT,
        "level": 1,
        "result": "raised",
        "differs": False,
        "recorded": "RuntimeError",
        "reason": "",
        "seconds": 0,
    }
    assert status == 0


def test_recorded_ranges_of_integers(tmp_path):
    """A divisor's range may include 0, though no element was 0. Integers have up to 64 bits."""
    script = """
import torch
a, most = torch.tensor([7, 5, 6, -3, 9, 8]), 2**64 - 1
b = torch.tensor([[-2, 3], [1, -1], [4, 2]]).repeat(40, 1)
c = torch.tensor([most, 2**63 - 1], dtype=torch.uint64)
a[:2] // b, a[:2] % b, torch.fmod(a[:2], b), 5 % b, a[:2].div_(a[2:4], rounding_mode="floor")
torch.where(torch.tensor([True, False]), c, c), torch.where(torch.tensor([True]), c[:1], c[:1])
"""
    out = record(tmp_path, script, "-l", "1,2", "--outputs", "--int-ranges")
    rows, status = results(out)
    assert [row for row in rows.values() if row["result"] != "ok"] == []
    assert status == 0


def test_conjugation_is_not_recorded(tmp_path):
    """It only affects the strides of results with complex tensors."""
    script = """
import torch
for dtype in (torch.complex64, torch.float32):
    a, b = torch.eye(3, dtype=dtype), torch.ones(3, 5, dtype=dtype)
    torch.linalg.solve_triangular(a.mH, b, upper=True)
"""
    out = record(tmp_path, script, "-l", "1,2", "--outputs")
    rows, status = results(out)
    assert status == 0 and sum("solve_triangular" in config for config in rows) == 4
    env = in_workers(
        tmp_path,
        REPLACE + "library.impl('linalg_solve_triangular', lambda a, b, **_: b * 1, 'CPU')",
    )
    rows, status = results(out, env=env)
    differing = [config for config, row in rows.items() if row["differs"]]
    assert all('"float32"' in config for config in differing) and len(differing) == 2


def test_results_come_in_the_order_of_the_configs(tmp_path):
    """In any order of the workers, and with kept results."""
    configs = [f'torch.add(Tensor([{n}], "float32"), {n})' for n in (1, 3_000_000, 2, 3, 4, 5)]
    path, kept = write(tmp_path / "a.txt", *configs), tmp_path / "kept.jsonl"
    assert list(results(path, jobs=3)[0]) == configs
    results(write(tmp_path / "b.txt", *configs[3:]), "--resume", kept)
    assert list(results(path, "--resume", kept, jobs=2)[0]) == configs


def test_crash_and_timeout(tmp_path):
    """Configs after one that killed a worker are still called."""
    env = in_workers(
        tmp_path,
        "import os, time\n"
        "def relu6(input):\n"
        "    os.write(2, b'the last words\\n')\n"
        "    os.abort()\n"
        "def selu(input):\n"
        "    time.sleep(100)\n"
        "for function in (relu6, selu):\n"
        "    function.__module__ = 'torch.nn.functional'\n"
        "    setattr(torch.nn.functional, function.__name__, function)\n",
    )
    crash, slow = (
        f'torch.nn.functional.{name}(Tensor([2], "float32"))' for name in ("relu6", "selu")
    )
    path = write(tmp_path / "a.txt", ADD, crash, slow, MISFIT)
    rows, status = results(path, "--timeout", "2", env=env)
    assert [(row["result"], row["differs"]) for row in rows.values()] == [
        ("ok", False),
        ("crashed", True),
        ("timeout", True),
        ("raised", True),
    ]
    assert rows[crash]["reason"] == "SIGABRT: the last words"
    assert status == 1


def test_a_request_beyond_the_memory(tmp_path):
    """It is read to its end, and the next request gets its own answer."""
    long = 'torch.nn.functional.relu("' + "x" * 66_000_000 + '")'
    path = write(tmp_path / "a.txt", MISFIT, long, ADD)
    done = replay(path, "--max-memory", "64MiB", "--exclude", "torch.relu", timeout=300)
    assert "1  it needs more memory than --max-memory\n" in done.out
    assert done.out.endswith("\n3 configs: 1 differs, 1 ok, 1 raised, 1 skipped\n")
    assert done.out.count("differs: ") == 1 and done.out.startswith(MISFIT)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("os.kill(os.getpid(), signal.SIGRTMIN + 2)", "(signal 36)"),
        ("raise MemoryError('none')", "(MemoryError: none)"),
    ],
    ids=["real-time signal", "error"],
)
def test_a_worker_that_dies_while_it_reads(tmp_path, statement, says):
    """This is reported once: the rest of the request is dropped, and another process continues."""
    env = in_workers(
        tmp_path,
        "import os, signal\n"
        "readv = os.readv\n"
        "def once(*args):\n"
        "    try:\n"
        f"        os.mkdir({str(tmp_path / 'died')!r})\n"
        "    except FileExistsError:\n"
        "        return readv(*args)\n"
        f"    {statement}\n"
        "os.readv = once\n",
    )
    rows, status = results(write(tmp_path / "a.txt", ADD, MISFIT), env=env)
    assert [row["result"] for row in rows.values()] == ["crashed", "raised"] and status == 1
    assert rows[ADD]["reason"] == f"a worker died while it read what to call {says}"


@pytest.mark.parametrize(
    "dies",
    [
        "write = os.write\n"
        "def once(descriptor, line):\n"
        "    count = write(descriptor, line)\n"
        "    if b'\"result\"' in line and b'\"request\": 2' in line:\n"
        "        die()\n"
        "    return count\n"
        "os.write = once\n",
        "read, calls = os.read, []\n"
        "def once(descriptor, nbytes):\n"
        "    calls.append(nbytes)\n"
        "    if calls.count(24) == 2:\n"
        "        die()\n"
        "    return read(descriptor, nbytes)\n"
        "os.read = once\n",
    ],
    ids=["when it has answered", "when it begins to read"],
)
def test_a_worker_that_dies_between_calls(tmp_path, dies):
    """Each config gets its own answer."""
    env = in_workers(
        tmp_path,
        "import os, signal\n"
        "def die():\n"
        "    try:\n"
        f"        os.mkdir({str(tmp_path / 'died')!r})\n"
        "    except FileExistsError:\n"
        "        return\n"
        f"    os.kill(os.getpid(), signal.SIGKILL)\n{dies}",
    )
    lines = [ADD, MISFIT, ADD.replace("[2]", "[5]"), MISFIT.replace("[2]", "[4]")]
    rows, status = results(write(tmp_path / "a.txt", *lines), env=env)
    assert [rows[line]["result"] for line in lines] == ["ok", "raised", "ok", "raised"]
    assert (tmp_path / "died").exists() and status == 1


def test_a_limit_of_memory_that_is_lower_already(tmp_path):
    path = write(tmp_path / "a.txt", ADD)
    line = f"ulimit -d 4000000; exec {tool.TORCHTRACE} replay -j 1 --python {tool.PYTHON} {path}"
    done = tool.execute(["sh", "-c", line], "/")
    assert done.status == 0 and done.out == "1 config: 0 differ, 1 ok\n"


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path, closed):
    path, report = write(tmp_path / "a.txt", ADD, MISFIT), tmp_path / "report"
    line = f"{tool.TORCHTRACE} replay -j 1 --python {tool.PYTHON} {path} -o {report} {closed}"
    assert tool.execute(["sh", "-c", line], "/").status == 1
    assert report.read_text().endswith("2 configs: 1 differs, 1 ok, 1 raised\n")


@pytest.mark.parametrize("options", [(), ("--resume", "kept")])
def test_a_python_without_torch(tmp_path, options):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {tool.PYTHON} -S -E "$@"\n')
    python.chmod(0o755)
    path = write(tmp_path / "a.txt", ADD)
    done = tool.torchtrace("replay", "--python", python, path, *options, cwd=tmp_path)
    assert done.status == 2 and done.out == ""
    (line,) = (line for line in done.err.splitlines() if "text without times" not in line)
    assert f"{python} has no torch (" in line and line.endswith("--python names another one")


@pytest.mark.parametrize("options", [(), ("--sequence",)], ids=["configs", "sequence"])
def test_nothing_of_a_damaged_file_is_called(tmp_path, options):
    called = tmp_path / "called"
    env = in_workers(
        tmp_path,
        f"def relu6(input):\n    open({str(called)!r}, 'w')\n"
        "relu6.__module__ = 'torch.nn.functional'\n"
        "torch.nn.functional.relu6 = relu6\n"
        f"import pathlib; pathlib.Path({str(called)!r}).touch()\n",
    )
    rows = [ADD] * 3 + ["torch.relu("]
    done = replay(write(tmp_path / "a.txt", *rows), *options, env=env)
    assert done.status == 2 and done.out == "" and "line 4" in done.err
    assert not called.exists()


def test_reasons_are_few(tmp_path):
    sizes = [f'torch.sum(Tensor([{size}], "float32"))' for size in range(10**10, 10**10 + 50)]
    names = [f'torch.relu(object("mine.Type{number}"))' for number in range(50)]
    out = replay(write(tmp_path / "a.txt", *sizes, *names)).out
    assert "     50  its inputs take 32 GiB or more, beyond --max-bytes\n" in out
    assert "     21  for other reasons (--all shows them)\n" in out
    assert len(out.splitlines()) == 33


def test_all_arguments_by_position(tmp_path):
    """As in the profiler's traces."""
    called = (
        'aten::addmm(Tensor([4], "float32"), Tensor([2, 3], "float32"), Tensor([3, 4], "float32"), '
        "1, 1)",
        'aten::expand(Tensor([1, 3], "float32"), list[2, 3], False)',
        'aten::clone(Tensor([2], "float32"), 0)',
    )
    skipped = (
        'aten::abs(Tensor([2], "float32"), Tensor([0], "float32"))',
        'aten::_make_dual(Tensor([2], "float32"), Tensor([2], "float32"), 0)',
    )
    rows, _ = results(write(tmp_path / "a.txt", *called, *skipped))
    assert [rows[call]["result"] for call in called] == ["ok"] * 3
    assert [rows[call]["result"] for call in skipped] == ["skipped"] * 2


def test_an_operator_that_takes_no_numbers(tmp_path):
    """If a result differs, it is called again with numbers in place of its tensors."""
    script = "import torch\ntorch.relu(torch.tensor(1.0, dtype=torch.float64))\n"
    out = record(tmp_path, script, "-l", "2", "--outputs")
    env = in_workers(tmp_path, REPLACE + "library.impl('relu', lambda x: x.float(), 'CPU')")
    rows, status = results(out, "--include", "aten::relu", env=env)
    (row,) = rows.values()
    assert row["reason"] == "result: torch.float32, recorded torch.float64" and status == 1


def test_a_worker_that_dies_before_it_can_call(tmp_path):
    env = in_workers(tmp_path, "import gc, os\ngc.disable = lambda: os._exit(3)")
    result = replay(write(tmp_path / "a.txt", ADD, MISFIT), env=env)
    assert result.status == 2 and result.out == ""
    assert "a worker dies before it can call anything (exit code 3)" in result.err


def test_resume(tmp_path):
    path, kept = write(tmp_path / "a.txt", ADD, MISFIT), tmp_path / "kept.jsonl"
    first = replay(path, "--resume", kept, "--format", "json")
    # As after a crash in the middle of a line.
    kept.write_bytes(kept.read_bytes()[:-20])
    second = replay(path, "--resume", kept, "--format", "json")
    assert "1 result was already in" in second.err
    plain = [json.loads(result.out)["configs"] for result in (first, second)]
    for row in (*plain[0], *plain[1]):
        row["seconds"] = 0
    assert sorted(plain[0], key=str) == sorted(plain[1], key=str)
    # After an overwritten line, later lines are still read.
    lines = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(lines[0] + b"{garbage\n" + b"".join(lines[1:]))
    third = replay(path, "--resume", kept, "--format", "json")
    assert "2 results were already in" in third.err
    assert f"1 line of {kept} can't be read: their configs were called again" in third.err
    # The results are of the options in the first line.
    of = kept.read_text().splitlines()[0]
    for word in ("--seed 0", "--threads", "--timeout", "--max-bytes", "--max-memory", ", torch "):
        assert word in of, of
    other = replay(path, "--resume", kept, "--seed=1")
    assert other.status == 2 and "holds results of another replay" in other.err
    for output in (kept, tmp_path / "." / "kept.jsonl"):
        same = replay(path, "--resume", kept, "-f", "-o", output)
        assert same.status == 2 and "--resume and --output both name" in same.err
    env = in_workers(tmp_path, "torch.__version__ = '99.0'")
    newer = replay(path, "--resume", kept, env=env)
    assert newer.status == 2 and "; this one is of " in newer.err and "torch 99.0" in newer.err
    for name, said in (("/dev/full", "is not a regular file"), ("-", "needs a file, not -")):
        wrong = replay(path, "--resume", name)
        assert wrong.status == 2 and said in wrong.err
    little = replay(path, "--max-memory", "1MB")
    assert little.status == 2 and "less than 64 MiB" in little.err


def record(folder, script, *options):
    (folder / "script.py").write_text(script)
    run = tool.torchtrace(
        *("run", "--python", tool.PYTHON, "-q", "-o", "out", "--formats", "none", *options),
        "script.py",
        cwd=folder,
        env={"OMP_NUM_THREADS": "1"},
    )
    assert run.status == 0, run.err
    return folder / "out"


INDICES = """
import torch
import torch.nn.functional as F
data, big = torch.randn(5, 3), torch.tensor([9, 2])
for index in (torch.tensor([4, 0, 4]), big):
    try:
        data.index_select(0, index)
    except (IndexError, RuntimeError):
        pass
F.embedding(torch.tensor([[6, 5]]), torch.randn(7, 4))
F.cross_entropy(torch.randn(4, 10), torch.tensor([9, 0, -100, 3]))
try:
    F.cross_entropy(torch.randn(2, 10), torch.tensor([10, 0]))
except IndexError:
    pass
data[torch.tensor([True, False, True, False, False])]
data[torch.zeros(5, dtype=torch.bool)]
torch.unique(torch.tensor([3, 1, 3, 2]))
torch.sort(data, descending=True)
data.split([1, 2], 1)
"""


def test_recorded_values_and_outputs(tmp_path):
    """Indices are those of the program, and results are compared with the recorded ones."""
    out = record(tmp_path, INDICES, "-l", "1,2", "--outputs", "--values", "1KB")
    rows, status = results(out)
    assert {config: row["reason"] for config, row in rows.items() if row["differs"]} == {}
    assert status == 0
    # Not known from the configs alone.
    raised = {config.split("(")[0] for config, row in rows.items() if row["result"] == "raised"}
    assert raised == {
        "torch.Tensor.index_select",
        "aten::index_select",
        "torch.nn.functional.cross_entropy",
        "aten::nll_loss_forward",
    }
    assert len([row for row in rows.values() if row["result"] == "skipped"]) == 0


PLANTED = (
    REPLACE
    + """
library.impl("hardtanh", lambda *args: torch.ones(4, 3), "CPU")
library.impl("abs", lambda x: (x > 0).to(x.dtype), "CPU")
def softsign(input):
    return input.double(), input
softsign.__module__ = "torch.nn.functional"
torch.nn.functional.softsign = softsign
"""
)


def test_other_outputs_than_recorded(tmp_path):
    script = """
import torch
x = torch.ones(3, 4)
torch.nn.functional.softsign(x), torch.nn.functional.hardtanh(x), torch.nn.functional.selu(x)
"""
    out = record(tmp_path, script, "-l", "1,2", "--outputs")
    env = in_workers(tmp_path, PLANTED)
    rows, status = results(out, env=env)
    assert status == 1
    differing = {config.split("(")[0]: row for config, row in rows.items() if row["differs"]}
    assert {name: row["reason"] for name, row in differing.items()} == {
        "torch.nn.functional.softsign": "result: tuple, recorded Tensor",
        "torch.nn.functional.hardtanh": "result: shape [4, 3], recorded [3, 4]",
        "aten::hardtanh": "result: shape [4, 3], recorded [3, 4]",
    }
    assert {row["result"] for row in differing.values()} == {"ok"}
    text = replay(out, "--include", "aten::hardtanh", env=env).out
    assert "differs: returned, result: shape [4, 3], recorded [3, 4] (recorded: returned, " in text


# Each with its result in the call of that number.
KINDS = """
import collections
import enum
import torch

Pair = collections.namedtuple("Pair", "a b")
Number = enum.IntEnum("Number", "ONE")
Color = enum.Enum("Color", "RED")
class Real(float):
    pass
class Text(str):
    pass
VALUES = [
    None, True, 1, 2**70, 1.5, 1j, "a", b"a", (1,), [1], {"a": 1}, {1}, frozenset([1]), slice(1),
    ..., range(3), int, len, torch.relu, object(), Pair(1, 2), Number.ONE, Color.RED, Real(1),
    Text("a"), collections.OrderedDict(a=1), torch.ones(2), torch.nn.Parameter(torch.ones(2)),
    torch.float16, torch.device("cpu"), torch.strided, torch.channels_last, torch.Size([2]),
    torch.Generator(), torch.ones(2).untyped_storage(), torch.ones(2)._typed_storage(),
    torch.ones(3, 2).max(0), torch.per_tensor_affine, torch.finfo(torch.float16), (0).__add__,
    torch.Tensor.add, torch.DispatchKey.CPU, bytearray(b"a"), torch.nn.ReLU(),
    torch.ones(2).__dlpack_device__(), {1: (torch.ones(1), [Number.ONE])}, torch.ones(2).numpy(),
    torch.ones(2).numpy()[0], torch.nn.utils.rnn.pack_sequence([torch.ones(2)]),
]
"""
KINDS_TRACED = (
    KINDS
    + """
class Returning(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return VALUES[len(args[0]) - 1]
with torch._C.DisableTorchFunctionSubclass():
    made = [torch.ones(i + 1).as_subclass(Returning) for i in range(len(VALUES))]
for tensor in made:
    torch.nn.functional.selu(tensor)
"""
)


def test_results_are_described_as_by_the_recorder(tmp_path):
    """Every kind of value that a call may return; a result of another call differs."""
    out = record(tmp_path, KINDS_TRACED, "-l", "1", "--outputs")
    planted = (
        KINDS + "def selu(input, inplace=False):\n"
        "    return VALUES[(len(input) - 1 + SHIFT) % len(VALUES)]\n"
        "selu.__module__ = 'torch.nn.functional'\n"
        "torch.nn.functional.selu = selu\n"
    )
    for shift in (0, 1):
        env = in_workers(tmp_path, planted.replace("SHIFT", str(shift)))
        rows, _ = results(out, "--include", "torch.nn.functional.selu", env=env)
        differing = {config: row["reason"] for config, row in rows.items() if row["differs"]}
        if shift == 0:
            assert differing == {} and len(rows) > 40
        else:
            assert len(differing) > 25


NOT_RECORDED = """
import torch
rnn, functional = torch.nn.utils.rnn, torch.nn.functional

def fails(function, *args):
    try:
        function(*args)
    except RuntimeError:
        return
    raise AssertionError

layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Conv1d(3, 2, 2))
for dtype in (torch.bfloat16, torch.float16):
    with torch.autocast("cpu", dtype):
        low = layer(torch.ones(3, 4)) @ torch.ones(3, 2)
        torch.addmm(torch.ones(2), low, low.float()), functional.mse_loss(low, low)
        torch.bmm(low[None], torch.ones(1, 2, 2)), torch.cat([low, low.float()])
        torch.linalg.inv(torch.eye(2, dtype=dtype))
        functional.scaled_dot_product_attention(*[low] * 3)
torch.set_default_dtype(torch.float64)
torch.ones(2).mean(), torch.arange(3) / 2, torch.tensor(1j), torch.eye(2) @ torch.eye(2)
torch.set_default_dtype(torch.float32)
with torch.device("meta"):
    torch.ones(3), torch.tensor([1])
indices = torch.tensor([0, 1]).view(1, 1, 2)
torch.use_deterministic_algorithms(True)
fails(functional.max_unpool1d, torch.ones(1, 1, 2), indices, 2)
torch.use_deterministic_algorithms(False)
sparse = torch.sparse_coo_tensor(torch.tensor([[1, 1]]), torch.ones(2, 3), (4, 3))
fails(sparse.indices)
sparse.coalesce().values(), torch.eye(6).to_sparse_bsr((3, 3)).crow_indices()
torch.eye(4).to_sparse_csr().col_indices()
levels = torch.quantize_per_channel(torch.ones(2, 3), torch.ones(2), torch.zeros(2), 0, torch.qint8)
levels.q_per_channel_scales(), levels.q_per_channel_axis(), fails(levels.q_scale)
fails(torch.view_as_real, torch.ones(2, dtype=torch.complex64).conj())
fails(torch.ones(2)[:].detach_), fails(torch.linalg.inv, torch.zeros(2, 2))
lengths = torch.tensor([3, 9])
for batch_first in (True, False):
    x = torch.ones(2, 9, 4) if batch_first else torch.ones(9, 2, 4)
    packed = rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
    rnn.pad_packed_sequence(packed, batch_first), rnn.unpad_sequence(x, lengths, batch_first)
rnn.unpack_sequence(torch.nn.LSTM(4, 3)(packed)[0]), torch.nn.GRU(4, 3)(packed)
whole, parts = torch.arange(1, 4), torch.ones(3)
torch.remainder(whole, 5), torch.bitwise_and(whole, 3), torch.bitwise_left_shift(whole, 1)
torch.copysign(parts, -1.0), torch.xlogy(parts, 2), torch.float_power(parts, 2)
torch.special.zeta(parts + 1, 2), torch.fmod(whole, 2), torch.where(whole > 1, whole, 0)
torch.zeros(2, torch.tensor(2)), whole[torch.tensor([2])]
"""


def test_what_is_not_recorded_makes_no_difference(tmp_path):
    """Autocast, defaults, modes, and the parts of sparse, quantized and packed tensors."""
    options = ("-l", "0,1,2,4", "--outputs", "--no-int-ranges")
    out = record(tmp_path, NOT_RECORDED, *options)
    rows, status = results(out)
    assert {config: row["reason"] for config, row in rows.items() if row["differs"]} == {}
    ways = {row["reason"] for row in rows.values() if row["result"] == "ok"}
    assert ways >= {
        "under autocast to torch.bfloat16",
        "under autocast to torch.float16",
        "with torch.float64 as the default dtype",
        "with meta as the default device",
        "quantised along dimension 0",
    }
    assert status == 0 and len(rows) > 300


# Two steps of a small GPT, with dropout, clipping and AdamW; then each parameter is read.
TRAINING = """
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
width, heads, words, length = 16, 2, 23, 8

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)
    def forward(self, x):
        parts = self.qkv(self.norm1(x)).split(width, -1)
        q, k, v = (y.view(2, length, heads, -1).transpose(1, 2) for y in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.drop(self.proj(y.reshape(2, length, width)))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

words_in, places = nn.Embedding(words, width), nn.Embedding(length, width)
model = nn.Sequential(Block(), nn.LayerNorm(width), nn.Linear(width, words, bias=False))
model[2].weight = words_in.weight
parameters = [*words_in.parameters(), *places.parameters(), *model.parameters()]
optimizer = torch.optim.AdamW(parameters)
data = torch.randint(0, words, (2, length + 1))
for step in range(2):
    x = words_in(data[:, :-1]) + places(torch.arange(length))
    loss = F.cross_entropy(model(x).flatten(0, 1), data[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
for parameter in parameters:
    parameter.detach().clone()
"""


def sequence(out, *args, **kwargs):
    """The summary, the rows and the exit code."""
    done = replay(*(out, "--sequence", "--threads", "1", "--format", "json", "-q", *args), **kwargs)
    assert done.status in (0, 1), done.err
    report = json.loads(done.out)
    return report["summary"], report["calls"], done.status


def test_training_step_in_order(tmp_path):
    """Below autograd, bit for bit: the parameters end as in the program."""
    out = record(
        tmp_path,
        TRAINING,
        *("-l", "2", "--ids", "--outputs", "--values", "1MB"),
    )
    summary, rows, status = sequence(out)
    assert [(row["call"], row["reason"]) for row in rows if row["differs"]] == []
    assert status == 0 and summary["ok"] + summary["skipped"] == summary["calls"] > 700
    skipped = {row["config"].split("(")[0] for row in rows if row["result"] == "skipped"}
    assert skipped == {
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit._RecordFunction",
    }
    counts = summary["sequence"]
    assert counts["tensors_equal"] == counts["tensors_compared"] > 1500
    # Only random numbers, and uninitialized memory.
    assert counts["tensors_filled"] < 200

    # A window begins with the recorded contents of its inputs.
    first = next(row["call"] for row in rows if row["config"].startswith("aten::embedding("))
    summary, window, status = sequence(out, "--calls", f"{first}-")
    assert status == 0 and len(window) == len(rows) - first
    assert summary["sequence"]["tensors_made"] > 30

    # If an operator has other results, only that operator is reported.
    env = in_workers(
        tmp_path, REPLACE + "library.impl('gelu', lambda x, approximate='none': x * 0.5, 'CPU')"
    )
    summary, rows, status = sequence(out, env=env)
    differing = [row for row in rows if row["differs"]]
    assert status == 1 and len(differing) == 2
    for row in differing:
        assert row["config"].startswith("aten::gelu(") and row["result"] == "ok"
        assert " of 1024 elements differ from the record, by up to " in row["reason"]


def test_sequence_without_values(tmp_path):
    """Inputs are made, and results have the recorded metadata."""
    out = record(tmp_path, TRAINING, "-l", "2", "--ids", "--outputs", "--no-int-ranges")
    summary, rows, status = sequence(out)
    assert [(row["config"], row["reason"]) for row in rows if row["differs"]] == []
    assert status == 0 and summary["sequence"]["tensors_compared"] == 0
    text = replay(out, "--sequence", "--threads", "1").out.splitlines()
    assert text[-1].endswith("made, 0 compared with recorded contents")


@pytest.mark.parametrize("schema", ["1.0.1", "1.1.1"])
def test_sequence_of_an_execution_trace(schema):
    path = tool.ROOT / f"testdata/imports/execution_trace/{schema}.json"
    summary, rows, status = sequence(path, "--device", "cpu")
    assert status == 0 and summary["ok"] == summary["calls"] - 1 >= 12
    # Its complex number is recorded as an object.
    (skipped,) = (row for row in rows if row["result"] == "skipped")
    assert "ComplexDouble" in skipped["reason"]
    # The others are results of earlier calls.
    tensors = sum(row["config"].count("Tensor(") for row in rows)
    assert summary["sequence"]["tensors_made"] < tensors / 2


FUNCTIONS = """
import torch
torch.manual_seed(0)
layer = torch.nn.Linear(4, 4)
x = torch.nn.functional.dropout(layer(torch.ones(2, 4)), 0.5)
x[0] = 1
x.sum().backward()
with torch.no_grad():
    layer.weight.sub_(layer.weight.grad)
torch.mul(layer.weight, 2)
"""


@pytest.mark.parametrize("level", ["0", "1", "4"])
def test_sequence_of_other_levels(tmp_path, level):
    options = ("-l", level, "--ids", "--outputs", "--values", "1KB")
    summary, rows, status = sequence(record(tmp_path, FUNCTIONS, *options))
    assert [(row["config"], row["reason"]) for row in rows if row["differs"]] == []
    counts = summary["sequence"]
    assert status == 0 and counts["level"] == int(level)
    assert counts["tensors_equal"] == counts["tensors_compared"] > 5


def test_sequence_goes_on_without_what_it_must_not_call(tmp_path):
    script = """
import torch
library = torch.library.Library("mine", "DEF")
library.define("half(Tensor x) -> Tensor")
library.impl("half", lambda x: x / 2, "CompositeExplicitAutograd")
torch.manual_seed(1)
x = torch.arange(6.0)
y = torch.ops.mine.half(x)
view = y[2:]
view.mul_(2)
noise = torch.rand(4)
print((view + noise).sum(), torch.empty(3).fill_(2) * 3, x.storage_offset())
"""
    out = record(tmp_path, script, "-l", "2", "--ids", "--outputs", "--values", "1KB")
    summary, rows, status = sequence(out, "--exclude", "aten::div.Tensor")
    assert status == 0 and summary["differ"] == 0
    skipped = [row for row in rows if row["result"] == "skipped"]
    assert [row["config"].split("(")[0] for row in skipped] == ["mine::half"]
    counts = summary["sequence"]
    assert counts["tensors_equal"] == counts["tensors_compared"] > 5


def test_sequence_with_what_was_written_unseen(tmp_path):
    """Uninitialized memory has zeros, or values that fit the call that takes it."""
    script = """
import torch
index = torch.empty(64, dtype=torch.int64)
index.numpy()[:] = range(64)
rows = torch.nn.functional.embedding(index, torch.ones(64, 3))
lengths = torch.empty(5, dtype=torch.int64)
lengths[3:].fill_(1)
lengths.numpy()[:3] = 2
print(torch._C._VariableFunctions._pack_padded_sequence(rows[:60].view(5, -1, 3), lengths, True))
"""
    out = record(tmp_path, script, "-l", "2", "--ids", "--outputs")
    summary, rows, status = sequence(out)
    names = [row["config"].split("(")[0] for row in rows if row["result"] == "ok"]
    assert {"aten::embedding", "aten::_pack_padded_sequence"} <= set(names)
    assert [row for row in rows if row["differs"]] == [] and status == 0


CHANCES = """
import torch
torch.manual_seed(0)
x = torch.arange(4.0)
x.numpy()[:] = 7
print((x + 1).sum())
q = torch.ones(1, 2, 8, 4)
torch.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5) + 1
for kind in (torch.nn.LSTM, torch.nn.GRU):
    layer = kind(4, 4, 2, dropout=0.5)
    layer(torch.ones(3, 2, 4))[0].sum().backward()
    with torch.no_grad():
        layer(torch.ones(3, 2, 4))
    layer.eval()(torch.ones(3, 2, 4))
torch.nn.MultiheadAttention(8, 2, dropout=0.5)(*[torch.ones(2, 2, 8)] * 3)
torch.ones(3).new(2).fill_(1)
sparse = torch.eye(3).to_sparse()
sparse._indices(), sparse._values(), sparse.coalesce().indices()
torch.ones(2, 3, dtype=torch.complex64).mH.resolve_conj()
torch.ones(2, 3).mT.resolve_neg()
"""


@pytest.mark.parametrize("level", ["1", "2"])
def test_chances_and_states(tmp_path, level):
    """Dropout by an argument, memory that NumPy writes to, results kept for a backward pass."""
    script = CHANCES if level == "1" else CHANCES.replace("x.numpy()[:] = 7\n", "")
    out = record(tmp_path, script, "-l", level, "--ids", "--outputs", "--values", "1KB")
    rows, status = results(out)
    assert {config: row["reason"] for config, row in rows.items() if row["differs"]} == {}
    _, rows, status = sequence(out, "--exclude", "*.resolve_*")
    assert [(row["config"], row["reason"]) for row in rows if row["differs"]] == []
    assert status == 0


# Gradients accumulated in place, and attention, whose kernel depends on requires_grad.
FUNCTIONS_THAT_TRAIN = """
import torch
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, foreach=False)
for step in range(3):
    layer(torch.randn(2, 5, 16)).square().sum().backward()
    torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
"""


def test_sequence_of_functions_that_train(tmp_path):
    out = record(
        tmp_path, FUNCTIONS_THAT_TRAIN, "-l", "1", "--ids", "--outputs", "--values", "16KB"
    )
    summary, rows, status = sequence(out)
    assert [(row["config"], row["reason"]) for row in rows if row["differs"]] == []
    counts = summary["sequence"]
    assert status == 0 and counts["tensors_equal"] == counts["tensors_compared"] > 300


def test_limits_and_levels_of_sequences(tmp_path):
    large = 'torch.add(Tensor([2000], "float32"), 1)'
    path = write(tmp_path / "a.txt", ADD, large, 'torch.empty(3, device="xpu:7")')
    _, rows, status = sequence(path, "--max-bytes", "1KB")
    assert [row["result"] for row in rows] == ["ok", "skipped", "skipped"] and status == 0
    assert rows[1]["reason"] == "its inputs take 4 KiB or more, beyond --max-bytes"
    assert rows[2]["reason"].startswith("there is no xpu:7 here")
    # Also if an earlier call made them.
    script = "import torch\ntorch.zeros(2000) + 1\n"
    out = record(tmp_path, script, "-l", "1", "--ids", "--outputs")
    _, rows, status = sequence(out, "--max-bytes", "1KB")
    assert [row["result"] for row in rows] == ["ok", "skipped"] and status == 0
    module = "import torch\ntorch.nn.Linear(2, 2)(torch.ones(2))\n"
    own = ("--frame-include", "script.py")  # else all functions of `import torch` are replayed
    out = record(tmp_path, module, "-f", "-l", "3", "--outputs", *own)
    _, rows, status = sequence(out, "-l", "3")
    assert {row["reason"] for row in rows if row["result"] == "skipped"} == {
        "level 3 records functions of the program, which only the program has"
    }
    assert status == 0 and rows


def test_sequences_are_of_one_trace_and_level(tmp_path):
    path = write(tmp_path / "a.txt", ADD, ADD)
    assert replay(path, path, "--sequence").status == 2
    several = replay(path, "--sequence", "--level", "1,2")
    assert several.status == 2 and "one level" in several.err
    assert replay(path, "--sequence", "--resume", tmp_path / "kept").status == 2
    done = replay(path, "--sequence")
    assert done.status == 0 and done.out.startswith("2 calls: 0 differ, 2 ok\n4 tensors made")
    assert "run --ids --outputs" in done.err


CRASHING = """
import torch
x = torch.arange(4.0)
part = x[1:]
for i in range(TIMES):
    y = torch.nn.functional.relu6(x)
    z = torch.mul(y, 2)
    x.add_(1)
    print(torch.add(part, z[1:]).sum())
"""


@pytest.mark.parametrize(
    "times, end, options",
    [(2, "os.abort", ()), (12, "os.abort", ()), (2, "signal.pause", ("--timeout", "1"))],
    ids=["crash", "crashes", "timeout"],
)
def test_sequence_goes_on_after_a_crash(tmp_path, times, end, options):
    """With recorded contents, and parts of one storage still share it."""
    script = CRASHING.replace("TIMES", str(times))
    out = record(tmp_path, script, "-l", "1", "--ids", "--outputs", "--values", "1KB")
    env = in_workers(
        tmp_path,
        "import os, signal\n"
        "def relu6(input, inplace):\n"
        f"    {end}()\n"
        "relu6.__module__ = 'torch.nn.functional'\n"
        "torch.nn.functional.relu6 = relu6\n",
    )
    done = replay(
        *(out, "--sequence", "--threads", "1", "--format", "json", *options),
        env=env,
    )
    report = json.loads(done.out)
    summary, rows = report["summary"], report["calls"]
    result = "timeout" if options else "crashed"
    assert done.status == 1
    assert {row["result"] for row in rows if row["differs"]} == {result}
    counts = summary["sequence"]
    assert counts["tensors_equal"] == counts["tensors_compared"] > 5
    assert counts["restarts"] == min(times, 10) and counts["stopped"] == (times > 10)
    assert summary[result] == min(times, 11)
    said = "the replay stopped there" if times > 10 else "later calls used recorded values"
    assert said in done.err


def test_sequence_opens_what_it_must_not_call(tmp_path):
    script = """
import torch
library = torch.library.Library("mine", "DEF")
library.define("half(Tensor x) -> Tensor")
library.impl("half", lambda x: x / 2, "CompositeExplicitAutograd")
torch.ops.mine.half(torch.arange(6.0)).mul_(2)
"""
    out = record(tmp_path, script, "-l", "2", "--ids", "--outputs", "--values", "1KB")
    summary, rows, status = sequence(out)
    assert [row["config"].split("(")[0] for row in rows] == [
        "aten::arange", "aten::div.Tensor", "aten::mul_.Tensor",
    ]  # fmt: skip
    assert status == 0 and summary["ok"] == 3
    assert "1 call can't be made again" in replay(out, "--sequence").err


def test_names_are_refused_as_in_programs(tmp_path):
    """By one list: replay in Python, exports in C++."""
    text = (tool.ROOT / "replay/callable.yaml").read_text()
    refused = text.split("\nrefused:")[1].split("\nnot written:")[0]
    names = re.findall(r'- \{name: "(.*?)"', refused)
    names = [name.replace("[A-Z]", "A").replace("*", "x") for name in names]
    names += ["torch.a.b", "torch.Tensor.x.y", "torch.nn.functional.a.b"]
    names = [name for name in names if name.startswith(("torch", "x")) and "::" not in name]
    assert len(names) > 40
    path = write(tmp_path / "a.txt", *(f"{name}(1)" for name in names))
    rows, _ = results(path)
    reasons = {config.removesuffix("(1)"): row["reason"] for config, row in rows.items()}
    assert list(reasons) == names
    code = tool.torchtrace("export", "python", path, cwd=tmp_path).out
    left_out = re.findall(r"# left out: call \d+, (.*?)\(1\): (.*)", code)
    assert dict(left_out) == reasons


@pytest.mark.slow
def test_samples_of_operators():
    """A part of the samples that docs/REPLAY.md counts."""
    rows, _ = results(tool.ROOT / "testdata/forms/opinfo_configs.txt")
    returned = sum(row["result"] == "ok" for row in rows.values())
    assert returned >= 0.99 * len(rows)
