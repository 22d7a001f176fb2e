"""What a backward pass calls of Python, and what makes tensors."""

import threading
import warnings

import numpy
import torch
from marks import mark
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("ignore")


class Own(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return torch.sin(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        # What relu calls inside is its own affair.
        return torch.nn.functional.relu(gradient)


class Within(torch.autograd.Function):
    """Each asks for a backward pass within the one that calls it, the deep ones on threads of autograd's."""

    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return torch.clone(x)

    @staticmethod
    def backward(ctx, gradient):
        torch.cos(gradient)
        if ctx.depth > 0:
            y = x.detach().requires_grad_()
            with torch.enable_grad():
                torch.autograd.grad(Within.apply(y, ctx.depth - 1).sum(), y)
        torch.tan(gradient)
        return gradient, None


def failing(gradient):
    torch.neg(gradient)
    raise ValueError


def overridable(x):
    """Asks, as PyTorch's own functions do."""
    if torch.overrides.has_torch_function((x,)):
        return torch.overrides.handle_torch_function(overridable, (x,), x)
    return hooked(torch.abs(x), torch.abs).sum().backward()


def hooked(x, *hooks):
    y = x.detach().requires_grad_() * 1
    for hook in hooks:
        y.register_hook(hook)
    return y


x = torch.ones(2, requires_grad=True)

mark("hook")
hooked(x, torch.neg).sum().backward()
torch.neg(x)
mark("grad")
y = hooked(x, lambda g: torch.mul(g, 2))
torch.autograd.grad(y.sum(), y)
mark("post accumulate")
leaf = torch.ones(2, requires_grad=True)
leaf.register_post_accumulate_grad_hook(lambda p: (torch.neg(p), None)[1])
leaf.sum().backward()
mark("own function")
Own.apply(x).sum().backward()
mark("vmap")
torch.func.vmap(torch.func.grad(lambda r: Own.apply(r)))(torch.ones(3))
mark("reentrant")
checkpoint(torch.cos, x, use_reentrant=True).sum().backward()
mark("checkpoint")
checkpoint(torch.cos, x, use_reentrant=False).sum().backward()
mark("twice")
y = torch.ones(2, requires_grad=True)
z = (y * y).sum()
y.register_hook(torch.sin)
(gradient,) = torch.autograd.grad(z, y, create_graph=True)
gradient.sum().backward()
mark("saved")
with torch.autograd.graph.saved_tensors_hooks(torch.exp, torch.neg):
    z = x * x
z.sum().backward()
mark("module")
layer = torch.nn.ReLU()
layer.register_full_backward_hook(lambda module, ins, outs: (torch.neg(outs[0]),))
layer(hooked(x)).sum().backward()
mark("callback")
hooked(
    x, lambda g: torch.autograd.Variable._execution_engine.queue_callback(lambda: torch.tan(x))
).sum().backward()
mark("failing")
try:
    hooked(x, failing).sum().backward()
except ValueError:
    pass
torch.neg(x)
mark("overridable")
overridable(x)
torch.neg(x)
mark("fake")
with torch._subclasses.FakeTensorMode():
    hooked(torch.ones(2), torch.neg).sum().backward()
mark("thread")
y = hooked(x, torch.neg).sum()
thread = threading.Thread(target=lambda: (mark("in thread"), y.backward()))
thread.start()
thread.join()
mark("deep")
Within.apply(x, 70).sum().backward()
mark("after")
torch.neg(x)

mark("made")
torch.Tensor(2, 3)
torch.Tensor([1.0, 2.0])
torch.LongTensor([1])
torch.FloatTensor(2, 3)
torch.HalfTensor()
torch.from_numpy(numpy.ones(2))
torch.frombuffer(bytearray(8), dtype=torch.int32)
torch.from_dlpack(torch.ones(2))
torch.nn.Parameter(torch.ones(2), requires_grad=False)
torch.nn.Parameter()
torch.nn.Buffer(torch.ones(2), persistent=False)
torch.nn.UninitializedParameter()
torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
torch.range(0, 2)
torch.ones(2).set_()
torch.ones(2).as_subclass(torch.nn.Parameter)
mark("in a mode")


class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


with Mode():
    torch.nn.Parameter(torch.ones(2))
mark("subclass")


class Own(torch.Tensor):
    def __new__(cls, data):
        return super().__new__(cls, data)


class Plain(torch.Tensor):
    pass


class Below(Plain):
    def __init__(self, *sizes):
        pass


print(type(Own([1.0])), type(Plain([1.0, 2.0])), type(Below(2, 3)))
print(
    type(torch.Tensor._make_subclass(Below, torch.ones(2))),
    isinstance(torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter),
)
print(type(torch.nn.Linear(2, 2).weight), isinstance(torch.ones(1), torch.FloatTensor))
mark("end")
