"""The same functions and operators again and again, with something changed in between."""

import itertools

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import handle_torch_function

STRIDED = torch.ones(3, 4).t()[1:3]


def set_data(data):
    def change(x):
        x.data = data

    return change


def swap(x):
    torch.utils.swap_tensors(x, torch.ones(1, 2, 2))


# What changes a tensor, and leaves the object as it is. Tensors of the same fields come again.
CHANGES = [
    lambda x: x.resize_(4, 5),
    lambda x: x.t_(),
    lambda x: x.set_(STRIDED),
    lambda x: x.resize_(0),
    lambda x: x.resize_(2, 3),
    set_data(torch.ones(2, 3, dtype=torch.float64)),
    set_data(torch.ones(3, 2)),
    lambda x: x.requires_grad_(),
    lambda x: x.detach_(),
    set_data(torch.ones(2, 2, dtype=torch.int8)),
    lambda x: x.unsqueeze_(0),
    lambda x: x.squeeze_(),
    set_data(torch.ones(4, 2)[::2]),
    lambda x: x.as_strided_((2, 2), (0, 1)),
    swap,
    set_data(torch.ones(2, 2, dtype=torch.float16)),
    set_data(torch.ones(())),
    set_data(torch.ones(2, 2, dtype=torch.complex64)),
    set_data(torch.ones(1, 2, 3, 4).to(memory_format=torch.channels_last)),
    set_data(torch.ones(1, 3, 2, 4).to(memory_format=torch.channels_last)),
]
NUMBERS = [1, 1.0, True, -1, 0, -0.0, 0.0, 2**40, 1 - 2**63, float("inf"), float("nan"), 1j, 1 + 0j]
SEQUENCES = [(1, 1), [1, 1], torch.Size((1, 1)), (1,), (1, 1, 1), [1, 1, 1]]
TEXTS = ["none", "tanh", "none ", ""]
DTYPES = [torch.float64, torch.float32, torch.int32, torch.bool]


class Own(torch.Tensor):
    """A subclass that leaves everything as it is."""


def twice(call, *args, **kwargs):
    for _ in range(2):
        try:
            call(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            pass


def changed_tensors():
    x = torch.ones(2, 3)
    for change in (None, *CHANGES, *CHANGES):
        if change is not None:
            with torch.no_grad():
                change(x)
        twice(F.relu, x)
        twice(torch.neg, x)
        twice(x.add, x)


def changed_values():
    x = torch.ones(1, 1)
    for number in NUMBERS:
        twice(torch.add, x, number)
        twice(x.mul, number)
        twice(torch.full, (1, 1), number)
        twice(torch.add, x, x, alpha=number)
    for sizes in SEQUENCES:
        twice(x.reshape, sizes)
        twice(torch.zeros, sizes)
    for size in ((1,), (1, 1), (1, 1, 1), (-1,)):
        twice(x.view, *size)
    for text in TEXTS:
        twice(F.gelu, x, approximate=text)
    for equation in ("ij,jk->ik", "ij,jk", "i" * 600 + "j"):
        twice(torch.einsum, equation, x, x)
    for dtype, device in itertools.product(DTYPES, ("cpu", torch.device("cpu"), "meta")):
        twice(x.to, dtype)
        twice(torch.empty, 2, dtype=dtype, device=device)
    for count in (1, 2, 3, 70):
        twice(torch.cat, [x] * count)
        twice(torch.stack, tuple([x] * count))
    for keywords in ({}, {"dim": 0}, {"dim": 0, "keepdim": True}, {"keepdim": True, "dim": 0}):
        twice(torch.sum, x, **keywords)
    for other in (x, torch.ones(1), torch.tensor(1.0), torch.ones(1, 1).to_sparse(), 2):
        twice(torch.clamp, x, None, other)
        twice(torch.mul, x, other)


def changed_types():
    x = nn.Parameter(torch.ones(2, 2))
    like = torch.ones(2, 2, requires_grad=True)
    own = torch.ones(2, 2).as_subclass(Own)
    meta = torch.ones(2, 2, device="meta")
    for each in (x, like, own, meta, x, like, own, meta):
        twice(torch.neg, each)
    x.requires_grad_(False)
    twice(torch.neg, x)


def changed_defaults():
    x, weight = torch.ones(2, 3), torch.ones(2, 3)
    bias = torch.ones(2)
    for args, kwargs in (
        ((x, weight), {}),
        ((x, weight, bias), {}),
        ((x, weight), {"bias": bias}),
        ((x,), {"weight": weight}),
        ((x, weight, None), {}),
    ):
        twice(F.linear, *args, **kwargs)
    defaults = F.softplus, F.dropout, F.gelu, F.layer_norm, F.normalize
    before = F.normalize.__defaults__
    for p in (2.0, 1.0, 2.0):
        F.normalize.__defaults__ = (p, *before[1:])
        twice(F.normalize, x)
    F.normalize.__defaults__ = before
    for function in defaults[:3]:
        twice(function, x)
        twice(function, x.double())
    for shape in ((3,), [3], (2, 3)):
        twice(F.layer_norm, x, shape)


def changed_objects():
    """Handles that PyTorch keeps in TorchScript's objects."""
    profiler = torch.ops.profiler
    for name in ("scope", "scope", "another"):
        handle = profiler._record_function_enter_new(name, None)
        twice(profiler._record_function_exit._RecordFunction, handle)


def changed_functions():
    """Functions that are gone before the next one is made."""

    class Overriding(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return 0

    x = torch.ones(1).as_subclass(Overriding)
    for name in ("a_function_with_a_long_name", "a_function_with_a_long_nose") * 3:
        scope = {}
        exec(f"def outer():\n  def {name}(x): pass\n  return {name}", scope)
        handle_torch_function(scope["outer"](), (x,), x)


REPEATED = [changed_tensors, changed_values, changed_defaults, changed_objects]
