"""Calls operators of PyTorch's own test suite on all of their sample inputs, backward too.

The choice: of the OpInfos that take float32 on the CPU, in the order in which PyTorch lists them,
every sixth one, apart from those whose results are not defined by their inputs. One line each:
how often it was called, how often it failed, and a digest of all results and gradients. Some
samples come out of sets of strings: for the same digests again, run it with PYTHONHASHSEED=0.
"""

import hashlib
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves

UNDEFINED_RESULTS = ("empty", "new_empty", "resize", "as_strided_copy", "rrelu")


def chosen():
    takers = [op for op in op_db if torch.float32 in op.supported_dtypes("cpu")]
    defined = [op for op in takers if not any(part in op.name for part in UNDEFINED_RESULTS)]
    return defined[::6]


def add_to(digest, values):
    for value in tree_leaves(values):
        if not isinstance(value, torch.Tensor):
            digest.update(repr(value).encode())
            continue
        digest.update(f"{value.dtype}{list(value.shape)}".encode())
        if value.layout == torch.strided and not value.is_quantized:
            plain = value.detach().resolve_conj().resolve_neg().contiguous()
            digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())


def run_samples(op):
    torch.manual_seed(11)
    digest = hashlib.sha256()
    calls = failures = 0
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd):
        calls += 1
        try:
            result = op(sample.input, *sample.args, **sample.kwargs)
            add_to(digest, result)
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
            if inputs and roots:
                ones = [torch.ones_like(root) for root in roots]
                add_to(digest, torch.autograd.grad(roots, inputs, ones, allow_unused=True))
        except Exception as error:
            failures += 1
            digest.update(type(error).__name__.encode())
    return calls, failures, digest.hexdigest()[:16]


def main():
    warnings.simplefilter("ignore")
    ops = chosen()
    total = 0
    for op in ops:
        calls, failures, digest = run_samples(op)
        total += calls
        print(f"{op.name}.{op.variant_test_name or 'default'}: {calls} {failures} {digest}")
    print(f"operators: {len(ops)}  samples: {total}")


if __name__ == "__main__":
    main()
