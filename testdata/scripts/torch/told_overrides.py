"""Every function that torch.overrides knows, called in several ways with what its parameters' names
suggest: most calls succeed, the others fail before or after a mode is told of them."""

import inspect
import warnings

import torch
from attempts import attempt, mark
from torch.overrides import get_testing_overrides

warnings.simplefilter("ignore")
torch.set_num_threads(1)

# Not to be called: they stop or hang a process, or show where memory is.
LEFT_OUT = {"data_ptr", "const_data_ptr", "__dlpack__", "share_memory_"}

INTS = "dim dim0 dim1 dims dimension axis axis0 axis1 level start index_dim unbiased k q diagonal"
ONES = (
    "n kernel_size stride groups chunks split_size_or_sections indices_or_sections size length "
    "dilation num_layers num_samples step n_fft num_groups sections sizes count numel upscale_factor "
    "downscale_factor output_size groups num_classes repeats N shifts pad padding"
)
VALUES = {
    **dict.fromkeys(INTS.split(), 0),
    **dict.fromkeys(ONES.split(), 1),
    **dict.fromkeys("p eps value alpha scale threshold tau margin max_norm norm_type".split(), 0.5),
    **dict.fromkeys("train training bidirectional batch_first has_biases".split(), False),
    **dict.fromkeys("bias running_mean running_var hx mask attn_mask".split(), None),
    "shape": (2, 2), "normalized_shape": (2,), "dtype": torch.float64, "equation": "ij->ji",
    "msg": "message", "names": ("a", "b"), "callable": lambda value: value, "hook": print,
    "reduce": "sum", "mode": "constant", "condition": True, "padding_mode": 0, "zero_point": 0,
    "quant_min": 0, "quant_max": 255, "min": 0, "max": 1, "device": "cpu", "interpolation_mode": 0,
}  # fmt: skip
LISTS = {"tensors", "input_tensor_list", "operands", "matrices", "arrays", "params", "args"}


def fresh(*shape, dtype=torch.float32):
    return torch.full(shape, 0.5).to(dtype)


def by_name(name, kind):
    """A value for a parameter."""
    if name in LISTS:
        return [fresh(2, 2), fresh(2, 2)]
    if name in ("index", "indices", "target") or kind == "ints":
        return torch.zeros(2, 2, dtype=torch.int64)
    return VALUES[name] if name in VALUES else fresh(2, 2)


def calls(parameters):
    """(kind of call, args, kwargs)."""
    required = [each for each in parameters if each.default is each.empty]
    optional = [each for each in parameters if each.default is not each.empty]

    def values(kind=""):
        return {each.name: by_name(each.name, kind) for each in required}

    yield "places", list(values().values()), {}
    first, *rest = [*values().items(), (None, None)][:1] + list(values().items())[1:]
    if first[0] is not None and first[0] != "self":
        yield "keywords", [], values()
    if first[0] is not None:
        yield "mixed", [first[1]], dict(rest)
    yield "tensors", [fresh(2, 2) for _ in required], {}
    yield "ints", list(values("ints").values()), {}
    yield "defaults", list(values().values()), {each.name: each.default for each in optional}
    yield "all places", list(values().values()) + [each.default for each in optional], {}
    yield "nothing", [], {}
    yield "too much", [fresh(1)] * 25, {"nonsense": 1}


seen = set()
for function, dummy in get_testing_overrides().items():
    name = getattr(function, "__name__", "")
    owner = getattr(function, "__self__", function)
    label = f"{getattr(owner, '__name__', '')} {getattr(function, '__module__', None)} {name}"
    while label in seen:
        label += "'"
    seen.add(label)
    if name in LEFT_OUT:
        continue
    parameters = [
        each
        for each in inspect.signature(dummy).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]
    made = set()
    for kind, args, kwargs in calls(parameters):
        attempt(f"{label}: {kind}", function, *args, **kwargs)
mark("end of overrides")
