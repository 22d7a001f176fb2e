"""Calls of a trace as a program: where each tensor comes from (serialize/flow), the modes around
each call, what is left out, what is returned. A backend makes the program: of nodes
(python/torchtrace/_graph.py), or of text (code.py). Nothing is called here.
"""

import contextlib
import keyword
import operator

import torch
from torch.amp import autocast_mode

from . import arguments
from .names import Skip

PARAMETERS = ("torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
# Those of Python's operators that have a sign, by the names of their methods without underscores.
SIGNS = dict(
    add="+", sub="-", mul="*", truediv="/", floordiv="//", mod="%", pow="**", matmul="@",
    lshift="<<", rshift=">>", eq="==", ne="!=", lt="<", le="<=", gt=">", ge=">=",
    **{"and": "&", "or": "|", "xor": "^"},
)  # fmt: skip
_OTHERS = (
    "getitem setitem neg pos invert abs iadd isub imul itruediv ifloordiv imod ipow iand ior ixor "
    "ilshift irshift"
).split()
_COUNTS = {"setitem": 3, "neg": 1, "pos": 1, "invert": 1, "abs": 1}  # of arguments; else 2
# These convert without autocast.
_CONVERTS = ("to", "type", "type_as", "half", "bfloat16", "float")
_NARROW = ("torch.float16", "torch.bfloat16")


class Tensor:
    """A tensor in a step's arguments."""

    def __init__(self, number):
        self.number = number


def _refused(kind):
    def refuse(reader, plain, depth):
        raise Skip(f"an argument is {kind}")

    return refuse


def _named_object(reader, plain, depth):
    raise Skip(f"an argument is an object of a type that only the program has: {plain['value']}")


def _plain_type(reader, plain, depth):
    if plain["value"] not in arguments.TYPES:
        raise Skip("an argument is a type that only the program has")
    return arguments.TYPES[plain["value"]]


class Reader(arguments.Parser):
    """Reads what a program can hold. Its devices need not be here."""

    def _device_of(self, name):
        try:
            return torch.device(name)
        except RuntimeError:
            raise Skip(f"this torch has no device {str(name)[:80]}") from None

    _READERS = {
        **arguments.Parser._READERS,
        "deep": _refused("a container nested too deeply"),
        # A trace, which anyone may have written, would choose its arguments.
        "function": _refused("a function"),
        "numpy.generic": _refused("a NumPy value"),
        "numpy.ndarray": _refused("a NumPy value"),
        "object": _named_object,
        "torch.UntypedStorage": _refused("a storage"),
        "type": _plain_type,
    }


class StepReader(Reader):
    """Tensors are those of the program."""

    def _tensor(self, plain, depth):
        return None if plain.get("defined") is False else Tensor(plain["id"])


class GraphReader(StepReader):
    """torch.fx writes arguments by their repr."""

    _READERS = {
        **StepReader._READERS,
        **dict.fromkeys(("set", "frozenset"), _refused("a set, which a graph can't hold")),
        "torch.Generator": _refused("a torch.Generator, which a graph can't hold"),
    }


def read_arguments(reader, target, config):
    """(args, kwargs) of a call that is written."""
    if "problem" in config:
        raise Skip(config["problem"])
    args = [reader.parse(arg) for arg in config["args"]]
    kwargs = {name: reader.parse(value) for name, value in config["kwargs"].items()}
    for name in kwargs:
        # __debug__ can't be assigned to, so it can't name an argument either.
        is_name = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
        if not is_name or name == "__debug__":
            raise Skip("an argument's name that Python doesn't take")
    if "cdata" in kwargs:
        raise Skip("it takes memory by its address")
    of_tensor = target.kind in ("method", "getter", "setter")
    is_tensor = bool(args) and isinstance(args[0], (Tensor, arguments.TensorSpec))
    count = {"getter": 1, "setter": 2}.get(target.kind, len(args))
    if of_tensor and not (is_tensor and len(args) == count):
        raise Skip("a method without its tensor")
    return args, kwargs


def mapped(value, tensor):
    """The value with its tensors replaced."""
    if isinstance(value, (Tensor, arguments.TensorSpec)):
        return tensor(value)
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(mapped(item, tensor) for item in value)
    if type(value) is slice:
        parts = (value.start, value.stop, value.step)
        return slice(*(mapped(part, tensor) for part in parts))
    if type(value) is dict:
        return {key: mapped(item, tensor) for key, item in value.items()}
    return value


def tensors_in(plain):
    """The descriptions of tensors in a value, at any depth."""
    if isinstance(plain, list):
        for item in plain:
            yield from tensors_in(item)
    elif isinstance(plain, dict):
        if plain.get("type") == "torch.Tensor":
            if plain.get("defined", True):
                yield plain
            return
        value = plain.get("value")
        yield from tensors_in(list(value.values()) if isinstance(value, dict) else value)


def tensors_taken(config):
    return list(tensors_in([config["args"], list(config["kwargs"].values())]))


def take_contents(step, everything):
    """Contents of tensors follow a step as bytes, in the order of its sources and notes."""
    begin, everything = 0, memoryview(everything)
    for note in (*step.get("sources", ()), *step.get("notes", ()), *step.get("result_notes", ())):
        if isinstance(note.get("contents"), int):
            end = begin + note["contents"]
            note["contents"] = everything[begin:end]
            begin = end


def autocast_of(config, result):
    """(device type, dtype) of torch.autocast around a call, as far as its result shows it, or None.
    Without autocast, only conversions and functions with a dtype argument return 16-bit numbers for
    32-bit ones or the reverse."""
    if config["level"] not in (0, 1) or config["api"].rpartition(".")[2] in _CONVERTS:
        return None
    plain = [config["args"], list(config["kwargs"].values())]
    taken, made = ({*map(_float_of, tensors_in(each))} - {None} for each in (plain, result))
    if len(taken) != 1 or len(made) != 1 or _has_dtype(plain):
        return None
    device = next(each["device"] for each in tensors_in(result) if _float_of(each))
    (narrow, wide) = sorted((*taken, *made), key=lambda dtype: dtype == "torch.float32")
    if narrow not in _NARROW or wide != "torch.float32" or device == "meta":
        return None
    return device.partition(":")[0], arguments.DTYPES[narrow]


def _float_of(plain):
    return plain["dtype"] if plain["dtype"].startswith(("torch.float", "torch.bfloat16")) else None


def _has_dtype(plain):
    if isinstance(plain, dict):
        return plain.get("type") == "torch.dtype" or _has_dtype(list(plain.values()))
    return isinstance(plain, list) and any(map(_has_dtype, plain))


class Calls:
    """A call of a target as one of a function or a method."""

    def call(self, target, args, kwargs):
        name = target.name
        if target.kind == "function":
            return self.function(target.function, name, args, kwargs)
        if target.kind == "overload":
            function = torch.ops
            for part in name.split(".")[2:]:
                function = getattr(function, part)
            return self.function(function, name, args, kwargs)
        if target.kind == "getter":
            return self.function(getattr, "getattr", (args[0], name))
        if target.kind == "setter":
            return self.function(setattr, "setattr", (args[0], name, args[1]))
        plain = name[2:-2] if name.startswith("__") else ""
        if (plain in SIGNS or plain in _OTHERS) and len(args) == _COUNTS.get(plain, 2):
            if not kwargs:
                return self.operator(plain, args)
        if plain.startswith("r") and plain[1:] in SIGNS and len(args) == 2 and not kwargs:
            return self.operator(plain[1:], args[::-1])
        return self.method(name, args, kwargs)

    def operator(self, name, args):
        function = getattr(operator, f"__{name}__")
        return self.function(function, f"operator.{function.__name__}", args)


class Program(Calls):
    """What is made of the steps is in the backend's own terms. A backend has

    input(plain, is_parameter)     a tensor from outside
    check_input(plain)             raises Skip if there can be none
    function(function, name, args, kwargs={}), method(name, args, kwargs={})
    leave_out(step, why)

    and may have what follows.
    """

    reader = StepReader
    goes_on = False  # after a call that raised

    def __init__(self, steps, names):
        self.steps = steps
        self.names = names
        self.operators = bool(steps) and steps[0]["level"] in (2, 4)
        self.placed = {}  # what was made, by number of the tensor; a part of it as a pair
        self.described = {}  # by number of the tensor
        self.with_gradient = {}  # whether calls take a tensor with one, for the tensors taken
        self.results = {}  # what was made, by call
        self.gradients = True
        self.autocast = self.entered = None
        self.unseen = []  # inputs that appeared between the calls
        self.raising = None  # what the last call made, if it raised
        for step in steps:
            self._describe(step)
        for number, source in [*self.described.items()]:
            base = self.described.get(source.get("base"), {})
            parameter = source.get("same") and source.get("subclass") == PARAMETERS[0]
            if parameter and base.get("kind") == "input" and not self.is_parameter(base):
                # Its data was taken before it became a parameter.
                told = ("contents", "memory", "min", "max")
                whole = {key: base[key] for key in told if key in base}
                self.described[number] = {**source, **whole, "kind": "input"}
                view = {"kind": "view", "base": number, "shift": 0, "same": True}
                self.described[base["id"]] = {**base, **view}

    def _describe(self, step):
        for source in step["sources"]:
            self.described[source["id"]] = source
            source["step"] = step
        for tensor in tensors_taken(step):
            has = self.with_gradient.get(tensor["id"], False) or tensor.get("requires_grad", False)
            self.with_gradient[tensor["id"]] = has

    def is_parameter(self, plain):
        if plain.get("kind") != "input":
            return False
        # Operators are recorded without Python's subclasses.
        by_gradient = self.operators and plain.get("requires_grad")
        return bool(by_gradient) or plain.get("subclass") in PARAMETERS

    def make(self):
        for step in self.steps:
            self._step(step)
        self.set_modes(True, None)

    def _step(self, step):
        last, result = step is self.steps[-1], step.get("result", [])
        for tensor in tensors_in(result):
            self.described.setdefault(tensor["id"], tensor)
        if "raised" in step and not last and not self.goes_on:
            self.leave_out(step, f"it raised {step['raised']}")
            return
        # It only read: the program may have used what it returned in its control flow.
        if step.get("tells") or self.is_inside(step):
            return
        try:
            made = self.make_step(step)
        except Skip as why:
            self.leave_out(step, str(why))
            # Its results come from outside.
            notes = {note["position"]: note for note in step.get("result_notes", ())}
            for position, tensor in enumerate(tensors_in(result)):
                self.placed.pop(tensor["id"], None)
                note = notes.get(position, {})
                told = {key: note[key] for key in ("min", "max", "contents") if key in note}
                self.described[tensor["id"]] = {**tensor, **told, "step": step}
            return
        # The shape of a tensor that it wrote to may have changed.
        for tensor in tensors_in(result):
            self.described[tensor["id"]] = tensor
        made = self.keep(made, step)
        if len(result) == 1:
            self._place(made, (), result[0])
        else:
            for i, value in enumerate(result):
                self._place(made, (i,), value)
        self.results[step["call"]] = made
        if "raised" in step and last:
            self.raising = made

    def check(self, args, kwargs):
        """Raises Skip for arguments that the program can't hold."""

    def named(self, kind, made):
        """What was made, to be used more than once."""
        return made

    def keep(self, made, step):
        """What was made of a step, to be used for its results."""
        return made

    def is_inside(self, step):
        """Whether another step makes it, too."""
        return False

    def make_step(self, step):
        return self._call(step)

    def _call(self, step):
        target, args, kwargs = read_step(self.names, self.reader, step)
        # Before anything is made.
        self.check(args, kwargs)
        for tensor in tensors_taken(step):
            self._check(tensor["id"])
        autocast = autocast_of(step, step.get("result", ()))
        self.set_modes(step.get("gradients", True), autocast)
        args = tuple(mapped(arg, self.tensor) for arg in args)
        kwargs = {name: mapped(value, self.tensor) for name, value in kwargs.items()}
        return self.call(target, args, kwargs)

    def set_modes(self, gradients, autocast):
        # Operators were recorded below autograd and autocast, so the modes don't affect them.
        if not self.operators and (gradients, autocast) != (self.gradients, self.autocast):
            self.change_modes(gradients, autocast)
            self.gradients, self.autocast = gradients, autocast

    def change_modes(self, gradients, autocast):
        if gradients != self.gradients:
            name = "torch._C._set_grad_enabled"
            self.named("m", self.function(torch._C._set_grad_enabled, name, (gradients,)))
        if autocast == self.autocast:
            return
        where = "torch.amp.autocast_mode."
        if self.autocast is not None:
            function = autocast_mode._exit_autocast
            self.named("m", self.function(function, where + "_exit_autocast", (self.entered,)))
        if autocast is not None:
            function = autocast_mode._enter_autocast
            made = self.function(function, where + "_enter_autocast", (*autocast, True, None))
            self.entered = self.named("m", made)

    # Tensors.

    def _place(self, made, path, plain):
        """Keeps the tensors in a result for later calls that take them."""
        if not isinstance(plain, dict):
            return
        value = plain.get("value")
        if plain.get("type") == "torch.Tensor":
            if "id" in plain:
                self.placed[plain["id"]] = (made, path)
        elif isinstance(value, dict):
            for key, item in value.items():
                self._place(made, (*path, key), item)
        elif isinstance(value, list) and plain.get("type") in ("list", "tuple"):
            for i, item in enumerate(value):
                self._place(made, (*path, i), item)

    def tensor(self, tensor):
        """What was made for a Tensor or a number."""
        number = tensor.number if isinstance(tensor, Tensor) else tensor
        if number not in self.placed:
            plain = self.described[number]
            is_view = plain.get("kind") == "view"
            made = self._view(plain) if is_view else self.input(plain, self.is_parameter(plain))
            self.placed[number] = (made, ())
        made, path = self.placed[number]
        if path:
            for key in path:
                made = self.item(made, key)
            made = self.part(made, self.described[number])
            self.placed[number] = (made, ())
        return made

    def item(self, made, key):
        return self.operator("getitem", (made, key))

    def part(self, made, plain):
        """`made` is a tensor in the result of a call."""
        return made

    def note_input(self, made, plain):
        """A backend made an input that is no parameter."""
        if plain.get("unseen"):
            maker, step = plain.get("maker"), plain["step"]
            by = f", made by call {maker['call']} of {maker['api']}" if maker else ""
            self.unseen.append(f"{made}, which call {step['call']} of {step['api']} takes{by}")

    def _check(self, number):
        """Raises Skip if the tensor can't be made."""
        if number in self.placed:
            return
        plain = self.described.get(number)
        if plain is None:
            raise Skip("a tensor that no recorded call made")
        if plain.get("kind") != "view":
            self.check_input(plain)
            return
        if not plain.get("same"):
            spec_of(plain)
        self._check(plain["base"])

    def _view(self, plain):
        base = self.tensor(plain["base"])
        gradient, same = plain.get("requires_grad", False), plain.get("same")
        if same and plain.get("subclass") == PARAMETERS[0]:
            # A Parameter made from a result, as in a module that the program builds.
            made = self.function(torch.nn.Parameter, "torch.nn.Parameter", (base, gradient))
            return self.named("v", made)
        if not gradient and not plain.get("other_dtype") and self._has_gradient(plain):
            # Taken by x.data or the like, which no call records.
            base = self.named("v", self.function(getattr, "getattr", (base, "data")))
        if same:
            return base
        spec = spec_of(plain)
        shape, shift = spec.shape, plain["shift"]
        stride = spec.stride or arguments.contiguous(shape)
        if plain.get("other_dtype"):
            storage = self.method("untyped_storage", (base,))
            like = {"dtype": spec.dtype, "device": spec.device}
            empty = self.function(torch.empty, "torch.empty", ((0,),), like)
            return self.named("v", self.method("set_", (empty, storage, shift, shape, stride)))
        places = (base, shape, stride)
        if shift:
            offset = self.method("storage_offset", (base,))
            places = (*places, self.operator("add", (offset, shift)))
        return self.named("v", self.function(torch.as_strided, "torch.as_strided", places))

    def _has_gradient(self, view):
        """Whether a view like it would have a gradient, if a call had made it from its base."""
        if self.operators or not self.gradients or not any(self.with_gradient.values()):
            return False
        if not any(kind in view["dtype"] for kind in ("float", "complex")):
            return False
        made = self.described[view["base"]].get("kind") is None
        return self.with_gradient.get(view["base"], made)

    def outcome(self, outcome):
        """(what to return, the call that made it, whether it is the outcome's best), or None."""
        for i, (value, call, whole) in enumerate(outcome["results"]):
            if whole and call in self.results:
                return self.results[call], call, i == 0
            if value in self.placed:
                return self.tensor(value), call, i == 0
        return None  # the calls that made them are left out


def spec_of(plain):
    """A tensor's description; raises Skip if it can't be read."""
    return Reader(None).parse(plain)


def read_step(names, reader, step):
    """(target, args, kwargs); raises Skip if a program can't have the call."""
    target = names.resolve(step["api"])
    return target, *read_arguments(reader(names), target, step)


def keep_step(names, reader, step):
    """Forgets the contents of results of a step that a program can make."""
    with contextlib.suppress(Skip):
        read_step(names, reader, step)
        for note in step.get("result_notes", ()):
            note.pop("contents", None)
    for source in step["sources"]:
        if "contents" in source:
            source["contents"] = bytes(source["contents"])
    return step


def few(items):
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return ", ".join(map(str, items[:3])) + more


UNSEEN = (
    "by nothing that was recorded at this level (a ScriptFunction, an operator of an extension, "
    "another library)"
)
