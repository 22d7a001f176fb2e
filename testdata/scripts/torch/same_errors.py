"""Tracebacks and warnings, all on stderr, and an exception at the end."""

import sys
import traceback
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("always")
x = torch.ones(2, 3)


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("in backward")


class Module(torch.nn.Module):
    def forward(self, tensor):
        return F.layer_norm(tensor, (7,))


FAILURES = [
    lambda: F.layer_norm(x, (5,)),
    lambda: F.cross_entropy(x, torch.tensor([0, 7])),
    lambda: F.dropout(x, 2.0),
    lambda: torch.add(x, torch.ones(5)),
    lambda: torch.add(x),
    lambda: torch.add(x, nonsense=1),
    lambda: x.view(7),
    lambda: x + "a",
    lambda: x[5],
    lambda: x["a"],
    lambda: x.nonsense,
    lambda: x.sum().backward(),
    lambda: Broken.apply(torch.ones(1, requires_grad=True)).backward(),
    lambda: Module()(x),
    lambda: torch.norm(x, p="odd"),
    lambda: torch.einsum("ij,jk", x, x),
    lambda: torch.stack([x, torch.ones(1)]),
    lambda: torch.func.grad(lambda t: t)(x),
    lambda: torch.func.vmap(lambda t: t.item())(x),
    lambda: torch.ops.aten.add.Tensor(x),
    lambda: torch.nn.Linear(2, 2)(x),
    lambda: torch.load("/nonexistent"),
    lambda: torch.jit.script(lambda: x),
    lambda: torch.utils.checkpoint.checkpoint(F.layer_norm, x, (5,), use_reentrant=False),
]
for failure in FAILURES:
    try:
        failure()
    except Exception:
        traceback.print_exc()
    error = None

# Each warning names the line that caused it.
F.softmax(x)
F.log_softmax(x)
F.softmin(x)
F.mse_loss(x, torch.ones(2, 1))
F.l1_loss(x, torch.ones(1))
F.tanh(x)
F.sigmoid(x)
F.dropout2d(x)
F.upsample(torch.ones(1, 1, 2, 2), 4)
F.kl_div(x, x)
x.T.T
torch.ones(1, 2, 3).T
torch.range(0, 3)
torch.nn.functional.cosine_similarity(x, x)
(x.requires_grad_() * 2).grad
torch.tensor(x)
torch.meshgrid(torch.ones(1), torch.ones(1))
torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(3, 3), 1)


def depth(limit):
    return len(traceback.extract_stack())


class Depth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        print("frames", len(traceback.extract_stack()), sys._getframe(1).f_code.co_name)
        return tensor.clone()

    @staticmethod
    def backward(ctx, gradient):
        print("frames", [frame.name for frame in traceback.extract_stack()])
        return gradient


Depth.apply(torch.ones(1, requires_grad=True)).backward()
leaf = torch.ones(1, requires_grad=True)
leaf.register_hook(lambda gradient: print([frame.name for frame in traceback.extract_stack()]))
leaf.sum().backward()
F.relu(input=x).backward(gradient=torch.ones(9))
