"""Shows levels 1 and 2 objects that notice when they are looked at."""

import enum

import torch
from marks import mark, show

looked_at = []


def notice(name):
    def method(self, *args, **kwargs):
        looked_at.append(f"{type(self).__name__}.{name}")
        print("looked at", name)
        raise RuntimeError(name)

    return method


NAMES = (
    "__repr__ __str__ __format__ __getattr__ __len__ __iter__ __hash__ __eq__ __bool__ __int__"
    " __float__ __index__ __complex__ __bytes__ __dir__ __reduce_ex__ __getitem__ __contains__"
    " __next__ __call__ __get__ __enter__ __sizeof__ __fspath__ __array__ __array_interface__"
    " __torch_function__ __lt__ __instancecheck__ __index__ __length_hint__ __reversed__ keys items"
).split()


class Meta(type):
    def __getattribute__(cls, name):
        if name not in ("__name__", "__dict__", "__mro__"):
            looked_at.append(f"type's {name}")
        return super().__getattribute__(name)

    __repr__ = notice("type's __repr__")
    __instancecheck__ = notice("type's __instancecheck__")
    __getattr__ = notice("type's __getattr__")
    __len__ = notice("type's __len__")
    __iter__ = notice("type's __iter__")


def hostile(name, *bases, leave=(), **extra):
    members = {each: notice(each) for each in NAMES if each not in leave}
    members["__class__"] = property(notice("__class__"))
    members["__module__"] = "hostile"
    return type(name, bases, {**members, **extra})


Plain = hostile("Plain")
show("object", Plain())
Everything = hostile("Everything", __getattribute__=notice("__getattribute__"))
show("object that hides everything", Everything())
show("type with a metaclass", Meta("WithMeta", (), {"__module__": "hostile"}))
Strange = Meta("Strange", (), {"__module__": "hostile", "__qualname__": "Out.Strange"})
show("object of a type with a metaclass", object.__new__(Strange))
show("list", hostile("List", list)([1, 2]))
show("tuple", hostile("Tuple", tuple)((1, 2)))
show("dict", hostile("Dict", dict)(a=1))
show("string", hostile("String", str)("text"))
show("bytes", hostile("Bytes", bytes)(b"text"))
show("int", hostile("Int", int)(7))
show("float", hostile("Float", float)(0.5))
show("complex", hostile("Complex", complex)(1j))
items = {1, 2}
show("set", hostile("Set", set)(items))
show("frozen set", hostile("FrozenSet", frozenset)(items))


class Hashed:
    armed = False

    def __hash__(self):
        if Hashed.armed:
            looked_at.append("Hashed.__hash__")
        return 1

    def __eq__(self, other):
        looked_at.append("Hashed.__eq__")
        return False


keyed = {Hashed(): 1}
among = {Hashed()}
Hashed.armed = True
show("keys", keyed)
show("members", among)


class Color(enum.Enum):
    RED = 1

    def __repr__(self):
        looked_at.append("Color.__repr__")
        return "?"

    def __str__(self):
        looked_at.append("Color.__str__")
        return "?"

    @property
    def value(self):
        looked_at.append("Color.value")


show("enum", Color.RED)


class Slots:
    __slots__ = ("never_set",)


show("slots", Slots())
nameless = type("", (), {"__module__": 7})
show("odd name", nameless())


class Method:
    def __call__(self):
        pass


def function():
    pass


function.__name__ = "renamed"
function.__qualname__ = "also.renamed"
function.__module__ = "elsewhere"
show("renamed function", function)


# Python tensors.
class Tensor(torch.Tensor):
    def __repr__(self, *, tensor_contents=None):
        looked_at.append("Tensor.__repr__")
        return "?"

    def __getattr__(self, name):
        looked_at.append(f"Tensor.{name}")
        raise AttributeError(name)

    @property
    def shape(self):
        looked_at.append("Tensor.shape")

    @property
    def dtype(self):
        looked_at.append("Tensor.dtype")

    @property
    def device(self):
        looked_at.append("Tensor.device")

    @property
    def requires_grad(self):
        looked_at.append("Tensor.requires_grad")

    def size(self, *args):
        looked_at.append("Tensor.size")

    def stride(self, *args):
        looked_at.append("Tensor.stride")

    def dim(self):
        looked_at.append("Tensor.dim")

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in (torch.add,):
            looked_at.append(f"Tensor function {func}")
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))


tensor = torch.ones(2, 3).as_subclass(Tensor)
looked_at.clear()
show("tensor", tensor)
torch.add(tensor, 1)
looked_at_before = list(looked_at)


# A tensor that answers for its own sizes, strides, device and layout.
class Policy(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        result = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            dtype=inner.dtype,
            dispatch_sizes_strides_policy="sizes",
            dispatch_device=True,
            dispatch_layout=True,
        )
        result.inner = inner
        return result

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        looked_at.append(f"dispatch {func}")
        if func is torch.ops.aten.add.Tensor:
            return Policy(func(args[0].inner, *args[1:], **(kwargs or {})))
        return NotImplemented


policy = Policy(torch.ones(2, 3))
looked_at.clear()
mark("own sizes")
show("own sizes", policy)
print(looked_at)
torch.add(policy, 1)
print(looked_at)
print(looked_at_before)
