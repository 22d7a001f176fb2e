"""Everything that stands between a call and its kernel: subclasses, modes, transforms."""

import torch
import torch.utils.checkpoint
import torch.nn.functional as F
from marks import mark
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

torch.manual_seed(0)
x = torch.randn(2, 3)
leaf = torch.randn(2, 3, requires_grad=True)
weight = torch.nn.Parameter(torch.randn(4, 3))

mark("backward")
loss = (leaf @ weight.t()).relu().sum()
mark("backward itself")
loss.backward()


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        ctx.save_for_backward(tensor)
        return tensor * 2

    @staticmethod
    def backward(ctx, gradient):
        (tensor,) = ctx.saved_tensors
        return gradient * torch.cos(tensor)


mark("custom function")
Twice.apply(leaf).sum().backward()
mark("checkpoint")
torch.utils.checkpoint.checkpoint(
    lambda t: torch.sin(t).exp(), leaf, use_reentrant=False
).sum().backward()
mark("hooks")
hooked = leaf.clone()
hooked.register_hook(lambda gradient: gradient.tanh())
hooked.sum().backward()


class Logged(torch.Tensor):
    """A wrapper whose operators make four inner calls each."""

    @staticmethod
    def __new__(cls, inner):
        wrapper = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        wrapper.inner = inner
        return wrapper

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        inner = [each.inner if isinstance(each, Logged) else each for each in args]
        inner[0] = torch.sin(torch.cos(torch.exp(inner[0])))
        return Logged(func(*inner, **(kwargs or {})))


mark("subclass")
wrapped = Logged(x)
wrapped + 1
mark("subclass method")
torch.neg(wrapped)


class Count(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Changes(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.add.Tensor:
            return torch.mul(torch.neg(args[0]), args[1])
        return func(*args, **(kwargs or {}))


mark("own dispatch mode")
with Count() as count:
    F.linear(leaf, weight).relu().sum().backward()
print(count.seen)
mark("two dispatch modes")
with Count() as outer, Count() as inner:
    x + 1
print(outer.seen, inner.seen)
mark("mode that changes calls")
with Changes():
    print((x + x).sum().item() == (-x * x).sum().item())
mark("mode and subclass")
with Count() as count:
    wrapped * 2
print(count.seen)
mark("flop counter")
with FlopCounterMode(display=False) as flops:
    F.linear(leaf, weight).sum().backward()
print(flops.get_total_flops())
mark("fake tensors")
with FakeTensorMode() as mode:
    fake = torch.empty(2, 3)
    product = fake @ fake.T
    print(product.shape, product.device)
print(type(mode.from_tensor(x) + 1).__name__)

mark("vmap")
print(torch.func.vmap(lambda t: torch.sin(t).sum())(x).shape)
mark("grad")
print(torch.func.grad(lambda t: torch.sin(t).sum())(x).shape)
mark("vmap of grad")
print(torch.func.vmap(torch.func.grad(lambda t: (t**2).sum()))(x).shape)
mark("jvp")
print(torch.func.jvp(torch.sin, (x,), (x,))[1].shape)
mark("forward mode")
with torch.autograd.forward_ad.dual_level():
    dual = torch.autograd.forward_ad.make_dual(x, x)
    print(torch.autograd.forward_ad.unpack_dual(torch.sin(dual)).tangent.shape)
mark("functionalize")
print(torch.func.functionalize(lambda t: t.clone().add_(1))(x).shape)
mark("functional call")
linear = torch.nn.Linear(3, 4)
print(torch.func.functional_call(linear, dict(linear.named_parameters()), (x,)).shape)

mark("inference mode")
with torch.inference_mode():
    F.linear(x, weight)
mark("no grad")
with torch.no_grad():
    F.linear(x, weight)
mark("autocast")
with torch.autocast("cpu", dtype=torch.bfloat16):
    print(F.linear(x, weight).dtype)
mark("deterministic")
torch.use_deterministic_algorithms(True)
torch.cumsum(x, 0)
torch.use_deterministic_algorithms(False)


@torch.jit.script
def scripted(tensor):
    return torch.relu(tensor) + 1


mark("script")
for _ in range(4):
    scripted(x)
mark("trace")
traced = torch.jit.trace(lambda tensor: torch.relu(tensor) * 2, (x,))
mark("traced")
traced(x)


@torch.library.custom_op("testing::double_it", mutates_args=())
def double_it(tensor: torch.Tensor, times: int = 2, name: str = "a") -> torch.Tensor:
    return torch.mul(tensor, times)


@double_it.register_fake
def _(tensor, times=2, name="a"):
    return torch.empty_like(tensor)


double_it.register_autograd(lambda ctx, gradient: (gradient * 2, None, None))

mark("custom operator")
double_it(x)
mark("custom operator with arguments")
double_it(x, 3, name="b")
mark("custom operator by its own name")
torch.ops.testing.double_it(x, times=4)
mark("custom operator and backward")
double_it(leaf).sum().backward()

library = torch.library.Library("testing", "FRAGMENT")
library.define(
    "scale(Tensor x, Scalar factor=1, *, ScalarType? dtype=None, Tensor[] more) -> Tensor"
)
library.impl("scale", lambda x, factor=1, *, dtype=None, more: torch.mul(x, factor), "CPU")
mark("library operator")
torch.ops.testing.scale(x, 2, dtype=torch.float16, more=[x, x])
library.define("composite(Tensor x) -> Tensor")
library.impl("composite", lambda x: torch.sin(torch.cos(x)), "CompositeImplicitAutograd")
mark("composite operator")
torch.ops.testing.composite(x)
mark("replaced kernel")
override = torch.library.Library("aten", "IMPL")
override.impl("digamma", lambda tensor: torch.neg(tensor), "CPU")
print(bool((torch.digamma(x) == -x).all()))
mark("redefined operator")
del library
again = torch.library.Library("testing2", "DEF")
again.define("thing(Tensor x) -> Tensor")
again.impl("thing", lambda x: x + 1, "CPU")
torch.ops.testing2.thing(x)
again._destroy()
again = torch.library.Library("testing2", "DEF")
again.define("thing(Tensor x, *, int how=3) -> Tensor")
again.impl("thing", lambda x, how=3: x + how, "CPU")
torch.ops.testing2.thing.default(x, how=4)

mark("cond")
print(torch.cond(torch.tensor(True), lambda t: t.sin(), lambda t: t.cos(), (x,)).shape)
mark("data pointers")
with torch._C._DisableTorchDispatch():
    torch.sin(x)
mark("nested tensors")
nested = torch.nested.nested_tensor([x[0], x[1]], layout=torch.jagged)
print((nested * 2).shape[0])
mark("last")
torch.sin(x)
mark("end")
