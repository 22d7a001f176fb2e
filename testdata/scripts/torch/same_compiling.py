"""How often Dynamo compiles, with checkpoints, under strict settings, around traces of its own.
Arguments: the levels of the traces that it opens in turn, or none."""

import contextlib
import sys
import warnings

import torch
import torch._dynamo
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("ignore")
torch.manual_seed(0)
levels = sys.argv[1:]
x = torch.ones(2, 3)


def block(tensor):
    return F.relu(torch.sin(tensor)) * 2


def checkpointed(compiled):
    leaf = torch.ones(2, 3, requires_grad=True)
    checkpoint(compiled, leaf, use_reentrant=False).sum().backward()


def frames():
    return dict(counters["frames"])


for fullgraph in (False, True):
    torch._dynamo.reset()
    counters.clear()
    counter = CompileCounter()
    compiled = torch.compile(block, backend=counter, fullgraph=fullgraph)
    for _ in range(3):
        checkpointed(compiled)
    print("checkpoint", fullgraph, counter.frame_count, counter.op_count, frames())
for setting in ("error_on_recompile", "fail_on_recompile_limit_hit"):
    torch._dynamo.reset()
    counters.clear()
    counter = CompileCounter()
    with torch._dynamo.config.patch({setting: True}):
        compiled = torch.compile(block, backend=counter)
        for _ in range(12):
            checkpointed(compiled)
    print(setting, counter.frame_count, frames())
torch._dynamo.reset()
counter = CompileCounter()
compiled = torch.compile(block, backend=counter)
compiled(x)
with torch.compiler.set_stance("fail_on_recompile"):
    compiled(x)
    print("fail_on_recompile", counter.frame_count)

torch._dynamo.reset()
counter = CompileCounter()
compiled = torch.compile(block, backend=counter)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return compiled(tensor)

    @staticmethod
    def backward(ctx, gradient):
        return compiled(gradient)


leaf = torch.ones(2, 3, requires_grad=True)
for _ in range(3):
    Double.apply(leaf).sum().backward()
leaf.register_hook(lambda gradient: compiled(gradient))
leaf.sum().backward()
torch.ones(1).apply_(lambda value: compiled(x).sum().item())
print("in backward, hooks and callbacks", counter.frame_count)

torch._dynamo.reset()
counters.clear()
counter = CompileCounter()


def breaking(tensor):
    tensor = F.relu(tensor) + 1
    torch._dynamo.graph_break()
    tensor = torch.norm(tensor)
    print("in the middle")
    return F.softmax(tensor, 0)


compiled = torch.compile(breaking, backend=counter)
for _ in range(3):
    compiled(x)
print(
    "graph breaks", counter.frame_count, counter.op_count, frames(), dict(counters["graph_break"])
)

torch._dynamo.reset()
counters.clear()
counter = CompileCounter()
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.LayerNorm(3))
warm = torch.compile(lambda tensor: F.softmax(model(tensor), 1).sum(), backend=counter)
print(warm(x).item(), counter.frame_count)
for number in range(6):
    opened = contextlib.nullcontext()
    if levels:
        import torchtrace

        level = int(levels[number % len(levels)])
        opened = torchtrace.trace(levels=[level], formats="none", force=True, output="inner")
    with opened:
        F.relu(x)
        print(warm(x).item(), counter.frame_count)
    print(warm(x).item(), counter.frame_count)
print("warm", counter.frame_count, frames())
explained = torch._dynamo.explain(block)(x)
print(
    explained.graph_count,
    explained.graph_break_count,
    explained.op_count,
    len(explained.out_guards),
)
