"""Reads how PyTorch's functions pass their calls to a function mode.

    python read_function_protocol.py           prints what this PyTorch does
    python read_function_protocol.py FILE      puts it into FILE, function_protocol.tsv

Run it in a separate process, with the PyTorch to read: it calls every function that may take part
in the __torch_function__ protocol, under a mode that notes what it receives and ends the call.
torch_function_hook.h has the table's form. The version of Python makes no difference.
"""

import functools
import inspect
import itertools
import pathlib
import sys
import types
import warnings

import torch
import torch.distributed
from torch.overrides import TorchFunctionMode

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "versions"))
from version_spans import compress, expand, minor, minor_text  # noqa: E402

HANDLER = "handle_torch_function"

# Where the functions written in C are that call a mode.
OWNERS = (
    "torch._C.TensorBase",
    "torch._C._VariableFunctionsClass",
    "torch._C._nn",
    "torch._C._fft",
    "torch._C._linalg",
    "torch._C._nested",
    "torch._C._sparse",
    "torch._C._special",
)
# More of them: torch._C as a whole has functions that must not be tried.
SINGLE = (
    "torch._C._set_grad_enabled",
    "torch._C._set_grad_layout_enforcement_enabled",
    "torch._C._set_multithreading_enabled",
    "torch._C._set_view_replay_enabled",
    "torch.device",
)

# Operators whose functions call no mode.
NEVER_ASK = ("range", "set_")

# Functions that make tensors, or let one share another's memory, without calling a mode: level 1
# records them too.
UNTOLD = (
    "torch.Tensor",
    "torch.Tensor._make_subclass",
    "torch.Tensor._make_wrapper_subclass",
    "torch.Tensor.as_subclass",
    "torch.Tensor.set_",
    "torch.from_dlpack",
    "torch.from_numpy",
    "torch.frombuffer",
    "torch.nested.as_nested_tensor",
    "torch.nested.masked_select",
    "torch.nested.narrow",
    "torch.nested.nested_tensor",
    "torch.nested.nested_tensor_from_jagged",
    "torch.nn.Buffer",
    "torch.nn.Parameter",
    "torch.nn.UninitializedBuffer",
    "torch.nn.UninitializedParameter",
    "torch.range",
    "torch.to_dlpack",
)

# Calls of operator objects.
OPERATORS = (
    "torch._ops.OpOverload.__call__",
    "torch._ops.OpOverloadPacket.__call__",
    "torch._ops.TorchBindOpOverload.__call__",
    "torch._ops.HigherOrderOperator.__call__",
)

# Forms that stand-ins can't show: these functions convert their arguments before they call a mode.
# "" is as written.
RULES = {
    "torch.functional.einsum": "",
    "torch.functional.chain_matmul": "",  # a mode doesn't receive `out`
    "torch.autograd.grad": "(outputs) (inputs) grad_outputs=grad_outputs retain_graph=retain_graph "
    "create_graph=create_graph only_inputs=only_inputs allow_unused=allow_unused|materialize_grads "
    "is_grads_batched=is_grads_batched materialize_grads=materialize_grads",
    "torch.autograd.backward": "(tensors) grad_tensors=grad_tensors retain_graph=retain_graph "
    "create_graph=create_graph inputs=(inputs)",
    "torch.sym_sum": "*args",
}


class ToldError(Exception):
    """Ends a call that the mode received."""


class Listener(TorchFunctionMode):
    told = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        # Only the first call is the function's: later ones read its arguments.
        if Listener.told is None:
            Listener.told = (func, tuple(args), dict(kwargs or {}))
        raise ToldError


def told_of(function, *args, **kwargs):
    """What a mode receives when this is called; None if it receives nothing."""
    Listener.told = None
    try:
        with Listener():
            function(*args, **kwargs)
    except BaseException:
        pass
    return Listener.told


def find(path):
    """The object that a namespace holds under this name, and not what getattr makes of it."""
    owner = sys.modules["torch"]
    for part in path.split(".")[1:]:
        name = f"{getattr(owner, '__name__', '')}.{part}"
        members = vars(owner)
        if part not in members and isinstance(owner, type):
            members = next((vars(base) for base in owner.__mro__ if part in vars(base)), {})
        owner = members[part] if part in members else sys.modules[name]
    return owner


@functools.cache
def paths():
    """{id: (name, object)} of each function in PyTorch's modules: the name where it is defined,
    else its shortest one."""
    found = {}

    def add(member, path):
        if isinstance(member, staticmethod | classmethod):
            member = member.__func__
        if isinstance(member, types.FunctionType) and "__wrapped__" in vars(member):
            add(member.__wrapped__, f"{path}.__wrapped__")
        home = f"{getattr(member, '__module__', '')}.{getattr(member, '__qualname__', '')}"
        rank = (path != home, path.count("."), len(path), path)
        if id(member) not in found or rank < found[id(member)][0]:
            found[id(member)] = (rank, path, member)

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "torch" or not isinstance(module, types.ModuleType):
            continue
        for attribute, member in list(vars(module).items()):
            path = f"{name}.{attribute}"
            if isinstance(member, type) and member.__module__.partition(".")[0] == "torch":
                for method, function in list(vars(member).items()):
                    add(function, f"{path}.{method}")
                    if isinstance(function, property):
                        add(function.fget, f"{path}.{method}.__get__")
                        add(function.fset, f"{path}.{method}.__set__")
            elif callable(member):
                add(member, path)
    return {key: (path, member) for key, (_, path, member) in found.items()}


def told_name(func):
    """The dotted name of a function that a mode receives."""
    if isinstance(func, types.MethodWrapperType):  # a property's getter or setter
        descriptor = func.__self__
        name = getattr(descriptor, "__name__", None) or descriptor.fget.__name__
        return f"torch.Tensor.{name}.{func.__name__}"
    known = paths().get(id(func))
    return known[0] if known else f"{func.__module__}.{func.__qualname__}"


# ---- Functions written in C ----

TENSOR = torch.empty(2, 2)
VALUES = (1, TENSOR, True, [1], [TENSOR], "cpu", None, 1.5, torch.float32, (TENSOR, TENSOR))
FEW_VALUES = (1, TENSOR, [1])


def by_type(kind):
    """A value for an argument of this type in an operator's schema."""
    text = str(kind)
    if text.startswith("Optional["):
        return by_type(kind.getElementType())
    if text.startswith("List["):
        return [by_type(kind.getElementType())]
    return {"Tensor": TENSOR, "bool": True, "float": 1.0, "str": "sum"}.get(text, 1)


def schema_arguments(name):
    """Arguments for each overload of the operator of that name."""
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        args, kwargs = [], {}
        for argument in schema.arguments:
            if argument.kwarg_only and not argument.has_default_value():
                kwargs[argument.name] = by_type(argument.real_type)
            elif not argument.kwarg_only:
                args.append(by_type(argument.real_type))
        yield args, kwargs
        required = sum(not a.has_default_value() for a in schema.arguments if not a.kwarg_only)
        yield args[:required], kwargs


def argument_lists(name, is_method):
    first = (TENSOR,) if is_method else ()
    for count in range(3):
        for args in itertools.product(VALUES, repeat=count):
            yield (*first, *args), {}
    for args, kwargs in schema_arguments(name):
        yield tuple(args), kwargs
    for count in (3, 4):
        for args in itertools.product(FEW_VALUES, repeat=count):
            yield (*first, *args), {}


def read_function(function, name, is_method):
    """The function that a mode receives from one written in C; None if that calls no mode."""
    for args, kwargs in argument_lists(name, is_method):
        told = told_of(function, *args, **kwargs)
        if told is None:
            continue
        func, told_args, told_kwargs = told
        # The call of an argument's __index__.
        if getattr(func, "__name__", "") == "__index__" and name != "__index__":
            continue
        same = len(told_args) == len(args) and all(map(lambda a, b: a is b, told_args, args))
        if not same or told_kwargs.keys() != kwargs.keys():
            raise ValueError(f"{name} hands on {told_args} {told_kwargs}, not {args} {kwargs}")
        return func
    return None


def c_functions():
    for owner_path in OWNERS:
        for name, member in list(vars(find(owner_path)).items()):
            path = f"{owner_path}.{name}"
            if isinstance(member, types.GetSetDescriptorType):
                for half, told in (
                    ("__get__", told_of(member.__get__, TENSOR)),
                    ("__set__", told_of(member.__set__, TENSOR, 1)),
                ):
                    if told is not None:
                        yield f"{path}.{half}", told_name(told[0])
                continue
            function = member.__func__ if isinstance(member, staticmethod) else member
            is_method = isinstance(member, types.MethodDescriptorType | types.WrapperDescriptorType)
            if not is_method and not isinstance(function, types.BuiltinFunctionType):
                continue
            func = read_function(function, name, is_method)
            if func is not None:
                yield path, told_name(func)
            elif name not in NEVER_ASK and any(args for args, _ in schema_arguments(name)):
                # No arguments were found, but every operator that takes some calls a mode.
                yield path, told_name(function)
    for path in SINGLE:
        try:
            function = find(path)
        except KeyError:  # this torch lacks it
            continue
        func = read_function(function, path.rpartition(".")[2], False)
        if func is not None:
            yield path, told_name(func)


# ---- Functions written in Python ----


def asks(code):
    """Whether the code, or a function within it, takes part in the protocol."""
    return any(name.startswith(("has_torch_function", HANDLER)) for name in code.co_names) or any(
        asks(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)
    )


def import_askers():
    """Imports every module that has such a function, private ones too."""
    root = pathlib.Path(torch.__path__[0])
    left_out = ("testing/", "_dynamo/", "utils/backend_registration.py")
    for file in root.rglob("*.py"):
        within = file.relative_to(root)
        if not within.as_posix().startswith(left_out) and f"{HANDLER}(" in file.read_text("utf-8"):
            parts = within.with_suffix("").parts
            __import__(".".join(("torch", *(parts[:-1] if parts[-1] == "__init__" else parts))))


class Stand:
    """A stand-in for an argument, which its identity shows."""

    def __init__(self, name):
        self.name = name


def form_of(told, stands, parameters):
    """The form in which a call was passed on; None if stand-ins can't show it."""
    _, args, kwargs = told
    names = {id(stand): name for name, stand in stands.items()}
    items = []
    for arg in args:
        if id(arg) in names:
            items.append(names[id(arg)])
        else:
            return None
    for name, value in kwargs.items():
        if id(value) not in names:
            return None
        items.append(f"{name}={names[id(value)]}")
    text = []
    for item in items:
        name, equals, value = item.partition("=")
        kind = next((p.kind for p in parameters if p.name == (value or name)), None)
        if kind is inspect.Parameter.VAR_POSITIONAL:
            text.append(f"*{name}")
        elif kind is inspect.Parameter.VAR_KEYWORD:
            text.append(f"**{value}")
        else:
            text.append(item)
    return " ".join(text)


def stand_in_call(function, make):
    """Calls the function with a stand-in for each parameter."""
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    stands = {p.name: make(p.name) for p in parameters}
    args = [stands[p.name] for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    kwargs = {p.name: stands[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    kwargs |= {p.name: stands[p.name] for p in parameters if p.kind is p.VAR_KEYWORD}
    told = told_of(function, *args, **kwargs)
    return told, stands, parameters


def read_python_function(path, function):
    """(what a mode receives, form) for a function written in Python; None: nothing."""
    if path in RULES:
        return path, RULES[path]
    told, stands, parameters = stand_in_call(function, Stand)
    if told is None or isinstance(told[0], Stand) or told_name(told[0]).endswith(".__index__"):
        return None
    form = form_of(told, stands, parameters)
    if form is None:
        raise ValueError(f"{path} needs a rule: it hands on {told[1:]}")

    # Some call a mode only if an argument is no plain tensor.
    def asks_with(stand_ins):
        def make(name):
            return Stand(name) if name in stand_ins else torch.empty(0)

        told, _, _ = stand_in_call(function, make)
        return told is not None and told_name(told[0]) == name

    name = told_name(told[0])
    if not asks_with(()):
        form += "".join(f" ?{stand}" for stand in stands if asks_with((stand,)))
    return name, form


def python_functions():
    import_askers()
    for path, member in sorted(paths().values(), key=lambda known: known[0]):
        if not isinstance(member, types.FunctionType) or not asks(member.__code__):
            continue
        if path == f"torch.overrides.{HANDLER}" or path in OPERATORS:
            continue
        try:
            read = read_python_function(path, member)
        except ValueError as error:
            print(error, file=sys.stderr)
            continue
        if read is not None:
            yield path, *filter(None, read)


def untold():
    yield from UNTOLD
    yield from (name for name in map(torch.typename, torch._tensor_classes))


def rows_of_this_torch():
    """(function, told[, form]) of each function that calls modes, or is recorded anyway."""
    warnings.simplefilter("ignore")
    yield from ((path, "nobody") for path in untold())
    yield from c_functions()
    yield from ((path, "self") for path in OPERATORS)
    yield from python_functions()


# ---- The table of all versions ----


def read_table(text):
    """(versions, {row: set of versions}) of function_protocol.tsv."""
    lines = text.splitlines()
    known = lines[0].split("\t") if lines else []
    rows = {}
    for line in lines[1:]:
        versions, *row = line.split("\t")
        rows.setdefault(tuple(row), set()).update(expand(versions, known))
    return known, rows


def format_table(known, rows):
    known = sorted(known, key=minor)
    lines = ["\t".join(known)]
    for row, versions in sorted(rows.items()):
        if versions:
            lines.append("\t".join((compress(versions, known), *row)))
    return "\n".join(lines) + "\n"


def put(path, version, new_rows):
    """Replaces the rows of one version."""
    known, rows = read_table(path.read_text("utf-8") if path.exists() else "")
    for versions in rows.values():
        versions.discard(version)
    for row in new_rows:
        rows.setdefault(row, set()).add(version)
    path.write_text(format_table({*known, version}, rows), "utf-8")


def main():
    rows = list(rows_of_this_torch())
    if len(sys.argv) > 1:
        put(pathlib.Path(sys.argv[1]), minor_text(torch.__version__), rows)
    else:
        for row in rows:
            print(*row, sep="\t")


if __name__ == "__main__":
    main()
