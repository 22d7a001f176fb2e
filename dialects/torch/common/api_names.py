"""The public names of PyTorch's functions, for api_name() of the package torchtrace.

The hooks use api_names.cc instead, which runs no Python code; it takes NAMESPACES from here.
"""

import sys

# Where public names live, the preferred place first among equally long names. Each line is C++ too.
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
    own = full.rpartition(".")[2]
    # Python 2's division.
    outdated = own in ("__idiv__", "__rdiv__")
    return (own.startswith("_"), full.count("."), outdated, len(full), order, full)


def _find(dotted):
    owner = sys.modules.get("torch")
    for part in dotted.split(".")[1:]:
        owner = vars(owner).get(part)
    return owner
