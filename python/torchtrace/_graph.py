"""graph(): calls of a trace as a torch.fx.GraphModule. It imports torch.

The contents of a trace are data: the reader checks names of functions (serialize/flow/target.h),
they are looked up in torch's own modules, and nothing is evaluated.
"""

import inspect
import json
import keyword
import numbers
import operator
import os
import types
import warnings

import torch
import torch.fx
from torch.amp import autocast_mode
from torch.fx.passes import shape_prop

from torchtrace._load import native

_PARAMETERS = ("torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
_OPERATORS = (
    "__getitem__ __setitem__ __delitem__ __neg__ __pos__ __invert__ __abs__ __eq__ __ne__ __lt__ "
    "__le__ __gt__ __ge__ __add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __pow__ "
    "__matmul__ __and__ __or__ __xor__ __lshift__ __rshift__ __iadd__ __isub__ __imul__ "
    "__itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__ __ilshift__ __irshift__"
).split()
# A call that only returned these has no effect on tensors; the program may have used them in its
# control flow.
_TOLD = (
    "bytes complex dict ellipsis float frozenset int list numpy.generic numpy.ndarray range set "
    "slice str torch.Size torch.device torch.dtype torch.layout torch.memory_format tuple type"
).split()
_TYPES = {
    "int": int,
    "float": float,
    "bool": bool,
    "complex": complex,
    "str": str,
    "torch.Tensor": torch.Tensor,
}


class _CannotWrite(Exception):
    """A graph can't contain it; with the reason."""


def graph(trace, calls=None, *, level=1, thread=None, state=None, modules=None, outputs=None):
    """The calls of a trace as a torch.fx.GraphModule.

    `trace` is a folder, a file or a closed Trace; it must be recorded with ids=True and
    outputs=True. `calls` are numbers as in `dump`, "120-180", (120, 180) or None for all. Of
    these, the graph has the outermost calls of `level` (1: functions and methods, 2: operators)
    and of `thread`.

    Parameters become attributes. `state`, a module or a mapping of names to tensors, provides
    them; without it, their contents come from the trace (values=...). All other tensors from
    outside are placeholders; GraphModule.meta["example_inputs"] has those whose contents were
    recorded.

    `modules`, the model whose modules level 3 recorded, turns calls of its torch.nn modules that
    have no submodules into nodes: call_module. It is also the state.

    `outputs` are the numbers of the calls whose results are returned. The default is the last
    value that no call used, preferably one that the program still had when recording ended."""
    if getattr(trace, "is_open", False):
        raise ValueError(f"{trace!r} is still written: graph() takes one that was closed")
    path = os.fspath(getattr(trace, "path", None) or trace)
    if level not in (0, 1, 2, 4):
        raise ValueError(f"level={level!r}: expected 0, 1, 2 or 4, which record calls of torch")
    steps = []

    def visit(text, contents, results):
        step = json.loads(text)
        # Marks for a profiler have no effect.
        if step.get("mark"):
            return
        for source, content in zip(step["sources"], contents, strict=True):
            source["contents"] = content
        # Results that a graph can't compute come from outside, as recorded.
        step["contents"] = None if _fits(step) else results
        steps.append(step)

    threads = [] if thread is None else [str(thread)]
    told = native.read_flow(path, level, _numbers(calls), threads, visit)
    if not steps:
        raise ValueError(f"{path} has no calls of level {level} among those that were asked for")
    missing = None
    if len(steps) > 1 and told["without_result"] and not any("result" in step for step in steps):
        missing = "what the calls returned"
    elif len(steps) > 1 and told["without_id"]:
        missing = f"which tensor is which, of {told['without_id']} that calls take,"
    if missing is not None:
        raise ValueError(
            f"{path}: {missing} is not in the trace: record it with outputs=True and ids=True "
            "(torchtrace run --outputs --ids)"
        )
    if modules is not None and not isinstance(modules, torch.nn.Module):
        raise TypeError("modules: expected a torch.nn.Module")
    builder = _Builder(steps, modules if state is None else state)
    if modules is not None:
        builder.find_modules(dict(modules.named_modules()))
    module = builder.build(outputs, told["outcome"])
    left_out = dict.fromkeys(builder.left_out)
    if told["other_processes"]:
        left_out[f"{told['other_processes']} calls of other processes"] = None
    if left_out:
        warnings.warn("the graph lacks " + "; ".join(left_out), RuntimeWarning, stacklevel=2)
    return module


def _numbers(calls):
    """`calls` as --calls takes it; empty for all."""
    if calls is None:
        return ""
    if isinstance(calls, str):
        if not calls.strip():
            raise ValueError("calls='' has no numbers: expected some, or None for all calls")
        return calls
    if isinstance(calls, (int, numbers.Integral)):
        return str(_number(calls))
    if not isinstance(calls, (list, tuple, range, set, frozenset)):
        raise TypeError(
            f'calls={calls!r}: expected None, a number, a text like "120-180", (first, last), a '
            "list, a set or a range"
        )
    if isinstance(calls, tuple) and len(calls) == 2:
        first, last = map(_number, calls)
        if first > last:
            raise ValueError(f"calls={calls!r}: the first call comes after the last one")
        return f"{first}-{last}"
    if not calls:
        raise ValueError(f"calls={calls!r} has no numbers: expected some, or None for all calls")
    if isinstance(calls, range) and calls.step == 1:
        return f"{_number(calls[0])}-{calls[-1]}"
    return ",".join(str(_number(number)) for number in calls)


def _few(items):
    more = f" and {len(items) - 3} more" if len(items) > 3 else ""
    return ", ".join(map(str, items[:3])) + more


def _number(call):
    if isinstance(call, bool) or not isinstance(call, numbers.Integral):
        raise TypeError(f"calls: {call!r} is no number of a call: expected an int")
    if call < 0:
        raise ValueError(f"calls: {call} is no number of a call: they begin with 0")
    return int(call)


def _is_tensor(plain):
    return plain.get("type") == "torch.Tensor"


def _tensors(plain):
    """The descriptions of tensors in a value, at any depth."""
    if isinstance(plain, list):
        for item in plain:
            yield from _tensors(item)
    elif isinstance(plain, dict):
        if _is_tensor(plain):
            if "id" in plain:
                yield plain
            return
        value = plain.get("value")
        yield from _tensors(list(value.values()) if isinstance(value, dict) else value)


def _only_tells(plain):
    """Whether a result has neither tensors nor objects."""
    if isinstance(plain, dict):
        if plain.get("type") not in _TOLD:
            return False
        value = plain.get("value")
        if isinstance(value, dict):
            value = list(value.values())
        return not isinstance(value, list) or all(
            item is None or _only_tells(item) for item in value
        )
    if isinstance(plain, list):
        return all(item is None or _only_tells(item) for item in plain)
    return plain is not None


def _named(kind, name):
    """torch.float32 and the like."""
    found = vars(torch).get(str(name).removeprefix("torch."))
    if not isinstance(found, kind):
        raise _CannotWrite(f"this torch has no {name}")
    return found


def _device(name):
    try:
        return torch.device(name)
    except RuntimeError:
        raise _CannotWrite(f"this torch has no device {name}") from None


def _function(name):
    """A function of torch by its dotted name, found without running code."""
    thing = torch
    for part in name.split(".")[1:]:
        if isinstance(thing, types.ModuleType):
            if thing.__name__.partition(".")[0] != "torch":
                raise _CannotWrite(f"{name} is not torch's own")
            # torch._VF creates its members on access.
            thing = getattr(thing, part, None) if thing is torch._VF else vars(thing).get(part)
        elif isinstance(thing, type):
            thing = inspect.getattr_static(thing, part, None)
        else:
            thing = None
    if not callable(thing) or isinstance(thing, types.ModuleType):
        raise _CannotWrite(f"this torch has no {name}")
    return thing


def _is_keyword_name(name):
    return name.isidentifier() and not keyword.iskeyword(name) and name != "__debug__"


def _overload(name):
    thing = torch.ops
    for part in name.split(".")[2:]:
        try:
            thing = getattr(thing, part)
        except AttributeError:
            raise _CannotWrite(f"this torch has no {name}") from None
    return thing


def _meta_tensor(plain):
    """A meta tensor with that description, or None."""
    shape, stride = plain["shape"], plain.get("stride")
    sizes = shape if stride is None else shape + stride
    known = shape is not None and all(type(size) is int and size >= 0 for size in sizes)
    if not known or "layout" in plain:
        return None
    try:
        dtype = _named(torch.dtype, plain["dtype"])
        if stride is None:
            tensor = torch.empty(shape, dtype=dtype, device="meta")
        else:
            tensor = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    except (_CannotWrite, RuntimeError):
        return None
    # A trace has no scale and zero point.
    return None if tensor.is_quantized else tensor


def _tensor_meta(plain):
    """The value that ShapeProp puts into node.meta["tensor_meta"]."""
    tensor = _meta_tensor(plain)
    if tensor is None:
        return None
    meta = shape_prop._extract_tensor_metadata(tensor)
    return meta._replace(requires_grad=plain.get("requires_grad", False))


def _meta_of(plain):
    if isinstance(plain, dict) and _is_tensor(plain):
        return _tensor_meta(plain)
    if isinstance(plain, dict) and plain.get("type") in ("list", "tuple"):
        return tuple(_meta_of(item) for item in plain["value"])
    return None


def _tensor_of(plain, contents):
    """A tensor with recorded contents and the recorded strides; None if not possible."""
    like = _meta_tensor(plain)
    if like is None:
        return None
    extent, count = like.untyped_storage().nbytes() // like.itemsize, like.numel()
    if count == 0:
        contents = b""
    told = extent if plain.get("memory") else count
    if contents is None or len(contents) != told * like.itemsize:
        return None
    tensor = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
    if count:
        data = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        data = data.zero_().view(extent, like.itemsize)
        values = torch.frombuffer(bytearray(contents), dtype=torch.uint8).view(told, like.itemsize)
        if told == extent and (plain.get("memory") or tensor.is_contiguous()):
            data.copy_(values)
        else:
            # Several elements may share a place in memory.
            data[torch.arange(extent).as_strided(like.shape, like.stride()).reshape(-1)] = values
    device = torch.device(plain["device"])
    if device.type != "cpu":
        try:
            tensor = tensor.to(device)
        except (RuntimeError, AssertionError):
            pass  # the device doesn't exist here
    return tensor


def _same_bits(tensor, source):
    contents = source["contents"]
    if contents is None or source.get("memory"):
        return False
    tensor = tensor.detach().cpu().contiguous()
    if tensor.numel() * tensor.itemsize != len(contents):
        return False
    if not len(contents):
        return True
    other = torch.frombuffer(bytearray(contents), dtype=torch.uint8)
    return torch.equal(tensor.reshape(-1).view(torch.uint8), other)


def _checked(plain):
    """The argument, with descriptions for its tensors; raises if it can't be written."""
    if plain is None or isinstance(plain, (bool, int, float, str)):
        return plain
    kind = plain.get("type")
    if "cut" in plain:
        raise _CannotWrite("an argument was cut when it was recorded")
    if _is_tensor(plain):
        if plain.get("defined") is False:
            return None
        return _Tensor(plain["id"])
    value = plain.get("value")
    if kind in ("list", "tuple", "torch.Size", "slice", "range", "set", "frozenset"):
        items = [_checked(item) for item in value]
        if kind in ("set", "frozenset"):
            raise _CannotWrite("an argument is a set, which a graph can't hold")
        if kind in ("slice", "range"):
            return {"slice": slice, "range": range}[kind](*items)
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        pairs = value.items() if isinstance(value, dict) else value
        return {_checked(k): _checked(v) for k, v in pairs}
    if kind == "ellipsis":
        return ...
    if kind == "complex":
        return complex(*(_checked(part) for part in value))
    if kind == "float":
        return float(value)
    if kind == "int" and len(value) < 1000:
        return int(value)
    if kind == "torch.dtype":
        return _named(torch.dtype, value)
    if kind == "torch.layout":
        return _named(torch.layout, value)
    if kind == "torch.memory_format":
        return _named(torch.memory_format, value)
    if kind == "torch.device":
        return _device(value)
    if kind == "type" and value in _TYPES:
        return _TYPES[value]
    if kind == "object":
        raise _CannotWrite(f"an argument is an object of a type that only the program has: {value}")
    raise _CannotWrite(f"an argument is of a kind that a graph can't hold: {kind}")


def _arguments(step):
    """(args, kwargs), with descriptions for tensors; raises if they can't be written."""
    args = [_checked(arg) for arg in step["args"]]
    kwargs = {key: _checked(value) for key, value in step["kwargs"].items()}
    # They become keywords in the module's code.
    if not all(_is_keyword_name(name) for name in kwargs):
        raise _CannotWrite("an argument's name that Python doesn't take")
    if "cdata" in kwargs:
        raise _CannotWrite("memory by its address")
    of_tensor = step["target"]["kind"] in ("method", "getter", "setter")
    if of_tensor and not (args and isinstance(args[0], _Tensor)):
        raise _CannotWrite("a method without its tensor")
    return args, kwargs


def _fits(step):
    """Whether a graph can contain the call, as far as its description shows."""
    try:
        _arguments(step)
    except _CannotWrite:
        return False
    return step["target"]["kind"] != "refused"


class _State:
    """Tensors by name, the source of parameters."""

    def __init__(self, state):
        if isinstance(state, torch.nn.Module):
            self.tensors = dict(state.named_parameters())
            self.buffers = dict(state.named_buffers())
        else:
            self.tensors = {} if state is None else dict(state)
            self.buffers = {}
            for name, tensor in self.tensors.items():
                if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
                    raise TypeError("state: expected a torch.nn.Module, or tensors by their names")
        self.given = state is not None
        self.taken = set()
        self.unsure = []

    def choose(self, source, modules):
        """(name, tensor, whether the choice is certain) for a parameter, or None."""
        names = self._alike(self.tensors, source)
        if not names:
            return None
        same = [name for name in names if _same_bits(self.tensors[name], source)]
        names, api = _nearest(same or names, modules)
        self.taken.add(names[0])
        # Tensors of equal shape in one of torch's own modules, such as a weight and a bias, are
        # used in the order of their definition.
        sure = len(names) == 1 or bool(same) or api.startswith("torch.nn.")
        return names[0], self.tensors[names[0]], sure

    def choose_buffer(self, source, modules):
        """(name, tensor) of a plain tensor: only its contents identify it."""
        for tensors in (self.buffers, self.tensors):
            names = self._alike(tensors, source)
            names = [name for name in names if _same_bits(tensors[name], source)]
            if names:
                name = _nearest(names, modules)[0][0]
                self.taken.add(name)
                return name, tensors[name]
        return None

    def _alike(self, tensors, source):
        fitting = [name for name, tensor in tensors.items() if _is_like(tensor, source)]
        return [name for name in fitting if name not in self.taken]


def _nearest(names, modules):
    """The names in the innermost module around a first use that has one of them, and its class."""
    for path, api in reversed([("", ""), *modules]):
        inside = [name for name in names if name.rpartition(".")[0] == path]
        if inside:
            return inside, api
    return names, ""


def _is_like(tensor, source):
    return list(tensor.shape) == source["shape"] and str(tensor.dtype) == source["dtype"]


class _Builder:
    def __init__(self, steps, state):
        self.steps = steps
        self.operators = steps[0]["level"] in (2, 4)
        self.state = _State(state)
        self.graph = torch.fx.Graph()
        self.nodes = {}  # by number of the tensor
        self.described = {}  # descriptions of tensors in the trace, by number
        self.first_modules = {}  # paths and classes around the step that first takes a tensor
        self.parameters = {}  # the choices from the state, by number of the tensor
        self.with_gradient = {}  # whether calls take a tensor with one, for the tensors taken
        self.inside = {}  # module calls by the numbers of their steps
        self.root = {}  # attributes by name
        self.example_inputs = []
        self.last_input = None
        self.gradients = True
        self.autocast = None  # its device and dtype, and the node that began it
        self.empty = 0
        self.left_out = []
        self.told = []  # warnings issued
        self.unseen = []  # inputs that appeared between the calls
        for step in steps:
            self._describe(step)
        for number, source in [*self.described.items()]:
            base = self.described.get(source.get("base"), {})
            parameter = source.get("same") and source.get("subclass") == _PARAMETERS[0]
            if parameter and base.get("kind") == "input" and not self._is_parameter(base):
                # Its data was taken before it became a parameter.
                whole = {key: base.get(key) for key in ("contents", "memory")}
                self.described[number] = {**source, **whole, "kind": "input"}
                view = {"kind": "view", "base": number, "shift": 0, "same": True}
                self.described[base["id"]] = {**base, **view}
        # Choose parameters first, before other tensors are taken for equal buffers.
        for number, source in self.described.items():
            if self._is_parameter(source):
                chosen = self.state.choose(source, self.first_modules[number])
                self.parameters[number] = chosen

    def _describe(self, step):
        for source in step["sources"]:
            self.described[source["id"]] = source
            source["taken"] = f"call {step['call']} of {step['api']}"
            self.first_modules[source["id"]] = [
                (module["path"], module["api"])
                for module in step["modules"]
                # The path of a root module begins with its class.
                if not module["path"].startswith(module["api"].rpartition(".")[2] + "_")
            ]
        for tensor in _tensors([step["args"], list(step["kwargs"].values())]):
            has = self.with_gradient.get(tensor["id"], False) or tensor.get("requires_grad", False)
            self.with_gradient[tensor["id"]] = has

    def find_modules(self, known):
        """Groups the steps of each call of a leaf of the model's modules."""
        groups = {}
        takers = {}  # numbers of steps by tensor
        for i, step in enumerate(self.steps):
            for tensor in _tensors([step["args"], list(step["kwargs"].values())]):
                takers.setdefault(tensor["id"], set()).add(i)
            if not step["modules"]:
                continue
            module = step["modules"][-1]
            leaf = known.get(module["path"])
            if (
                module["api"].startswith("torch.nn.")
                and leaf is not None
                and not [*leaf.children()]
            ):
                groups.setdefault(module["call"], (module["path"], leaf, []))[2].append(i)
        for path, leaf, steps in groups.values():
            call = _ModuleCall(path, leaf, [self.steps[i] for i in steps])
            call.leave_out_buffers(self.described)
            if call.is_simple({t for t, users in takers.items() if users - set(steps)}):
                self.inside.update(dict.fromkeys((self.steps[i]["call"] for i in steps), call))

    def build(self, outputs, outcome):
        results = {}
        raising = None
        for step in self.steps:
            # A graph can't continue after it.
            raised = "raised" in step
            if raised and step is not self.steps[-1]:
                self.left_out.append(f"call {step['call']} of {step['api']}, which raised")
                continue
            result = step.get("result", [])
            for tensor in _tensors(result):
                self.described.setdefault(tensor["id"], {**tensor, "contents": None})
            if "result" in step and result and all(map(_only_tells, result)):
                continue
            inside = self.inside.get(step["call"])
            if inside is not None and step is not inside.last:
                continue
            try:
                node = self._call(step) if inside is None else self._call_module(inside)
            except _CannotWrite as why:
                self.left_out.append(f"call {step['call']} of {step['api']}: {why}")
                # Its results come from outside.
                tensors = list(_tensors(result))
                contents = step["contents"] or [None] * len(tensors)
                for tensor, content in zip(tensors, contents, strict=True):
                    self.nodes.pop(tensor["id"], None)
                    self.described[tensor["id"]] = {**tensor, "contents": content}
                continue
            # The shape of a tensor that it wrote to may have changed.
            for tensor in _tensors(result):
                self.described[tensor["id"]] = {**tensor, "contents": None}
            self._bind(node, step)
            results[step["call"]] = node
            if raised:
                self._tell(f"call {step['call']} raised {step['raised']}: so does the graph")
                raising = node
        self._set_modes({})
        if raising is not None:
            self.graph.output(raising)
        elif outputs is None:
            self.graph.output(self._outcome(outcome, results))
        else:
            self._output(outputs, results)
        self.graph.lint()
        module = torch.fx.GraphModule(self.root, self.graph, "TracedCalls")
        module.meta["example_inputs"] = self.example_inputs
        self._warn()
        return module

    def _outcome(self, outcome, results):
        for i, (value, call, whole) in enumerate(outcome["results"]):
            if whole and call in results:
                node = results[call]
            elif value in self.nodes:
                node = self._tensor(value)
            else:
                continue  # the call that made it is left out
            if i == 0 and outcome["asked"]:
                self._tell(
                    "all that these calls made was used, if only by a test: the graph returns "
                    f"what call {call} made; outputs= names another"
                )
            elif i == 0 and outcome["others"]:
                calls = outcome["others"]
                self._tell(
                    f"the graph returns what call {call} made, and no call used that of "
                    f"{_few(calls)}: outputs={[*sorted([*calls, call])]} returns all"
                )
            return node
        why = "; ".join(list(dict.fromkeys(self.left_out))[:3])
        raise ValueError(
            "none of these calls returned a tensor that a graph can return"
            + (f"; it lacks {why}" if why else "")
        )

    def _output(self, outputs, results):
        single = not isinstance(outputs, (list, tuple))
        chosen = []
        for call in [outputs] if single else outputs:
            if call not in results:
                raise ValueError(
                    f"outputs: call {call!r} is none of the graph's; they are "
                    + ", ".join(map(str, list(results)[:20]))
                    + (", ..." if len(results) > 20 else "")
                )
            chosen.append(results[call])
        self.graph.output(chosen[0] if single else tuple(chosen))

    def _tell(self, text):
        self.told.append(text)

    def _warn(self):
        if self.unseen:
            self._tell(
                f"{_few(self.unseen)}: made while these calls were, by nothing that was recorded "
                "at this level (a ScriptFunction, an operator of an extension, another library); "
                "inputs of the graph"
            )
        for text in self.told:
            warnings.warn(text, RuntimeWarning, stacklevel=4)
        if self.empty:
            warnings.warn(
                f"the contents of {self.empty} parameters are not in the trace (values=...), and "
                "no state was given: they are on the meta device",
                RuntimeWarning,
                stacklevel=4,
            )
        if self.state.unsure:
            warnings.warn(
                f"which parameter of several alike is which was told by their order for "
                f"{len(self.state.unsure)}, {self.state.unsure[0]} the first; record level 3 too, "
                "or values=..., to know it",
                RuntimeWarning,
                stacklevel=4,
            )

    def _call(self, step):
        target = step["target"]
        kind, name = target["kind"], target["name"]
        if kind == "refused":
            raise _CannotWrite(name)
        # Check before any node is made.
        args, kwargs = _arguments(step)
        if kind == "function":
            function = _function(name)
        elif kind == "overload":
            function = _overload(name)
        self._set_modes(step)
        args = tuple(self._value(arg) for arg in args)
        kwargs = {key: self._value(value) for key, value in kwargs.items()}
        if kind in ("function", "overload"):
            return self.graph.call_function(function, args, kwargs)
        if kind == "getter":
            return self.graph.call_function(getattr, (args[0], name))
        if kind == "setter":
            return self.graph.call_function(setattr, (args[0], name, *args[1:]))
        if name in _OPERATORS and not kwargs:
            return self.graph.call_function(getattr(operator, name), args)
        plain = f"__{name[3:]}"
        if name.startswith("__r") and plain in _OPERATORS and len(args) == 2 and not kwargs:
            return self.graph.call_function(getattr(operator, plain), args[::-1])
        return self.graph.call_method(name, args, kwargs)

    def _set_modes(self, step):
        # Operators were recorded below autograd and autocast, so the modes don't affect them.
        if self.operators:
            return
        gradients = step.get("gradients", True)
        if gradients != self.gradients:
            self.gradients = gradients
            self.graph.call_function(torch._C._set_grad_enabled, (gradients,))
        autocast = step.get("autocast")
        if self.autocast is not None and self.autocast[0] != autocast:
            self.graph.call_function(autocast_mode._exit_autocast, (self.autocast[1],))
            self.autocast = None
        if self.autocast is None and autocast is not None:
            device, dtype = autocast
            modes = (device, _named(torch.dtype, dtype), True, None)
            node = self.graph.call_function(autocast_mode._enter_autocast, modes)
            self.autocast = autocast, node

    def _call_module(self, call):
        self.root[call.path] = call.module
        self._set_modes(call.modes)
        argument = self._tensor(call.argument)
        with warnings.catch_warnings():
            # The graph has no module yet that could contain the name.
            warnings.simplefilter("ignore")
            return self.graph.call_module(call.path, (argument,))

    def _bind(self, node, step):
        """Binds the results of a call to the node, for later calls that take them."""
        node.meta["call"] = step["call"]
        if "result" not in step:
            return
        result = step["result"]
        # The values of an operator, or the single value of a function.
        metas = [_meta_of(value) for value in result]
        meta = metas[0] if len(metas) == 1 else tuple(metas)
        if any(True for _ in _tensors(result)):
            node.meta["tensor_meta"] = meta
            node.meta["type"] = torch.Tensor if len(result) == 1 and "id" in result[0] else tuple
        if len(result) == 1:
            self._bind_value(node, (), result[0])
        else:
            for i, value in enumerate(result):
                self._bind_value(node, (i,), value)

    def _bind_value(self, node, path, plain):
        if not isinstance(plain, dict):
            return
        if _is_tensor(plain):
            if "id" in plain:
                self.nodes[plain["id"]] = (node, path) if path else node
            return
        value = plain.get("value")
        if isinstance(value, dict):
            for key, item in value.items():
                self._bind_value(node, (*path, key), item)
        elif isinstance(value, list) and plain.get("type") in ("list", "tuple"):
            for i, item in enumerate(value):
                self._bind_value(node, (*path, i), item)

    def _tensor(self, number):
        found = self.nodes.get(number)
        if isinstance(found, tuple):
            node, path = found
            for key in path:
                node = self.graph.call_function(operator.getitem, (node, key))
            node.meta["tensor_meta"] = _tensor_meta(self.described[number])
            found = self.nodes[number] = node
        if found is None:
            found = self.nodes[number] = self._source(number)
        return found

    def _source(self, number):
        plain = self.described[number]
        if plain.get("kind") == "view":
            node = self._view(plain)
        elif self._is_parameter(plain):
            node = self._parameter(plain)
        else:
            modules = self.first_modules.get(number, [])
            node = self._attribute(self.state.choose_buffer(plain, modules)) or self._input(plain)
        node.meta.setdefault("tensor_meta", _tensor_meta(plain))
        return node

    def _is_parameter(self, plain):
        if plain.get("kind") != "input":
            return False
        # Operators are recorded without Python's subclasses.
        by_gradient = self.operators and plain.get("requires_grad")
        return by_gradient or plain.get("subclass") in _PARAMETERS

    def _view(self, plain):
        base = self._tensor(plain["base"])
        gradient = plain.get("requires_grad", False)
        if plain.get("same") and plain.get("subclass") == _PARAMETERS[0]:
            # A Parameter made from a result, as in a module that the program builds.
            return self.graph.call_function(torch.nn.Parameter, (base, gradient))
        if not gradient and not plain.get("other_dtype") and self._has_gradient(plain):
            # Taken by x.data or the like, which no call records.
            base = self.graph.call_function(getattr, (base, "data"))
        if plain.get("same"):
            return base
        graph, shape = self.graph, tuple(plain["shape"])
        like = _meta_tensor(plain)
        if like is None:
            raise _CannotWrite("a view of which the shape isn't known")
        stride = like.stride()
        if plain.get("other_dtype"):
            storage = graph.call_method("untyped_storage", (base,))
            empty = graph.call_function(
                torch.empty, ((0,),), {"dtype": like.dtype, "device": _device(plain["device"])}
            )
            return graph.call_method("set_", (empty, storage, plain["shift"], shape, stride))
        if not plain["shift"]:
            return graph.call_function(torch.as_strided, (base, shape, stride))
        offset = graph.call_method("storage_offset", (base,))
        offset = graph.call_function(operator.add, (offset, plain["shift"]))
        return graph.call_function(torch.as_strided, (base, shape, stride, offset))

    def _has_gradient(self, view):
        """Whether a view like it would have a gradient, if a call had made it from its base."""
        if self.operators or not self.gradients or not any(self.with_gradient.values()):
            return False
        if not any(kind in view["dtype"] for kind in ("float", "complex")):
            return False
        made = self.described[view["base"]].get("kind") is None
        return self.with_gradient.get(view["base"], made)

    def _parameter(self, plain):
        chosen = self.parameters[plain["id"]]
        if chosen is not None and not chosen[2]:
            self.state.unsure.append(chosen[0])
        if chosen is None and self.state.given and self.operators:
            # For operators, a parameter looks like any other leaf.
            return self._input(plain)
        if chosen is None and self.state.given:
            raise ValueError(
                f"state has no tensor of shape {plain['shape']} and {plain['dtype']} for a "
                f"parameter of the trace" + (", or too few of them" if self.state.tensors else "")
            )
        if chosen is None:
            tensor = _tensor_of(plain, plain["contents"])
            if tensor is None:
                tensor = _meta_tensor(plain)
                self.empty += 1
            if tensor is None:
                raise _CannotWrite("a parameter of which the shape isn't known")
            if plain.get("subclass") != _PARAMETERS[1]:
                tensor = torch.nn.Parameter(tensor, requires_grad=plain.get("requires_grad", False))
            chosen = (f"param_{len(self.root)}", tensor)
        return self._attribute(chosen[:2])

    def _attribute(self, chosen):
        if chosen is None:
            return None
        name, tensor = chosen
        self.root[name] = tensor
        with warnings.catch_warnings():
            # The graph has no module yet that could contain the name.
            warnings.simplefilter("ignore")
            return self.graph.get_attr(name)

    def _input(self, plain):
        count = len(self.example_inputs)
        name = f"x_{count}" if count else "x"
        place = (
            self.graph.inserting_before(None)
            if self.last_input is None
            else self.graph.inserting_after(self.last_input)
        )
        with place:
            node = self.last_input = self.graph.placeholder(name, type_expr=torch.Tensor)
        node.meta["type"] = torch.Tensor
        if plain.get("unseen"):
            maker = plain.get("maker")
            made = f", made by call {maker['call']} of {maker['api']}" if maker else ""
            self.unseen.append(f"{name}, which {plain['taken']} takes{made}")
        example = _tensor_of(plain, plain["contents"])
        if example is not None and plain.get("requires_grad") and not self.operators:
            example.requires_grad_()
        self.example_inputs.append(example)
        return node

    def _value(self, checked):
        if isinstance(checked, _Tensor):
            return self._tensor(checked.number)
        if type(checked) in (list, tuple):
            return type(checked)(self._value(item) for item in checked)
        if type(checked) is slice:
            return slice(*map(self._value, (checked.start, checked.stop, checked.step)))
        if type(checked) is dict:
            return {key: self._value(value) for key, value in checked.items()}
        return checked


class _ModuleCall:
    """The steps of a leaf module's call: simple if it takes and returns one tensor."""

    def __init__(self, path, module, steps):
        self.path = path
        self.module = module
        self.last = steps[-1]
        self.modes = {
            "gradients": self.last.get("gradients", True),
            "autocast": next((step["autocast"] for step in steps if "autocast" in step), None),
        }
        self.argument = None
        made, taken = set(), []
        for step in steps:
            sources = {source["id"]: source for source in step["sources"]}
            for tensor in _tensors([step["args"], list(step["kwargs"].values())]):
                plain = sources.get(tensor["id"], tensor)
                own = tensor.get("subclass") in _PARAMETERS or plain.get("kind") == "view"
                if tensor["id"] not in made and not own and tensor["id"] not in taken:
                    taken.append(tensor["id"])
            made.update(tensor["id"] for tensor in _tensors(step.get("result", [])))
        self.taken, self.made = taken, made
        self.whole = all("result" in step for step in steps)

    def leave_out_buffers(self, described):
        """Leaves out the plain tensors from outside that are the module's buffers."""
        for buffer in self.module.buffers(recurse=False):
            alike = [
                described[number]
                for number in self.taken
                if described.get(number, {}).get("kind") == "input"
                and _is_like(buffer, described[number])
            ]
            own = next((plain for plain in alike if _same_bits(buffer, plain)), None)
            if own is None and alike:
                own = alike[-1]
            if own is not None:
                self.taken.remove(own["id"])
                self.made.discard(own["id"])

    def is_simple(self, taken_outside):
        result = self.last.get("result", [])
        if not self.whole or len(self.taken) != 1 or len(result) != 1:
            return False
        if not isinstance(result[0], dict) or "id" not in result[0]:
            return False
        self.argument = self.taken[0]
        # In place, the result is the argument.
        return (self.made & taken_outside) - {self.argument} <= {result[0]["id"]}


class _Tensor:
    """A tensor's place in an argument."""

    def __init__(self, number):
        self.number = number
