"""torchtrace nan: the call that made the first NaN or infinity."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tools.testing import whole_tool as tool

SAMPLE = tool.ROOT / "testdata/logs/v1/sample.ttlog"

PROGRAM = """
import torch

class Gate(torch.nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift

    def forward(self, x):
        return x * torch.log(x.abs() - self.shift)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = torch.nn.ModuleList([Gate(0.0), Gate(0.5), Gate(0.0)])

    def forward(self, x):
        mask = torch.zeros(4).masked_fill(torch.tensor([False, True, False, False]), -torch.inf)
        x = x + torch.softmax(mask, 0)
        for gate in self.gates:
            x = gate(x)
        return x.sum()

x = torch.tensor([1.0, 2.0, 3.0, 0.1], requires_grad=True)
Net()(x).backward()
z = torch.zeros(2, requires_grad=True)
torch.sqrt(z).sum().backward()
"""


def torchtrace(*args, cwd="/"):
    return tool.torchtrace(*args, cwd=cwd)


def record(folder, *options, program=PROGRAM):
    (folder / "program.py").write_text(program)
    args = ["run", "--python", sys.executable, "-q", "-f", "-o", "out", "--formats", "none"]
    done = torchtrace(*args, *options, "program.py", cwd=folder)
    assert done.status == 0, done.err


def found(folder, *options):
    """The processes of the trace `out`, with what was found."""
    done = torchtrace("nan", "out", "--format", "json", *options, cwd=folder)
    answer = json.loads(done.out)
    assert (done.status, done.err) == (1 if answer["found"] else 0, "")
    return answer["traces"][0]["processes"]


@pytest.mark.torch
@pytest.mark.parametrize(
    "options",
    [["--numbers"], ["--numbers=results"], ["--ids", "--outputs", "--values", "64KB"]],
    ids=["numbers", "results", "values"],
)
@pytest.mark.parametrize("levels", ["2,3", "1,2,3", "1,2,3,4"])
def test_first_call_that_makes_a_nan(tmp_path, options, levels):
    record(tmp_path, "-l", levels, "--frames", "modules", *options)
    [process] = found(tmp_path)
    [first] = process["findings"]
    assert (first["how"], first["kinds"], first["api"]) == ("made", ["nan"], "aten::log")
    assert (first["module"], first["part"]) == ("gates.1", "forward")
    assert [tensor["holds"] for tensor in first["result"]] == [["nan"]]
    assert first["result"][0]["numbers"]["nan"] == 2
    assert process["meant_infinities"] == 1
    assert process["meant_first"]["api"].startswith("aten::masked_fill")
    # The gradient of a square root at 0.
    assert [(call["api"], call["kinds"]) for call in process["more_first"]] == [
        ("aten::div.Tensor", ["inf"])
    ]
    assert process["spread"]["next"][0]["api"] == "aten::mul.Tensor"
    assert process["spread"]["first_gradient"]["part"] == "backward"


@pytest.mark.torch
def test_forward_call_of_a_backward_operator(tmp_path):
    program = "import torch\nz = torch.zeros(2, requires_grad=True)\ntorch.sqrt(z).sum().backward()"
    record(tmp_path, "-l", "1,2,4", "--stacks", "--numbers", program=program)
    [process] = found(tmp_path)
    [first] = process["findings"]
    assert (first["api"], first["kinds"], first["part"]) == (
        "aten::div.Tensor",
        ["inf"],
        "backward",
    )
    assert (first["forward"]["api"], first["forward"]["line"]) == ("aten::sqrt", 3)
    assert found(tmp_path, "--nan-only")[0]["findings"] == []


@pytest.mark.torch
def test_step_line_and_text(tmp_path):
    program = (
        "import torch, torchtrace\n"
        "for step in range(3):\n"
        "    torchtrace.annotate(step=step)\n"
        "    torch.sqrt(torch.ones(2) - step)\n"
    )
    record(tmp_path, "-l", "1,2", "--stacks", "--numbers", program=program)
    done = torchtrace("nan", "out", cwd=tmp_path)
    assert done.status == 1
    lines = done.out.splitlines()
    assert lines[0].endswith(" aten::sqrt made the first NaN")
    assert lines[1:3] == ["  when        step=2, forward", "  line        program.py:4 in <module>"]
    assert lines[3].startswith("  called by   torch.sqrt (call ")
    # Only one step.
    done = torchtrace("nan", "out", "--where", "tag(step) = 1", cwd=tmp_path)
    assert done.status == 0
    assert done.out.startswith("No NaN or infinity in what was looked at\n")


@pytest.mark.torch
@pytest.mark.parametrize("optimizer", ["foreach", "fused"])
def test_written_tensors(tmp_path, optimizer):
    program = f"""
import torch
p = torch.nn.Parameter(torch.ones(3))
p.grad = torch.zeros(3)
torch.optim.AdamW([p], lr=0.1, eps=0.0, {optimizer}=True).step()
"""
    record(tmp_path, "-l", "1,2", "--numbers", program=program)
    [process] = found(tmp_path)
    first = process["findings"][0]
    name = {"foreach": "aten::_foreach_addcdiv_.ScalarList", "fused": "aten::_fused_adamw_"}
    assert (first["api"], first["part"]) == (name[optimizer], "optimizer")
    assert first["written"][0]["holds"] == ["nan"]


@pytest.mark.torch
def test_data_from_outside(tmp_path):
    program = """
import numpy, torch
data = numpy.ones((2, 2), dtype="float32")
data[1, 1] = numpy.nan
x = torch.from_numpy(data)
(x @ x).sum()
"""
    record(tmp_path, "-l", "1,2", "--numbers", program=program)
    [process] = found(tmp_path)
    first = process["findings"][0]
    assert (first["how"], first["api"]) == ("came in", "torch.Tensor.matmul")
    assert first["from"]["api"] == "torch.from_numpy"


@pytest.mark.torch
def test_collective(tmp_path):
    program = """
import os, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank, folder):
    dist.init_process_group("gloo", init_method="file://" + folder, rank=rank, world_size=2)
    x = torch.ones(4)
    if rank == 1:
        x = torch.log(-x)
    dist.all_reduce(x)
    x * 2
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(work, (os.path.abspath("rendezvous"),), 2)
"""
    record(tmp_path, "-l", "2", "--numbers", program=program)
    processes = {process.get("rank"): process for process in found(tmp_path)}
    made = processes[1]["findings"][0]
    assert (made["how"], made["api"]) == ("made", "aten::log")
    came = processes[0]["findings"][0]
    assert (came["how"], came["api"], came["argument"]) == ("came in", "aten::mul.Tensor", "0")
    assert came["from"]["api"] == "c10d::allreduce_"
    # The first one in time leads.
    assert found(tmp_path)[0]["rank"] == 1


@pytest.mark.torch
def test_running_and_killed_program(tmp_path):
    (tmp_path / "program.py").write_text(
        "import torch, time\ntorch.log(torch.ones(2) - 2)\nopen('ready', 'w')\ntime.sleep(600)\n"
    )
    command = [tool.TORCHTRACE, "run", "--python", sys.executable, "-q", "-l", "2", "--numbers"]
    command += ["-o", "out", "program.py"]
    running = subprocess.Popen(command, cwd=tmp_path, env=tool.environment())
    try:
        until = time.monotonic() + 120
        while not (tmp_path / "ready").exists():
            assert running.poll() is None and time.monotonic() < until
            time.sleep(0.05)
        assert found(tmp_path)[0]["findings"][0]["api"] == "aten::log"
    finally:
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert found(tmp_path)[0]["findings"][0]["api"] == "aten::log"


@pytest.mark.torch
def test_clean_program(tmp_path):
    program = """
import torch
x = torch.where(torch.tensor([True, False]), torch.ones(2), -torch.inf)
scores = torch.empty(4).fill_(-torch.inf)
scores[0] = 1
torch.softmax(scores, 0) + torch.tensor([0.0, torch.inf]).clamp(max=1).sum()
best = torch.tensor(torch.inf)
torch.minimum(best, torch.ones(()))
torch.nn.TransformerEncoderLayer(4, 2, 8)(
    torch.randn(3, 1, 4), torch.nn.Transformer.generate_square_subsequent_mask(3), is_causal=True
).sum().backward()
"""
    for options in ["--numbers"], ["--ids", "--outputs", "--values", "64KB"]:
        record(tmp_path, "-l", "1,2", *options, program=program)
        [process] = found(tmp_path)
        assert process["findings"] == [] and process["meant_infinities"] >= 4
        looked = process["looked_at"]
        assert looked["calls_with_numbers"] > 20 and looked["tensors_without_numbers"] == 0


def test_trace_without_numbers():
    done = torchtrace("nan", SAMPLE)
    assert (done.status, done.out) == (2, "")
    assert done.err == (
        f"torchtrace: {SAMPLE}: the trace has no numbers of tensors: record them with torchtrace "
        "run --numbers, or contents with --ids --outputs --values 64KB\n"
    )


def test_sample_with_numbers():
    numbers = tool.ROOT / "testdata/logs/v1/numbers.ttlog"
    done = torchtrace("nan", numbers, "--format", "json")
    assert (done.status, done.err) == (1, "")
    both = torchtrace("nan", numbers, numbers, "--format", "json")
    assert len(json.loads(both.out)["traces"]) == 2
    text = torchtrace("nan", numbers, numbers)
    assert text.status == 1 and text.out.count(f" of {numbers}\n") == 2


def test_numbers_that_came_later():
    later = tool.ROOT / "testdata/logs/v1/later.ttlog"
    [trace] = json.loads(torchtrace("nan", later, "--format", "json").out)["traces"]
    [process] = trace["processes"]
    [finding] = process["findings"]
    assert (finding["how"], finding["call"], finding["api"]) == ("came in", 0, "aten::mul.Tensor")
    looked = process["looked_at"]
    assert looked["arguments"] == 2 and looked["tensors"] == 5 and looked["tensors_too_late"] == 0
