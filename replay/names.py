"""The object that a recorded name refers to: an operator by its exact overload, or a function of
torch.

Names come from a trace, which is untrusted. No text is evaluated: an operator is looked up in the
dispatcher's table, a function by walking dictionaries of torch's own modules and classes, without
running code on the way, and only if replay/callable.yaml lists the place as harmless.
"""

import contextlib
import fnmatch
import importlib
import inspect
import re
import types

import torch


class Skip(Exception):
    """A config that isn't replayed, and the reason."""


class Target:
    """What to call. `key` is its name in the rules: `linalg_cholesky`, `gather`. `kind` is
    "function", "overload", "method", "getter" or "setter" of a tensor, and `name` what a program
    calls it: `torch.add`, `torch.ops.aten.add.Tensor`; of a tensor `view`, `T`."""

    kind = name = ""

    def __init__(self, function, key, schemas=(), signature=None, in_place=False):
        self.function = function
        self.key = key
        self.schemas = schemas
        self.signature = signature
        self.in_place = in_place
        self.schema = None  # of an operator's overload
        self.tags = ()  # of an operator's overload


_OPERATOR = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)::([A-Za-z0-9_]+)(?:\.([A-Za-z0-9_]+))?")
_PREFIXES = {"linalg": "linalg_", "special": "special_", "fft": "fft_", "sparse": "sparse_"}
_SCRIPTED = "it is TorchScript's alone, and may change the state of the process"
_IN_PLACE_SLOT = re.compile(r"__i(?!nvert|nt|ndex)[a-z]+__")
_MISSING = object()
_CLASSES = (
    torch.Tensor,
    torch.nn.Module,
    torch.optim.Optimizer,
    torch.Size,
    torch.device,
    torch.Generator,
)
_CLASSES += (torch.finfo, torch.iinfo)
_OPERATORS = frozenset(dir(torch._C._VariableFunctions)) - frozenset(dir(object))
_PARTS = tuple(
    f"torch._C.{part}" for part in ("_nn", "_linalg", "_fft", "_special", "_sparse", "_nested")
)


def is_operator(api):
    return _OPERATOR.fullmatch(api) is not None


def is_dunder(name):
    return name.startswith("__") and name.endswith("__") and len(name) > 4


def without_underscore(name):
    return name[:-1] if name.endswith("_") and not name.startswith("__") else name


def check_level(config):
    """Raises Skip for levels that don't record what was called."""
    if config["level"] == 3:
        raise Skip("level 3 records functions of the program, which only the program has")
    if config["level"] == 4 and not is_operator(config["api"]):
        raise Skip("a scope or a node of the backward pass is no operator")


def dotted(glob):
    """A regular expression: `*` matches a part between dots, or a piece of one."""
    return re.escape(glob).replace(r"\*", "[^.]*")


# The lists of callable.yaml that apply to a call by itself, to one in a program that is written,
# and to one by itself that is written.
ALONE = ("refused", "out of place")
IN_PROGRAM = ("refused", "not written")
WRITTEN_ALONE = ("refused", "not written", "out of place")


class Names:
    def __init__(self, rules, lists=ALONE):
        callable = rules["callable"]
        self.modules = rules["modules"]
        self.namespaces = frozenset((*callable["namespaces"], *self.modules))
        self.allowed = [re.compile(dotted(glob)) for glob in callable["apis"]]
        self.refused = [
            (re.compile(fnmatch.translate(row["name"])), row["why"])
            for name in lists
            for row in callable[name]
        ]
        self.objects = frozenset(rules["objects"])
        self.devices = frozenset(rules["named by devices"])
        self.of_accelerators = frozenset(rules["needs an accelerator"])
        self.of_packed = frozenset(rules["takes a packed sequence"])
        self.known = {}

    def object(self, name):
        """A replacement for an object of that type, or None."""
        return self._walk(name.split("."))() if name in self.objects else None

    def resolve(self, api):
        """A Target; raises Skip. Cached, since the same name is looked up thousands of times."""
        known = self.known.get(api)
        if known is None:
            try:
                known = self._resolve(api)
                known.kind, known.name = spelling(api)
            except Skip as skip:
                known = str(skip)  # the exception would keep frames alive
            if len(self.known) > 100_000:
                self.known.clear()
            self.known[api] = known
        if isinstance(known, str):
            raise Skip(known)
        return known

    def may_call(self, api):
        try:
            self.resolve(api)
        except Skip:
            return False
        return True

    def _resolve(self, api):
        for glob, why in self.refused:
            if glob.fullmatch(api):
                raise Skip(why)
        operator = _OPERATOR.fullmatch(api)
        if operator:
            return self._operator(*operator.groups())
        if api.startswith("torch.ops."):
            return self._named_operator(api.split(".")[2:])
        return self._function(api)

    def _operator(self, namespace, name, overload):
        if namespace not in self.namespaces:
            raise Skip(f"operators of {namespace} may do anything, and aren't called")
        with contextlib.suppress(ImportError):
            if namespace in self.modules:
                importlib.import_module(self.modules[namespace])
        try:
            schema = torch._C._dispatch_find_schema_or_throw(f"{namespace}::{name}", overload or "")
            found = torch._C._get_operation_overload(f"{namespace}::{name}", overload or "")
        except RuntimeError:
            schema = found = None
        if found is None:
            schemas = torch._C._jit_get_schemas_for_operator(f"{namespace}::{name}")
            if schemas and not any(map(is_dispatched, schemas)):
                raise Skip(_SCRIPTED)
            if not overload and schemas:
                raise Skip("which overload of it was called isn't known")
            raise Skip("this torch has no such operator")
        schema = schema_of(schema, namespace, name, overload)
        target = Target(found[0], without_underscore(name), (schema,), in_place=schema.is_mutable)
        target.schema, target.tags = schema, found[2]
        return target

    # torch.ops.aten.add.Tensor, and torch.ops.aten.add, which chooses its overload.
    def _named_operator(self, parts):
        if len(parts) == 3:
            return self._operator(parts[0], parts[1], None if parts[2] == "default" else parts[2])
        if len(parts) != 2 or parts[0] not in self.namespaces:
            raise Skip("it is no operator of a known namespace")
        schemas = schemas_of(f"{parts[0]}::{parts[1]}")
        if not schemas:
            raise Skip("this torch has no such operator")
        if not any(map(is_dispatched, schemas)):
            raise Skip(_SCRIPTED)
        function, _ = torch._C._jit_get_operation(f"{parts[0]}::{parts[1]}")
        return Target(function, without_underscore(parts[1]), schemas)

    def _function(self, api):
        if not any(glob.fullmatch(api) for glob in self.allowed):
            raise Skip("it is not on the list of allowed functions")
        parts = api.split(".")
        if parts[-1] in ("__get__", "__set__"):
            return self._property(parts)
        thing = self._walk(parts)
        self._check(thing)
        name = parts[-1]
        key = _PREFIXES.get(parts[-2], "") + without_underscore(name)
        if key.startswith("special_special_") or key.startswith("fft_fft_"):
            key = key.split("_", 1)[1]
        in_place = (
            without_underscore(name) != name
            or bool(_IN_PLACE_SLOT.fullmatch(name))
            or name == "__setitem__"
        )
        signature = None
        if isinstance(thing, (types.FunctionType, type)):
            try:
                signature = inspect.signature(thing)
            except (TypeError, ValueError):
                pass
        # A function written in C gets its arguments' names from the operator of the same name.
        schemas = () if isinstance(thing, types.FunctionType) else schemas_of(f"aten::{key}")
        return Target(thing, key, schemas, signature, in_place)

    def _walk(self, parts):
        thing = torch
        if parts[1:2] == ["_VF"]:
            # It creates its members on access: these objects.
            parts = ["torch", "_C", "_VariableFunctions", *parts[2:]]
        for i, part in enumerate(parts[1:], 2):
            thing = self._member(thing, part, is_last=i == len(parts))
        return thing

    # torch.Tensor.grad.__get__
    def _property(self, parts):
        owner = self._walk(parts[:-2])
        if not (isinstance(owner, type) and issubclass(owner, torch.Tensor)):
            raise Skip("a property, but not of tensors")
        member = inspect.getattr_static(owner, parts[-2], None)
        if not isinstance(member, (property, types.GetSetDescriptorType)):
            raise Skip("this torch has no such property")
        return Target(
            member.__get__ if parts[-1] == "__get__" else member.__set__, ".".join(parts[-2:])
        )

    @staticmethod
    def _member(thing, name, is_last):
        of_class = isinstance(thing, type)
        if is_dunder(name) and not (is_last and of_class and issubclass(thing, torch.Tensor)):
            raise Skip("its name reaches into Python itself")
        if isinstance(thing, types.ModuleType):
            if not (thing.__name__ == "torch" or thing.__name__.startswith("torch.")):
                raise Skip("it is not torch's own")
            member = vars(thing).get(name, _MISSING)
        elif of_class:
            member = inspect.getattr_static(thing, name, _MISSING)
            if isinstance(member, (staticmethod, classmethod, types.ClassMethodDescriptorType)):
                member = getattr(thing, name)
        elif thing is torch._C._VariableFunctions:
            member = getattr(thing, name, _MISSING)
        else:
            member = _MISSING
        if member is _MISSING:
            raise Skip("this torch has no such function")
        return member

    @staticmethod
    def _check(thing):
        if isinstance(thing, property) or isinstance(
            thing, (types.GetSetDescriptorType, types.MemberDescriptorType)
        ):
            raise Skip("a property")
        module = getattr(thing, "__module__", None)
        own_module = module is None or module == "torch" or str(module).startswith("torch.")
        if isinstance(thing, type):
            # Many other classes of torch open files or change the process.
            if not (issubclass(thing, _CLASSES) or isinstance(thing, type(torch.FloatTensor))):
                raise Skip("it makes an object that is not a tensor, module or optimizer")
            return
        if isinstance(thing, (types.FunctionType, types.MethodType)) and own_module:
            return
        if isinstance(thing, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            # A slot of object or a number is not an operator of torch.
            if thing.__objclass__ is object:
                raise Skip("it is not torch's own")
            return
        if isinstance(thing, types.BuiltinFunctionType):
            # Functions of torch._C itself concern the process; operators are in its submodules.
            of = thing.__self__
            if thing.__name__ in _OPERATORS or getattr(of, "__name__", "") in _PARTS:
                return
            if isinstance(of, type) and issubclass(of, torch.Tensor):
                return
        raise Skip("it is not torch's own")


def spelling(api):
    """(kind, name) of a Target."""
    operator = _OPERATOR.fullmatch(api)
    if operator:
        namespace, name, overload = operator.groups()
        return "overload", f"torch.ops.{namespace}.{name}.{overload or 'default'}"
    if api.startswith("torch.ops."):
        return "overload", api
    if not api.startswith("torch.Tensor."):
        return "function", api
    name, _, accessor = api.removeprefix("torch.Tensor.").partition(".")
    return {"": "method", "__get__": "getter", "__set__": "setter"}[accessor], name


def schema_of(schema, namespace, name, overload):
    try:
        return torch._C._get_schema(f"{namespace}::{name}", overload or "")
    except RuntimeError:
        return schema


def is_dispatched(schema):
    """Whether it has a kernel; the others are steps of TorchScript's interpreter."""
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    return torch._C._dispatch_has_kernel(schema.name + overload)


def schemas_of(name):
    """The schemas of all overloads; if there are none, those of the in-place operator."""
    schemas = torch._C._jit_get_schemas_for_operator(name)
    return tuple(schemas or torch._C._jit_get_schemas_for_operator(name + "_"))
