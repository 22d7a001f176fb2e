"""Facts about PyTorch's APIs: the levels that see a call, the operators that it calls. The build
appends this to scan_library.py."""

# ruff: noqa: F821 (names of scan_library.py)


def torch_facts(found):
    return TorchFacts().all(found)


class TorchFacts:
    # Functions in C that level 1 sees although no operator has their name.
    _SEEN = ("tensor", "as_tensor", "asarray", "new", "new_tensor")
    # What it sees although no mode receives it, in addition to the types of tensors.
    _UNTOLD = frozenset(
        "torch.Tensor torch.Tensor.as_subclass torch.from_dlpack torch.from_numpy torch.frombuffer "
        "torch.nested.as_nested_tensor torch.nested.masked_select torch.nested.narrow "
        "torch.nested.nested_tensor torch.nested.nested_tensor_from_jagged torch.nn.Buffer "
        "torch.nn.Parameter torch.nn.UninitializedBuffer torch.nn.UninitializedParameter "
        "torch.to_dlpack".split()
    )
    # Where the C functions are that are made from operators.
    _OWNERS = ("torch", "torch._C", "torch._C._nn", "torch._C._fft", "torch._C._linalg")
    _OWNERS += ("torch._C._special", "torch._C._sparse", "torch._C._nested")
    _SLOTS = {
        "truediv": "div",
        "floordiv": "floor_divide",
        "mod": "remainder",
        "invert": "bitwise_not",
        "neg": "neg",
        "abs": "abs",
        "pos": "positive",
        **{name: name for name in "add sub mul div matmul pow lt le eq ne gt ge".split()},
    }

    # Operators have these names too, but the methods don't call them.
    _ANSWERED = frozenset("dim size stride numel nelement data_ptr requires_grad_".split())

    def __init__(self):
        import dis

        import torch

        self.torch = torch
        self.dis = dis
        names = torch._C._dispatch_get_all_op_names()
        self.overloads = {}
        for name in names:
            self.overloads.setdefault(name.split(".")[0], []).append(name)
        self.overridable = torch.overrides.get_testing_overrides()

    def all(self, found):
        facts = {}
        for item in found:
            if not item.names:
                continue
            levels = [0]
            if self._level_1(item):
                levels.append(1)
            operators = sorted(self._operators(item))
            row = facts[id(item.thing)] = {"levels": levels}
            if operators:
                row["operators"] = operators
                composite = [name for name in operators if self._is_composite(name)]
                if composite:
                    row["composite"] = composite
        facts["more"] = self._operator_rows()
        return facts

    def _operator_rows(self):
        """Each operator that isn't ATen's, under its name in torch.ops."""
        rows = []
        for name in sorted(self.overloads):
            space, _, rest = name.partition("::")
            if space == "aten":
                continue
            row = {"api": f"torch.ops.{space}.{rest}", "kind": "operator", "aliases": [name]}
            row["public"] = not any(map(is_private, (space, rest)))
            row["levels"] = [0, 2]
            rows.append(row)
        return rows

    def _level_1(self, item):
        thing = item.thing
        if not self._UNTOLD.isdisjoint(item.names) or (
            isinstance(thing, type) and thing in self.torch._tensor_classes
        ):
            return True
        if item.kind == "slot":
            return self._told_of(thing)
        try:
            if type(thing) is types.GetSetDescriptorType:
                return thing.__get__ in self.overridable
            if thing in self.overridable or self._asks(thing):
                return True
        except BaseException:
            return False
        if not self._is_torch_builtin(thing):
            return False
        return self._own_operator(thing) is not None or thing.__name__ in self._SEEN

    @staticmethod
    def _asks(thing):
        """Whether it asks for overrides itself, though torch.overrides lists it as one that
        doesn't."""
        code = getattr(thing, "__code__", None)
        return code is not None and "handle_torch_function" in code.co_names

    def _told_of(self, slot):
        """Whether a mode receives the slot itself: of x + 1 it receives Tensor.add."""
        if not callable(slot):
            return False
        seen = []

        class Mode(self.torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                seen.append(function)
                return args[0]

        x = self.torch.ones(2)
        for args in ((x,), (x, x), (x, 0, x)):
            try:
                with Mode():
                    slot(*args)
            except BaseException:
                pass
            if seen:
                return seen[0] is slot
        return False

    def _is_torch_builtin(self, thing):
        if type(thing) is types.MethodDescriptorType:
            return thing.__objclass__ is self.torch._C.TensorBase
        if type(thing) is not types.BuiltinFunctionType:
            return False
        return thing.__module__ in self._OWNERS or _builtin_home(thing) in self._OWNERS

    def _own_operator(self, thing):
        """The operator that a function in C is made from."""
        if not self._is_torch_builtin(thing):
            return None
        name = thing.__name__
        if name in self._ANSWERED or name.startswith("is_"):
            return None
        if name.startswith("__") and name.endswith("__") and f"aten::{name}" not in self.overloads:
            bare = name[2:-2]
            in_place = bare.startswith("i") and bare not in self._SLOTS and bare != "invert"
            name = self._SLOTS.get(bare[1:] if in_place else bare, "") + ("_" if in_place else "")
        return f"aten::{name}" if f"aten::{name}" in self.overloads else None

    def _is_composite(self, name):
        has = self.torch._C._dispatch_has_kernel_for_dispatch_key
        # Variants that write into an argument are built on the others.
        overloads = [overload for overload in self.overloads[name] if not overload.endswith("out")]
        return all(has(overload, "CompositeImplicitAutograd") for overload in overloads)

    def _operators(self, item):
        if item.kind in ("class", "property"):
            return set()
        own = self._own_operator(item.thing)
        if own is not None:
            return {own}
        thing = item.thing
        # Decorators and boolean_dispatch keep what they call in their closure.
        operators = set()
        for function in self._functions(thing):
            operators |= self._called(function)
        return operators

    @staticmethod
    def _functions(thing):
        if isinstance(thing, types.MethodType):
            thing = thing.__func__
        if not isinstance(thing, types.FunctionType):
            return
        yield thing
        for cell in thing.__closure__ or ():
            try:
                inner = cell.cell_contents
            except ValueError:
                continue
            if isinstance(inner, types.FunctionType):
                yield inner

    @staticmethod
    def _member(owner, name):
        try:
            return getattr(owner, name)
        except BaseException:
            return None

    def _called(self, function):
        """Operators that the function's own code names: as attributes of modules, or as
        methods of arguments that are annotated as tensors."""
        tensors = {
            name
            for name, kind in (getattr(function, "__annotations__", None) or {}).items()
            if kind is self.torch.Tensor or kind in ("Tensor", "torch.Tensor")
        }
        operators = set()
        value = None
        for step in self.dis.get_instructions(function):
            name = step.argval
            if step.opname == "LOAD_GLOBAL":
                value = function.__globals__.get(name)
            elif step.opname == "LOAD_FAST" and name in tensors:
                value = self.torch.Tensor
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and value is not None:
                known = isinstance(value, types.ModuleType) or value is self.torch.Tensor
                known = known or value is self.torch._C._VariableFunctions
                value = self._member(value, name) if known else None
            else:
                value = None
                continue
            operator = self._own_operator(value)
            if operator is not None:
                operators.add(operator)
        return operators


EXTRA_FACTS["torch"] = torch_facts
