"""Trains the models of small_models.py and plants a NaN, an infinity or another number at a call
chosen at random, which it knows.

    planted.py FOLDER SEED...

For each seed it writes FOLDER/SEED/planted, clean and again, the traces of three runs as far as its
case needs them, and one line of FOLDER/expected.jsonl: which call it must be, by its name and how
many calls of that name came before. A TorchDispatchMode counted these in a run without torchtrace.

A call is planted in by standing in for the operator's kernel for the CPU, below everything that
records: one call of it changes what it computed, in memory. Others are planted by the program, as
programs do it: a logarithm of something negative, a learning rate, data.

With RANK and WORLD_SIZE in the environment it is one of several ranks.
"""

import collections
import contextlib
import ctypes
import dataclasses
import json
import os
import random
import sys
import warnings

import numpy
import small_models
import torch
import torch.distributed as dist
import torch.nn.modules.module as torch_modules
import torch.utils._pytree as pytree
import torchtrace
from torch.utils._python_dispatch import TorchDispatchMode

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
LEVELS = [[2, 3], [1, 2, 3], [1, 2, 3, 4]]
TYPES = {torch.float32: "f4", torch.float64: "f8", torch.float16: "f2", torch.bfloat16: "u2"}


# ---- Calls ----


@dataclasses.dataclass
class Call:
    api: str
    before: int  # calls of that name in the same step
    step: int | None
    part: str
    module: str
    groups: set = dataclasses.field(default_factory=set)
    holds_infinity: bool = False  # an argument is one, or a tensor with one
    computes: bool = False
    after: int = 0

    def same(self, other):
        return (self.api, self.step, self.before) == (other.api, other.step, other.before)

    def row(self):
        names = ("api", "before", "after", "step", "part", "module")
        return {name: getattr(self, name) for name in names} | {"groups": sorted(self.groups)}


def name_of(function):
    return function._schema.name + "." * bool(name := function._schema.overload_name) + name


def tensors_in(*values):
    return [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]


def computed(schema, args, kwargs, result):
    """The tensors that hold what the call computed."""
    if schema.is_mutable:
        names = [each.name for each in schema.arguments if each.is_write]
        given = dict(zip((each.name for each in schema.arguments), args, strict=False)) | kwargs
        found = tensors_in([given.get(name) for name in names])
    else:
        taken = {each.untyped_storage().data_ptr() for each in tensors_in(args, kwargs)}
        found = [
            each for each in tensors_in(result) if each.untyped_storage().data_ptr() not in taken
        ]
    return [each for each in found if each.dtype in TYPES and each.numel()]


# ---- Memory ----
# Without a call of torch that could be recorded, or be one of a kernel's calls.


def elements_of(tensor):
    kind = numpy.dtype(TYPES[tensor.dtype])
    strides = [step * kind.itemsize for step in tensor.stride()]
    extent = sum((n - 1) * step for n, step in zip(tensor.shape, strides, strict=True))
    memory = (ctypes.c_char * (extent + kind.itemsize)).from_address(tensor.data_ptr())
    return numpy.ndarray(tuple(tensor.shape), kind, memory, strides=strides)


def holds(what, tensors):
    arrays = [elements_of(each) for each in tensors if each.dtype in TYPES and each.numel()]
    return any(
        what((each.astype("u4") << 16).view("f4") if each.dtype == numpy.uint16 else each).any()
        for each in arrays
    )


def write(array, index, value):
    if array.dtype == numpy.uint16:  # bfloat16
        array[index] = numpy.array(value, numpy.float32).view(numpy.uint32) >> 16
    else:
        array[index] = value


def read(array, index):
    if array.dtype == numpy.uint16:
        return float((array[index].astype(numpy.uint32) << 16).view(numpy.float32))
    return float(array[index])


# ---- The witness ----


class Witness(TorchDispatchMode):
    """Counts calls, and knows the one that is under way."""

    def __init__(self, probe):
        super().__init__()
        self.probe = probe
        self.counts = collections.Counter()
        self.calls = []
        self.current = None
        self.modules = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = name_of(function)
        module = self.modules[-1] if self.modules else ""
        part = self.probe.part
        if part == "backward" and self.modules:
            part = "recomputed"
        step = None if part in ("start", "end") else self.probe.step
        call = Call(name, self.counts[name, step], step, part, module)
        self.counts[name, step] += 1
        taken = tensors_in(args, kwargs)
        self.probe.begins(call, taken)
        outer, self.current = self.current, call
        result = function(*args, **kwargs)
        self.current = outer
        given = pytree.tree_leaves((args, kwargs))
        call.holds_infinity = holds(numpy.isinf, taken) or any(
            isinstance(each, float) and numpy.isinf(each) for each in given
        )
        call.computes = self._computes(function, args, kwargs, result)
        call.groups = {part} | {
            group
            for group, is_in in {
                "in place": name.partition(".")[0].endswith("_"),
                "view": any(each._is_view() for each in taken),
                "fused": "_fused_" in name,
                "foreach": "_foreach_" in name,
                "lower precision": any(t.dtype in (torch.half, torch.bfloat16) for t in taken),
                "checkpoint": self.probe.is_checkpointed(module),
                "module": bool(module),
            }.items()
            if is_in
        }
        self.calls.append(call)
        return result

    def count(self):
        for call in self.calls:
            call.after = self.counts[call.api, call.step] - call.before - 1

    @staticmethod
    def _computes(function, args, kwargs, result):
        name = name_of(function)
        return (
            name.startswith("aten::")
            and "empty" not in name
            and kernel_of(function) is not None
            and bool(computed(function._schema, args, kwargs, result))
        )

    @contextlib.contextmanager
    def watching_modules(self):
        def enter(module, args):
            around = self.modules[-1] if self.modules else ""
            self.modules.append(self.probe.names.get(module, around))

        def leave(module, args, result):
            self.modules.pop()

        hooks = [
            torch_modules.register_module_forward_pre_hook(enter),
            torch_modules.register_module_forward_hook(leave, always_call=True),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


# ---- Standing in for a kernel ----


def kernel_of(function):
    for key in ("CPU", "CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd"):
        with contextlib.suppress(RuntimeError):
            return torch.library.get_kernel(function, key)
    return None


def function_of(name):
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")


def always(number):
    return lambda before: number


def another(number):
    if not numpy.isfinite(number):
        return 0.5
    return 1.0 if number == -4 else number * 1.25 + 1


class Kernel:
    """Stands in for an operator's kernel. One call of it, when it is `armed`, changes an element of
    what it computed by `change`."""

    def __init__(self, call, seed, change):
        self.call, self.seed, self.change = call, seed, change
        self.function = function_of(call.api)
        self.kernel = kernel_of(self.function)
        self.arguments = self.function._schema.arguments
        self.at = None  # the part of the step, and how many calls of the kernel in it come before
        self.calls = collections.Counter()
        self.armed = False
        self.fired = False
        self.probe = self.witness = None

    def __call__(self, keys, *args, **kwargs):
        # Numbers in place of tensors come as numbers.
        dtype = next((each.dtype for each in tensors_in(args)), None)
        args = [
            torch.tensor(value, dtype=dtype)
            if str(argument.type) == "Tensor" and not isinstance(value, torch.Tensor)
            else value
            for value, argument in zip(args, self.arguments, strict=False)
        ]
        result = self.kernel.call_boxed(keys, *args, **kwargs)
        part = self.probe.step, self.probe.part
        current = self.witness and self.witness.current
        if current and current.same(self.call):
            self.at = (*part, self.calls[part])
        if self.at == (*part, self.calls[part]):
            rng = random.Random(self.seed)
            array = elements_of(rng.choice(computed(self.function._schema, args, kwargs, result)))
            index = tuple(rng.randrange(size) for size in array.shape)
            if self.armed:
                write(array, index, self.change(read(array, index)))
                self.fired = True
        self.calls[part] += 1
        return result

    @contextlib.contextmanager
    def in_place(self, armed, probe, witness=None):
        self.calls.clear()
        self.armed, self.fired, self.probe, self.witness = armed, False, probe, witness
        library = torch.library.Library("aten", "IMPL")
        try:
            library.impl(self.function, self, "CPU", with_keyset=True, allow_override=True)
            yield
        finally:
            library._destroy()


# ---- What a program does by itself ----
# Each takes what passes by, and says by `expect` which call is next to make a NaN or infinity.


def logarithm(x, expect):
    y = -x.abs() - 1
    expect("aten::log")
    return x + torch.log(y)


def logarithm_in_place(x, expect):
    y = -x.detach().abs() - 1
    expect("aten::log_")
    return x + y.log_()


def logarithm_out(x, expect):
    y = -x.detach().abs() - 1
    out = torch.empty_like(y)
    expect("aten::log.out")
    return x + torch.log(y, out=out)


def zero_by_zero(x, expect):
    zeros = x - x
    expect("aten::div.Tensor")
    return x + zeros / zeros


def exponential(x, expect):
    y = x * 0 + 1000
    expect("aten::exp")
    return x + torch.exp(y)


def half_overflow(x, expect):
    y = x.half().abs() + 2
    expect("aten::mul.Tensor")
    return x + y * 60000


def autocast_overflow(x, expect):
    with torch.autocast("cpu", torch.float16):
        large = (x * 0 + 3000).half().reshape(-1, small_models.WIDTH)
        other = large.t()
        expect("aten::mm")
        return x + (large @ other).sum()


def through_a_view(x, expect):
    y = x.clone()
    part = y.view(-1)[2:6]
    zeros = part - part
    expect("aten::div_.Tensor")
    part.div_(zeros)
    return y


def fill(x, expect):
    y = x.clone()
    part = y.view(-1)[::3]
    expect("aten::fill_.Scalar")
    part.fill_(torch.nan)
    return y


def nothing_left(x, expect):
    y = x.masked_fill(torch.ones_like(x, dtype=torch.bool), -torch.inf)
    expect("aten::_softmax")
    return x + torch.softmax(y, -1)


def deviation_of_one(x, expect):
    y = x.reshape(-1)[:1]
    expect("aten::std.correction")
    with warnings.catch_warnings(action="ignore"):
        return x + y.std()


def reciprocal_root(x, expect):
    zeros = x - x
    expect("aten::rsqrt")
    return x + zeros.rsqrt()


def foreach(x, expect):
    values = [x.detach().abs(), -x.detach().abs() - 1]
    expect("aten::_foreach_sqrt")
    return x + torch._foreach_sqrt(values)[1]


class Before(torch.autograd.Function):
    """Its backward pass says what comes next."""

    @staticmethod
    def forward(ctx, x, expect):
        ctx.expect = expect
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.expect("aten::div.Tensor")
        return gradient, None


def root_in_backward(x, expect):
    return x + Before.apply(torch.sqrt(x - x), expect)


class OwnBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, expect):
        ctx.expect = expect
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        y = -gradient.abs() - 1
        ctx.expect("aten::log")
        return torch.log(y), None


def own_backward(x, expect):
    return OwnBackward.apply(x, expect)


IN_BACKWARD = [root_in_backward, own_backward]
ANYWHERE = [
    logarithm,
    logarithm_in_place,
    logarithm_out,
    zero_by_zero,
    exponential,
    half_overflow,
    autocast_overflow,
    through_a_view,
    fill,
    nothing_left,
    deviation_of_one,
    reciprocal_root,
    foreach,
]


def learning_rate(optimizer, expect):
    """By optimizer: the first operator that takes it."""
    options = optimizer.defaults
    kind = "fused" if options.get("fused") else "foreach" if options["foreach"] else "single"
    first = {
        ("AdamW", "fused"): "aten::_fused_adamw_",
        ("AdamW", "foreach"): "aten::_foreach_mul_.Scalar",
        ("AdamW", "single"): "aten::mul_.Tensor",
        ("SGD", "fused"): "aten::_fused_sgd_",
        ("SGD", "single"): "aten::add_.Tensor",
    }.get((type(optimizer).__name__, kind))
    if first:
        optimizer.param_groups[0]["lr"] = torch.nan
        expect(first)
    else:
        gradient(optimizer, expect)


def gradient(optimizer, expect):
    some = next(p.grad for p in optimizer.param_groups[0]["params"] if p.grad is not None)
    zeros = torch.zeros_like(some)
    expect("aten::div_.Tensor")
    some.div_(zeros)


def scaled(x, expect, armed):
    expect("aten::mul.Tensor")
    return x * (1.001 if armed else 1.0)


def scaled_in_place(optimizer, expect, armed):
    """A call that only one run has."""
    if armed:
        expect("aten::mul_.Tensor")
        with torch.no_grad():
            optimizer.param_groups[0]["params"][0].mul_(1.01)


# ---- Runs ----


class Probe:
    """What a run of a model meets. `plant`: a function of the above, at `place` of a step."""

    def __init__(self, plant=None, place=None, step=None, armed=True):
        self.plant, self.place, self.at_step, self.armed = plant, place, step, armed
        self.part, self.step = "start", 0
        self.names, self.checkpointed = {}, set()
        self.waiting = self.expected = None

    def expect(self, name):
        self.waiting = name

    def begins(self, call, taken):
        if self.waiting is None:
            return
        if self.waiting == "takes it":
            looks = call.api in ("aten::lift_fresh", "aten::detach", "aten::view", "aten::alias")
            found = not looks and holds(numpy.isnan, taken)
        else:
            found = call.api == self.waiting
        if found:
            self.expected, self.waiting = call, None

    def is_checkpointed(self, module):
        return any(module.startswith(block) for block in self.checkpointed)

    def is_here(self, place):
        return self.step == self.at_step and self.place == place

    def passes(self, x, place):
        if not self.is_here(place):
            return x
        if self.plant is scaled:
            return scaled(x, self.expect, self.armed)
        return self.plant(x, self.expect) if self.armed else x

    def comes_in(self, array):
        if self.is_here("NumPy") and self.armed:
            self.expect("takes it")
            array.flat[3] = self.plant(array.flat[3])
        return array

    def before_step(self, optimizer):
        if RANKS > 1 and not self.wrapped:
            for each in optimizer.param_groups[0]["params"]:
                if each.grad is not None:
                    dist.all_reduce(each.grad)
        if self.is_here("optimizer"):
            if self.plant is scaled_in_place:
                scaled_in_place(optimizer, self.expect, self.armed)
            elif self.armed:
                self.plant(optimizer, self.expect)


class Case:
    """Of a seed."""

    def __init__(self, seed):
        self.seed = seed
        self.rng = random.Random(f"case {seed}")
        self.verb = ("nan", "diff", "clean", "diff", "nan")[seed % 5]
        self.levels = self.rng.choice(LEVELS)
        self.rank = self.rng.randrange(RANKS)
        self.wrapped = self.rng.choice([True, False])
        self.kernel = None
        self.make_probe = Probe

    def here(self):
        return self.rank == RANK

    def train(self, probe, witness=None):
        def wrap(model):
            probe.names = {module: name for name, module in model.named_modules()}
            probe.checkpointed = {
                f"blocks.{place}"
                for place, each in enumerate(model.checkpoints)
                if each is not None
            }
            # Parameters of reentrant checkpoints get their gradients twice, which it refuses.
            probe.wrapped = RANKS > 1 and self.wrapped and True not in model.checkpoints
            if probe.wrapped:
                return torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
            return model

        with witness.watching_modules() if witness else contextlib.nullcontext():
            with witness or contextlib.nullcontext():
                small_models.train(self.seed, probe, wrap)

    def witness(self, probe, armed=False):
        witness = Witness(probe)
        kernel = self.kernel
        with kernel.in_place(armed, probe, witness) if kernel else contextlib.nullcontext():
            self.train(probe, witness)
        witness.count()
        return witness

    def plan(self):
        """Chooses what is planted; returns what must be found, None for a clean case."""
        if self.verb == "clean":
            return None
        if self.rng.random() < (0.6 if self.verb == "nan" else 0.75) or RANKS > 1:
            return self.plan_kernel()
        return self.plan_program()

    def plan_kernel(self):
        calls = [each for each in self.witness(Probe()).calls if each.computes]
        groups = sorted({group for each in calls for group in each.groups} - {"end"})
        self.rng.shuffle(groups)
        for group in groups * 3:
            call = self.rng.choice([each for each in calls if group in each.groups])
            value = self.rng.choice([torch.nan, torch.nan, torch.inf, -torch.inf])
            if call.holds_infinity:
                value = torch.nan
            if self.verb == "nan":
                name, change = f"{value} by a kernel", always(value)
            else:
                name, change = "another number by a kernel", another
            self.kernel = Kernel(call, self.seed, change)
            with contextlib.suppress(RuntimeError, TypeError, NotImplementedError):
                probe = Probe()
                self.witness(probe)
                witnessed = self.kernel.calls.copy()
                with self.kernel.in_place(False, probe):
                    self.train(probe)
                # Modes change a few calls: how gradients are added up, some fused functions.
                if witnessed != self.kernel.calls:
                    continue
            if self.kernel.at is not None:
                return {"plant": name, "origin": "computed", "how": "made", **call.row()}
        raise RuntimeError("there is no call whose kernel Python can stand in for")

    def plan_program(self):
        step = self.rng.randrange(small_models.STEPS)
        place = self.rng.choice([0, 1, 2, 0, 1, 2, "data", "optimizer", "NumPy"])
        origin, how = "computed", "made"
        if place == "NumPy":
            plant = (lambda x: numpy.nan) if self.verb == "nan" else (lambda x: x + 1)
            plant.__name__ = "an element of an array"
            origin, how = "outside", "came in"
        elif place == "optimizer":
            plant = self.rng.choice([learning_rate, gradient])
            if self.verb == "diff":
                plant, origin = scaled_in_place, "only in one"
        elif self.verb == "diff":
            plant = scaled
        elif place != "data" and self.rng.random() < 0.25:
            plant = self.rng.choice(IN_BACKWARD)
        else:
            plant = self.rng.choice(ANYWHERE)
        self.make_probe = lambda armed=True: Probe(plant, place, step, armed)
        probe = self.make_probe()
        if place == "NumPy" and self.verb == "diff":
            # To know which call takes it.
            probe.plant = lambda x: numpy.nan
        self.witness(probe)
        if probe.expected is None and place == "NumPy":  # this program makes its data by torch
            return self.plan_program()
        assert probe.expected is not None, (plant.__name__, place)
        return {"plant": plant.__name__, "origin": origin, "how": how, **probe.expected.row()}

    def trace(self, folder, name, armed):
        name = f"{name}-{RANK}" if RANKS > 1 else name
        probe = self.make_probe(armed=armed)
        kernel = self.kernel.in_place(armed, probe) if self.kernel else contextlib.nullcontext()
        with (
            kernel,
            torchtrace.trace(
                f"{folder}/{name}",
                levels=self.levels,
                frames="modules",
                numbers=True,
                formats="none",
                quiet=True,
            ),
        ):
            self.train(probe)
        if self.kernel and armed:
            assert self.kernel.fired, (self.kernel.call, self.kernel.at, self.kernel.calls)

    def run(self, folder):
        expected = self.plan()
        if RANKS > 1:
            dist.barrier()
        row = {"seed": self.seed, "verb": self.verb, "rank": self.rank, "levels": self.levels}
        folder = f"{folder}/{self.seed}"
        os.makedirs(folder, exist_ok=True)
        if self.verb != "nan":
            self.trace(folder, "clean", armed=False)
        if self.verb == "clean":
            self.trace(folder, "again", armed=False)
        else:
            self.trace(folder, "planted", armed=self.here())
            row |= expected
        return row


def main(folder, *seeds):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if RANKS > 1:
        dist.init_process_group("gloo", f"file://{folder}/rendezvous", rank=RANK, world_size=RANKS)
    for seed in map(int, seeds):
        case = Case(seed)
        row = case.run(folder)
        if case.here():
            with open(f"{folder}/expected.jsonl", "a") as file:
                file.write(json.dumps(row) + "\n")
    if RANKS > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
