"""The first sample inputs of PyTorch's own test suite for every operator, in all variants that it has:
function, method, in place, as Python's operator; and calls that should fail."""

import gc
import itertools
import warnings

import torch
from attempts import attempt, mark
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

SAMPLES = 2
FAILING = 2
VARIANTS = (
    "op",
    "method_variant",
    "inplace_variant",
    "operator_variant",
    "inplace_operator_variant",
)

# What depends on memory that nobody has written, or on which entries of a set come first.
LEFT_OUT = (
    "empty",
    "new_empty",
    "resize_",
    "resize_as_",
    "as_strided_copy",
    "empty_strided",
    "empty_permuted",
)

# Every sample looks in the stack for the test that it is for, which takes most of the time.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None
warnings.simplefilter("ignore")
torch.set_num_threads(1)
gc.disable()  # finalizers would run at other places


def copied(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def samples(label, make, number):
    """The first samples, made with torch functions off: their making is not what is tested."""
    mark(f"samples of {label}")
    with torch._C.DisableTorchFunction():
        made = iter(make())
        taken = list(itertools.islice(made, number))
        getattr(made, "close", int)()  # it may be inside a no_grad()
        return taken


for op in op_db:
    if op.name in LEFT_OUT:
        continue
    dtype = next(
        (d for d in (torch.float32, torch.int64, torch.bool) if d in op.dtypes), torch.complex64
    )
    label = f"{op.name}.{op.variant_test_name}"
    torch.manual_seed(0)
    try:
        taken = samples(label, lambda: op.sample_inputs("cpu", dtype), SAMPLES)
    except Exception:
        taken = []
    for number, sample in enumerate(taken):
        for name in VARIANTS:
            variant = getattr(op, name, None)
            if variant is not None and (variant is not op.op or name == "op"):
                first = copied(sample.input)
                attempt(f"{label} {name} {number}", variant, first, *sample.args, **sample.kwargs)
    try:
        wrong = samples(f"{label} failing", lambda: op.error_inputs("cpu"), FAILING)
    except Exception:
        wrong = []
    for number, error in enumerate(wrong):
        sample = error.sample_input
        attempt(
            f"{label} failing {number}", op.op, copied(sample.input), *sample.args, **sample.kwargs
        )
mark("end of opinfo")
