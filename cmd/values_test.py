"""--outputs, --ids, --int-ranges, --values: what is recorded of calls as well as their configs."""

import base64
import json
import os
import struct

import pytest

from python import warm_testing
from tools.testing import whole_tool as tool

pytestmark = pytest.mark.torch

PROGRAM = """
import torch
x = torch.arange(6).reshape(2, 3)
y = x[1:].float()
z = torch.relu(y.t() - 4)
z.add_(1)
linear = torch.nn.Linear(1, 2)
out = linear(z)
parts = out.split(1)
torch.sort(out)
try:
    torch.mm(y, y)
except RuntimeError:
    pass
for _ in range(50):
    torch.exp(torch.zeros(3))
print(out.sum().item() == out.sum().item())
"""


def record(folder, *options):
    (folder / "program.py").write_text(PROGRAM)
    done = tool.torchtrace(
        "run", "--python", tool.PYTHON, "-q", "-o", "out", *options, "program.py", cwd=folder
    )
    assert (done.status, done.out) == (0, "True\n"), done.err
    return calls(folder)


@pytest.fixture(scope="module")
def with_everything(tmp_path_factory):
    """The folder of a trace of PROGRAM's operators."""
    folder = tmp_path_factory.mktemp("everything")
    options = "levels=2, ids=True, outputs=True, int_ranges='all', values='1KB'"
    ended = warm_testing.traced(PROGRAM, folder, options)
    assert (ended.out, ended.err) == ("True\n", "")
    return folder


def calls(folder, trace="out"):
    done = tool.torchtrace("dump", trace, "--format", "jsonl", cwd=folder)
    assert done.status == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def named(found, api, level):
    return [call for call in found if call["api"] == api and call["level"] == level]


def shapes(result):
    return [value["shape"] for value in result]


def test_outputs_of_all_levels(tmp_path):
    found = record(tmp_path, "-l", "0,1,2,3,4", "--frames", "modules", "--outputs")
    for level in (0, 1):
        (relu,) = named(found, "torch.relu", level)
        assert shapes(relu["result"]) == [[3, 1]]
        (split,) = named(found, "torch.Tensor.split", level)
        assert shapes(split["result"][0]["value"]) == [[1, 2]] * 3
    for level in (2, 4):
        assert shapes(named(found, "aten::relu", level)[0]["result"]) == [[3, 1]]
        # Two values, not a tuple.
        assert shapes(named(found, "aten::sort", level)[0]["result"]) == [[3, 2], [3, 2]]
        (failed,) = named(found, "aten::mm", level)
        assert failed["outcome"] == "raised" and "result" not in failed
    (module,) = named(found, "torch.nn.Linear", 3)
    assert shapes(module["result"]) == [[3, 2]]
    # Ranges of integers are recorded by default, numbers of tensors are not.
    notes = [note for call in found for note in call.get("tensors", ())]
    assert all("min" in note and "tensor" not in note for note in notes)
    text = tool.torchtrace(
        "dump", "out", "--level", "2", "--include", "aten::relu", cwd=tmp_path
    ).out
    assert 'Tensor([3, 1], "float32"))  -> Tensor([3, 1], "float32")' in text


def numbers(note):
    return [note[key] for key in ("tensor", "storage", "offset")]


def test_identities(with_everything):
    found = calls(with_everything)
    (arange,) = named(found, "aten::arange", 2)
    base = arange["result_tensors"][0]
    view = named(found, "aten::slice.Tensor", 2)[0]["result_tensors"][0]
    assert view["storage"] == base["storage"] and view["offset"] == 3
    assert view["tensor"] != base["tensor"]
    # The number of a result is that of a later argument; in place it stays the same.
    relu = named(found, "aten::relu", 2)[0]["result_tensors"][0]
    add = named(found, "aten::add_.Tensor", 2)[0]
    assert numbers(add["tensors"][0]) == numbers(relu) == numbers(add["result_tensors"][0])
    # Memory is reused, numbers aren't.
    exp = [call["tensors"][0] for call in named(found, "aten::exp", 2)]
    assert len({one["tensor"] for one in exp}) == len({one["storage"] for one in exp}) == 50


def test_ranges_and_contents(tmp_path):
    found = record(tmp_path, "-l", "1", "--int-ranges", "--values", "16")
    (index,) = named(found, "torch.Tensor.__getitem__", 1)
    note = index["tensors"][0]
    assert (note["min"], note["max"]) == (0, 5)
    assert struct.unpack("6q", base64.b64decode(note["contents"])) == (0, 1, 2, 3, 4, 5)
    # The elements of a transposed tensor in its own order.
    (relu,) = named(found, "torch.relu", 1)
    (note,) = relu["tensors"]
    contents = base64.b64decode(note["contents"])
    assert struct.unpack("3f", contents) == (-1.0, 0.0, 1.0) and "min" not in note
    assert all("result" not in call for call in found)


INTEGERS = """
import os, sys, torch
table = torch.nn.Embedding(60000, 1)
several = torch.arange(40000, 40033).to(torch.int32)
for step in range(5):
    table(several[:32] + step)
    table(several + step)
torch.arange(4097) + 1
torch.ones(3, dtype=torch.uint16).clone()
(torch.ones(2) > 0).any()
torch.empty_like(several)
"""


def noted(found, api, level=2):
    """The notes on tensors of each call: range, and whether there are elements."""
    return [
        [(note.get("min"), note.get("max"), "contents" in note) for note in call.get("tensors", ())]
        for call in named(found, api, level)
    ]


def run_integers(folder, *options, **kwargs):
    done = tool.torchtrace(
        *("run", "--python", tool.PYTHON, "-qfo", "out", "-l", "2", *options, "-c", INTEGERS),
        cwd=folder,
        **kwargs,
    )
    assert (done.status, done.out) == (0, ""), done.err
    return calls(folder)


def test_ranges_of_first_calls(tmp_path):
    found = run_integers(tmp_path)
    small = [[(40000 + step, 40031 + step, True)] for step in range(3)] + [[], []]
    large = [[(40000 + step, 40032 + step, False)] for step in range(3)] + [[], []]
    assert noted(found, "aten::embedding")[::2] == small
    assert noted(found, "aten::embedding")[1::2] == large
    # Too many elements, then all kinds; calls that make a view or read the shape cause no reading.
    assert noted(found, "aten::add.Tensor")[-1] == []
    assert noted(found, "aten::clone") == [[(1, 1, True)]]
    assert noted(found, "aten::any") == [[(1, 1, True)]]
    assert noted(found, "aten::slice.Tensor") == [[]] * 5
    assert noted(found, "aten::empty_like") == [[]]
    assert json.loads((tmp_path / "out/run.json").read_text())["int_ranges"] == "first"


def test_ranges_of_all_calls_or_none(tmp_path):
    ended = warm_testing.traced(INTEGERS, tmp_path, "levels=2, int_ranges='all'")
    assert (ended.out, ended.err) == ("", "")
    found = calls(tmp_path)
    assert noted(found, "aten::embedding")[::2] == [
        [(40000 + step, 40031 + step, True)] for step in range(5)
    ]
    found = run_integers(tmp_path, "--no-int-ranges", env={"TORCHTRACE_INT_RANGES": "all"})
    assert found and all("tensors" not in call for call in found)
    chosen = []
    for *options, variable in (["0"], ["--no-int-ranges", "all"], ["all"], ["--int-ranges", "0"]):
        done = tool.torchtrace(
            *("run", "--python", tool.PYTHON, "-qfo", "out", *options, "-c", "pass"),
            cwd=tmp_path,
            env={"TORCHTRACE_INT_RANGES": variable},
        )
        assert done.status == 0, done.err
        chosen.append(json.loads((tmp_path / "out/run.json").read_text()).get("int_ranges"))
    assert chosen == [None, None, "all", "all"]


def test_memory_that_is_gone_is_not_read(tmp_path):
    """The program only reads the shape, and must survive when traced."""
    (tmp_path / "integers").write_bytes(bytes(8192))
    code = """if True:
        import os, torch
        x = torch.from_file("integers", shared=True, size=1024, dtype=torch.int64)
        os.truncate("integers", 0)
        print(torch.Tensor.view(x, 32, 32)[0].shape)
    """
    done = tool.torchtrace(
        *("run", "--python", tool.PYTHON, "-qo", "out", "-l", "0,1,2", "-c", code), cwd=tmp_path
    )
    assert (done.status, done.out) == (0, "torch.Size([32])\n"), done.err
    (view,) = named(calls(tmp_path), "torch.Tensor.view", 1)
    assert "tensors" not in view and os.path.getsize(tmp_path / "integers") == 0


def test_merge_and_filter_keep_all(tmp_path, with_everything):
    whole = with_everything / "out"

    def kept(trace):
        keys = ("api", "tensors", "result", "result_tensors", "outcome")
        return [[call.get(key) for key in keys] for call in calls(tmp_path, trace)]

    own = kept(whole)
    assert any(call[1] and call[2] and call[3] for call in own)
    for verb in (["merge", whole, "-o", "merged"], ["filter", whole, "--level=2", "-o", "some"]):
        done = tool.torchtrace(*verb, "-q", cwd=tmp_path)
        assert done.status == 0, done.err
        assert kept(verb[-1]) == own


def test_sizes_are_checked(tmp_path):
    (tmp_path / "program.py").write_text("")
    done = tool.torchtrace("run", "--values", "many", "program.py", cwd=tmp_path)
    assert done.status == 125 and "--values" in done.err


SAME_PROGRAM = """
import gc, weakref
import torch


class Sized(torch.Tensor):
    asked = []

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, dispatch_sizes_strides_policy="sizes"
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        cls.asked.append(str(function))
        if "storage_offset" in str(function):
            raise RuntimeError("torchtrace asked the program")
        plain = [each.inner if isinstance(each, cls) else each for each in args]
        made = function(*plain, **(kwargs or {}))
        return cls(made) if function is torch.ops.aten.add.Tensor else made


sized = Sized(torch.ones(3))
del Sized.asked[:]
sized + 1
print(Sized.asked)
values = torch.ones(4)
csr = torch.sparse_csr_tensor(torch.tensor([0, 4]), torch.arange(4), values, (1, 4))
csr.sum()
gone = weakref.ref(values)
del values, csr
print(gone() is None)
x = torch.ones(1 << 20)
for _ in range(200):
    (x + 1) * 2
# ru_maxrss is that of the process that started it, too.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(int(peak.split()[1]) > 1 << 20)
"""


def test_identities_leave_the_program_as_it_is(tmp_path):
    (tmp_path / "program.py").write_text(SAME_PROGRAM)
    done = tool.torchtrace(
        *("run", "--python", tool.PYTHON, "-qf", "-l", "1,2,4", "--ids", "--outputs"),
        *("--int-ranges", "--values", "4KB", "-o", "out", "program.py"),
        cwd=tmp_path,
    )
    assert done.status == 0, done.err
    assert done.out == "['aten.add.Tensor']\nTrue\nFalse\n"
    numbers = [
        note["tensor"]
        for call in named(calls(tmp_path), "aten::mul.Tensor", 2)
        for note in call["result_tensors"]
    ]
    assert len(numbers) == len(set(numbers)) >= 200
