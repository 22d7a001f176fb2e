"""Random programs: a tree of blocks and statements, and its text.

Every statement works on the same four tensors, so any part of a tree is a program too.
"""

import dataclasses
import random
import re

VARIABLES = ("a", "b", "c", "d")

# ---- Statements: X, Y and Z are tensors, N a small number. The value of the last line is kept. ----

PLAIN = """
t.X = torch.add(t.Y, t.Z, alpha=N); t.X
t.X = t.Y + t.Z * N; t.X
t.X = N - t.Y; t.X
t.X = t.Y @ t.Z; t.X
t.X = torch.relu(t.Y); t.X
t.X = F.gelu(t.Y); t.X
t.X = F.softmax(t.Y, 1); t.X
t.X = F.layer_norm(t.Y, (4,)); t.X
t.X = F.linear(t.Y, t.Z); t.X
t.X = torch.where(t.Y > 0, t.Y, t.Z); t.X
t.X = t.Y.t().contiguous(); t.X
t.X = t.Y.t(); t.X
t.X = torch.cat([t.Y, t.Z])[:4]; t.X
t.X = torch.stack([t.Y, t.Z]).mean(0); t.X
t.X = torch.einsum("ij,jk->ik", t.Y, t.Z); t.X
t.X = t.Y.clamp(-N, N); t.X
t.X = torch.tanh(t.Y); t.X
t.X = t.Y.reshape(2, 8).view(4, 4); t.X
t.X = torch.sort(t.Y, dim=1).values; t.X
t.X = t.Y.clone(); t.X.add_(t.Z).mul_(0.5); t.X
t.X = torch.empty(4, 4); torch.sub(t.Y, t.Z, out=t.X); t.X
t.X = t.Y.clone(); t.X[N % 4] = 1.0; t.X
t.X = t.Y.clone(); t.X[:, 1:3] = t.Z[:, 1:3]; t.X
t.X = t.Y[torch.tensor([3, 1, 0, 2])]; t.X
t.X = t.Y.double().float(); t.X
t.X = t.Y.to(torch.bfloat16).to(torch.float32); t.X
t.X = torch.ones(4, 4) * N; t.X
t.X = torch.full((4, 4), N, dtype=torch.float32); t.X
t.X = torch.tensor([[1.0, 2.0, 3.0, 4.0]] * 4); t.X
t.X = torch.arange(16.0).view(4, 4); t.X
t.X = F.conv2d(t.Y[None, None], t.Z[None, None, :3, :3], padding=1)[0, 0]; t.X
t.X = torch.cumsum(t.Y, N % 2); t.X
t.X = torch.nan_to_num(t.Y / t.Z); t.X
t.X = torch.complex(t.Y, t.Z).conj().abs(); t.X
torch.complex(t.Y, t.Z).conj()
torch.view_as_real(torch.complex(t.Y, t.Z))
t.Y.sum().item()
[row.sum().item() for row in t.Y]
t.Y.tolist()
bool((t.Y > N).any()), len(t.Y), t.Y.shape, t.Y.dim()
t.Y.numpy().sum().item()
torch.from_numpy(t.Y.detach().numpy().copy())
torch.linalg.svd(t.Y).S
torch.linalg.qr(t.Y)
torch.fft.fft(t.Y)
torch.topk(t.Y, 2)
torch.unique(t.Y.round())
torch.nonzero(t.Y > 0)
torch.argmax(t.Y, dim=1)
t.Y.to_sparse().to_dense()
torch.sparse.mm(t.Y.to_sparse(), t.Z)
torch.nested.nested_tensor([t.Y, t.Z[:2]]).to_padded_tensor(0.0)
torch._foreach_add([t.Y, t.Z], N)
torch.quantize_per_tensor(t.Y, 0.1, 0, torch.qint8).dequantize()
F.scaled_dot_product_attention(t.Y[None], t.Z[None], t.Y[None])
F.cross_entropy(t.Y, torch.tensor([0, 1, 2, 3]))
F.embedding(torch.tensor([N % 4, 1]), t.Y)
t.Y.new_zeros(2, N)
torch.zeros_like(t.Y), torch.empty_like(t.Y).shape
(t.Y > t.Z) & (t.Y != 0)
divmod(N, 3), t.Y // 2, t.Y % 2, abs(t.Y), -t.Y, t.Y ** 2, 2 ** t.Y
torch.split(t.Y, 2), torch.chunk(t.Z, 2), t.Y.unbind()
torch.promote_types(torch.int8, torch.float16), torch.result_type(t.Y, 1)
t.Y.expand(2, 4, 4).permute(2, 0, 1)
torch.ops.aten.mul.Tensor(t.Y, t.Z)
torch.ops.aten.relu(t.Y)
fail(lambda: torch.mm(t.Y, t.Z[:3]))
fail(lambda: t.Y.view(7))
fail(lambda: t.Y[9])
fail(lambda: torch.add(t.Y, "N"))
fail(lambda: torch.linalg.inv(torch.zeros(2, 2)))
fail(lambda: F.dropout(t.Y, 2.0))
fail(lambda: t.Y.add_(torch.ones(5)))
fail(lambda: torch.tensor([[1], [2, 3]]))
fail(lambda: int(t.Y))
torch.mm(t.Y, t.Z[:3])
t.Y.nothing
x = leaf(t.Y); (x * t.Z).sum().backward(); x.grad
x = leaf(t.Y); F.softmax(x, 0)[N % 4].sum().backward(); x.grad
x = leaf(t.Y); torch.autograd.grad((x ** 3).sum(), x)
x = leaf(t.Y); (y,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True); y.sum().backward(); x.grad
x = leaf(t.Y); F.layer_norm(x, (4,)).pow(2).sum().backward(); x.grad
x = leaf(t.Y); (x @ t.Z).relu().mean().backward(); x.grad
x = leaf(t.Y); blocks.Cube.apply(x).sum().backward(); x.grad
x = leaf(t.Y); blocks.Raising.apply(x).sum().backward()
x = leaf(t.Y); x.register_hook(lambda grad: grad * 2); x.exp().sum().backward(); x.grad
x = leaf(t.Y); y = x * 2; y.retain_grad(); y.sin().sum().backward(); y.grad, x.grad
x = leaf(t.Y); x.sum().backward(); x.grad.zero_(); (x * 3).sum().backward(); x.grad
x = leaf(t.Y); y = x.clone(); y.mul_(t.Z); y.sum().backward(); x.grad
x = leaf(t.Y); y = (x * x).sum(); y.backward(); y.backward()
x = leaf(t.Y); checkpoint(lambda x: (x.sin() * t.Z).relu(), x, use_reentrant=False).sum().backward(); x.grad
x = leaf(t.Y); checkpoint(lambda x: (x.cos() * t.Z), x, use_reentrant=True).sum().backward(); x.grad
x = leaf(t.Y); saved(lambda x: (x.exp() * t.Z).sum(), x).backward(); x.grad
torch.autograd.functional.jacobian(lambda x: x.sin() * t.Z, t.Y).sum()
torch.autograd.functional.hvp(lambda x: (x ** 3).sum(), t.Y, t.Z)
m = module(N); m(t.Y).sum().backward(); [p.grad for p in m.parameters()]
m = module(N); o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9); step(m, o, t.Y); step(m, o, t.Z); list(m.parameters())
m = module(N); o = torch.optim.AdamW(m.parameters(), 0.1); step(m, o, t.Y); step(m, o, t.Z); list(m.parameters())
m = module(N); m.register_forward_hook(lambda m, i, o: o * 2); m(t.Y)
m = module(N); m.load_state_dict(module(N + 1).state_dict()); m.half().float()(t.Y)
torch.func.functional_call(module(N), {}, (t.Y,))
torch.vmap(lambda x: x.sin().sum())(t.Y)
torch.vmap(torch.dot)(t.Y, t.Z)
torch.func.grad(lambda x: (x ** 2).sum())(t.Y)
torch.func.grad(lambda x: blocks.Cube.apply(x).sum())(t.Y)
torch.vmap(torch.func.grad(lambda x: x.sin().sum()))(t.Y)
torch.func.jvp(torch.sin, (t.Y,), (t.Z,))
torch.func.jacrev(lambda x: x.cos().sum(0))(t.Y)
torch.func.hessian(lambda x: (x ** 3).sum())(t.Y[0])
x = t.Y.as_subclass(blocks.Named); (x + t.Z).relu().sum(), blocks.Named.seen
x = t.Y.as_subclass(blocks.Named); torch.cat([x, x])
x = blocks.Wrapped(t.Y); ((x @ x).relu() + t.Z).inner
x = blocks.Wrapped(t.Y); torch.nn.functional.softmax(x, 1).inner
x = blocks.Wrapped(t.Y).requires_grad_(); (x * 2).sum().backward(); x.grad.inner
torch.nn.Parameter(t.Y) * t.Z
with torch._C.DisableTorchFunction(): y = torch.add(t.Y, t.Z); y
g = torch.Generator().manual_seed(N); torch.rand(3, generator=g), torch.randperm(5, generator=g)
gc.collect(); t.Y.sum()
pickle.loads(pickle.dumps(t.Y))
copy.deepcopy(module(N))(t.Y)
repr(t.Y), f"{t.Y[0, 0]:.3f}", str(t.Y.dtype)
torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
torch.overrides.has_torch_function((t.Y,)), torch._C._len_torch_function_stack()
inspect.signature(F.linear), torch.relu.__name__, torch.Tensor.add.__name__
torch.jit.trace(lambda x, y: x * y + N, (t.Y, t.Z))(t.Z, t.Y)
torch.fx.symbolic_trace(module(N))(t.Y)
make_fx(lambda x: (x * 2).relu().sum())(t.Y)(t.Z)
with FakeTensorMode(): y = torch.ones(2, 3) @ torch.ones(3, N); tuple(y.shape)
torch.empty(4, N, device="meta").sum().shape
torch.ops.random_programs.scaled(t.Y, N)
torch.cond(t.Y.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (t.Z,))
""".strip().splitlines()

# Statements whose order among threads matters.
ORDERED = """
t.X = torch.rand(4, 4); t.X
with fwAD.dual_level(): x = fwAD.make_dual(t.Y, t.Z); y = fwAD.unpack_dual(x.sin()).tangent; y
t.X = torch.randn_like(t.Y); t.X
t.X = F.dropout(t.Y, 0.5); t.X
t.X = torch.bernoulli(torch.full((4, 4), 0.5)); t.X
torch.randperm(7), random.random(), numpy.random.rand()
torch.manual_seed(N); torch.initial_seed()
with torch.random.fork_rng(): y = torch.rand(N); y
m = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.3)); m(t.Y)
m = torch.nn.LSTM(4, 3, dropout=0.2, num_layers=2); m(t.Y)[0]
m = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval(); m(t.Y[None])
print("X", t.Y.sum().item())
print("X", t.Y[0], file=sys.stderr)
warnings.warn(f"warning {N}")
t.Y.T.transpose(0, 1), torch.arange(8).view(2, 2, 2).T.shape
torch.floor(t.Y, out=torch.empty(0)), torch.add(t.Y, 1, out=torch.ones(3)).shape
torch.save(t.Y, "tensor-N.pt"); torch.load("tensor-N.pt")
numpy.save("array-N.npy", t.Y.detach().numpy()); os.path.getsize("array-N.npy")
[batch for batch in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(t.Y), batch_size=2, shuffle=True)]
[batch.sum().item() for batch in torch.utils.data.DataLoader(Squares(), batch_size=2, num_workers=1)]
traceback_of(lambda: torch.mm(t.Y, t.Z[:3]))
traceback_of(lambda: F.cross_entropy(t.Y, t.Z[0]))
torch.multiprocessing.get_sharing_strategy(), t.Y.clone().share_memory_().is_shared()
torch.set_default_dtype(torch.float64); y = torch.ones(2).dtype; torch.set_default_dtype(torch.float32); y
""".strip().splitlines()

# Torch compiles something.
COMPILING = """
f = torch.compile(lambda x, y: (x * y + N).relu().sum(), backend="eager"); f(t.Y, t.Z), f(t.Z[:2], t.Y[:2])
f = torch.compile(lambda x: x.sin().cos() * N, backend="aot_eager"); f(t.Y), f(t.Z)
f = torch.compile(broken, backend="eager"); f(t.Y), f(t.Z)
f = torch.compile(branching, backend="eager"); f(t.Y), f(-t.Y), f(t.Z.abs())
f = torch.compile(module(N), backend="aot_eager"); f(t.Y).sum().backward(); f(t.Z)
x = leaf(t.Y); f = torch.compile(lambda x: (x * t.Z).sin().sum(), backend="aot_eager"); f(x).backward(); x.grad
f = torch.compile(lambda x: blocks.Cube.apply(x).sum(), backend="aot_eager"); x = leaf(t.Y); f(x).backward(); x.grad
f = torch.compile(lambda x, n: x * n, backend="eager", dynamic=True); [f(t.Y, n) for n in (N, N + 1, N + 2)]
f = torch.compile(lambda x: x.as_subclass(blocks.Named) + 1, backend="eager"); f(t.Y)
f = torch.compile(lambda x: torch.mm(x, x[:3]), backend="eager"); f(t.Y)
torch.compile(lambda x: (x.sin() + N).sum(), backend="inductor")(t.Y)
torch.export.export(module(N), (t.Y,)).module()(t.Z)
""".strip().splitlines()

# ---- Blocks: around BODY(t), which runs what is in them. ----

PLAIN_BLOCKS = """
with torch.no_grad(): BODY(t)
with torch.enable_grad(): BODY(t)
with torch.inference_mode(): BODY(t)
with torch.set_grad_enabled(N % 2 == 0): BODY(t)
with torch.autocast("cpu", dtype=torch.bfloat16): BODY(t)
with torch.autograd.profiler.record_function("block N"): BODY(t)
with torch.autograd.set_detect_anomaly(True): BODY(t)
with torch.device("cpu"): BODY(t)
with torch.autograd.graph.save_on_cpu(): BODY(t)
with torch.autograd.graph.saved_tensors_hooks(lambda x: x * 1, lambda x: x + 0): BODY(t)
with torch.utils.flop_counter.FlopCounterMode(display=False) as counter: BODY(t); counter.get_total_flops()
with blocks.Counting() as mode: BODY(t); mode.names
with blocks.Counting() as mode, blocks.Counting() as other: BODY(t); mode.names, other.names
with blocks.Doubling(): BODY(t)
with blocks.CountingOperators() as mode: BODY(t); mode.names
with blocks.Counting() as mode, blocks.CountingOperators() as other: BODY(t); mode.names, other.names
for _ in range(2): BODY(t)
blocks.generator(NAME, BODY, t)
blocks.closed_generator(NAME, BODY, t)
blocks.coroutine(NAME, BODY, t)
blocks.deep(NAME, BODY, t)
blocks.own_context(NAME, BODY, t)
blocks.compiled_text(NAME, BODY, t)
blocks.finalizer(NAME, BODY, t)
blocks.deleted(NAME, BODY, t)
blocks.thread(NAME, BODY, t)
blocks.pool(NAME, BODY, t)
torch.no_grad()(BODY)(t)
functools.partial(BODY, t)()
type("Own", (torch.nn.Module,), {"forward": lambda self, t: BODY(t)})()(t)
hooked(t.Y, lambda: BODY(t))
""".strip().splitlines()
ORDERED_BLOCKS = """
with torch.profiler.profile() as profile: BODY(t)
with warnings.catch_warnings(record=True) as caught: BODY(t); [str(each.message) for each in caught]
with contextlib.redirect_stdout(io.StringIO()) as out: BODY(t); out.getvalue()
blocks.in_a_signal(NAME, BODY, t)
blocks.traced_by_python(NAME, BODY, t)
blocks.profiled_by_python(NAME, BODY, t)
blocks.raising_thread(NAME, BODY, t)
blocks.daemon(NAME, BODY, t)
blocks.at_exit(NAME, BODY, t)
blocks.fork(NAME, BODY, t)
blocks.killed_fork(NAME, BODY, t)
blocks.forked_process(NAME, BODY, t)
""".strip().splitlines()
PARALLEL_BLOCKS = ["blocks.two_threads(NAME, BODY, t)"]
STARTING_BLOCKS = """
blocks.spawned_process(NAME, BODY, t)
blocks.python(NAME, BODY, t)
""".strip().splitlines()


HEADER = """\
import outcome  # first

import contextlib, copy, functools, gc, inspect, io, os, pickle, random, sys, warnings

import numpy
import torch
import torch.autograd.forward_ad as fwAD
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import blocks
from statements import *
"""


@dataclasses.dataclass
class Node:
    """A statement, or a block, which has a body."""

    number: int
    text: str
    body: list | None = None
    raises: bool = False  # the body raises at its end

    @property
    def name(self):
        return f"n{self.number}"

    def nodes(self):
        yield self
        for child in self.body or ():
            yield from child.nodes()

    def source(self):
        """Functions: of what is in it, of its body, and its own."""
        text = self.text
        made = ""
        if self.body is not None:
            made = "".join(child.source() for child in self.body)
            made += f"def {self.name}_body(t):\n" + calls(self.body)
            made += f"    raise blocks.Stop({self.name!r})\n\n\n" if self.raises else "\n\n"
            text = text.replace("BODY", f"{self.name}_body").replace("NAME", repr(self.name))
        return made + f"def {self.name}(t):\n" + function_body(text) + "\n\n"


def calls(nodes):
    return "".join(f"    run({each.name}, t)\n" for each in nodes) or "    pass\n"


def function_body(text):
    """The lines of a function that returns the value of the last expression."""
    *first, last = text.split("; ")
    if not first and text.startswith(("with ", "for ")):
        return f"    {text}\n"
    if text.startswith("with "):
        head, first[0] = first[0].split(": ", 1)
        made = [f"    {head}:\n", *(f"        {each}\n" for each in first)]
    else:
        made = [f"    {each}\n" for each in first]
    return "".join(made) + f"    return {last}\n"


@dataclasses.dataclass
class Tree:
    """A random program."""

    seed: int
    body: list
    levels: str
    options: list

    def nodes(self):
        for node in self.body:
            yield from node.nodes()

    def compiles(self):
        return any("torch.compile" in node.text or ".export" in node.text for node in self.nodes())

    def source(self):
        made = "".join(node.source() for node in self.body)
        main = f"def main():\n    t = blocks.tensors({self.seed})\n" + calls(self.body)
        ending = '\n\nif __name__ == "__main__":\n    blocks.main(main)\n'
        return HEADER + "\n\n" + made + main + ending


class Growing:
    """Grows a tree, the same for the same seed."""

    def __init__(self, seed, size):
        self.random = random.Random(seed)
        self.size = size
        self.count = 0
        self.compiling = self.random.random() < 0.4
        self.may_start = self.random.random() < 0.3

    def filled(self, text):
        """The text with its variables and numbers."""
        values = {letter: self.random.choice(VARIABLES) for letter in "XYZ"}
        values["N"] = str(self.random.randint(1, 3))
        return re.sub(r"\b[XYZN]\b", lambda match: values[match[0]], text)

    def node(self, text, body=None, raises=False):
        self.count += 1
        return Node(self.count, self.filled(text), body, raises)

    def statement(self, ordered):
        kinds = [PLAIN] * 6 + [ORDERED] * 2 * ordered + [COMPILING] * (ordered and self.compiling)
        return self.node(self.random.choice(self.random.choice(kinds)))

    def block(self, depth, ordered):
        kinds = [PLAIN_BLOCKS] * 6 + ([ORDERED_BLOCKS] * 3 + [PARALLEL_BLOCKS]) * ordered
        if ordered and self.may_start and self.random.random() < 0.3:
            kinds = [STARTING_BLOCKS]
            self.may_start = False
        kind = self.random.choice(kinds)
        body = self.some(self.random.randint(1, 4), depth + 1, ordered and kind != PARALLEL_BLOCKS)
        raises = self.random.random() < 0.15
        return self.node(self.random.choice(kind), body, raises)

    def some(self, count, depth=0, ordered=True):
        return [
            self.block(depth, ordered)
            if depth < 4 and self.random.random() < 0.35
            else self.statement(ordered)
            for _ in range(count)
        ]


OPTIONS = (
    ("1,2", []),
    ("1,2", ["--outputs", "--ids", "--values", "1KB"]),
    ("1,2", ["--stacks"]),
    ("0,1,2", []),
    ("0,1,2,3,4", []),
    ("1,2,3,4", ["--frames", "all", "--stacks"]),
)


def grow(seed, size=16):
    growing = Growing(seed, size)
    levels, options = growing.random.choice(OPTIONS)
    return Tree(seed, growing.some(size), levels, list(options))
