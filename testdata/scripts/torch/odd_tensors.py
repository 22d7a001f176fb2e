"""Calls functions of tensors of integers and bools that have no sizes, strides, storage or memory as others do."""

import contextlib
import logging
import warnings

import torch
import torch._lazy.ts_backend
from marks import mark, show
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
torch._lazy.ts_backend.init()
ints = torch.arange(12).reshape(3, 4)
symbolic = FakeTensorMode(shape_env=ShapeEnv()).from_tensor
asked = []
shown = []


def shows(name, value):
    shown.append(name)
    asked.clear()
    show(name, value)
    if asked:
        print(f"{name} was asked for {asked}")


def call(name, tensor):
    shows(name, tensor)
    # Notes are taken of all of a call's tensors when they are of one.
    shows(f"beside another: {name}", [ints, tensor])
    if name.endswith("memory"):
        return
    for function in (torch.abs, torch.sum, torch.clone):
        with contextlib.suppress(Exception):
            function(tensor)
    with contextlib.suppress(Exception):
        tensor[1:].add_(1)
    shows(f"after calls: {name}", tensor)


class OwnSizes(torch.Tensor):
    """Answers for its own sizes, strides and layout, and notices when it is asked."""

    @staticmethod
    def __new__(cls, inner, policy):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            dtype=inner.dtype,
            dispatch_sizes_strides_policy=policy,
            dispatch_layout=True,
        )

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        asked.append(str(function))
        return NotImplemented


def resized(tensor):
    tensor.untyped_storage().resize_(0)
    return tensor


def shrunk(tensor):
    tensor.untyped_storage().resize_(8)
    return tensor


PLAIN = {
    "int": ints.clone(),
    "bool": ints > 5,
    "empty": ints[:0],
    "0-d": ints[1, 2],
    "column": ints[:, 1],
    "flipped twice": ints.t().t()[1:],
    "overlapping": ints.reshape(-1).as_strided((5, 4), (1, 2)),
    "expanded": ints[:, :1].expand(3, 1 << 13),
    "uint16": ints.to(torch.uint16),
    "uint64": ints.to(torch.uint64),
    "complex": torch.ones(2, dtype=torch.complex64),
    "conjugated": torch.ones(2, dtype=torch.complex64).conj(),
    "negated": torch.ones(2, dtype=torch.complex64).conj().imag,
    "all zeros": torch._efficientzerotensor(3, dtype=torch.int64),
    "bits": torch.empty(3, dtype=torch.bits8),
    "quantised": torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.quint8),
    "quantised by channel": torch.quantize_per_channel(
        torch.ones(2, 3), torch.ones(2), torch.zeros(2, dtype=torch.int64), 0, torch.qint8
    ),
    "coo": ints.to_sparse(),
    "csr": ints.to_sparse_csr(),
    "bsr": torch.arange(16).reshape(4, 4).to_sparse_bsr((2, 2)),
    "mkldnn": torch.ones(2, 3).to_mkldnn(),
    "nested": torch.nested.nested_tensor([ints, ints[:2]]),
    "jagged": torch.nested.nested_tensor([ints, ints[:2]], layout=torch.jagged),
    "without memory": resized(ints.clone()),
    "with less memory": shrunk(ints.clone()),
    "lazily copied memory": torch._lazy_clone(ints),
    "meta": ints.to("meta"),
    "lazy": ints.to("lazy"),
    "functional": torch._to_functional_tensor(ints.clone()),
    "symbolic": symbolic(ints),
    "symbolic bool": symbolic(ints > 5),
    "symbolic float": symbolic(ints.float()),
    "functional symbolic": torch._to_functional_tensor(symbolic(ints > 5)),
    "own sizes": OwnSizes(ints, "sizes"),
    "own strides": OwnSizes(ints, "strides"),
}
PLAIN["symbolic part"] = PLAIN["symbolic"][1:, 1]
for name in PLAIN:
    call(name, PLAIN[name])
with torch.inference_mode():
    call("of inference", ints + 1)


def inside(name):
    def body(tensor):
        call(name, tensor)
        return tensor * 1.0

    return body


torch.func.vmap(inside("batched"))(ints)
torch.func.vmap(torch.func.vmap(inside("batched twice")))(ints)
torch.func.functionalize(inside("functionalized"))(ints.clone())
torch.func.jvp(inside("dual"), (ints.float(),), (ints.float(),))
torch.func.grad(lambda x: inside("grad-tracking")(x).sum())(ints.float())

shows("storage of symbolic sizes", PLAIN["symbolic"].untyped_storage())
print(torch._C._is_cow_tensor(PLAIN["lazily copied memory"]), len(shown))
mark("sums")
for _ in range(100):
    torch.ones(3).sum()
mark("the end")
