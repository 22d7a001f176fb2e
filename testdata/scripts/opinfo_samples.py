"""Calls operators of PyTorch's own test suite on all of their sample inputs, backward too.

The choice: of the OpInfos that take float32 on the CPU, in the order in which PyTorch lists them,
every sixth one, apart from those whose results are not defined by their inputs. One line each:
how often it was called, how often it failed, and a digest of all results and gradients. Some
samples come out of sets of strings: for the same digests again, run it with PYTHONHASHSEED=0.

Options take all of them, other dtypes, and fewer samples.
"""

import argparse
import hashlib
import itertools
import warnings

import torch
from torch.testing._internal import common_methods_invocations as invocations
from torch.testing._internal import common_utils
from torch.testing._internal.opinfo import core
from torch.utils._pytree import tree_leaves

# Every sample looks in the stack for the test that it is for, which takes most of the time.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

UNDEFINED_RESULTS = ("empty", "new_empty", "resize", "as_strided_copy", "rrelu")


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--all", action="store_true", help="every OpInfo, those of lists of tensors too"
    )
    parser.add_argument("--dtypes", default="float32", help="a,b,c, or all that an OpInfo takes")
    parser.add_argument("--part", default="0/1", help="I/N: of N parts, the I-th from 0")
    parser.add_argument("--samples", type=int, help="of an OpInfo and dtype at most so many")
    return parser.parse_args()


def chosen(options):
    """OpInfos, each with the dtypes."""
    part, parts = map(int, options.part.split("/"))
    of_all = options.dtypes == "all"
    named = [getattr(torch, name) for name in ("" if of_all else options.dtypes).split(",") if name]
    pairs = []
    ops = list(invocations.op_db)
    if options.all:
        kinds = ("unary", "binary", "pointwise", "reduce", "other")
        ops += [op for kind in kinds for op in getattr(invocations, f"foreach_{kind}_op_db")]
    for op in ops:
        supported = op.supported_dtypes("cpu")
        dtypes = sorted(supported, key=str) if of_all else [d for d in named if d in supported]
        if dtypes and (options.all or not any(word in op.name for word in UNDEFINED_RESULTS)):
            pairs.append((op, dtypes))
    return pairs[part :: parts * (1 if options.all else 6)]


def add_to(digest, values):
    for value in tree_leaves(values):
        if not isinstance(value, torch.Tensor):
            digest.update(repr(value).encode())
            continue
        digest.update(f"{value.dtype}{list(value.shape)}".encode())
        if value.layout == torch.strided and not value.is_quantized:
            plain = value.detach().resolve_conj().resolve_neg().contiguous()
            digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())


def gradients(result, sample):
    """Of what a call returned, for what it took; None if there are none."""
    inputs = [
        leaf
        for leaf in tree_leaves([sample.input, sample.args, sample.kwargs])
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    roots = [
        leaf
        for leaf in tree_leaves(result)
        if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None
    ]
    if not inputs or not roots:
        return None
    ones = [torch.ones_like(root) for root in roots]
    return torch.autograd.grad(roots, inputs, ones, allow_unused=True)


def run_samples(op, dtypes, most):
    torch.manual_seed(11)
    digest = hashlib.sha256()
    calls = failures = 0
    for sample in samples_of(op, dtypes, most):
        calls += 1
        try:
            result = op(sample.input, *sample.args, **sample.kwargs)
            add_to(digest, result)
            if (grads := gradients(result, sample)) is not None:
                add_to(digest, grads)
        except Exception as error:
            failures += 1
            digest.update(type(error).__name__.encode())
    return calls, failures, digest.hexdigest()[:16]


def samples_of(op, dtypes, most):
    for dtype in dtypes:
        backward = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        made = iter(op.sample_inputs("cpu", dtype, requires_grad=backward))
        taken = [*itertools.islice(made, most)]
        # Now, and not when it is collected, it leaves the modes that it entered.
        getattr(made, "close", int)()
        yield from taken


def main():
    warnings.simplefilter("ignore")
    options = parse_options()
    ops = chosen(options)
    total = 0
    for op, dtypes in ops:
        calls, failures, digest = run_samples(op, dtypes, options.samples)
        total += calls
        print(f"{op.name}.{op.variant_test_name or 'default'}: {calls} {failures} {digest}")
    print(f"operators: {len(ops)}  samples: {total}")


if __name__ == "__main__":
    main()
