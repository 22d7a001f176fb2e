"""graph(): calls of a trace as a torch.fx.GraphModule. It imports torch.

The contents of a trace are data: names of functions are looked up in torch's own modules where
replay/names.py allows, and nothing is evaluated.
"""

import json
import numbers
import os
import warnings

import torch
import torch.fx
from torch.fx.passes import shape_prop

from torchtrace._load import native
from torchtrace._replay import arguments, names, program
from torchtrace._replay.names import Skip as _CannotWrite
from torchtrace._replay.program import PARAMETERS, tensors_in, tensors_taken


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
    steps, resolver = [], _names()

    def visit(text, contents):
        step = json.loads(text)
        # Marks for a profiler have no effect.
        if not step.get("mark"):
            program.take_contents(step, contents)
            steps.append(program.keep_step(resolver, _Builder.reader, step))

    threads = [] if thread is None else [str(thread)]
    told = native.read_flow(path, level, _numbers(calls), threads, visit, resolver.may_call)
    told = json.loads(told)
    if not steps:
        more = told["counted"] and "; " + told["counted"]
        raise ValueError(
            f"{path} has no calls of level {level} among those that were asked for{more}"
        )
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
    builder = _Builder(steps, modules if state is None else state, resolver)
    if modules is not None:
        builder.find_modules(dict(modules.named_modules()))
    module = builder.build(outputs, told["outcome"])
    left_out = dict.fromkeys(builder.left_out)
    if told["other_processes"]:
        left_out[f"{told['other_processes']} calls of other processes"] = None
    if left_out:
        warnings.warn("the graph lacks " + "; ".join(left_out), RuntimeWarning, stacklevel=2)
    return module


def _names():
    return names.Names(json.loads(native.call_rules()), names.IN_PROGRAM)


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


def _number(call):
    if isinstance(call, bool) or not isinstance(call, numbers.Integral):
        raise TypeError(f"calls: {call!r} is not a number of a call: expected an int")
    if call < 0:
        raise ValueError(f"calls: {call} is not a number of a call: they begin with 0")
    return int(call)


def _meta_tensor(plain):
    """A meta tensor with that description, or None."""
    shape, stride = plain["shape"], plain.get("stride")
    sizes = shape if stride is None else shape + stride
    known = shape is not None and all(type(size) is int and size >= 0 for size in sizes)
    if not known or "layout" in plain:
        return None
    try:
        dtype = arguments.DTYPES[plain["dtype"]]
        if stride is None:
            tensor = torch.empty(shape, dtype=dtype, device="meta")
        else:
            tensor = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    except (KeyError, RuntimeError):
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
    if isinstance(plain, dict) and plain.get("type") == "torch.Tensor":
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
    contents = source.get("contents")
    if contents is None or source.get("memory"):
        return False
    tensor = tensor.detach().cpu().contiguous()
    if tensor.numel() * tensor.itemsize != len(contents):
        return False
    if not len(contents):
        return True
    other = torch.frombuffer(bytearray(contents), dtype=torch.uint8)
    return torch.equal(tensor.reshape(-1).view(torch.uint8), other)


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


class _Builder(program.Program):
    reader = program.GraphReader

    def __init__(self, steps, state, resolver=None):
        self.state = _State(state)
        self.graph = torch.fx.Graph()
        self.first_modules = {}  # paths and classes around the step that first takes a tensor
        self.inside = {}  # module calls by the numbers of their steps
        self.root = {}  # attributes by name
        self.example_inputs = []
        self.last_input = None
        self.empty = 0
        self.left_out = []
        self.told = []  # warnings issued
        super().__init__(steps, resolver or _names())
        # Choose parameters first, before other tensors are taken for equal buffers.
        self.parameters = {
            number: self.state.choose(source, self.first_modules[number])
            for number, source in self.described.items()
            if self.is_parameter(source)
        }

    def _describe(self, step):
        super()._describe(step)
        for source in step["sources"]:
            self.first_modules[source["id"]] = [
                (module["path"], module["api"])
                for module in step["modules"]
                # The path of a root module begins with its class.
                if not module["path"].startswith(module["api"].rpartition(".")[2] + "_")
            ]

    def find_modules(self, known):
        """Groups the steps of each call of a leaf of the model's modules."""
        groups = {}
        takers = {}  # numbers of steps by tensor
        for i, step in enumerate(self.steps):
            for tensor in tensors_taken(step):
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
        self.make()
        if self.raising is not None:
            step = self.steps[-1]
            self._tell(f"call {step['call']} raised {step['raised']}, and so will the graph")
            self.graph.output(self.raising)
        elif outputs is None:
            self.graph.output(self._outcome(outcome))
        else:
            self._output(outputs)
        self.graph.lint()
        module = torch.fx.GraphModule(self.root, self.graph, "TracedCalls")
        module.meta["example_inputs"] = self.example_inputs
        self._warn()
        return module

    def _outcome(self, outcome):
        found = self.outcome(outcome)
        if found is None:
            why = "; ".join(list(dict.fromkeys(self.left_out))[:3])
            raise ValueError(
                "none of these calls returned a tensor that a graph can return"
                + (f"; it lacks {why}" if why else "")
            )
        node, call, is_best = found
        if is_best and outcome["asked"]:
            self._tell(
                "all that these calls made was used, if only by a test: the graph returns "
                f"what call {call} made; outputs= names another"
            )
        elif is_best and outcome["others"]:
            calls = outcome["others"]
            self._tell(
                f"the graph returns what call {call} made, and no call used that of "
                f"{program.few(calls)}: outputs={[*sorted([*calls, call])]} returns all"
            )
        return node

    def _output(self, outputs):
        single = not isinstance(outputs, (list, tuple))
        chosen = []
        for call in [outputs] if single else outputs:
            if call not in self.results:
                raise ValueError(
                    f"outputs: call {call!r} is none of the graph's; they are "
                    + ", ".join(map(str, list(self.results)[:20]))
                    + (", ..." if len(self.results) > 20 else "")
                )
            chosen.append(self.results[call])
        self.graph.output(chosen[0] if single else tuple(chosen))

    def _tell(self, text):
        self.told.append(text)

    def _warn(self):
        if self.unseen:
            self._tell(
                f"{program.few(self.unseen)}: made while these calls were, {program.UNSEEN}; "
                "inputs of the graph"
            )
        if self.empty:
            self._tell(
                f"the contents of {self.empty} parameters are not in the trace (values=...), and "
                "no state was given: they are on the meta device"
            )
        if self.state.unsure:
            self._tell(
                f"{len(self.state.unsure)} parameters that look alike ({self.state.unsure[0]} is "
                "the first) were matched by their order; record level 3 too, or values=..., to be "
                "sure"
            )
        for text in self.told:
            warnings.warn(text, RuntimeWarning, stacklevel=4)

    # What a Program's backend has.

    def function(self, function, name, args, kwargs=None):
        return self.graph.call_function(function, _plain(args), _plain(kwargs or {}))

    def method(self, name, args, kwargs=None):
        return self.graph.call_method(name, _plain(args), _plain(kwargs or {}))

    def leave_out(self, step, why):
        self.left_out.append(f"call {step['call']} of {step['api']}: {why}")

    def is_inside(self, step):
        inside = self.inside.get(step["call"])
        return inside is not None and step is not inside.last

    def make_step(self, step):
        call = self.inside.get(step["call"])
        if call is None:
            return self._call(step)
        self.root[call.path] = call.module
        self.set_modes(*call.modes)
        argument = self.tensor(call.argument)
        with warnings.catch_warnings():
            # The graph has no module yet that could contain the name.
            warnings.simplefilter("ignore")
            return self.graph.call_module(call.path, (argument,))

    def keep(self, made, step):
        made.meta["call"] = step["call"]
        result = step.get("result", [])
        # The values of an operator, or the single value of a function.
        metas = [_meta_of(value) for value in result]
        if any(True for _ in tensors_in(result)):
            made.meta["tensor_meta"] = metas[0] if len(metas) == 1 else tuple(metas)
            made.meta["type"] = torch.Tensor if len(result) == 1 and "id" in result[0] else tuple
        return made

    def part(self, made, plain):
        made.meta["tensor_meta"] = _tensor_meta(plain)
        return made

    def _view(self, plain):
        node = super()._view(plain)
        node.meta.setdefault("tensor_meta", _tensor_meta(plain))
        return node

    def check_input(self, plain):
        chosen = self.is_parameter(plain) and self.parameters[plain["id"]] is None
        if chosen and not self.state.given and _meta_tensor(plain) is None:
            raise _CannotWrite("a parameter of which the shape isn't known")

    def input(self, plain, is_parameter):
        if is_parameter:
            node = self._parameter(plain)
        else:
            modules = self.first_modules.get(plain["id"], [])
            node = self._attribute(self.state.choose_buffer(plain, modules))
            node = node or self._placeholder(plain)
        node.meta.setdefault("tensor_meta", _tensor_meta(plain))
        return node

    def _parameter(self, plain):
        chosen = self.parameters[plain["id"]]
        if chosen is not None and not chosen[2]:
            self.state.unsure.append(chosen[0])
        if chosen is None and self.state.given and self.operators:
            # For operators, a parameter looks like any other leaf.
            return self._placeholder(plain)
        if chosen is None and self.state.given:
            raise ValueError(
                f"state has no tensor of shape {plain['shape']} and {plain['dtype']} for a "
                f"parameter of the trace" + (", or too few of them" if self.state.tensors else "")
            )
        if chosen is None:
            tensor = _tensor_of(plain, plain.get("contents"))
            if tensor is None:
                tensor = _meta_tensor(plain)
                self.empty += 1
            if plain.get("subclass") != PARAMETERS[1]:
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

    def _placeholder(self, plain):
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
        self.note_input(node, plain)
        example = _tensor_of(plain, plain.get("contents"))
        if example is not None and plain.get("requires_grad") and not self.operators:
            example.requires_grad_()
        self.example_inputs.append(example)
        return node


def _plain(value):
    """A torch.Size is a tuple in a graph."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    return value


class _ModuleCall:
    """The steps of a leaf module's call: simple if it takes and returns one tensor."""

    def __init__(self, path, module, steps):
        self.path = path
        self.module = module
        self.last = steps[-1]
        autocasts = (program.autocast_of(step, step.get("result", ())) for step in steps)
        self.modes = self.last.get("gradients", True), next(filter(None, autocasts), None)
        self.argument = None
        made, taken = set(), []
        for step in steps:
            sources = {source["id"]: source for source in step["sources"]}
            for tensor in tensors_taken(step):
                plain = sources.get(tensor["id"], tensor)
                own = tensor.get("subclass") in PARAMETERS or plain.get("kind") == "view"
                if tensor["id"] not in made and not own and tensor["id"] not in taken:
                    taken.append(tensor["id"])
            made.update(tensor["id"] for tensor in tensors_in(step.get("result", [])))
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
