"""What can be asked of PyTorch's functions and classes without calling them, and by odd ways to call them."""

import copy
import functools
import hashlib
import inspect
import operator
import pickle
import sys
from collections import Counter

import torch
import torch.fx
import torch.nn.functional as F
from torch import nn, relu
from torch.nn.functional import softmax

KINDS = Counter()
digest = hashlib.sha256()


def answer(question, *arguments):
    try:
        return str(question(*arguments))
    except Exception as error:
        return type(error).__name__


def raw(owner, name):
    for each in owner.__mro__ if isinstance(owner, type) else [owner]:
        if name in vars(each):
            return vars(each)[name]


ATTRIBUTES = ("__name__", "__qualname__", "__module__", "__doc__", "__defaults__", "__kwdefaults__")
KNOWN = {
    "function",
    "builtin_function_or_method",
    "staticmethod",
    "classmethod",
    "method_descriptor",
    "classmethod_descriptor",
    "wrapper_descriptor",
    "getset_descriptor",
    "property",
    "_lru_cache_wrapper",
}
OWNERS = (
    torch,
    torch.Tensor,
    F,
    nn,
    nn.Linear,
    nn.Module,
    nn.init,
    torch.linalg,
    torch.optim,
    torch.fft,
)
for owner in OWNERS:
    for name in sorted(dir(owner)):
        thing = raw(owner, name)
        if type(thing).__name__ not in KNOWN and not isinstance(thing, type):
            continue
        KINDS[type(thing).__name__] += 1
        function = getattr(thing, "__func__", thing)
        facts = [
            owner.__name__,
            name,
            str(type(thing)),
            *[
                answer(getattr, function, attribute)
                for attribute in ATTRIBUTES
                if attribute != "__doc__"
            ],
            answer(lambda f: hashlib.md5(f.__doc__.encode()).hexdigest(), function),
            answer(inspect.signature, function),
            answer(lambda f: f.__code__.co_code.hex(), function),
            answer(lambda f: f.__wrapped__.__qualname__, function),
            answer(inspect.isfunction, function),
            answer(inspect.isbuiltin, function),
            answer(inspect.isroutine, function),
            answer(inspect.isclass, function),
            answer(inspect.ismethoddescriptor, function),
            answer(inspect.isdatadescriptor, thing),
            answer(lambda f: pickle.loads(pickle.dumps(f)) is f, function),
            answer(lambda f: copy.copy(f) is f and copy.deepcopy(f) is f, function),
            answer(lambda f: {f: 1}[f] == 1 and f == f, function),
        ]
        digest.update(repr([fact.split(" at 0x")[0] for fact in facts]).encode())
        if inspect.isclass(thing):
            flags = (
                thing.__flags__,
                thing.__basicsize__,
                sorted(vars(thing)),
                [str(c) for c in thing.__mro__],
            )
            digest.update(repr(flags).encode())
print(sorted(KINDS.items()))
print(digest.hexdigest())

print(
    relu is torch.relu,
    softmax is F.softmax,
    softmax.__code__ is F.softmax.__code__,
    torch.Tensor.add,
)
print(inspect.getsource(F.softmax)[:40], inspect.getfile(nn.Linear)[-30:], torch.Tensor.add_)
overridable = torch.overrides.get_overridable_functions()
testing = torch.overrides.get_testing_overrides()
ignored = torch.overrides.get_ignored_functions()
print(len(testing), len(ignored), [len(functions) for functions in overridable.values()])
print([f in testing for f in (torch.add, torch.Tensor.add, F.softmax, torch.Tensor.__add__)])
print(
    [
        torch.overrides.resolve_name(f)
        for f in (torch.add, torch.Tensor.add, F.softmax, torch.Tensor.norm)
    ]
)

x = torch.arange(6.0).reshape(2, 3)


@functools.wraps(F.silu)
def mine(*args, **kwargs):
    return F.silu(*args, **kwargs)


print(mine.__name__, mine.__wrapped__ is F.silu, inspect.signature(mine), mine(x).sum())


class Tensor(torch.Tensor):
    def add(self, other):
        return super().add(other) * 2

    def __getitem__(self, key):
        return super().__getitem__(key) * 2

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print("handler", func.__name__, [t.__name__ for t in types])
        return super().__torch_function__(func, types, args, kwargs or {})


tensor = x.as_subclass(Tensor)
print(tensor.add(1), tensor[0], F.softmax(tensor, 1), torch.relu(tensor), tensor + 1)


class Linear(nn.Linear):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen = []

    def forward(self, x):
        self.seen.append(x.shape)
        return super().forward(x)

    def __repr__(self):
        return "mine: " + super().__repr__()


torch.manual_seed(3)
linear = Linear(3, 2)
again = pickle.loads(pickle.dumps(nn.Linear(3, 2)))
print(
    linear,
    linear(x),
    isinstance(linear, nn.Linear),
    type(again) is nn.Linear,
    copy.deepcopy(again)(x),
)
print(nn.Linear(*(3,), **{"out_features": 2}).weight.sum(), nn.Parameter(torch.ones(2)))
try:
    nn.Linear(3)
except TypeError as error:
    print(error)
try:
    nn.Linear(3, 2, **{1: 2})
except TypeError as error:
    print(error)
print(
    list(map(torch.sin, x))[1],
    functools.reduce(torch.add, x),
    operator.add(x, 1)[0],
    sum(x),
    max(x[0]),
)
print(
    (lambda *a, **k: torch.add(*a, **k))(x, other=x, alpha=2),
    torch.Tensor.add(x, 1),
    x.__add__(1),
    1 - x,
)
bound = x.mul
print(bound(2), bound.__self__ is x, bound.__name__, functools.partial(torch.mul, other=3)(x))
print(torch.Tensor.shape.__get__(x), x.T.shape, type(torch.Tensor.shape))
x.requires_grad = True
(x * x).sum().backward()
print(x.grad, len(x), bool(x[0, 1] == 1), int(x[0, 1]), x[0, 2].item())
x.grad[0] = 5
del x.grad
print(x.grad)
for wrong in (
    lambda: torch.add(),
    lambda: F.relu(),
    lambda: F.softmax(x, dim="no"),
    lambda: x.add("a"),
    lambda: x[5],
    lambda: x + "a",
    lambda: torch.Tensor.add(1, 2),
    lambda: torch.relu(x, y=1),
):
    print(answer(lambda f: f(), wrong))
scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.LayerNorm(2)))
print(scripted.code, scripted(x).shape)


@torch.jit.script
def scripted_function(x):
    return F.softmax(torch.relu(x) + 1, dim=1).sum(0)


print(scripted_function.code, scripted_function(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        y = F.layer_norm(self.linear(x), (3,))
        y = torch.cat([y + 1, x[:, :3] * y.size(0)], dim=1).relu()
        return F.dropout(F.softmax(y, dim=-1), 0.1, self.training).norm()


traced = torch.fx.symbolic_trace(Block().eval())
print(traced.code, traced.graph, traced(x))
print(torch.jit.trace(Block().eval(), (x,)).code)
depth = 0


def recurse(n):
    return torch.relu(x).sum() if n == 0 else recurse(n - 1)


sys.setrecursionlimit(60000)
# Up to 3.10 each call takes C stack.
print(recurse(30000 if sys.version_info >= (3, 11) else 5000))
sys.setrecursionlimit(200)
try:
    recurse(1000)
except RecursionError as error:
    print(error)
