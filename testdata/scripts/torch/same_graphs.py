"""Graphs of every tracer that PyTorch has, transforms, nested and fake tensors, printed."""

import torch
import torch.fx
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

torch.manual_seed(0)
x = torch.randn(3, 4)


def function(tensor):
    return torch.nn.functional.softmax((tensor * 2).view(tensor.shape[0], -1) + 1, 1).sum()


for mode in ("real", "fake", "symbolic"):
    print(make_fx(function, tracing_mode=mode)(x).code)
print(make_fx(torch.func.grad(function))(x).code)
print(make_fx(torch.func.functionalize(lambda t: t.clone().add_(1)))(x).code)
print(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.LayerNorm(2))).graph)
print(torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU())).graph)
print(torch.jit.trace(function, (x,)).graph)
print(torch.jit.trace(nn.Linear(4, 2), (x,)).code)
exported = torch.export.export(nn.Linear(4, 2), (x,))
print(exported.graph)
print(torch.func.vmap(torch.func.grad(lambda t: (t**2).sum()))(x))
print(torch.func.jacrev(torch.sin)(x[0]).shape, torch.func.hessian(lambda t: t.sum() ** 2)(x[0]))
print(torch.cond(torch.tensor(True), lambda t: t + 1, lambda t: t - 1, (x,)))
print(
    torch._higher_order_ops.while_loop(
        lambda count, t: count < 3, lambda count, t: (count + 1, t * 2), (torch.tensor(0), x)
    )
)
for layout in (torch.strided, torch.jagged):
    nested = torch.nested.nested_tensor([x[:2], x], layout=layout)
    doubled = nested * 2
    print(doubled.is_nested, doubled.size(0), [each.shape for each in doubled.unbind()])
with FakeTensorMode() as mode:
    fake = torch.empty(2, 3, device="cuda")
    print((fake @ fake.T).shape, fake.device, fake)
environment = ShapeEnv()
symbolic = FakeTensorMode(shape_env=environment).from_tensor(x)
product = symbolic @ symbolic.T
print(product.shape, symbolic.shape[0] * 2, len(environment.guards))
if symbolic.shape[0] > 2:
    print(len(environment.guards))
