"""Python's operators and protocols on tensors, properties, torch.ops, devices, grad modes."""

import copy
import operator
import pickle
import warnings

import numpy
import torch
import torch.nn.functional as F
from attempts import attempt, mark

warnings.simplefilter("ignore")
torch.manual_seed(0)
x = torch.arange(6.0).view(2, 3)
y = torch.ones(2, 3)
i = torch.tensor([3, 5])
b = torch.tensor([True, False])
c = torch.tensor([1 + 2j])
zero = torch.tensor(2.0)


class Left:
    """Knows what to do with a tensor beside it."""

    def __radd__(self, other):
        return "added"

    __rmatmul__ = __rpow__ = __rsub__ = __rmul__ = __rtruediv__ = __radd__


class Sub(torch.Tensor):
    pass


BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
    operator.pow, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
    operator.matmul, operator.iadd, operator.isub, operator.imul, operator.itruediv,
    operator.ifloordiv, operator.imod, operator.ipow, operator.imatmul, divmod,
]  # fmt: skip
BITS = [
    operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
    operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift,
]  # fmt: skip
OTHERS = {
    "tensor": y,
    "int": 2,
    "float": 0.5,
    "bool": True,
    "scalar tensor": zero,
    "numpy": numpy.ones((2, 3), dtype=numpy.float32),
    "numpy scalar": numpy.float32(2),
    "subclass": y.as_subclass(Sub),
    "parameter": torch.nn.Parameter(torch.ones(2, 3)),
}
for name, other in OTHERS.items():
    for function in BINARY:
        attempt(f"{function.__name__} {name}", function, x.clone(), other)
        if not function.__name__.startswith("i"):
            attempt(f"{function.__name__} {name} reflected", function, other, x.clone())
for name, other in {"tensor": i, "int": 2, "bool tensor": b, "float": 1.5}.items():
    for function in BITS:
        attempt(f"{function.__name__} {name}", function, i.clone(), other)
        attempt(f"{function.__name__} {name} reflected", function, other, i.clone())

UNARY = [
    operator.neg, operator.pos, abs, operator.invert, operator.not_, operator.index, bool, int,
    float, complex, len, list, tuple, iter, reversed, hash, repr, str, round, sum, max, min, any,
    all, sorted, range, enumerate, dir, vars, bytes, set, copy.copy, copy.deepcopy,
    operator.length_hint, numpy.array, numpy.asarray, numpy.sin, pickle.dumps, memoryview, format,
]  # fmt: skip
for function in UNARY:
    for name, value in {"matrix": x, "ints": i, "scalar": zero, "bools": b, "int": i[0]}.items():
        attempt(f"{function.__name__} {name}", function, value)

INDICES = {
    "int": 0, "negative": -1, "slice": slice(0, 2), "none": None, "dots": ..., "tuple": (0, 1),
    "tensor": torch.tensor([0]), "mask": x > 1, "list": [0, 1], "mixed": (slice(None), [0]),
    "out of range": 9, "a string": "a", "bool": True, "numpy": numpy.array([0]),
    "two tensors": (torch.tensor([0]), torch.tensor([1])), "empty": (), "subclass": i[:0].as_subclass(Sub),
    "float": 1.5, "scalar tensor": torch.tensor(0), "dots and int": (..., 0),
}  # fmt: skip
for name, index in INDICES.items():
    attempt(f"getitem {name}", operator.getitem, x, index)
    attempt(f"setitem {name}", operator.setitem, x.clone(), index, 1)
    attempt(f"setitem tensor {name}", operator.setitem, x.clone(), index, torch.tensor(1.0))
    attempt(f"delitem {name}", operator.delitem, x.clone(), index)
attempt("range of tensor", lambda: list(range(torch.tensor(3))))
attempt("list index", lambda: [1, 2, 3][torch.tensor(1)])
attempt("for", lambda: [row for row in x])
attempt("for over scalar", lambda: [row for row in zero])
attempt("unpack", lambda: (lambda a, b: (a, b))(*x))
attempt("star", lambda: torch.stack([*x]))
attempt("zip", lambda: list(zip(x, y)))
attempt("in", lambda: 1 in x)
attempt("in tensor", lambda: zero in x)
attempt("in string", lambda: "a" in x)
attempt("tensor in list", lambda: zero in [zero, 1])
attempt("tensor in other list", lambda: zero in [1, 2])
attempt("list.index", lambda: [1, zero].index(zero))
attempt("list equality", lambda: [zero] == [torch.tensor(2.0)])
attempt("dict key", lambda: {x: 1}[x])
attempt("if", lambda: 1 if zero else 2)
attempt("and", lambda: zero and x)
attempt("chain", lambda: 0 < zero < 3)
attempt("chained in place", lambda: x.clone().add_(1).mul_(2).sub_(3))
attempt("f-string", lambda: f"{zero:.2f} {zero} {x!r}")
attempt("percent", lambda: "%d %f %s" % (zero, zero, zero))
attempt("math", lambda: __import__("math").sqrt(zero))
attempt("math of a matrix", lambda: __import__("math").sqrt(x))
attempt("getattr", lambda: getattr(x, "nonsense"))
attempt("own attribute", lambda: setattr(x, "mine", 1))
attempt("is", lambda: x is y)
attempt("isinstance", lambda: isinstance(x, torch.FloatTensor))
attempt("left", lambda: x + Left())
attempt("left matmul", lambda: x @ Left())
attempt("left power", lambda: x ** Left())
attempt("unknown", lambda: x + "a")
attempt("unknown reflected", lambda: "a" + x)
attempt("none", lambda: x + None)
attempt("equal none", lambda: x == None)  # noqa
attempt("equal string", lambda: x == "a")
attempt("unequal object", lambda: x != object())
attempt("less than string", lambda: x < "a")
attempt("numpy array first", lambda: numpy.ones((2, 3)) + x)
attempt("numpy array in place", lambda: numpy.ones((2, 3)).__iadd__(x))
attempt("numpy power", lambda: numpy.float64(2) ** x)
attempt("numpy ufunc", lambda: numpy.add(x, y))
attempt("numpy function", lambda: numpy.concatenate([x, y]))
attempt("dlpack", lambda: torch.from_dlpack(x))
attempt("numpy dlpack", lambda: numpy.from_dlpack(x))
attempt("operator.methodcaller", lambda: operator.methodcaller("add", 1)(x))
attempt("map", lambda: list(map(torch.neg, [x, y])))
attempt("functools", lambda: __import__("functools").reduce(torch.add, [x, y, x]))
attempt("partial", lambda: __import__("functools").partial(torch.add, alpha=2)(x, y))
attempt("unbound", lambda: torch.Tensor.add(x, 1))
attempt("unbound base", lambda: torch._C.TensorBase.add(x, 1))
attempt("unbound dunder", lambda: torch.Tensor.__add__(x, 1))
attempt("unbound reflected", lambda: torch.Tensor.__radd__(x, 1))
attempt("unbound eq", lambda: torch.Tensor.__eq__(x, 1))
attempt("unbound lt", lambda: torch.Tensor.__lt__(x, 1))
attempt("unbound lt string", lambda: torch.Tensor.__lt__(x, "a"))
attempt("unbound getitem", lambda: torch.Tensor.__getitem__(x, 0))
attempt("unbound setitem", lambda: torch.Tensor.__setitem__(x.clone(), 0, 1))
attempt("unbound len", lambda: torch.Tensor.__len__(x))
attempt("unbound of no tensor", lambda: torch.Tensor.add(1, 1))
attempt("bound kept", lambda: [add(1) for add in [x.add] * 3])
attempt("apply_", lambda: x.clone().apply_(lambda each: each + 1))
attempt("map_", lambda: x.clone().map_(y, lambda a, b: a + b))
attempt("item", lambda: x.item())
attempt("tolist", lambda: x.tolist())

# ---- Properties ----
for name in sorted(set(dir(torch.Tensor))):
    value = getattr(torch.Tensor, name)
    if type(value).__name__ in ("getset_descriptor", "property") and name != "__dict__":
        for kind, tensor in {"float": x, "complex": c, "leaf": OTHERS["parameter"]}.items():
            attempt(f"get {name} {kind}", getattr, tensor, name)
            attempt(f"set {name} {kind}", setattr, tensor.detach().clone(), name, None)
attempt("set grad", setattr, x.clone(), "grad", y)
attempt("set data", setattr, x.clone(), "data", y)
attempt("set requires_grad", setattr, x.clone(), "requires_grad", True)
attempt("set requires_grad of ints", setattr, i.clone(), "requires_grad", True)
attempt("set real", setattr, c.clone(), "real", 1)
attempt("set names", setattr, x.clone(), "names", ("a", "b"))
attempt("delete grad", delattr, x.clone(), "grad")
attempt("delete shape", delattr, x.clone(), "shape")
attempt("descriptor get", lambda: torch.Tensor.shape.__get__(x))
attempt("descriptor set", lambda: torch.Tensor.grad.__set__(x.clone(), None))
attempt("shape unpacked", lambda: (lambda a, b: a)(*x.shape))

# ---- Constructors ----
attempt("Tensor(2)", torch.Tensor, 2)
attempt("Tensor(list)", torch.Tensor, [1.0])
attempt("FloatTensor", torch.FloatTensor, [1.0])
attempt("Parameter", torch.nn.Parameter, x)
attempt("Parameter of ints", torch.nn.Parameter, i)
attempt("Buffer", torch.nn.Buffer, x)
attempt("tensor", torch.tensor, [1.0], dtype=torch.float64)
attempt("tensor of tensors", torch.tensor, [zero, zero])
attempt("tensor of a tensor", torch.tensor, x)
attempt("as_tensor", torch.as_tensor, numpy.ones(2))
attempt("from_numpy", torch.from_numpy, numpy.ones(2))
attempt("frombuffer", torch.frombuffer, bytearray(8), dtype=torch.float32)
attempt("sparse", torch.sparse_coo_tensor, [[0, 1]], [1.0, 2.0], (3,))
attempt("csr", torch.sparse_csr_tensor, [0, 1, 2], [0, 1], [1.0, 2.0])
attempt("to_sparse", lambda: x.to_sparse().to_dense())
attempt("nested", torch.nested.nested_tensor, [x, y])
attempt("nested jagged", lambda: torch.nested.nested_tensor([x, y], layout=torch.jagged) * 2)
attempt("empty like", torch.empty_like, x, dtype=torch.int32)
attempt("new", lambda: (x.new(2), x.new_ones(2), x.new_tensor([1]), x.new_full((2,), 1)))
attempt("arange", lambda: (torch.arange(3), torch.arange(0, 3), torch.arange(0, 3, step=2)))
attempt("linspace", torch.linspace, 0, 1, steps=3)
attempt("randint", lambda: (torch.randint(3, (2,)), torch.randint(0, 3, (2,)), torch.randperm(3)))
attempt("full with out", lambda: torch.ones(2, out=torch.empty(2)))
attempt("normal", lambda: (torch.normal(0.0, 1.0, (2,)), torch.normal(x, 1.0)))
attempt("generator", lambda: torch.rand(2, generator=torch.Generator().manual_seed(1)))
attempt("seeds", lambda: (torch.manual_seed(1), torch.initial_seed(), torch.get_rng_state()))
attempt("storage", lambda: x.untyped_storage().nbytes())
attempt("storages", lambda: (x.storage()[0], x.storage().tolist()))
attempt("set_", lambda: torch.empty(0).set_(x))
attempt("save and load", lambda: pickle.loads(pickle.dumps({"a": x, "p": OTHERS["parameter"]})))

# ---- Tensors where numbers are expected ----
two = torch.tensor(2)
attempt("view of a tensor", lambda: x.view(torch.tensor(3), -1))
attempt("view of tensors in a tuple", lambda: x.view((torch.tensor(3), two)))
attempt("ones of a tensor", lambda: torch.ones(two))
attempt("ones of tensors", lambda: torch.ones(two, two))
attempt("ones of a tuple of tensors", lambda: torch.ones((two, 3)))
attempt("zeros of a parameter", lambda: torch.zeros(two.item(), i[0] - 1))
attempt("sum over a tensor", lambda: x.sum(torch.tensor(0)))
attempt("sum over a list", lambda: x.sum([torch.tensor(0)]))
attempt("float where int", lambda: x.view(zero, -1))
attempt("narrow", lambda: x.narrow(0, torch.tensor(0), 1))
attempt("split of a tensor", lambda: x.split(torch.tensor(1)))
attempt("expand", lambda: zero.expand(two, two))
attempt("scalar tensor as alpha", lambda: torch.add(x, y, alpha=two))
attempt("scalar tensor as value", lambda: torch.full((2,), two))
attempt("arange of tensors", lambda: torch.arange(torch.tensor(0), two))
attempt("repeat_interleave", lambda: x.repeat_interleave(two))
attempt("tensor of mixed", lambda: torch.tensor([two, 1]))
attempt("topk", lambda: x.topk(torch.tensor(1)))
attempt("size", lambda: (x.size(), x.size(0), x.size(dim=1), x.size(torch.tensor(0))))
attempt("slice of tensors", lambda: x[torch.tensor(0) : two])
attempt("bool of tensor as keyword", lambda: x.sum(0, keepdim=torch.tensor(True)))
attempt("numpy ints", lambda: torch.ones(numpy.int64(2), numpy.int32(3)))
attempt("F.pad of tensors", lambda: F.pad(x, (torch.tensor(1), 1)))
attempt("interpolate to tensors", lambda: F.interpolate(x[None, None], size=(two, two)))
attempt("dropout of a tensor", lambda: F.dropout(x, p=torch.tensor(0.0)))
attempt("set grad by a tensor", lambda: torch.set_grad_enabled(torch.tensor(True)))
attempt("manual_seed of a tensor", lambda: torch.manual_seed(two))

# ---- Devices and dtypes ----
attempt("device", torch.device, "cpu")
attempt("device index", torch.device, "cpu", 0)
attempt("device keywords", torch.device, type="cuda", index=1)
attempt("device of device", torch.device, torch.device("cpu"))
attempt("device unknown", torch.device, "nonsense")
attempt("device wrong", torch.device, [1])
attempt("device without", torch.device)
attempt("device to", lambda: x.to("cpu", torch.float64))
attempt("device to meta", lambda: x.to(torch.device("meta")).device)
attempt("device to keywords", lambda: x.to(device="cpu", dtype=torch.int32, non_blocking=True))
attempt("module to", lambda: torch.nn.Linear(2, 2).to("cpu").to(torch.float64).double().half())
attempt("set_default_dtype", lambda: torch.set_default_dtype(torch.float32))
attempt(
    "result_type", lambda: (torch.result_type(x, 1), torch.promote_types(torch.int8, torch.float16))
)
attempt("is_tensor", lambda: (torch.is_tensor(x), torch.is_storage(x), torch.is_complex(x)))
attempt("finfo", lambda: (torch.finfo(x.dtype).max, torch.iinfo(torch.int8).max))

# ---- Grad modes and other switches ----


def grad_modes():
    with torch.no_grad():
        x + 1
        with torch.enable_grad():
            x + 2
    with torch.set_grad_enabled(False):
        x + 3
    torch.set_grad_enabled(True)

    @torch.no_grad()
    def decorated():
        return x + 4

    decorated()

    @torch.inference_mode()
    def inference():
        return x + 5

    inference()
    with torch.inference_mode(), torch.autograd.set_multithreading_enabled(False):
        x + 6
    with torch.autograd._force_original_view_tracking(True):
        x + 7
    with torch.autocast("cpu"):
        x @ y.T
    with torch.autograd.graph.save_on_cpu(), torch.random.fork_rng():
        x + 8
    torch._C._set_grad_enabled(True)
    torch._C._set_grad_enabled(enabled=True)
    with torch.autograd.detect_anomaly(check_nan=False):
        x + 9


attempt("grad modes", grad_modes)
attempt("_set_grad_enabled wrong", lambda: torch._C._set_grad_enabled("yes"))
attempt("_set_multithreading_enabled", lambda: torch._C._set_multithreading_enabled(True))
attempt("_set_view_replay_enabled", lambda: torch._C._set_view_replay_enabled(False))
attempt("no_grad that fails", lambda: grad_failing())


def grad_failing():
    with torch.no_grad():
        x.view(7)


attempt("no_grad around a failure", grad_failing)
attempt("grad is on", lambda: (x + OTHERS["parameter"]).sum().backward())

# ---- torch.ops ----
aten = torch.ops.aten
attempt("overload", aten.add.Tensor, x, y)
attempt("overload keywords", aten.add.Tensor, x, other=y, alpha=2)
attempt("overload default", aten.relu.default, x)
attempt("overload factory", aten.ones.default, [2])
attempt("overload out", lambda: aten.add.out(x, y, out=torch.empty(2, 3)))
attempt("overload wrong", aten.add.Tensor, x)
attempt("overload failing", aten.view.default, x, [7])
attempt("overload redispatch", lambda: aten.relu.default.redispatch(torch._C._dispatch_keys(x), x))
attempt("overload decompose", lambda: aten.relu.default.decompose(x))
attempt("overload op", lambda: aten.relu.default._op(x))
attempt("packet", aten.add, x, y)
attempt("packet keywords", aten.add, x, other=y)
attempt("packet factory", aten.zeros, [2])
attempt("packet wrong", aten.add, x)
attempt("packet op", lambda: aten.relu._op(x))
attempt("packet twice", lambda: [aten.relu(aten.neg(x)) for _ in range(2)])
attempt("packet of a scalar", aten.Int, 1)
attempt("packet sym_size", lambda: aten.sym_size(x, 0))
attempt("prims", lambda: torch.ops.prims.add(x, y))
attempt("profiler op", lambda: torch.ops.profiler._record_function_enter_new("range"))
attempt("jit operation", lambda: torch._C._jit_get_operation("aten::neg")[0](x))
attempt("unknown packet", lambda: aten.nonsense(x))
attempt("refs", lambda: torch._refs.add(x, y))


@torch.library.custom_op("told::double", mutates_args=())
def double(tensor: torch.Tensor, times: int = 2) -> torch.Tensor:
    return tensor * times


library = torch.library.Library("told", "FRAGMENT")
library.define("triple(Tensor x) -> Tensor")
library.impl("triple", lambda tensor: tensor * 3, "CPU")
attempt("custom op", double, x)
attempt("custom op keywords", double, x, times=3)
attempt("custom op by name", lambda: torch.ops.told.double(x))
attempt("custom op overload", lambda: torch.ops.told.double.default(x, times=4))
attempt("library op", lambda: torch.ops.told.triple(x))
attempt("custom op failing", double, "a")

# ---- Higher-order operators ----
cond = torch.ops.higher_order.cond
attempt("cond", cond, torch.tensor(True), torch.sin, torch.cos, (x,))
attempt("cond of functions", cond, torch.tensor(False), lambda t: t + 1, lambda t: t - 1, (x,))
attempt("cond failing", cond, torch.tensor(True), lambda t: t.view(7), torch.cos, (x,))
attempt("cond wrong", cond, torch.tensor(True))

# ---- Symbolic numbers ----
for function in (torch.sym_int, torch.sym_float, torch.sym_not, torch.sym_sqrt):
    attempt(f"{function.__name__}", function, 2)
    attempt(f"{function.__name__} keyword", function, a=2)
for function in (torch.sym_max, torch.sym_min, torch.sym_fresh_size):
    attempt(f"{function.__name__}", function, 2, 3)
attempt("sym_ite", torch.sym_ite, True, 1, 2)
attempt("sym_sum", torch.sym_sum, [1, 2, 3])
attempt("sym_sum several", lambda: torch.sym_sum(1, 2, 3))
attempt("sym_sum of a tuple", torch.sym_sum, (1, 2))

# ---- Modules ----
net = torch.nn.Sequential(
    torch.nn.Conv1d(2, 4, 3, padding=1),
    torch.nn.BatchNorm1d(4),
    torch.nn.ReLU(inplace=True),
    torch.nn.Dropout(0.1),
    torch.nn.MaxPool1d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(12, 2),
    torch.nn.LayerNorm(2),
    torch.nn.Softmax(1),
)
attempt("module", net, torch.ones(2, 2, 3))
attempt("module backward", lambda: net(torch.ones(2, 2, 3)).sum().backward())
attempt("module failing", net, x)
optimizer = torch.optim.AdamW(net.parameters(), foreach=False)
attempt("optimizer", optimizer.step)
attempt("optimizer foreach", lambda: torch.optim.SGD(net.parameters(), 0.1, foreach=True).step())
attempt("optimizer fused", lambda: torch.optim.Adam(net.parameters(), 0.1, fused=True).step())
attempt("zero_grad", optimizer.zero_grad)
attempt("clip", lambda: torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0))
attempt("state dict", lambda: net.load_state_dict(net.state_dict()))
for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    attempt(kind.__name__, lambda: kind(3, 4, 2, bidirectional=True)(torch.ones(5, 2, 3)))
attempt("LSTMCell", lambda: torch.nn.LSTMCell(3, 4)(x))
attempt(
    "embedding bag", lambda: torch.nn.EmbeddingBag(4, 2)(torch.tensor([0, 1]), torch.tensor([0]))
)
packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 3), torch.ones(2, 3)])
attempt("packed", lambda: torch.nn.utils.rnn.pad_packed_sequence(packed))
attempt(
    "weight norm", lambda: torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))(x)
)
attempt("prune", lambda: torch.nn.utils.prune.l1_unstructured(torch.nn.Linear(3, 2), "weight", 1))
attempt("distributions", lambda: torch.distributions.Normal(zero, zero).log_prob(zero))
attempt("distribution sample", lambda: torch.distributions.Categorical(y).sample())
attempt(
    "kl", lambda: torch.distributions.kl_divergence(*[torch.distributions.Normal(zero, 1.0)] * 2)
)
for name in ("uniform_", "normal_", "ones_", "xavier_uniform_", "kaiming_normal_", "orthogonal_", "eye_",
             "trunc_normal_", "zeros_", "xavier_normal_", "kaiming_uniform_", "dirac_", "sparse_"):  # fmt: skip
    attempt(f"init {name}", getattr(torch.nn.init, name), torch.empty(3, 3))
    attempt(f"init {name} keyword", lambda: getattr(torch.nn.init, name)(tensor=torch.empty(3, 3)))
attempt("init constant_", torch.nn.init.constant_, torch.empty(2), 1)
attempt("init sparse_ sparsity", torch.nn.init.sparse_, torch.empty(3, 3), sparsity=0.1)
attempt("init uniform_ all", torch.nn.init.uniform_, torch.empty(2), a=0.5, b=1.0, generator=None)

# ---- Functions that pass their arguments on otherwise ----
image = torch.rand(1, 1, 8, 8, 8)
for n in (1, 2, 3):
    data = image[(0,) * (3 - n)]
    for name in ("max_pool", "adaptive_max_pool"):
        function = getattr(F, f"{name}{n}d")
        attempt(f"{name}{n}d", function, data, 2)
        attempt(
            f"{name}{n}d keywords",
            lambda: (
                function(data, kernel_size=2)
                if n and "ad" not in name
                else function(data, output_size=2)
            ),
        )
        for indices in (True, False):
            attempt(f"{name}{n}d {indices}", function, data, 2, return_indices=indices)
        attempt(f"{name}{n}d with_indices", getattr(F, f"{name}{n}d_with_indices"), data, 2)
    attempt(f"max_pool{n}d all", getattr(F, f"max_pool{n}d"), data, 2, 2, 0, 1, True, True)
    attempt(f"max_pool{n}d failing", getattr(F, f"max_pool{n}d"), data, 99)
    attempt(f"max_pool{n}d wrong", getattr(F, f"max_pool{n}d"), data)
    attempt(f"max_pool{n}d module", getattr(torch.nn, f"MaxPool{n}d")(2, return_indices=True), data)
for n in (2, 3):
    function = getattr(F, f"fractional_max_pool{n}d")
    for indices in (True, False):
        attempt(
            f"fractional {n} {indices}",
            function,
            image[(0,) * (3 - n)],
            2,
            output_size=3,
            return_indices=indices,
        )
for name in (
    "torch.unique",
    "torch.unique_consecutive",
    "torch.Tensor.unique",
    "torch.Tensor.unique_consecutive",
):
    function = operator.attrgetter(name[6:])(torch)
    for inverse in (True, False):
        for counts in (True, False):
            attempt(
                f"{name} {inverse} {counts}",
                function,
                i,
                return_inverse=inverse,
                return_counts=counts,
            )
    attempt(f"{name} dim", function, x, dim=0)
    attempt(f"{name} places", function, x, True, True, True, 0)
    attempt(f"{name} plain", function, x)
for equation, operands in {"ij,jk->ik": (x, y.T), "ij": (x,), "...i->...": (x,)}.items():
    attempt(f"einsum {equation}", torch.einsum, equation, *operands)
    attempt(f"einsum list {equation}", torch.einsum, equation, list(operands))
    attempt(f"einsum tuple {equation}", torch.einsum, equation, operands)
    attempt(
        f"einsum keyword {equation}", lambda: torch.einsum(equation=equation, operands=operands)
    )
attempt("einsum sublists", torch.einsum, x, [0, 1], y, [0, 1], [0])
attempt("einsum sublists without output", torch.einsum, x, [0, 1], y, [0, 1])
attempt("einsum sublists and dots", torch.einsum, x, [..., 1], [1])
attempt("einsum failing", torch.einsum, "ij,jk", x, x)
attempt("einsum wrong", torch.einsum, "ij", 1)
attempt("einsum without", torch.einsum, "ij")
attempt("broadcast_tensors", torch.broadcast_tensors, x, zero)
attempt("broadcast_tensors list", torch.broadcast_tensors, [x, zero])
attempt("broadcast_shapes", torch.broadcast_shapes, (2, 1), (3,))
attempt("meshgrid", torch.meshgrid, zero, i, indexing="ij")
attempt("meshgrid list", torch.meshgrid, [zero, i])
attempt("cartesian_prod", torch.cartesian_prod, i, i)
attempt("block_diag", torch.block_diag, x, y)
attempt("atleast", lambda: (torch.atleast_1d(x, y), torch.atleast_2d([x]), torch.atleast_3d(x)))
attempt(
    "split", lambda: (torch.split(x, 1), torch.split(x, [1, 1], dim=0), x.split(1), x.split([1, 1]))
)
attempt("tensordot", lambda: (torch.tensordot(x, y, 2), torch.tensordot(x, y.T, dims=([1], [0]))))
attempt("cdist", torch.cdist, x, y, p=1)
attempt(
    "norm", lambda: (torch.norm(x), torch.norm(x, "fro"), torch.norm(x, 2, 1, True), x.norm(dim=0))
)
attempt("stft", lambda: torch.stft(torch.ones(16), 8, return_complex=True))
attempt("istft", lambda: torch.istft(torch.stft(torch.ones(16), 8, return_complex=True), 8))
attempt("chain_matmul", torch.chain_matmul, x, y.T)
attempt("multi_dot", torch.linalg.multi_dot, [x, y.T])
square = torch.rand(6, 6)
square = square @ square.T + torch.eye(6)
attempt("lobpcg", torch.lobpcg, square, k=1, niter=1)
attempt("lobpcg all", torch.lobpcg, square, X=torch.rand(6, 1), niter=1, largest=False)
attempt("svd_lowrank", torch.svd_lowrank, square, q=2)
attempt("svd_lowrank all", torch.svd_lowrank, square, 2, niter=1, M=None)
attempt("pca_lowrank", torch.pca_lowrank, square, q=2)
attempt("pca_lowrank all", torch.pca_lowrank, square, 2, center=False, niter=1)
attempt("lu", lambda: (torch.lu(square), square.lu(get_infos=True), torch.lu_unpack(*square.lu())))
attempt("linalg", lambda: (torch.linalg.svd(x), torch.linalg.norm(x), torch.linalg.inv(square)))
attempt("linalg failing", torch.linalg.inv, torch.zeros(2, 2))
attempt("fft", lambda: (torch.fft.fft(x), torch.fft.rfft2(x), torch.fft.fftshift(x, dim=0)))
attempt("special", lambda: (torch.special.gammaln(x), torch.special.softmax(x, 1)))
attempt("windows", lambda: torch.signal.windows.hann(4))
attempt("_assert", torch._assert, True, "message")
attempt("_assert tensor", torch._assert, zero > 1, "message")
attempt("_assert keywords", lambda: torch._assert(condition=zero > 1, message="message"))
attempt("_assert failing", torch._assert, False, "message")
attempt("_assert failing tensor", torch._assert, zero > 9, "message")
attempt(
    "dropouts",
    lambda: [
        f(image[0], 0.5, True) for f in (F.dropout, F.dropout2d, F.dropout3d, F.alpha_dropout)
    ],
)
attempt("dropout in place", lambda: F.dropout(x.clone(), inplace=True))
attempt("dropout failing", F.dropout, x, 2.0)
attempt(
    "softmax", lambda: (F.softmax(x, 1), F.softmax(x, dim=1, dtype=torch.float64), F.log_softmax(x))
)
attempt("gumbel", lambda: F.gumbel_softmax(x, tau=2, hard=True))
attempt("interpolate", lambda: F.interpolate(image[0], scale_factor=2, mode="nearest"))
attempt(
    "pad",
    lambda: (
        F.pad(x, (1, 1)),
        F.pad(x, (1, 1), "constant", 2),
        F.pad(x[None], (1, 1), mode="reflect"),
    ),
)
attempt(
    "grid_sample", lambda: F.grid_sample(image[0], F.affine_grid(torch.ones(1, 2, 3), (1, 1, 4, 4)))
)
attempt(
    "losses",
    lambda: [f(x, y) for f in (F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div)],
)
attempt("loss reductions", lambda: [F.mse_loss(x, y, reduction=r) for r in ("none", "sum", "odd")])
attempt("loss deprecated", lambda: F.mse_loss(x, y, size_average=True, reduce=False))
attempt("cross_entropy", lambda: F.cross_entropy(x, torch.tensor([0, 2]), label_smoothing=0.1))
attempt("nll", lambda: F.nll_loss(x, torch.tensor([0, 2]), weight=torch.ones(3)))
attempt(
    "embedding",
    lambda: (F.embedding(i, torch.ones(9, 2)), F.embedding(i, torch.ones(9, 2), max_norm=1.0)),
)
attempt(
    "embedding_bag", lambda: F.embedding_bag(i, torch.ones(9, 2), torch.tensor([0]), mode="sum")
)
attempt("batch_norm", lambda: F.batch_norm(x, None, None, training=True))
attempt(
    "group_norm",
    lambda: (F.group_norm(image[0], 1), F.instance_norm(image[0]), F.layer_norm(x, (3,))),
)
attempt("attention", F.scaled_dot_product_attention, image[0], image[0], image[0])
attempt("rrelu", lambda: (F.rrelu(x), F.rrelu(x.clone(), inplace=True), F.rrelu_(x.clone())))
attempt("activations", lambda: [getattr(F, n)(x.clone()) for n in ("relu", "relu6", "elu", "selu", "celu", "gelu",
    "silu", "mish", "hardtanh", "hardswish", "leaky_relu", "tanh", "sigmoid", "softsign", "softplus", "logsigmoid")])  # fmt: skip
attempt("activations in place", lambda: [getattr(F, n)(x.clone(), inplace=True) for n in ("relu", "relu6", "elu", "selu",
    "celu", "silu", "mish", "hardtanh", "hardswish", "leaky_relu", "threshold")])  # fmt: skip
weight = torch.rand(9, 3)
bias = torch.rand(9)
sequence = torch.rand(4, 2, 3)


def attention(**more):
    return F.multi_head_attention_forward(
        sequence,
        sequence,
        sequence,
        3,
        3,
        weight,
        bias,
        None,
        None,
        False,
        0.0,
        torch.eye(3),
        torch.zeros(3),
        **more,
    )


attempt("multi_head_attention_forward", attention)
attempt(
    "multi_head_attention_forward all",
    lambda: attention(training=False, need_weights=False, is_causal=False),
)
attempt("multi_head_attention_forward failing", lambda: attention(attn_mask=torch.ones(9)))
attempt(
    "MultiheadAttention", lambda: torch.nn.MultiheadAttention(3, 3)(sequence, sequence, sequence)
)
attempt("Transformer layer", lambda: torch.nn.TransformerEncoderLayer(3, 3, 4)(sequence))
mark("end of operators")
