"""Programs of another framework than torch: traced, read, and the same as untraced."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from tools.testing import whole_tool as tool

PADDLE = tool.ROOT / ".build/venv/paddle/bin/python3"
SCRIPT = tool.SCRIPTS / "train_paddle.py"

pytestmark = pytest.mark.skipif(not PADDLE.exists(), reason="tools/test makes .build/venv/paddle")


def run(*args, cwd, options=(), **kwargs):
    command = ("run", "-qf", "-o", cwd / "trace", "--dialect", "paddle", "--python", PADDLE)
    return tool.torchtrace(*command, *options, *args, cwd=cwd, **kwargs)


def lines(tmp_path, code, **kwargs):
    """What api_trace.txt says of a program."""
    traced = run("-c", code, cwd=tmp_path, **kwargs)
    assert traced.status == 0, traced.err
    return (tmp_path / "trace/api_trace.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A traced training run, and what it wrote."""
    folder = tmp_path_factory.mktemp("paddle")
    untraced = tool.execute([PADDLE, SCRIPT], folder)
    traced = run(SCRIPT, cwd=folder)
    assert traced.lines() == untraced.lines()
    assert traced.status == 0
    return folder / "trace"


def test_calls_arguments_and_tensors(trace):
    calls = (trace / "api_trace.txt").read_text().splitlines()
    for call in (
        "paddle.nn.Linear(4, 8)",
        "paddle.rand(list[16, 4])",
        'paddle.sum(Tensor([16, 4], "float32"), axis=1)',
        'paddle.Tensor.__gt__(Tensor([16], "float32"), 2.0)',
        'paddle.Tensor.backward(Tensor([], "float32"))',
        'paddle.cast(Tensor([16, 4], "float32"), paddle.float16)',
        'paddle.Tensor.__add__(Tensor([4, 16], "float32", stride=[1, 4]), 1)',
        'paddle.to_tensor(list[list[1, 2], list[3, 4]], place=paddle.device("cpu"))',
        'paddle.Tensor.to_dense(Tensor([2, 2], "float32", layout="sparse_coo"))',
        'paddle.reshape(Tensor([2, 2], "float32"), paddle.Size([2, 2]))',
    ):
        assert call in calls
    assert calls.count('paddle.nn.functional.relu(Tensor([16, 8], "float32"))') == 3
    run_json = json.loads((trace / "run.json").read_text())
    assert run_json["packages"]["paddle"].startswith("3.")
    assert run_json["dialect"] == "paddle" and run_json["levels"] == [0]


def test_parameters_keep_class_and_gradient(trace):
    tensors = [
        tensor
        for call in yaml.safe_load((trace / "api_trace.yaml").read_text())
        if call["api"] == "paddle.optimizer.SGD"
        for tensor in call["kwargs"]["parameters"]["value"]
    ]
    assert [tensor["shape"] for tensor in tensors] == [[4, 8], [8], [8, 2], [2]]
    for tensor in tensors:
        assert tensor["type"] == "paddle.Tensor" and tensor["dtype"] == "paddle.float32"
        assert tensor["subclass"] == "paddle.base.framework.EagerParamBase"
        assert tensor["requires_grad"] is True


def test_a_call_that_raises_is_there(trace):
    dump = tool.torchtrace("dump", trace, "--format", "jsonl", cwd=trace)
    calls = [json.loads(line) for line in dump.out.splitlines()]
    raised = [call for call in calls if call["outcome"] == "raised"]
    assert {call["api"] for call in raised} == {"paddle.matmul", "paddle.linalg.matmul"}


def test_nothing_speaks_of_torch(trace):
    for name in ("api_trace.txt", "api_trace.yaml", "api_configs.yaml", "api_statistics.yaml"):
        assert "torch." not in (trace / name).read_text()


VERBS = [
    ("info",),
    ("stats",),
    ("stats", "--by", "config"),
    ("dump",),
    ("dedup",),
    ("dedup", "--generalize"),
    ("apis", "coverage"),
    ("export", "jsonl"),
    ("export", "csv"),
    ("export", "yaml"),
    ("export", "paddle"),
]


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_verbs_read_it(verb, trace, tmp_path):
    done = tool.torchtrace(*verb, trace, cwd=tmp_path)
    assert done.status == 0, done.err
    assert "paddle" in done.out.lower()
    assert "torch." not in done.out and "PyTorch" not in done.out + done.err


@pytest.mark.parametrize("form", ["yaml", "json", "jsonl"])
def test_what_is_exported_is_read_back_whole(form, trace, tmp_path):
    exported = tmp_path / f"configs.{form}"
    assert tool.torchtrace("export", form, trace, "-o", exported, cwd=tmp_path).status == 0
    same = tool.torchtrace("diff", trace, exported, cwd=tmp_path)
    assert same.status == 0, same.out


def test_filter_by_dtype_and_merge(trace, tmp_path):
    filtered = tool.torchtrace(
        "filter", trace, "--where", "dtype = paddle.bool", "-o", "kept", cwd=tmp_path
    )
    assert "kept 4 of" in filtered.err
    merged = tool.torchtrace("merge", trace, "kept", "-o", "merged", cwd=tmp_path)
    assert merged.status == 0, merged.err
    assert "paddle.cast(" in (tmp_path / "merged/api_trace.txt").read_text()


def test_values_in_calls_of_other_libraries_say_whose_they_are(tmp_path):
    code = "import numpy, paddle; x = paddle.ones([2]); numpy.shape(x); numpy.shape(3)"
    calls = lines(tmp_path, code, options=("--library", "numpy", "--include", "numpy.shape"))
    assert calls == ['numpy.shape(paddle.Tensor([2], "float32"))', "numpy.shape(3)"]
    same = tool.torchtrace(
        "diff", "trace", "trace/api_trace.yaml", "--ignore", "level", cwd=tmp_path
    )
    assert same.status == 0, same.out


def test_what_follows_compiled_code_is_there(tmp_path):
    code = """
import paddle
compiled = paddle.jit.to_static(lambda x: x + x)
x = paddle.ones([2])
paddle.nn.functional.relu(x)
compiled(x)
paddle.nn.functional.relu(x)
"""
    assert sum("functional.relu(" in line for line in lines(tmp_path, code)) == 2


def test_dtypes_are_told_by_value(tmp_path):
    code = """
import copy, paddle
x = paddle.ones([2])
kinds = paddle.base.core.VarDesc.VarType
for dtype in (copy.deepcopy(paddle.int64), paddle.dtype(int(paddle.int32)), kinds.FP16, kinds.BF16):
    paddle.cast(x, dtype)
"""
    cast = 'paddle.cast(Tensor([2], "float32"), paddle.{})'
    names = ("int64", "int32", "float16", "bfloat16")
    assert [line for line in lines(tmp_path, code) if ".cast(" in line] == [
        cast.format(name) for name in names
    ]


def test_older_representation_of_programs(tmp_path):
    code = "import paddle; paddle.cast(paddle.ones([2]), paddle.float16)"
    calls = lines(tmp_path, code, env={"FLAGS_enable_pir_api": "0"})
    assert calls[-1] == 'paddle.cast(Tensor([2], "float32"), paddle.float16)'


def test_gradients_of_selected_rows_are_no_dense_tensors(tmp_path):
    code = """
import paddle
table = paddle.nn.Embedding(100, 4, sparse=True)
table(paddle.to_tensor([1, 2])).sum().backward()
try:
    paddle.add(table.weight.grad, table.weight.grad)
except Exception:
    pass
"""
    assert any('layout="selected_rows"' in line for line in lines(tmp_path, code))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGSEGV"])
def test_death_by_a_signal_that_paddle_handles(name, tmp_path):
    code = f"import os, signal, paddle; paddle.ones([1]); os.kill(os.getpid(), signal.{name})"
    untraced = tool.execute([PADDLE, "-c", code], tmp_path)
    traced = run("-c", code, cwd=tmp_path)
    assert traced.status == untraced.status
    info = tool.torchtrace("info", "trace", cwd=tmp_path)
    assert f"({name})" in info.out


def test_its_own_names_come_before_aliases(tmp_path):
    code = "import paddle; x = paddle.ones([2, 3]); paddle.concat([x]); paddle.transpose(x, [1, 0])"
    calls = lines(tmp_path, code)
    assert 'paddle.concat(list[Tensor([2, 3], "float32")])' in calls
    assert 'paddle.transpose(Tensor([2, 3], "float32"), list[1, 0])' in calls


def test_groups_and_text_read_back(trace, tmp_path):
    same = tool.torchtrace("diff", trace, trace / "api_trace.txt", cwd=tmp_path)
    assert same.status == 0, same.out
    tool.torchtrace("filter", trace, "--include", "%activation", "-o", "kept", cwd=tmp_path)
    kept = (tmp_path / "kept/api_trace.txt").read_text().splitlines()
    assert {line.partition("(")[0] for line in kept} == {"paddle.nn.functional.relu"}


def test_description_is_passive(tmp_path):
    code = """
import gc, paddle
class Finalized:
    def __del__(self):
        print("collected")
x = paddle.ones([2, 3])
cycle = Finalized()
cycle.itself = cycle
del cycle
paddle.add(x, x)
gc.set_threshold(1, 1, 1)
before = gc.get_stats()[0]["collections"]
for _ in range(10):
    paddle.add(x, x)
print(gc.get_stats()[0]["collections"] - before)
gc.disable()
paddle.add(x, x)
print("disabled still", not gc.isenabled())
"""
    untraced = tool.execute([PADDLE, "-c", code], tmp_path)
    traced = run("-c", code, cwd=tmp_path)
    assert traced.lines() == untraced.lines()


def test_trace_within_a_program(tmp_path):
    folder = Path(tool.TORCHTRACE).parents[1] / "runtime" / ("py%d.%d" % sys.version_info[:2])
    code = """
import paddle, torchtrace
with torchtrace.trace("out", dialect="paddle"):
    paddle.ones([2, 3])
paddle.ones([4])
"""
    done = tool.execute([PADDLE, "-c", code], tmp_path, env={"PYTHONPATH": str(folder)})
    assert done.status == 0, done.err
    calls = (tmp_path / "out/api_trace.txt").read_text()
    assert calls.startswith("paddle.ones(list[2, 3])\n") and "list[4]" not in calls


def test_levels_that_it_lacks_are_refused(tmp_path):
    refused = run("-c", "print('ran')", cwd=tmp_path, options=("--levels", "1"))
    assert refused.status == 125 and refused.out == ""
    assert "level 1 cannot be traced by this build: of paddle it can trace level 0" in refused.err


def test_scan_makes_the_list_that_is_kept(tmp_path):
    made = tool.torchtrace(
        "apis", "scan", "--dialect", "paddle", "--default", "--python", PADDLE, cwd=tmp_path
    )
    assert made.status == 0, made.err
    kept = tool.ROOT / "dialects/paddle/api_list/paddle_api_list.yaml"
    assert made.out == kept.read_text()
