"""Calls as Python code: `torchtrace export python`, `fx` and `pytest`.

A trace is untrusted: names are those that torch has and names.py allows, strings are quoted in
ASCII, and what has no form here is left out with a reason.
"""

import base64
import json
import keyword
import math
import os
import sys

import torch

from . import arguments, names, program, results, worker
from .names import Skip

# APIs whose integer tensors are indices into their other tensors.
_TAKE_INDICES = (
    "gather scatter index embedding take put nll_loss cross_entropy __getitem__ __setitem__ "
    "one_hot bincount unpool"
).split()
_BUILT_IN = (
    "ArithmeticError AssertionError AttributeError FloatingPointError IndexError KeyError "
    "LookupError MemoryError NotImplementedError OverflowError RuntimeError TypeError ValueError "
    "ZeroDivisionError"
).split()
_MOST_COMMENT = 160
_MOST_ID = 120
# A floating-point tensor with more bytes is a case without its contents.
_MOST_CONTENTS = 4096


class Text(str):
    """An expression."""


def quoted(text):
    """A literal of ASCII, without control characters."""

    def escaped(c):
        return "\\" + c if c in '"\\' else c if " " <= c < "\x7f" else f"\\U{ord(c):08x}"

    return '"' + "".join(map(escaped, text)) + '"'


def shortened(text, most):
    return text[:most] + "..." if len(text) > most else text


def items_of(items):
    return ", ".join(map(text_of, items))


def tuple_of(items):
    return f"({items_of(items)}{',' if len(items) == 1 else ''})"


def text_of(value):
    kind = type(value)
    if kind is Text:
        return str(value)
    writer = _WRITERS.get(kind)
    if writer is not None:
        return writer(value)
    for name, plain in arguments.TYPES.items():
        if value is plain:
            return name
    raise Skip(f"an argument is of a kind that can't be written: {kind.__name__}")


def _float(value):
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def _set(value):
    return "{" + items_of(value) + "}" if value else ""


def _dict(value):
    return "{" + ", ".join(f"{text_of(key)}: {text_of(one)}" for key, one in value.items()) + "}"


_WRITERS = {
    **dict.fromkeys((type(None), bool, int, bytes), repr),
    **dict.fromkeys((torch.dtype, torch.layout, torch.memory_format), str),
    float: _float,
    complex: lambda value: f"complex({_float(value.real)}, {_float(value.imag)})",
    str: quoted,
    list: lambda value: f"[{items_of(value)}]",
    tuple: tuple_of,
    set: lambda value: _set(value) or "set()",
    frozenset: lambda value: f"frozenset({_set(value)})",
    torch.Size: lambda value: f"torch.Size([{items_of(value)}])",
    dict: _dict,
    slice: lambda value: f"slice({items_of((value.start, value.stop, value.step))})",
    range: lambda value: f"range({items_of((value.start, value.stop, value.step))})",
    type(...): lambda value: "Ellipsis",
    torch.device: lambda value: f"torch.device({quoted(str(value))})",
    arguments.GeneratorSpec: lambda value: (
        f"torch.Generator({quoted(str(value.device))}).manual_seed(0)"
    ),
}


def index_of(value):
    """What stands in the brackets of a subscript."""

    def one(part):
        if part is ...:
            return "..."
        if type(part) is not slice:
            return text_of(part)
        ends = [part.start, part.stop, *([] if part.step is None else [part.step])]
        return ":".join("" if end is None else text_of(end) for end in ends)

    if type(value) is not tuple or not value:
        return one(value)
    return ", ".join(map(one, value)) + ("," if len(value) == 1 else "")


def callee(name):
    place, _, last = name.rpartition(".")
    # As in aten::random_.from.
    return f"getattr({place}, {quoted(last)})" if keyword.iskeyword(last) else name


def autocast_text(autocast):
    device, dtype = autocast
    return f"torch.autocast({quoted(device)}, dtype={dtype})"


def tensor_text(spec, config, memory=False):
    """`tensor((2, 3), torch.float32, high=9)`. It draws numbers in the recorded range or, without
    one, in a range that suits the other tensors of the call."""
    dtype = str(spec.dtype)
    if spec.layout != torch.strided:
        raise Skip("a tensor that isn't strided")
    if dtype.startswith(("torch.q", "torch.bits")):
        raise Skip("a quantised tensor")
    text = f"tensor({tuple_of(spec.shape)}, {dtype}"
    if spec.stride is not None:
        text += f", stride={tuple_of(spec.stride)}"
    if str(spec.device) != "cpu":
        text += f", device={quoted(str(spec.device))}"
    integers = "int" in dtype
    if spec.contents:
        contents = base64.b64encode(spec.contents).decode()
        text += f', {"memory" if memory else "contents"}="{contents}"'
    elif spec.range is not None and (integers or spec.dtype == torch.bool):
        text += f", low={spec.range[0]}, high={spec.range[1]}"
    elif integers and any(part in config["api"] for part in _TAKE_INDICES):
        own = (list(spec.shape), dtype)
        shapes = [(each["shape"], each["dtype"]) for each in program.tensors_taken(config)]
        others = [shape for shape, of in shapes if (shape, of) != own]
        sizes = [size for shape in others for size in shape or () if type(size) is int and size > 0]
        text += f", low=0, high={min(sizes) - 1 if sizes else 1}"
    return text + ")"


class Expressions:
    """Calls as expressions; with `statements`, also as `x[0] = 1`."""

    statements = False

    def function(self, function, name, args, kwargs=None):
        if function is getattr:
            return Text(f"{args[0]}.{args[1]}")
        if function is setattr and self.statements:
            return Text(f"{args[0]}.{args[1]} = {text_of(args[2])}")
        place, _, last = name.rpartition(".")
        if place == "operator":
            sign = program.SIGNS.get(last.rstrip("_"))
            if sign is not None:
                return Text(f"{self._operand(args[0])} {sign} {self._operand(args[1])}")
            if last == "getitem":
                return Text(f"{args[0]}[{index_of(args[1])}]")
            if last == "setitem" and self.statements:
                return Text(f"{args[0]}[{index_of(args[1])}] = {text_of(args[2])}")
            if last != "setitem":
                return self.method(f"__{last}__", args)
        return Text(f"{callee(name)}({self._arguments(args, kwargs)})")

    def method(self, name, args, kwargs=None):
        return Text(f"{args[0]}.{name}({self._arguments(args[1:], kwargs)})")

    @staticmethod
    def _arguments(args, kwargs):
        named = (f"{name}={text_of(value)}" for name, value in (kwargs or {}).items())
        return ", ".join((*map(text_of, args), *named))

    @staticmethod
    def _operand(value):
        text = text_of(value)
        return f"({text})" if text.startswith("-") else text


class Written(program.Program):
    """A program as text."""

    def __init__(self, steps, resolver, about):
        super().__init__(steps, resolver)
        self.about = about  # options and the summary of the trace's reader
        self.operators = about["level"] in (2, 4)
        self.body = []
        self.counts = {}  # of variables, by their letters
        self.inputs, self.parameters = [], []  # names and their expressions
        self.why_left_out = {}  # calls by reason
        self.written = self.tried = 0
        self.notes = []
        self.make()
        self._return()

    def line(self, text):
        self.body.append(f"    {text}\n")

    def named(self, kind, made):
        number = self.counts[kind] = self.counts.get(kind, -1) + 1
        name = Text(f"{kind}{number}")
        self.line(f"{name} = {made}")
        return name

    def keep(self, made, step):
        raised, last = step.get("raised"), step is self.steps[-1]
        remark = f"  # call {step['call']}"
        if raised is not None:
            remark += f": it raised {quoted(raised)[1:-1]}"
        self.written += 1
        ends = raised is not None and not self.goes_on
        if ends or any(program.tensors_in(step.get("result", []))):
            return self.named("t", made + remark)
        if raised is None or last:
            self.line(made + remark)
        else:
            self.tried += 1
            self.line("try:")
            self.line(f"    {made}{remark}")
            self.line(f"except {raised if raised in _BUILT_IN else 'Exception'}:")
            self.line("    pass")
        return Text("None")

    def leave_out(self, step, why):
        text = shortened(step["text"], _MOST_COMMENT)
        self.line(f"# left out: call {step['call']}, {text}: {quoted(why)[1:-1]}")
        why = "they raised" if "raised" in step else why
        self.why_left_out[why] = self.why_left_out.get(why, 0) + 1

    def check(self, args, kwargs):
        for value in (*args, *kwargs.values()):
            text_of(program.mapped(value, lambda tensor: Text("x")))

    def check_input(self, plain):
        self._expression(plain, self.is_parameter(plain))

    def input(self, plain, is_parameter):
        inputs = self.parameters if is_parameter else self.inputs
        name = Text(f"{'p' if is_parameter else 'x'}{len(inputs)}")
        inputs.append((name, self._expression(plain, is_parameter)))
        if not is_parameter:
            self.note_input(name, plain)
        return name

    def _expression(self, plain, is_parameter):
        spec = program.spec_of(plain)
        spec.contents = plain.get("contents")
        if "min" in plain:
            spec.range = (int(plain["min"]), int(plain["max"]))
        text = tensor_text(spec, plain["step"], memory=plain.get("memory", False))
        if spec.subclass == program.PARAMETERS[1]:
            return text
        if is_parameter:
            gradient = "" if spec.requires_grad else ", requires_grad=False"
            return f"torch.nn.Parameter({text}{gradient})"
        return text + (".requires_grad_()" if spec.requires_grad else "")

    def _return(self):
        outcome = self.about["outcome"]
        found = self.outcome(outcome)
        self.returned = "None"
        if self.raising is not None:
            self.returned = self.raising
            self.notes.append("the last call raised: so does what is written")
        elif found is not None:
            self.returned, call, is_best = found
            if is_best and outcome["asked"]:
                self.notes.append(
                    "all that the calls made was used, if only by a test: what call "
                    f"{call} made is returned"
                )
            elif is_best and outcome["others"]:
                self.notes.append(
                    f"what call {call} made is returned; no call used that of "
                    f"{program.few(outcome['others'])} either"
                )

    def all_notes(self):
        """What is said of the program on stderr."""
        about = self.about

        def of_calls(count, what):
            return [f"{count} call{'' if count == 1 else 's'} {what}"] if count else []

        notes = []
        for why, count in sorted(self.why_left_out.items()):
            notes += of_calls(count, f"left out: {why}")
        notes += of_calls(self.tried, "raised, and the program went on: so does the script")
        notes += self.notes
        if self.unseen:
            unseen = f"{program.few(self.unseen)}: made while the calls were, {program.UNSEEN}"
            notes.append(f"{unseen}; inputs")
        other = "left out: not of the first process; a program covers only one"
        notes += of_calls(about["other_processes"], other)
        notes += of_calls(about["never_returned"], "left out: they never returned")
        opened = "can't be made again: what was called in them stands in their place"
        notes += of_calls(about["opened"], opened)
        if about["steps"] > 1 and about["without_result"] == about["steps"]:
            notes.append(
                "what calls returned is not in the trace (run --outputs --ids): each is called "
                "with tensors of its own"
            )
        elif about["steps"] > 1 and about["without_id"]:
            notes.append(
                f"which tensor is which is not in the trace for {about['without_id']} of them (run "
                "--ids): each is one of its own"
            )
        return [f"{self.format}: {note}" for note in notes]

    def text(self):
        about = self.about
        calls = f"{self.written} call{'' if self.written == 1 else 's'}"
        yield (
            f"# {calls} of level {about['level']} of {quoted(about['label'])}, of "
            f"{about['steps']}, written by torchtrace.\n"
        )
        yield from self.pieces()

    @staticmethod
    def assigned(inputs):
        for name, made in inputs:
            yield f"    {name} = {made}\n"

    @staticmethod
    def names_of(inputs):
        return ", ".join(name for name, _ in inputs)


class Script(Expressions, Written):
    format = "python"
    statements = True
    goes_on = True
    nested = False  # whether the modes are others than a program's at its beginning

    def line(self, text):
        super().line(f"    {text}" if self.nested else text)

    def change_modes(self, gradients, autocast):
        self.nested = False
        modes = [] if gradients else ["torch.no_grad()"]
        modes += [] if autocast is None else [autocast_text(autocast)]
        if modes:
            self.line(f"with {', '.join(modes)}:")
            self.nested = True

    def pieces(self):
        inputs = self.inputs + self.parameters
        taken = self.names_of(inputs)
        yield self.about["prelude"]
        yield "\n\ndef inputs():\n"
        yield '    """What the program takes: tensors, and parameters behind them."""\n'
        yield from self.assigned(inputs)
        yield f"    return ({taken}{',' if inputs else ''})\n\n\ndef program({taken}):\n"
        yield from self.body
        yield f"    return {self.returned}\n\n\n"
        yield 'if __name__ == "__main__":\n    torch.manual_seed(0)\n'
        # Operators were recorded below autograd, where writing to parameters is allowed.
        if self.operators:
            yield "    with torch.no_grad():\n    "
        yield "    print(program(*inputs()))\n"


class Graph(Written):
    """A module that makes a torch.fx.GraphModule."""

    format = "fx"
    reader = program.GraphReader

    def function(self, function, name, args, kwargs=None):
        return self._node(f"function({callee(name)}", args, kwargs)

    def method(self, name, args, kwargs=None):
        return self._node(f"method({quoted(name)}", args, kwargs)

    @staticmethod
    def _node(begin, args, kwargs):
        return Text(f"graph.call_{begin}, {tuple_of(tuple(args))}, {text_of(dict(kwargs or {}))})")

    def item(self, made, key):
        return self.named("t", super().item(made, key))

    def pieces(self):
        yield (
            "#\n#   module = graph_module()         a torch.fx.GraphModule, with parameters as "
            "they were recorded\n#   module(*example_inputs())\n\nimport operator\n"
        )
        yield self.about["prelude"]
        yield '\n\ndef example_inputs():\n    """What the module takes."""\n'
        yield from self.assigned(self.inputs)
        yield f"    return ({self.names_of(self.inputs)}{',' if self.inputs else ''})\n\n\n"
        yield 'def state():\n    """The module\'s parameters and buffers."""\n    return {\n'
        for name, made in self.parameters:
            yield f'        "{name}": {made},\n'
        yield (
            "    }\n\n\ndef graph_module(attributes=None):\n"
            '    """The calls as a module; `attributes` in place of state()."""\n'
            "    graph = torch.fx.Graph()\n"
        )
        for name, _ in self.inputs:
            yield f'    {name} = graph.placeholder("{name}")\n'
        for name, _ in self.parameters:
            yield f'    {name} = graph.get_attr("{name}")\n'
        yield from self.body
        yield (
            f"    graph.output({self.returned})\n    graph.lint()\n    return torch.fx.GraphModule("
            "state() if attributes is None else attributes, graph)\n"
        )


class Cases(Expressions, program.Calls):
    """A test file: a case for each config."""

    def __init__(self, rules):
        self.names = names.Names(rules, names.WRITTEN_ALONE)
        self.results = results.Results(rules, None)
        self.cases = []
        self.why_left_out = {}  # configs and calls by reason

    def add(self, request):
        config, calls = request["config"], request["calls"]
        try:
            self.cases.append(self._case(config, request["text"]))
        except Skip as why:
            count = self.why_left_out.setdefault(str(why), [0, 0])
            count[0] += 1
            count[1] += calls

    def _case(self, config, line):
        names.check_level(config)
        target = self.names.resolve(config["api"])
        reader = program.Reader(self.names)
        args, kwargs = program.read_arguments(reader, target, config)
        specs = [spec for spec in reader.specs if isinstance(spec, arguments.TensorSpec)]
        arguments.attach(specs, config["notes"])
        in_place = target.in_place or target.kind == "setter" or "out" in kwargs

        def tensor(spec):
            discrete = spec.dtype == torch.bool or "int" in str(spec.dtype)
            if not discrete and spec.contents and len(spec.contents) > _MOST_CONTENTS:
                spec.contents = None
            gradient = spec.requires_grad and not in_place and config["level"] != 2
            return Text(tensor_text(spec, config) + (".requires_grad_()" if gradient else ""))

        args = tuple(program.mapped(arg, tensor) for arg in args)
        kwargs = {name: program.mapped(value, tensor) for name, value in kwargs.items()}
        call = self.call(target, args, kwargs)
        raised = config["raised"].rpartition(".")[2]
        raised = (raised if raised.isidentifier() else "Exception") if raised else None
        expected = None
        if "outputs" in config:
            masks = (torch.bool, torch.uint8)
            known = all(spec.is_known for spec in specs)
            sizes = self.results.sizes_are_told(target, known, specs) or (
                target.key == "__getitem__" and not any(spec.dtype in masks for spec in specs)
            )
            expected = [_expected(plain, sizes) for plain in program.tensors_in(config["outputs"])]
            autocast = program.autocast_of(config, config["outputs"])
            if autocast is not None:
                call = f"{autocast_text(autocast)}(lambda: {call})()"
        return (
            f"    pytest.param(\n        lambda: {call},\n        {text_of(raised)},\n"
            f"        {text_of(expected)},\n        id={quoted(shortened(line, _MOST_ID))},\n"
            f"        marks=api({quoted(config['api'])}),\n    ),\n"
        )

    def all_notes(self):
        return [
            f"pytest leaves out {configs} config{'' if configs == 1 else 's'} "
            f"({calls} call{'' if calls == 1 else 's'}): {why}"
            for why, (configs, calls) in sorted(self.why_left_out.items())
        ]

    def text(self, about):
        traces = ", ".join(map(quoted, about["labels"]))
        yield f"# A case for each config of {traces}, written by torchtrace.\n#\n"
        yield "#   pytest FILE -m 'api(name=\"torch.add\")'    those of one API (pytest 8.3)\n\n"
        yield "import operator\nimport warnings\n\nimport pytest\n"
        yield about["prelude"]
        yield _API
        yield from self.cases
        yield "]\n" + _TEST


def _expected(plain, sizes):
    dtype = arguments.DTYPES.get(plain["dtype"])
    shape = plain["shape"]
    known = sizes and dtype and shape is not None and all(type(size) is int for size in shape)
    return (tuple(shape) if known else None, dtype)


_API = """

def api(name):
    with warnings.catch_warnings():
        # Of marks that no ini file has.
        warnings.simplefilter("ignore")
        return pytest.mark.api(name=name)


CASES = [
"""
_TEST = '''

def described(result):
    """Shapes and dtypes of the tensors in a result."""
    if isinstance(result, torch.Tensor):
        return [(tuple(result.shape), result.dtype)]
    if isinstance(result, dict):
        result = result.values()
    if isinstance(result, (list, tuple)) or type(result).__name__ == "dict_values":
        return [one for item in result for one in described(item)]
    return []


@pytest.mark.parametrize("call, raised, expected", CASES)
def test_call(call, raised, expected):
    _random.manual_seed(0)
    torch.manual_seed(0)
    if raised is not None:
        with pytest.raises(Exception) as error:
            call()
        assert raised in [kind.__name__ for kind in type(error.value).__mro__]
        return
    result = described(call())
    if expected is not None:
        assert [dtype for _, dtype in result] == [dtype for _, dtype in expected]
        # None: it depends on the values.
        assert all(shape in (None, mine) for (mine, _), (shape, _) in zip(result, expected))
'''


def main(options):
    """Reads requests, a head and a line each: {"may": an API}, which is answered, steps or
    {"config": ...}, and at last {"about": ...}, which is answered with the code."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else that is printed is an answer
    rules = options["rules"]
    if options["format"] == "pytest":
        cases = Cases(rules)
    else:
        kind = {"python": Script, "fx": Graph}[options["format"]]
        resolver = names.Names(rules, names.IN_PROGRAM)
    steps = []

    def answer(told, text=b""):
        answers.write(json.dumps(told).encode() + b"\n" + text)
        answers.flush()

    answer({"torch": torch.__version__})
    while head := requests.read(worker.HEAD.size):
        _, *lengths = worker.HEAD.unpack(head)
        line, contents = map(requests.read, lengths)
        request = json.loads(line)
        if "may" in request:
            answer({"may": resolver.may_call(request["may"])})
        elif "config" in request:
            cases.add(request)
        elif "about" not in request:
            program.take_contents(request, contents)
            if not request.get("mark"):
                steps.append(program.keep_step(resolver, kind.reader, request))
        else:
            about = request["about"] | {"prelude": options["prelude"]}
            if options["format"] == "pytest":
                made, text = cases, cases.text(about)
            else:
                made = kind(steps, resolver, about)
                text = made.text()
            whole = "".join(text).encode()
            answer({"notes": made.all_notes(), "bytes": len(whole)}, whole)
            return
    sys.exit(1)
