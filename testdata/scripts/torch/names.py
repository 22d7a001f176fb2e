"""Calls one API of every kind that has a name to get right."""

import torch
import torch.nn.functional as F
from marks import mark
from torch.overrides import handle_torch_function, has_torch_function

x = torch.arange(6.0).view(2, 3)
weight = torch.ones(4, 3)


def section(name, call):
    mark(name)
    return call()


def set_item():
    y = torch.ones(3)
    mark("setitem")
    y[0] = 5


def set_grad():
    y = torch.ones(3, requires_grad=True)
    gradient = torch.ones(3)
    mark("grad.__set__")
    y.grad = gradient
    mark("requires_grad.__set__")
    y.requires_grad = True
    mark("data.__set__")
    y.data = gradient


section("linear", lambda: F.linear(x, weight))
section("sum", lambda: x.sum())
section("norm", lambda: torch.norm(x))
section("plus", lambda: x + 1)
section("reflected plus", lambda: 1 + x)
section("reflected minus", lambda: 1 - x)
section("matmul", lambda: x @ x.T)
section("getitem", lambda: x[0])
section("equal", lambda: x == 1)
section("invert", lambda: ~(torch.tensor([True])))
section("power", lambda: 2**x)
section("bool", lambda: bool(x.sum() > 0))
section("float", lambda: float(x.sum()))
section("len", lambda: len(x))
section("repr", lambda: repr(x))
section("contains", lambda: 1 in x)
section("format", lambda: f"{x[0, 0]:.1f}")
section("numpy", lambda: x.numpy())
section("in place", lambda: torch.ones(2).add_(1))
section("out", lambda: torch.add(x, 1, out=torch.empty(2, 3)))
section("static method", lambda: torch.Tensor.add(x, 1))
section("factory", lambda: torch.randn(2))
section("tensor", lambda: torch.tensor([1.0]))
section("from_numpy", lambda: torch.from_numpy(x.numpy()))
section("constructor", lambda: torch.Tensor(2))
section("parameter", lambda: torch.nn.Parameter(torch.ones(2)))
section("fft", lambda: torch.fft.fft(x))
section("linalg", lambda: torch.linalg.norm(x))
section("special", lambda: torch.special.gammaln(x))
section("module", lambda: torch.nn.Linear(3, 2)(x))
section("init", lambda: torch.nn.init.ones_(torch.empty(2)))
section("operator", lambda: torch.ops.aten.add.Tensor(x, x))
section("default operator", lambda: torch.ops.aten.relu.default(x))
section("operator packet", lambda: torch.ops.aten.add(x, x))
section("no_grad", lambda: torch.no_grad().__enter__())
section("set_grad_enabled", lambda: torch._C._set_grad_enabled(True))
section("cond", lambda: torch.cond(torch.tensor(True), torch.sin, torch.cos, (x,)))
section("vmap", lambda: torch.func.vmap(torch.sin)(x))
section("embedding", lambda: F.embedding(torch.tensor([0]), weight))
section("einsum", lambda: torch.einsum("ij,ij->i", x, x))
section("stack", lambda: torch.stack([x, x]))
set_item()
set_grad()


def public(tensor):
    if has_torch_function((tensor,)):
        return handle_torch_function(public, (tensor,), tensor)
    return tensor


section("own function", lambda: public(x))

# A new object at each call: a name that is kept for an address goes wrong.
mark("lambdas")
for index in range(200):

    def make(index):
        if index % 2:
            return lambda tensor: handle_torch_function(odd, (tensor,), tensor)
        return lambda tensor: handle_torch_function(even, (tensor,), tensor)

    def odd(tensor):
        pass

    def even(tensor):
        pass

    try:
        make(index)(x)
    except TypeError:
        pass  # nobody overrides it

mark("getters")
for _ in range(50):
    x.shape, x.dtype, x.device, x.grad, x.requires_grad, x.is_leaf, x.T, x.data, x.ndim
mark("alternating getters")
for index in range(100):
    x.shape if index % 2 else x.dtype
    x.is_leaf if index % 3 else x.device
mark("end")
