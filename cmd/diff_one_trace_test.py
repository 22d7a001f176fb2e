"""torchtrace diff of one trace: --recomputed and --across-ranks, of real programs."""

import json
import shutil

import pytest

from python import warm_testing
from tools.testing import whole_tool as tool

COOKBOOK = tool.ROOT / "testdata/cookbook"

CHECKPOINTS = """
import torch
from torch.utils.checkpoint import checkpoint

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.5)
    def forward(self, x):
        return self.drop(torch.relu(self.linear(x)))

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block() for _ in range(3)])
    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=REENTRANT)
        return x

net = Net()
for _ in range(2):
    net(torch.randn(2, 4, requires_grad=True)).sum().backward()
"""

RANKS = """
import os, sys, torch, torch.distributed as dist

def work(rank, odd):
    store = "file://" + os.path.abspath("store")
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    alone = dist.new_group([rank], use_local_synchronization=True)
    x = torch.ones(4)
    dist.all_reduce(x)
    dist.all_reduce(x, group=alone)
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    dist.broadcast(x, 0, async_op=True).wait()
    dist.barrier()
    if odd and rank == 1:
        os._exit(3)
    dist.barrier()

if __name__ == "__main__":
    for_each = torch.multiprocessing.spawn(work, (len(sys.argv) > 1,), nprocs=2, join=False)
    for process in for_each.processes:
        process.join()
"""

TRAINING = """
import os, sys, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def work(rank, skips):
    store = "file://" + os.path.abspath("store")
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(rank)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=not skips)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().sum().backward()
        if not (skips and rank == 1 and step == 1):
            optimizer.step()
    dist.barrier()
    dist.destroy_process_group()

if __name__ == "__main__":
    torch.multiprocessing.spawn(work, (len(sys.argv) > 1,), nprocs=2)
"""


def diff(*args, cwd="/"):
    return tool.torchtrace("diff", *args, cwd=cwd)


def record(folder, program, *args, options=(), status=0):
    done = tool.torchtrace(
        "run", "--python", tool.PYTHON, "-q", "-o", "out", *options, program, *args, cwd=folder
    )
    assert done.status == status, done.err
    return folder / "out"


@pytest.mark.torch
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("options", ["levels=1", "levels=[1, 2, 3], frames='modules', stacks=True"])
def test_what_checkpoints_run_again(tmp_path, reentrant, options):
    warm_testing.traced(CHECKPOINTS.replace("REENTRANT", str(reentrant)), tmp_path, options)
    done = diff("--recomputed", "out", cwd=tmp_path)
    assert done.status == 0 and done.out.startswith("6 recomputed regions, ")
    assert done.out.endswith(" compared with the forward run: all the same\n")


@pytest.mark.torch
def test_the_first_call_that_differs(tmp_path):
    shutil.copy(COOKBOOK / "cached.py", tmp_path)
    options = ("-l", "1,2,3", "--frames", "modules", "--stacks")
    record(tmp_path, "cached.py", options=options, status=1)
    done = diff("--recomputed", "out", "--format", "json", cwd=tmp_path)
    report = json.loads(done.out)
    assert done.status == 1 and report["different"]
    (region,) = report["regions"]
    first = region["differences"][0]
    assert region["module"] == "layers.1 (Attention)" and first["in"] == ["arguments"]
    assert first["recomputed"]["config"].startswith("torch.cat(list[Tensor(")
    assert first["recomputed"]["line"] == first["forward"]["line"] == 15


@pytest.mark.torch
@pytest.mark.parametrize("levels", ["1", "2"])
def test_ranks(tmp_path, levels):
    (tmp_path / "ranks.py").write_text(RANKS)
    record(tmp_path, "ranks.py", options=("-l", levels))
    done = diff("--across-ranks", "out", cwd=tmp_path)
    lines = done.out.splitlines()
    assert done.status == 0 and "default group, ranks 0, 1: " in lines[0]
    # Each rank has a group of its own.
    assert len(lines) == 4 and lines[-1] == "1 message received as sent"
    assert {line.split(": ")[1] for line in lines[1:3]} == {"1 collective, the same"}


@pytest.mark.torch
def test_a_rank_that_ends(tmp_path):
    (tmp_path / "ranks.py").write_text(RANKS)
    record(tmp_path, "ranks.py", "odd", options=("-l", "1,2", "--stacks"))
    done = diff("--across-ranks", "out", "--format", "json", cwd=tmp_path)
    report = json.loads(done.out)
    assert done.status == 1 and report["different"]
    (parted,) = [group for group in report["groups"] if group["first_difference"]]
    difference = parted["first_difference"]
    assert (parted["group"], difference["number"], difference["in"]) == ("0", 4, ["count"])
    assert difference["ranks"][1]["entered"] == 3
    assert difference["ranks"][1]["state"] == "ended: exit code 3"
    assert difference["ranks"][0]["function"] == "work"


@pytest.mark.torch
def test_parameters_that_ranks_share(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    record(tmp_path, "train.py", options=("-l", "2", "--numbers"))
    done = diff("--across-ranks", "out", cwd=tmp_path)
    last = done.out.splitlines()[-1]
    assert done.status == 0
    assert last == "default group, ranks 0, 1: 6 parameters, 3 updates, the same"


@pytest.mark.torch
def test_a_rank_that_skips_a_step(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    options = ("-l", "1,2,3", "--frames", "modules", "--stacks", "--numbers")
    record(tmp_path, "train.py", "skips", options=options)
    done = diff("--across-ranks", "out", "--format", "json", cwd=tmp_path)
    report = json.loads(done.out)
    assert done.status == 1 and report["different"]
    assert [group["first_difference"] for group in report["groups"]] == [None]
    (parameters,) = report["parameters"]
    first = parameters["first_difference"]
    assert (parameters["compared"], first["step"]) == (6, 2)
    weight = first["parameters"][0]
    assert weight["module"] == "module.0 (Linear)" and weight["tensor"].startswith("Tensor([3, 4]")
    assert len({rank["fingerprint"] for rank in weight["ranks"]}) == 2
    assert {rank["function"] for rank in weight["ranks"]} == {"work"}
    done = diff("--across-ranks", "out", cwd=tmp_path)
    assert done.out.startswith("default group, ranks 0, 1: parameters differ ")
    assert "\nrank 1 updates it 2 times in all, rank 0 3 times\n" in done.out


def test_errors(tmp_path):
    log = tool.ROOT / "testdata/logs/v1/sample.ttlog"
    for args, message in [
        (("--recomputed", log, log), "--recomputed is about one trace: B is one too many"),
        (("--across-ranks", "--recomputed", log), "are two questions: ask one"),
        (("--across-ranks", log, "--format", "markdown"), "--across-ranks writes text or json"),
        (("--across-ranks", log, "--ignore", "shape"), "--ignore is not for --across-ranks"),
        (("--recomputed", log, "--top", "3"), "--top is not for --recomputed"),
        (("--recomputed", "--sequence", log), "--sequence"),
        ((log,), "B is required"),
        (("--across-ranks", log), "no process of the trace has a rank"),
        (("--recomputed", log), "the trace doesn't tell what was recomputed"),
    ]:
        done = diff(*args, cwd=tmp_path)
        assert done.status == 2 and message in done.err, (args, done.err)
        assert done.out == ""
