"""--numbers: which tensors have them, that they are right, and that programs don't notice."""

import base64
import collections
import functools
import json
import math

import pytest
import torch

from dialects.torch.testing.trace_testing import MARK, SCRIPTS, tool, trace, untraced

pytestmark = [pytest.mark.torch, pytest.mark.slow]

OPINFO = SCRIPTS.parent / "opinfo_samples.py"
SAMPLES = (str(OPINFO), "--dtypes", "all", "--samples", "1", "--part", "0/18")
INTEGERS = {"quint8": torch.uint8, "qint8": torch.int8, "qint32": torch.int32}


def tensors_in(*values):
    """The tensors of described values, in the order of their notes."""
    found = []
    for value in values:
        if isinstance(value, list):
            found += tensors_in(*value)
        elif isinstance(value, dict) and value.get("type") == "torch.Tensor" and "dtype" in value:
            found.append(value)
        elif isinstance(value, dict):
            found += tensors_in(*value.values())
    return found


class NotedCall:
    """A call with the numbers of its tensors, None where they have none."""

    def __init__(self, record):
        self.api, self.level = record["api"], record["level"]
        of_call = tensors_in(record["args"], record["kwargs"])
        self.tensors = {
            "tensors": of_call,
            "written_tensors": of_call,
            "result_tensors": tensors_in(record.get("result", [])),
        }
        self.notes = {kind: record.get(kind, []) for kind in self.tensors}
        self.taken = self.numbers("tensors")
        self.returned = self.numbers("result_tensors")
        # Of written tensors only those that have a note.
        self.wrote = [note.get("numbers") for note in self.notes["written_tensors"]]

    def numbers(self, kind):
        of = {note["position"]: note.get("numbers") for note in self.notes[kind]}
        return [of.get(position) for position in range(len(self.tensors[kind]))]


def sections(folder):
    found, section = {}, []
    for line in tool("dump", folder, "--format", "jsonl").splitlines():
        record = json.loads(line)
        if record["api"] == MARK:
            section = found.setdefault(record["args"][0], [])
        elif record["level"] in (2, 4):
            section.append(NotedCall(record))
    return found


@functools.cache
def recorded(levels="1,2", numbers="all"):
    options = (f"--numbers={numbers}",)
    return trace("tensor_numbers.py", levels=levels, options=options).check()


@functools.cache
def section(name, levels="1,2", numbers="all"):
    return sections(recorded(levels, numbers).folder)[name]


def calls(name, api, **how):
    found = [call for call in section(name, **how) if call.api.split(".")[0] == api]
    assert found, (name, api)
    return found


def extremes(numbers):
    return None if numbers is None else (numbers["min"], numbers["max"])


def test_what_calls_take_and_return():
    (add,) = calls("operators", "aten::add")
    (taken,), (returned,) = add.taken, add.returned
    assert (taken["nan"], taken["-inf"], taken["inf"], taken["zeros"]) == (1, 1, 0, 0)
    assert (taken["min"], taken["max"], taken["mean"]) == (1, 3, 2)
    assert taken["norm"] == pytest.approx(math.sqrt(10))
    assert extremes(returned) == (2, 4)
    (transposed,) = calls("operators", "aten::t")
    assert (transposed.taken, transposed.returned) == ([None], [None])
    # The same elements in another order.
    (clone,) = calls("operators", "aten::clone")
    assert extremes(clone.taken[0]) == (1, 3)
    assert clone.taken == clone.returned
    assert clone.taken[0]["fingerprint"] != taken["fingerprint"]


def test_memory_that_was_not_written_has_none():
    abs_of_view, abs_of_resized, abs_of_squeezed, in_inference, written = calls(
        "memory", "aten::abs"
    )
    for call in (abs_of_view, abs_of_resized, abs_of_squeezed, in_inference):
        assert call.taken == [None]
    assert extremes(written.taken[0]) == (2, 2)
    for api in ("aten::empty", "aten::resize_", "aten::unsqueeze_"):
        assert all(call.returned == [None] for call in calls("memory", api))
    # Written as a whole.
    (negative,) = calls("memory", "aten::neg")
    assert negative.taken[0] is not None
    (out,) = calls("memory", "aten::add")
    assert out.taken[1] is None
    assert extremes(out.returned[0]) == (2, 2)
    assert calls("memory", "aten::ones_like")[0].taken == [None]


def test_what_is_written_through_a_view_is_read_anew():
    sums = [extremes(call.taken[0]) for call in calls("views", "aten::sum")]
    assert sums[:4] == [(0, 1), (0, 1), (1, 2), (2, 3)]
    assert sums[4][0] > 1e9  # the floats' bits as integers
    assert [call.taken for call in calls("views", "aten::select")] == [[None]]


def test_what_is_written_and_not_returned():
    parts, steps = calls("written", "aten::_foreach_add_")
    assert [extremes(one) for one in parts.wrote] == [(2, 2), (1, 1)]
    assert [extremes(one) for one in steps.wrote] == [(1, 1)]
    (adamw,) = calls("written", "aten::_fused_adamw_")
    # The schema says that it writes gradients, too.
    parameter, _, average, squares = (extremes(one) for one in adamw.wrote[:4])
    assert parameter[0] == parameter[1] == pytest.approx(0.899, abs=1e-3)
    assert average == (pytest.approx(0.05), pytest.approx(0.05))
    assert squares[0] == pytest.approx(0.00025, abs=1e-6)
    (norm,) = calls("written", "aten::native_batch_norm")
    assert [extremes(one) for one in norm.wrote] == [
        (pytest.approx(0.2), pytest.approx(0.4)),
        (pytest.approx(1.1), pytest.approx(1.7)),
    ]
    failed = calls("written", "aten::add_")[-1]
    assert (failed.returned, [extremes(one) for one in failed.wrote]) == ([], [(1, 1)])


def test_arrays_of_numpy_are_read_each_time():
    assert [extremes(call.taken[0]) for call in calls("numpy", "aten::sum")] == [(0, 0), (0, 5)]


def test_kinds_of_elements():
    def of(index):
        return calls("kinds", "aten::clone")[index].returned[0]

    complex_, bools, brains, float8, empty, scalar, quantized, csr, nested = map(of, range(9))
    assert (complex_["nan"], complex_["zeros"], *extremes(complex_)) == (1, 1, 0, 5)
    assert (bools["zeros"], bools["mean"]) == (1, pytest.approx(2 / 3))
    assert (brains["zeros"], *extremes(brains)) == (2, 0, 2)
    assert extremes(float8) == (-2, 1)
    assert (empty["zeros"], empty["mean"]) == (0, None)
    assert extremes(scalar) == (7, 7)
    assert extremes(quantized) == (2, 4)
    assert extremes(csr) == (5, 6)
    assert extremes(nested) == (1, 4)
    assert extremes(calls("kinds", "aten::mul")[0].taken[0]) == (5, 6)  # sparse


def test_conjugate_and_negative_views():
    """A clone has the same elements, in memory as they are seen."""
    clones = calls("signs", "aten::clone")
    *signs, integers = clones
    assert [call.taken for call in signs] == [call.returned for call in signs]
    assert integers.taken == [None]
    found = [call.taken[0] for call in signs]
    (plain,) = (call.taken[0] for call in calls("signs", "aten::sum"))
    assert [numbers["norm"] for numbers in found[:2]] == [plain["norm"]] * 2
    assert [extremes(numbers) for numbers in (found[2], found[4])] == [(-2, 3), (-1, 2)]
    assert found[4]["-inf"] == 1
    fingerprints = {numbers["fingerprint"] for numbers in (plain, *found)}
    assert len(fingerprints) == len(found) + 1


def test_tensors_without_elements_have_none():
    meta, fake = calls("none", "aten::clone")
    assert meta.taken == meta.returned == fake.returned == [None]
    # vmap's wrapper has none at level 1, the batch inside has.
    assert extremes(calls("none", "aten::sin")[0].taken[0]) == (1, 1)


def test_numbers_of_results_alone():
    for name in ("operators", "views", "kinds"):
        alone, all_ = section(name, numbers="results"), section(name)
        assert [call.returned for call in alone] == [call.returned for call in all_]
        assert all(numbers is None for call in alone for numbers in call.taken)


def test_level_4_has_the_same_results():
    for api in ("aten::_foreach_add_", "aten::_fused_adamw_"):
        of_2, of_4 = (calls("written", api, levels=levels) for levels in ("1,2", "1,4"))
        assert [call.wrote for call in of_4] == [call.wrote for call in of_2]
    written = calls("written", "aten::_foreach_add_", levels="1,2,4")
    assert {call.level for call in written} == {2, 4}
    assert [bool(call.wrote) for call in written] == [call.level == 2 for call in written]
    for name, api in (
        ("operators", "aten::add"),
        ("operators", "aten::clone"),
        ("views", "aten::add_"),
    ):
        of_2, of_4 = (calls(name, api, levels=levels) for levels in ("1,2", "1,4"))
        assert [call.returned for call in of_4] == [call.returned for call in of_2]


def test_level_1_has_those_of_its_operators():
    found, of_function = collections.Counter(), {}
    for line in tool("dump", recorded().folder, "--format", "jsonl").splitlines():
        record = json.loads(line)
        if record["level"] == 1:
            of_function[record["call"]] = record
        elif outer := of_function.get(record.get("parent")):
            inner, outer = NotedCall(record), NotedCall(outer)
            if outer.api.split(".")[-1] in ("add", "sum", "clone", "neg", "mul", "ones", "fill_"):
                found[inner.returned == outer.returned] += 1
    assert found[True] > 20 and not found[False]


def test_programs_compute_the_same():
    plain = untraced("tensor_numbers.py").check().stdout
    assert recorded().stdout == recorded(numbers="results").stdout == plain != ""


ALONE = """
import io
import torch
from torch.distributed.tensor import DTensor, Shard, init_device_mesh
from torch.overrides import handle_torch_function, has_torch_function
def show(value):
    if has_torch_function((None,)):
        return handle_torch_function(show, (), value)
def filled(make, fill):
    value = make()
    fill(value)
    return value
ones = torch.ones(2)

show("unwritten")
show(torch.Tensor(3))
show(torch.FloatTensor(2, 2))
show(torch.Tensor(torch.Size([3])))
show(ones.new(3))
show(ones.new_empty(3))
show(torch.ops.aten.empty.memory_format([3]))
show(torch.empty(3).unsqueeze_(0))
show(torch.empty(2, 3).t_())
show(torch.empty(3).requires_grad_())
show(torch.empty(3).detach_())
show(torch.nn.Parameter(torch.empty(3)))
show(torch.ones(1).resize_(3).data)
show(torch.empty(3).set_(torch.empty(4)))
with torch.inference_mode():
    show(torch.empty(4).view(2, 2))
    show(torch.empty(2).unsqueeze_(0))

def fill_data(value):
    value.data[:] = 1
def fill_slice(value):
    value[:1].fill_(1)
    value[1] = 1
show("written")
show(torch.Tensor([1, 1]))
show(torch.Tensor(ones))
show(ones)
show(ones.new([1, 1]))
show(filled(lambda: torch.Tensor(2), lambda value: value.fill_(1)))
show(filled(lambda: torch.empty(2), fill_data))
show(filled(lambda: torch.empty(1).resize_(2), lambda value: value.data.fill_(1)))
show(filled(lambda: torch.empty(2).unsqueeze_(0), lambda value: value.copy_(ones)))
show(filled(lambda: torch.empty(2), lambda value: torch.mul(ones, ones, out=value.data)))
show(filled(lambda: torch.empty(2), lambda value: torch._foreach_copy_([value.data], [ones])))
show(filled(lambda: torch.empty(2), torch.nn.init.ones_))
file = io.BytesIO()
torch.save(ones, file)
file.seek(0)
show(torch.load(file))
with torch.inference_mode():
    show(filled(lambda: torch.empty(2), fill_slice))

show("wrappers")
torch.distributed.init_process_group(
    "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
local = torch.tensor([1.0, float("nan"), 5.0])
whole = DTensor.from_local(local, mesh, [Shard(0)])
show(whole)
show(torch.nn.Parameter(whole))
show(whole + 1)
jagged = torch.nested.nested_tensor([torch.ones(2), torch.full((1,), 4.0)], layout=torch.jagged)
show(jagged)
show(jagged * 2)
torch.ops._c10d_functional.wait_tensor(ones)
torch.distributed.destroy_process_group()
"""


@functools.cache
def shown(levels):
    """The numbers of what the program shows, by section."""
    traced = trace(ALONE, levels=levels, options=("--numbers",)).check()
    found = {}
    for line in tool("dump", traced.folder, "--format", "jsonl").splitlines():
        record = json.loads(line)
        if record["api"] == "__main__.show" and isinstance(record["args"][0], str):
            section = found.setdefault(record["args"][0], [])
        elif record["api"] == "__main__.show":
            section += NotedCall(record).taken
        elif record["api"].startswith("torch.ops._c10d_functional.wait_tensor"):
            found.setdefault("waits", []).append(NotedCall(record))
    return found


@pytest.mark.parametrize("levels", ["1", "1,2"])
def test_memory_at_level_1(levels):
    assert shown(levels)["unwritten"] == [None] * 15
    assert [extremes(numbers)[1] for numbers in shown(levels)["written"]] == [1] * 13


@pytest.mark.parametrize("levels", ["1", "1,2"])
def test_what_a_call_waits_for_is_not_read(levels):
    [wait] = shown(levels)["waits"]
    assert wait.taken == [None] and len(wait.returned) == 1


@pytest.mark.parametrize("levels", ["1", "1,2"])
def test_wrappers_have_the_numbers_of_what_they_wrap(levels):
    found = [(numbers["nan"], *extremes(numbers)) for numbers in shown(levels)["wrappers"]]
    assert found == [(1, 1, 5), (1, 1, 5), (1, 2, 6), (0, 1, 4), (0, 2, 8)]


# A fused kernel writes the logarithms to the matrix product's memory.
COMPILED = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return (x @ x).log()
net = torch.compile(Net())
for _ in range(2):
    net(torch.full((2, 2), 3.0).tril()).sum()
"""


def test_what_fused_kernels_write_is_read_anew():
    options = ("--numbers", "--frames", "modules")
    traced = trace(COMPILED, levels="2,3", options=options).check()
    found = collections.defaultdict(list)
    for line in tool("dump", traced.folder, "--format", "jsonl").splitlines():
        call = NotedCall(json.loads(line))
        found[call.api] += call.taken if call.api == "aten::sum" else call.returned
    assert [numbers["-inf"] for numbers in found["aten::mm.out"]] == [0, 0]
    for api in ("__main__.Net", "aten::sum"):
        assert [numbers["-inf"] for numbers in found[api]] == [1, 1], api


STOPPED = """
import torch
def show(what):
    try:
        what()
    except FloatingPointError as error:
        print(str(error).split()[0])
negative = torch.tensor([1.0, -1.0], requires_grad=True)
show(lambda: torch.log(negative))
zeros = torch.zeros(2, requires_grad=True)
show(lambda: (torch.sqrt(zeros) * 0).sum().backward())
nan = torch.tensor([float("nan"), 1.0])
show(lambda: (nan + 1).sum())
show(lambda: nan.log())
torch._foreach_mul_([torch.tensor([float("inf")])], 0.0)
"""


def test_stops_where_a_nan_is_made():
    stopped = trace(STOPPED, levels="1,2", options=("--stop-on-nan",))
    assert stopped.exit_code == 1
    assert stopped.stdout.splitlines() == ["aten::log", "aten::div.Tensor"]
    (call,) = stopped.of("aten::_foreach_mul_.Scalar")
    said = f"FloatingPointError: {call.api} (call {call.number} of thread 0) made a NaN"
    assert said in stopped.stderr
    assert call.outcome == "returned"


STOPPED_IN_MODULE = """
import torch
class Root(torch.nn.Module):
    def forward(self, x):
        return x.sqrt()
model = torch.nn.Sequential(torch.nn.Identity(), Root())
model(-torch.ones(2))
"""


def test_a_nan_is_told_with_its_module():
    options = ("--stop-on-nan", "--frames", "modules")
    stopped = trace(STOPPED_IN_MODULE, levels="2,3", options=options)
    assert " of thread 0, in 1) made a NaN" in stopped.stderr


# In place of a GPU's numbers that come when the program has ended.
TOLD_AT_THE_END = """
import ctypes, os, sys, torch
process = ctypes.CDLL(None)
get = process["_ZN10torchtrace8Recorder3GetEv"]
get.restype = ctypes.c_void_p
told = b"aten::log made a NaN"
process["_ZN10torchtrace8Recorder11SetEndErrorEPKc"](ctypes.c_void_p(get()), told)
torch.ones(2)
print("ended", flush=True)
{end}
"""


@pytest.mark.parametrize(
    ("end", "exit_code"),
    [
        ("", 1),
        ("sys.exit()", 1),
        ("os._exit(0)", 1),
        ("ctypes.CDLL(None).exit(0)", 1),
        ("sys.exit(3)", 3),
    ],
)
def test_a_nan_that_comes_at_the_end_is_told_there(end, exit_code):
    ended = trace(TOLD_AT_THE_END.format(end=end), levels="2", options=("--quiet",))
    assert (ended.stdout, ended.exit_code) == ("ended\n", exit_code)
    assert ended.own_lines == ["torchtrace: aten::log made a NaN"]
    assert ended.run["exit_code"] == exit_code


COUNTING = """
import torch
@torch.library.custom_op("mine::count", mutates_args=("x", "more"))
def count(x: torch.Tensor, more: list[torch.Tensor], text: str) -> None:
    print(text, x._use_count(), [one._use_count() for one in more])
    x.add_(1), more[1].add_(2)
x = torch.ones(2)
count(x, [torch.ones(3), torch.ones(4)], "counts")
"""


@pytest.mark.parametrize("levels", ["2", "4"])
def test_a_kernel_counts_the_same_references(levels):
    counting = trace(COUNTING, levels=levels, options=("--numbers",)).check()
    assert counting.stdout == untraced(COUNTING).stdout
    (call,) = (
        NotedCall(json.loads(line))
        for line in tool("dump", counting.folder, "--format", "jsonl").splitlines()
        if json.loads(line)["api"] == "mine::count"
    )
    assert [extremes(one) for one in call.wrote] == [(2, 2), (1, 1), (3, 3)]


@functools.cache
def samples():
    options = ("--numbers", "--values", "1MB")
    return trace(*SAMPLES, levels="2", options=options).check()


def test_samples_compute_the_same():
    assert samples().stdout == untraced(*SAMPLES).stdout
    assert samples().stdout.count("\n") > 5


def difference(tensor, note):
    """What is wrong with numbers, by torch and the contents beside them; None: nothing."""
    name = tensor["dtype"].removeprefix("torch.")
    dtype = INTEGERS.get(name) or getattr(torch, name)
    raw = bytearray(base64.b64decode(note["contents"]))
    elements = torch.frombuffer(raw, dtype=dtype) if raw else torch.empty(0, dtype=dtype)
    if dtype.is_complex:
        parts = elements.to(torch.complex128)
        values = parts.abs().masked_fill(parts.real.isnan() | parts.imag.isnan(), math.nan)
    else:
        values = elements.to(torch.float64)
    numbers = note["numbers"]
    counts = {
        "nan": int(values.isnan().sum()),
        "inf": int((values == math.inf).sum()),
        "-inf": int((values == -math.inf).sum()),
        "zeros": int((values == 0).sum()),
    }
    if {key: numbers[key] for key in counts} != counts:
        return counts
    finite = values[values.isfinite()]
    if not len(finite):
        return None if numbers["mean"] is None and numbers["norm"] is None else "not empty"
    largest = float(finite.abs().max())
    wanted = {
        "min": finite.min(),
        "max": finite.max(),
        "mean": finite.mean(),
        "norm": finite.norm(),
    }
    for key, value in wanted.items():
        have, value = numbers[key], float(value)
        if have is None and math.isinf(value):
            continue
        if have is None or abs(have - value) > 1e-9 * max(largest, abs(value)):
            return key, have, value
    return None


def test_numbers_are_those_of_torchs_reductions():
    compared, prints, contents = collections.Counter(), {}, {}
    for line in tool("dump", samples().folder, "--format", "jsonl").splitlines():
        call = NotedCall(json.loads(line))
        for kind, tensors in call.tensors.items():
            for note in call.notes[kind]:
                if "numbers" not in note or "contents" not in note:
                    continue
                tensor = tensors[note["position"]]
                assert difference(tensor, note) is None, (call.api, tensor, note)
                compared[tensor["dtype"]] += 1
                # Equal fingerprints: equal dtype, shape and elements.
                key = (tensor["dtype"], *(tensor["shape"] or ()), note["contents"])
                fingerprint = note["numbers"]["fingerprint"]
                assert prints.setdefault(key, fingerprint) == fingerprint, (call.api, tensor)
                assert contents.setdefault(fingerprint, key) == key, (call.api, tensor)
    # Which operators are sampled depends on the version of torch.
    assert len(compared) >= 12 and sum(compared.values()) > 250, compared
