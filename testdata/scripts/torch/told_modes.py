"""Function modes, subclasses, default devices, torch function turned off, and who else may have it."""

import threading
import warnings

import torch
import torch.nn.functional as F
from attempts import attempt, mark
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function
from torch.utils._device import DeviceContext

warnings.simplefilter("ignore")
x = torch.ones(2, 3)
y = torch.ones(2, 3)


class PassOn(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Swallow(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return 42


class SwallowAdd(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.add, torch.Tensor.add):
            return 42
        return func(*args, **(kwargs or {}))


class Other(TorchFunctionMode):
    """Calls something else."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.Tensor.mul:
            return torch.add(*args) + 1
        if func is F.relu:
            return F.gelu(args[0])
        return func(*args, **(kwargs or {}))


class Twice(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        func(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


class MoreArguments(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.ones:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


class Fails(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise ValueError("mine")


class FailsAfter(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        func(*args, **(kwargs or {}))
        raise ValueError("mine")


class Refuses(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented


class SelfOn(TorchFunctionMode):
    """Stays on while it handles a call."""

    depth = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if self.depth:
            return func(*args, **(kwargs or {}))
        self.depth += 1
        try:
            with self:
                return func(*args, **(kwargs or {}))
        finally:
            self.depth -= 1


class Sub(torch.Tensor):
    pass


class Calling(torch.Tensor):
    """Handles calls by super()."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


class Alone(torch.Tensor):
    """Handles calls without super()."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


class Unwrapping(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [each.as_subclass(torch.Tensor) if isinstance(each, cls) else each for each in args]
        return func(*args, **(kwargs or {}))


class Constant(torch.Tensor):
    """Calls nothing."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return 42


class NoSubclass(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Raising(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise ValueError("mine")


class Opaque:
    """No tensor."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return 42


class OpaqueCalling:
    def __init__(self, tensor):
        self.tensor = tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [each.tensor if isinstance(each, cls) else each for each in args]
        return func(*args, **(kwargs or {}))


class Refusing:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class OnInstance:
    """PyTorch looks at the instance, too."""

    def __init__(self):
        self.__torch_function__ = lambda func, types, args=(), kwargs=None: 42


class Wrapper(torch.Tensor):
    """A subclass of dispatch: torch function is off for it, torch dispatch is on."""

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    def __init__(self, inner):
        pass

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = [each.inner if isinstance(each, cls) else each for each in args]
        return func(*args, **(kwargs or {}))


def calls(tensor):
    """One call of each kind; a failure ends none of the others."""
    for call in (
        lambda: torch.add(tensor, 1),
        lambda: tensor + 1,
        lambda: 1 - tensor,
        lambda: tensor.mul(2),
        lambda: tensor.clone().add_(1),
        lambda: F.relu(tensor),
        lambda: F.softmax(tensor, dim=-1),
        lambda: F.max_pool1d(tensor, 1, return_indices=True),
        lambda: torch.cat([tensor, tensor]),
        lambda: torch.stack((tensor,)),
        lambda: torch.einsum("ij->i", tensor),
        lambda: torch.norm(tensor),
        lambda: torch.split(tensor, 1),
        lambda: tensor.split(1),
        lambda: tensor[0],
        lambda: tensor == tensor,
        lambda: len(tensor),
        lambda: tensor.sum().item(),
        lambda: bool(tensor.sum() > 0),
        lambda: tensor.shape,
        lambda: tensor.requires_grad_(False),
        lambda: torch.ones(2),
        lambda: torch.tensor([1.0]),
        lambda: torch.zeros_like(tensor),
        lambda: torch.ops.aten.neg(tensor),
        lambda: torch.ops.aten.neg.default(tensor),
        lambda: torch.device("cpu"),
        lambda: torch._C._set_grad_enabled(True),
        lambda: torch.nn.Linear(3, 2)(tensor),
        lambda: tensor.view(7),
        lambda: torch.add(tensor),
        lambda: torch.linalg.norm(tensor),
        lambda: repr(tensor) and None,
        lambda: tensor.detach().to("cpu", torch.float64),
        lambda: torch.unique(tensor, return_counts=True),
        lambda: torch._assert(tensor, "message"),
        lambda: torch.autograd.grad(tensor.detach().requires_grad_().sum(), tensor),
        lambda: torch.nn.init.ones_(tensor),
        lambda: 1 in tensor,
        lambda: [each for each in tensor],
        lambda: torch.is_tensor(tensor),
        lambda: tensor @ tensor.T,
        lambda: setattr(tensor, "grad", None),
    ):
        try:
            call()
        except Exception:
            mark(f"failed: {threading.get_ident() and 'in calls'}")


def under(mode, tensor=x):
    with mode:
        calls(tensor)


for kind in (
    PassOn,
    Swallow,
    SwallowAdd,
    Other,
    Twice,
    MoreArguments,
    Fails,
    FailsAfter,
    Refuses,
    SelfOn,
):
    attempt(f"mode {kind.__name__}", under, kind())
    attempt(f"mode {kind.__name__} and a subclass", under, kind(), x.as_subclass(Calling))
for first in (PassOn, Swallow, Other, Fails):
    for second in (PassOn, SwallowAdd, Other):

        def both():
            with first():
                under(second())

        attempt(f"mode {second.__name__} under {first.__name__}", both)
attempt("the same mode twice", lambda: under(PassOn(), x) or under(PassOn(), x))
attempt("base mode", under, torch.overrides.BaseTorchFunctionMode())

SUBCLASSES = [Sub, Calling, Alone, Unwrapping, Constant, NoSubclass, Raising]
for kind in SUBCLASSES:
    attempt(f"subclass {kind.__name__}", calls, x.as_subclass(kind))
    attempt(f"subclass {kind.__name__} in a list", lambda: torch.cat([x, x.as_subclass(kind)]))
    attempt(
        f"subclass {kind.__name__} second",
        lambda: (torch.add(x, x.as_subclass(kind)), x * x.as_subclass(kind)),
    )
    attempt(f"subclass {kind.__name__} as keyword", lambda: torch.add(x, other=x.as_subclass(kind)))
    attempt(
        f"subclass {kind.__name__} as out", lambda: torch.add(x, 1, out=x.clone().as_subclass(kind))
    )
    attempt(f"subclass {kind.__name__} as index", lambda: x[torch.tensor([0]).as_subclass(kind)])
attempt("two subclasses", lambda: torch.add(x.as_subclass(Sub), x.as_subclass(Calling)))
attempt("wrapper subclass", calls, Wrapper(x))
attempt("parameter", calls, torch.nn.Parameter(x.clone()))
for thing in (Opaque(), OpaqueCalling(x), Refusing(), OnInstance()):
    attempt(f"no tensor: {type(thing).__name__}", calls, thing)
    attempt(
        f"beside no tensor: {type(thing).__name__}", lambda: (torch.add(x, thing), F.relu(thing))
    )
    if type(thing) is Refusing:
        continue  # an operator that nobody takes returns NotImplemented, and raises under a mode
    attempt(f"operator beside no tensor: {type(thing).__name__}", lambda: x + thing)
    attempt(f"reflected beside no tensor: {type(thing).__name__}", lambda: thing + x)
    attempt(f"comparison beside no tensor: {type(thing).__name__}", lambda: x == thing)


def disabled(context, tensor=x):
    with context:
        calls(tensor)


for kind in (torch._C.DisableTorchFunction, torch._C.DisableTorchFunctionSubclass):
    attempt(f"{kind.__name__}", disabled, kind())
    attempt(f"{kind.__name__} and a subclass", disabled, kind(), x.as_subclass(Calling))

    def inside():
        with PassOn(), kind():
            calls(x)

    attempt(f"{kind.__name__} in a mode", inside)

    def outside():
        with kind(), PassOn():
            calls(x)

    attempt(f"{kind.__name__} around a mode", outside)

# ---- Default devices ----
FACTORIES = (
    lambda: torch.ones(2),
    lambda: torch.ones(2, device="cpu"),
    lambda: torch.tensor([1.0]),
    lambda: torch.arange(3),
    lambda: torch.zeros_like(x),
    lambda: torch.empty(2, device=None),
    lambda: torch.nn.Linear(2, 2),
    lambda: torch.rand(2, generator=torch.Generator()),
    lambda: torch.linspace(0, 1, 3),
    lambda: torch.full((2,), 1),
    lambda: torch.eye(2),
    lambda: torch.as_tensor([1]),
    lambda: torch.asarray([1]),
    lambda: torch.Tensor(2),
    lambda: torch.add(x, 1),
    lambda: F.relu(x),
    lambda: torch.ones(2, nonsense=1),
    lambda: torch.ones("a"),
    lambda: torch.get_default_device(),
    lambda: torch.device("cpu"),
    lambda: torch.load,
    lambda: x.new_ones(2),
    lambda: torch.signal.windows.hann(3),
    lambda: torch.randperm(3),
    lambda: torch.hann_window(3),
    lambda: torch.nested.nested_tensor([[1.0], [2.0]]),
)


def make_all():
    for number, factory in enumerate(FACTORIES):
        try:
            factory()
        except Exception:
            mark("failed: in a factory")


def with_device(device):
    with device:
        make_all()


for device in ("meta", "cpu"):
    attempt(f"device context {device}", lambda: with_device(torch.device(device)))
    attempt(f"DeviceContext {device}", lambda: with_device(DeviceContext(device)))
    attempt(f"set_default_device {device}", torch.set_default_device, device)
    attempt(f"under default device {device}", make_all)
    attempt(f"under default device {device} and a mode", lambda: under(PassOn()))
    attempt(
        f"under default device {device} and a context", lambda: with_device(torch.device("cpu"))
    )
    attempt(f"calls under default device {device}", calls, x)
    attempt(f"without torch function under {device}", disabled, torch._C.DisableTorchFunction())
    attempt(f"no default device after {device}", torch.set_default_device, None)
attempt(
    "nested contexts", lambda: with_device(torch.device("meta")) or with_device(torch.device("cpu"))
)


def default_device_in_a_thread():
    torch.set_default_device("meta")

    def work():
        mark("in a thread of a default device")
        make_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.set_default_device(None)


attempt("default device and a thread", default_device_in_a_thread)

# ---- What is called inside a call ----


def in_a_hook():
    leaf = torch.ones(2, requires_grad=True)
    leaf.register_hook(lambda gradient: torch.neg(gradient) + 1)
    (leaf * 2).sum().backward()


def in_an_own_index():
    class Index:
        def __index__(self):
            torch.neg(x)
            return 0

    return x[Index()]


def in_an_own_length():
    class Sequence(list):
        def __len__(self):
            torch.neg(x)
            return super().__len__()

    return torch.tensor(Sequence([1, 2])), torch.stack(Sequence([x]))


attempt("in a hook", in_a_hook)
attempt("in an own index", in_an_own_index)
attempt("in an own length", in_an_own_length)
attempt(
    "in a lambda of apply_", lambda: torch.ones(2).apply_(lambda value: torch.neg(x).sum().item())
)
attempt("after all that", calls, x)

# ---- Own functions that ask ----


def asks_late(tensor, times=2):
    tensor = torch.neg(tensor)
    if has_torch_function((tensor,)):
        return handle_torch_function(asks_late, (tensor,), tensor, times)
    return torch.mul(tensor, times)


def asks_in_a_closure(factor):
    def scaled(tensor):
        if has_torch_function((tensor,)):
            return handle_torch_function(scaled, (tensor,), tensor)
        return torch.mul(tensor, factor)

    return scaled(x), scaled(y)


attempt("asks late", lambda: [asks_late(x, 3) for _ in range(3)] and None)
attempt("asks in a closure", lambda: [asks_in_a_closure(2) for _ in range(3)] and None)

# ---- What a program says of itself ----
attempt("has_torch_function", lambda: has_torch_function((1,)) and None)
attempt("resolve_name", torch.overrides.resolve_name, torch.add)
attempt(
    "handle_torch_function of an own tensor",
    lambda: handle_torch_function(calls, (x.as_subclass(Calling),), 1),
)
attempt(
    "wrap_torch_function",
    lambda: torch.overrides.wrap_torch_function(lambda a: (a,))(len)(x.as_subclass(Sub)),
)


def now_and_then(tensor, fast=False):
    if fast:
        return torch.add(tensor, 1)
    if type(tensor) is not torch.Tensor and has_torch_function((tensor,)):
        return handle_torch_function(now_and_then, (tensor,), tensor)
    return torch.mul(tensor, 2)


def local(tensor):
    def inner(tensor):
        if has_torch_function((tensor,)):
            return handle_torch_function(inner, (tensor,), tensor)
        return torch.mul(tensor, 2)

    return inner(tensor)


def more_defaults(tensor):
    if has_torch_function((tensor,)):
        return handle_torch_function(more_defaults, (tensor,), tensor)
    return tensor


more_defaults.__defaults__ = (1, 2, 3)
parameter = torch.nn.Parameter(torch.ones(2))
for number, value in enumerate((x, parameter, x, parameter)):
    attempt(f"an own function that asks now and then {number}", now_and_then, value)
attempt("an own function that does not ask", now_and_then, x, fast=True)
attempt("a local function", local, x)
attempt("a local function again", local, x)
attempt("more defaults than parameters", more_defaults, x)
own_code = F.softmin.__code__
F.softmin.__code__ = (lambda input, dim=None, _stacklevel=3, dtype=None: input.sin()).__code__
attempt("a function of PyTorch's with other code", F.softmin, x, 0)
F.softmin.__code__ = own_code
attempt("a function of PyTorch's with its own code again", F.softmin, x, 0)
import asks_in_module

attempt("after a module that asks", calls, x)
mark("end of modes")
