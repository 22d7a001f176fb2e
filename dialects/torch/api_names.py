"""The public names of PyTorch's functions, read once from its modules.

Run inside the traced process by api_names.cc, right after `import torch`; also a part of
the package torchtrace, for api_name().
"""

import sys

# Where public names live, the preferred place first among names of one length.
NAMESPACES = (
    "torch",
    "torch.Tensor",
    "torch.nn.functional",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.sparse",
    "torch.nested",
    "torch.signal.windows",
    "torch.nn.init",
    "torch.func",
    "torch.autograd",
    "torch.autograd.functional",
    "torch.amp",
    "torch.masked",
    "torch.overrides",
    "torch.random",
    "torch.jit",
    "torch.quantization",
    "torch.distributions",
    "torch.utils.checkpoint",
    "torch.cuda",
    "torch.cpu",
)

# What is called; classes and constants have names of their own.
FUNCTION_TYPES = (
    "function",
    "builtin_function_or_method",
    "method_descriptor",
    "wrapper_descriptor",
    "classmethod_descriptor",
)


def public_names():
    """Returns [(function, "torch.name")]: each function once, by its shortest name."""
    best = {}
    for order, namespace in enumerate(NAMESPACES):
        owner = _find(namespace)
        if owner is None:
            continue
        for name in dir(owner):
            try:
                function = vars(owner).get(name) or getattr(owner, name)
            except Exception:
                continue
            if type(function).__name__ not in FUNCTION_TYPES:
                function = getattr(function, "__func__", function)
                if type(function).__name__ not in FUNCTION_TYPES:
                    continue
            full = f"{namespace}.{name}"
            rank = _rank(full, order)
            known = best.get(id(function))
            if known is None or rank < known[0]:
                best[id(function)] = (rank, function, full)
    return [(function, full) for _, function, full in best.values()]


def names_of(api):
    """All public names of a function or class of PyTorch, the preferred one first."""
    found = []
    for order, namespace in enumerate(NAMESPACES):
        owner = _find(namespace)
        for name in dir(owner) if owner is not None else ():
            try:
                member = vars(owner).get(name) or getattr(owner, name)
            except Exception:
                continue
            if member is api or getattr(member, "__func__", None) is api:
                found.append((_rank(f"{namespace}.{name}", order), f"{namespace}.{name}"))
    return [full for _, full in sorted(found)]


def _rank(full, order):
    return (full.rpartition(".")[2].startswith("_"), full.count("."), len(full), order, full)


def _find(dotted):
    owner = sys.modules.get("torch")
    for part in dotted.split(".")[1:]:
        owner = vars(owner).get(part)
    return owner
