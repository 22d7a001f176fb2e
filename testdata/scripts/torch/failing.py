"""Calls that fail in every way, each caught by the program."""

import torch
import torch.nn.functional as F
from marks import mark

x = torch.ones(2, 3)


class Unusual(Exception):
    pass


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor * 2

    @staticmethod
    def backward(ctx, gradient):
        raise Unusual("in backward")


class Refusing(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise Unusual("in a subclass")


def hook(gradient):
    raise Unusual("in a hook")


def backward_with_hook():
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(hook)
    leaf.sum().backward()


@torch.library.custom_op("failing::broken", mutates_args=())
def broken(tensor: torch.Tensor) -> torch.Tensor:
    raise Unusual("in an operator")


FAILURES = {
    "shapes": lambda: torch.add(x, torch.ones(5)),
    "in place": lambda: x.clone().add_(torch.ones(5)),
    "python function": lambda: F.layer_norm(x, (5,)),
    "python check": lambda: F.dropout(x, p=2.0),
    "cross entropy": lambda: F.cross_entropy(x, torch.tensor([0, 7])),
    "index": lambda: x[7],
    "index of a tensor": lambda: x[torch.tensor([7])],
    "unknown keyword": lambda: torch.add(x, x, gamma=1),
    "wrong type": lambda: torch.add(x, "a"),
    "not implemented": lambda: torch.ones(2, dtype=torch.int32).cholesky(),
    "linear algebra": lambda: torch.linalg.inv(torch.zeros(2, 2)),
    "backward": lambda: x.sum().backward(),
    "second backward": lambda: [loss.backward(), loss.backward()],
    "own function": lambda: Broken.apply(torch.ones(1, requires_grad=True)).backward(),
    "hook": backward_with_hook,
    "own subclass": lambda: x.as_subclass(Refusing) + 1,
    "own operator": lambda: broken(x),
    "memory": lambda: torch.empty(1 << 60),
    "meta item": lambda: torch.ones(1, device="meta").item(),
    "inference tensor": lambda: inference_tensor.add_(torch.ones(2, requires_grad=True)),
}
loss = (torch.ones(2, requires_grad=True) ** 2).sum()
with torch.inference_mode():
    inference_tensor = torch.ones(2)

for name, call in FAILURES.items():
    mark(name)
    try:
        call()
        print(name, "did not fail")
    except BaseException as error:
        print(name, type(error).__module__, type(error).__qualname__)
    mark(name + " after")
    torch.neg(x)
mark("end")
