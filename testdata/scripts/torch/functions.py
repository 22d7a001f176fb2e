"""Calls twenty APIs 300 times each: ten written in Python and ten in C++."""

import torch
import torch.nn.functional as F
from marks import mark

x = torch.ones(2, 3)
weight = torch.ones(4, 3)
classes = torch.tensor([0, 2])
loss = (torch.ones(2, requires_grad=True) * 2).sum()

PYTHON = [
    lambda: F.relu(x),
    lambda: F.layer_norm(x, (3,)),
    lambda: F.cross_entropy(x, classes),
    lambda: loss.backward(retain_graph=True),
    lambda: torch.norm(x),
    lambda: F.softmax(x, 1),
    lambda: F.dropout(x, 0.0),
    lambda: x.norm(),
    lambda: torch.split(x, 1),
    lambda: F.mse_loss(x, x),
]
CPP = [
    lambda: torch.add(x, 1),
    lambda: torch.relu(x),
    lambda: torch.matmul(x, x.T),
    lambda: F.linear(x, weight),
    lambda: torch.cat([x, x]),
    lambda: x.sum(),
    lambda: x.view(3, 2),
    lambda: x * 2,
    lambda: x[0],
    lambda: torch.ones(2),
]
KEYWORDS = [
    lambda: F.relu(input=x, inplace=False),
    lambda: F.layer_norm(x, normalized_shape=(3,), eps=1e-12),
    lambda: F.softmax(input=x, dim=1),
    lambda: torch.norm(x, p=2, dim=1),
    lambda: torch.add(input=x, other=x, alpha=2),
    lambda: torch.sum(x, dim=1, keepdim=True),
    lambda: x.view(size=(3, 2)),
    lambda: torch.cat(tensors=[x, x], dim=0),
    lambda: torch.ones(2, dtype=torch.float64),
    lambda: x.sum(dim=0),
]


def often(calls):
    for call in calls:
        for _ in range(300):
            call()


mark("python")
often(PYTHON)
mark("c++")
often(CPP)
mark("keywords")
often(KEYWORDS)


def recurse(depth):
    if depth:
        torch.neg(torch.abs(x))
        recurse(depth - 1)


class Block(torch.nn.Module):
    def forward(self, tensor):
        return F.silu(torch.sin(tensor))


mark("nested")
block = torch.nn.Sequential(Block(), torch.nn.Sequential(Block()))
for _ in range(100):
    recurse(10)
    [block(torch.neg(each)) for each in (x, x)]
mark("compiling")
for backend in ("eager", "aot_eager"):
    compiled = torch.compile(lambda t: F.gelu(t).cos(), backend=backend)
    for _ in range(3):
        compiled(x)
mark("python after compiling")
often(PYTHON)
mark("c++ after compiling")
often(CPP)
mark("keywords after compiling")
often(KEYWORDS)
mark("end")
