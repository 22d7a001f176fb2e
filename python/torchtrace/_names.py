"""The name of an API: for PyTorch as level 1 records it, for any other library the shortest path to
it.
"""

import inspect
import sys
import types

from torchtrace import _torch_names


def api_name(api):
    """The shortest public name: "torch.relu", "numpy.linalg.norm", "torch.nn.Linear".

    Takes functions, classes, methods (bound ones too), property accessors and PyTorch's
    operators.
    """
    return _names(api)[0]


def api_aliases(api):
    """The other public names, shorter ones first."""
    return _names(api)[1:]


def _names(api):
    accessor = ""
    if isinstance(api, types.MethodWrapperType):
        # torch.Tensor.shape.__get__: a new object each time, around the property.
        accessor = f".{api.__name__}"
        api = api.__self__
    shown = _shown_methods(api)
    if shown:
        return shown
    api = _unbound(api)
    operator = _operator_name(api)
    if operator:
        return [operator]
    if accessor:
        return [f"{each}{accessor}" for each in _paths(api)]
    return _paths(api)


def _shown_methods(api):
    """The names under which modules show a method of an internal object as a function:
    random.random."""
    owner = getattr(api, "__self__", None)
    is_method = isinstance(api, (types.MethodType, types.BuiltinMethodType))
    if not is_method or owner is None or isinstance(owner, (type, types.ModuleType)):
        return []
    return [
        f"{place}.{api.__name__}"
        for place in _places(type(owner).__module__)
        if _attribute(place, api.__name__) is api
    ]


def _unbound(api):
    """The method as an attribute of its class."""
    owner = getattr(api, "__self__", None)
    name = getattr(api, "__name__", None)
    if owner is None or name is None or isinstance(owner, types.ModuleType):
        return api
    if isinstance(api, (types.MethodType, types.BuiltinMethodType)):
        for base in (owner if isinstance(owner, type) else type(owner)).__mro__:
            if name in vars(base):
                found = vars(base)[name]
                return getattr(found, "__func__", found)
    return getattr(api, "__func__", api)


def _operator_name(api):
    """ "torch.ops.aten.add.Tensor"; "" if it is no operator of PyTorch."""
    if not type(api).__module__.startswith("torch._"):
        return ""
    members = getattr(api, "__dict__", {})
    name = members.get("_name") or members.get("_qualified_op_name")
    if not isinstance(name, str) or not ("::" in name or "_ns" in members):
        return ""
    name = name.replace("::", ".") if "::" in name else f"{members['_ns']}.{name}"
    if members.get("_overloadname") == "default" and not name.endswith(".default"):
        name += ".default"
    return f"torch.ops.{name}"


def _paths(api):
    if isinstance(api, types.ModuleType):
        return [api.__name__]
    names = [] if api is None or _is_foreign(api) else _torch_names.names_of(api)
    names += [each for each in _module_paths(api) if each not in names]
    # PyTorch's own names come first, even if another module has a shorter one for a class.
    if names:
        return names
    if callable(getattr(api, "__wrapped__", None)):
        return _paths(api.__wrapped__)
    if isinstance(api, type | types.FunctionType):
        raise ValueError(f"{api.__qualname__} has no API name: no module has it")
    raise ValueError(f"{type(api).__qualname__} objects have no API name")


def _is_foreign(api):
    """Whether torch's namespaces contain it only because they import it: int, collections.deque."""
    module = getattr(api, "__module__", None)
    return "torch" not in sys.modules or (
        isinstance(module, str) and module.partition(".")[0] != "torch"
    )


def _module_paths(api):
    """Its names in the modules around its own, the shortest first, then its own module. Only
    names that lead to the same object count: functools.wraps copies another function's name."""
    owner = getattr(api, "__objclass__", None)
    if owner is not None and not inspect.ismodule(owner):
        return [f"{each}.{api.__name__}" for each in _paths(owner)]
    if isinstance(api, property) and api.fget is not None:
        api = api.fget
    qualname = getattr(api, "__qualname__", None) or getattr(api, "__name__", None)
    module = getattr(api, "__module__", None)
    if not qualname or not isinstance(module, str):
        return []
    found = _paths_from(module, qualname, api)
    if not found and isinstance(api, types.FunctionType):
        # The place of its definition.
        module = api.__globals__.get("__name__", module)
        found = _paths_from(module, getattr(api.__code__, "co_qualname", api.__code__.co_name), api)
    if not found:
        found = [f"{module}.{name}" for name in _public_names(module, api)]
    if not found and _is(_attribute(module, qualname), api):
        found = [f"{module}.{qualname}"]
    return found


def _paths_from(module, qualname, api):
    outer, _, last = qualname.rpartition(".")
    holder = _attribute(module, outer) if outer else None
    if isinstance(holder, type) and (names := _members(holder, api, last)):
        return [f"{each}.{name}" for each in _paths(holder) for name in names]
    if module == "builtins" and _attribute(module, qualname) is api:
        return [qualname]
    found = []
    for place in _places(module):
        if _is(_attribute(place, qualname), api):
            found.append(f"{place}.{qualname}")
        if qualname.startswith("_"):
            found += [f"{place}.{name}" for name in _public_names(place, api)]
    return sorted(found, key=lambda name: name.rpartition(".")[2].startswith("_"))


def _places(module):
    """The public modules around a module and the module itself, the shortest first; for a module
    written in C for another (_operator), the other."""
    parts = module.split(".")
    places = [module.lstrip("_")] if module.startswith("_") else []
    return places + [
        ".".join(parts[:depth])
        for depth in range(1, len(parts) + 1)
        if not any(part.startswith("_") for part in parts[1:depth])
    ]


def _members(owner, api, name):
    """The names in its class of a function defined as `name`: a private function may be the
    implementation of a public name, or of an operator's."""
    names = [each for each, member in list(vars(owner).items()) if _is(member, api)]
    if name in names and not name.startswith("_"):
        return [name]
    return sorted(names, key=lambda each: (each.startswith("_"), not each.endswith("__")))


def _is(member, api):
    """Whether a member of a dictionary is the API, even if it was decorated since."""
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    return member is api or (
        "__wrapped__" in getattr(member, "__dict__", ()) and _is(member.__wrapped__, api)
    )


def _public_names(module, api):
    """The public names in a module for an object that is defined under a private name."""
    members = getattr(sys.modules.get(module), "__dict__", {})
    return [name for name, each in list(members.items()) if each is api and name[:1] != "_"]


def _attribute(module, qualname):
    found = sys.modules.get(module)
    for part in qualname.split("."):
        # Not getattr, which may make a module import something.
        found = getattr(found, "__dict__", {}).get(part)
    return found
