"""autograd in all call forms, own functions, functorch, checkpoint, tracers of graphs, profilers."""

import functools
import warnings

import torch
import torch.fx
import torch.nn.functional as F
from attempts import attempt, mark
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

warnings.simplefilter("ignore")
torch.manual_seed(0)


def leaf(*shape):
    return torch.ones(*(shape or (2,)), requires_grad=True)


def graph():
    a, b = leaf(), leaf()
    return a, b, a * b


# ---- grad and backward ----
ones = torch.ones(2)
INPUTS = {"tensor": lambda a, b: a, "tuple": lambda a, b: (a, b), "list": lambda a, b: [a, b],
          "generator": lambda a, b: (each for each in (a, b)), "dict values": lambda a, b: {"a": a}.values(),
          "empty": lambda a, b: (), "none": lambda a, b: None}  # fmt: skip
OUTPUTS = {"none": None, "tensor": ones, "tuple": (ones,), "list": [ones], "tuple of none": (None,),
           "wrong shape": torch.ones(3), "wrong type": "a"}  # fmt: skip
for inputs_name, inputs in INPUTS.items():
    for outputs_name, outputs in OUTPUTS.items():

        def grad():
            a, b, product = graph()
            return torch.autograd.grad(product, inputs(a, b), outputs)

        def grad_keywords():
            a, b, product = graph()
            return torch.autograd.grad(outputs=(product,), inputs=inputs(a, b), grad_outputs=outputs,
                                       retain_graph=True, create_graph=False, allow_unused=True)  # fmt: skip

        def backward():
            a, b, product = graph()
            torch.autograd.backward(product, outputs, inputs=inputs(a, b))

        def backward_many():
            a, b, product = graph()
            torch.autograd.backward(
                [product, product.sum()], grad_tensors=[outputs, None], retain_graph=True
            )

        def method():
            a, b, product = graph()
            product.backward(outputs, inputs=inputs(a, b))

        for form in (grad, grad_keywords, backward, backward_many, method):
            attempt(f"{form.__name__} {inputs_name} {outputs_name}", form)
attempt("sum backward", lambda: graph()[2].sum().backward())
attempt("backward twice", lambda: [graph()[2].sum().backward(retain_graph=True) for _ in range(2)])
attempt("backward of a leaf without", lambda: ones.backward())
attempt("backward create_graph", lambda: graph()[2].sum().backward(create_graph=True))
attempt("backward places", lambda: graph()[2].backward(ones, True, False, None))
attempt(
    "grad batched",
    lambda: (lambda a, b, c: torch.autograd.grad(c, a, torch.eye(2), is_grads_batched=True))(
        *graph()
    ),
)
attempt(
    "grad materialized",
    lambda: (
        lambda a, b, c: torch.autograd.grad(a.sum(), b, allow_unused=True, materialize_grads=True)
    )(*graph()),
)
attempt(
    "grad of grad",
    lambda: (
        lambda a, b, c: torch.autograd.grad(
            torch.autograd.grad(c.sum(), a, create_graph=True)[0].sum(), b
        )
    )(*graph()),
)
attempt(
    "hooks",
    lambda: (lambda t: (t.register_hook(lambda g: g * 2), (t * 2).sum().backward()))(leaf()),
)
attempt(
    "post accumulate hook",
    lambda: (
        lambda t: (
            t.register_post_accumulate_grad_hook(lambda p: p.grad.neg_()),
            t.sum().backward(),
        )
    )(leaf()),
)
attempt(
    "retain_grad", lambda: (lambda a, b, c: (c.retain_grad(), c.sum().backward(), c.grad))(*graph())
)
attempt("detach", lambda: (leaf().detach(), leaf().detach_().requires_grad_()))
attempt("grad_fn", lambda: graph()[2].grad_fn.next_functions[0][0].variable)
attempt(
    "grad_fn hook",
    lambda: (lambda c: (c.grad_fn.register_hook(lambda a, b: None), c.sum().backward()))(
        graph()[2]
    ),
)
attempt(
    "functional",
    lambda: [
        f(lambda t: (t**2).sum(), ones)
        for f in (torch.autograd.functional.jacobian, torch.autograd.functional.hessian)
    ],
)
attempt(
    "functional products",
    lambda: [
        f(lambda t: t**2, ones, ones)
        for f in (torch.autograd.functional.vjp, torch.autograd.functional.jvp)
    ],
)
attempt(
    "gradcheck", torch.autograd.gradcheck, torch.sin, leaf(2).double().detach().requires_grad_()
)
attempt("forward ad", lambda: forward_ad())
attempt("saved hooks", lambda: saved_hooks())
attempt("anomaly", lambda: anomaly())


def forward_ad():
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(ones, ones)
        return torch.autograd.forward_ad.unpack_dual(torch.sin(dual))


def saved_hooks():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t.neg()):
        a, b, c = graph()
        c.sum().backward()


def anomaly():
    with torch.autograd.detect_anomaly():
        a, b, c = graph()
        c.sum().backward()


attempt("forward ad again", forward_ad)
attempt("saved hooks again", saved_hooks)
attempt("anomaly again", anomaly)


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, factor=2):
        ctx.save_for_backward(tensor)
        ctx.factor = factor
        return torch.mul(tensor, factor)

    @staticmethod
    def backward(ctx, gradient):
        (tensor,) = ctx.saved_tensors
        return F.relu(gradient * ctx.factor), None


class Split(torch.autograd.Function):
    """Forward and setup_context apart, for functorch."""

    generate_vmap_rule = True

    @staticmethod
    def forward(tensor):
        return tensor.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos()


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return tensor.view(7)


for name, tensor in {"leaf": leaf(), "plain": ones}.items():
    attempt(f"own function {name}", Double.apply, tensor)
    attempt(f"own function {name} places", Double.apply, tensor, 3)
    attempt(f"own function {name} apart", Split.apply, tensor)
    attempt(f"own function {name} broken", Broken.apply, tensor)
attempt("own function backward", lambda: Double.apply(leaf()).sum().backward())
attempt("own function in no_grad", lambda: torch.no_grad()(Double.apply)(leaf()))

# ---- functorch ----
func = torch.func


def loss(w, t):
    return F.mse_loss(F.relu(t @ w), t).sum()


w, t = torch.rand(3, 3), torch.rand(4, 3)
attempt("vmap", func.vmap(torch.sin), t)
attempt("vmap of a function", func.vmap(lambda row: F.softmax(row, 0) + 1), t)
attempt("vmap dims", func.vmap(torch.dot, in_dims=(0, None)), t, w[0])
attempt("vmap chunks", func.vmap(torch.cos, chunk_size=2), t)
attempt("vmap random", func.vmap(lambda r: r + torch.rand(3), randomness="different"), t)
attempt("vmap failing", func.vmap(lambda row: row.item()), t)
attempt("vmap own function", func.vmap(Split.apply), t)
attempt("grad", func.grad(loss), w, t)
attempt("grad and value", func.grad_and_value(loss), w, t)
attempt("grad of vmap", func.vmap(func.grad(loss), in_dims=(None, 0)), w, t[:, None])
attempt("grad own function", func.grad(lambda r: Split.apply(r).sum()), ones)
attempt("jacrev", func.jacrev(torch.sin), ones)
attempt("jacfwd", func.jacfwd(torch.sin), ones)
attempt("hessian", func.hessian(lambda r: (r**3).sum()), ones)
attempt("jvp", func.jvp, torch.sin, (ones,), (ones,))
attempt("vjp", lambda: func.vjp(torch.sin, ones)[1](ones))
attempt("linearize", lambda: func.linearize(torch.sin, ones)[1](ones))
attempt("functionalize", func.functionalize(lambda r: r.clone().add_(1)), ones)
attempt("functional_call", lambda: func.functional_call(torch.nn.Linear(3, 3), {"weight": w}, t))
attempt(
    "stack_module_state", lambda: func.stack_module_state([torch.nn.Linear(2, 2) for _ in range(2)])
)
attempt("tree_map", lambda: torch.utils._pytree.tree_map(torch.neg, {"a": ones}))
attempt("vmap old", lambda: torch.vmap(torch.neg)(t))

# ---- checkpoint ----
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Dropout(0.1))
for reentrant in (True, False):
    attempt(
        f"checkpoint {reentrant}", lambda: checkpoint(model, leaf(2, 3), use_reentrant=reentrant)
    )
    attempt(
        f"checkpoint backward {reentrant}",
        lambda: checkpoint(model, leaf(2, 3), use_reentrant=reentrant).sum().backward(),
    )
    attempt(
        f"checkpoint failing {reentrant}",
        lambda: checkpoint(model, leaf(2, 9), use_reentrant=reentrant),
    )
    attempt(
        f"checkpoint sequential {reentrant}",
        lambda: (
            checkpoint_sequential(model, 2, leaf(2, 3), use_reentrant=reentrant).sum().backward()
        ),
    )

# ---- Tracers ----


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, tensor):
        return F.relu(self.linear(tensor)) + torch.ones(3) @ tensor.T


attempt("symbolic_trace", lambda: str(torch.fx.symbolic_trace(Module()).graph))
attempt("fx function", lambda: torch.fx.symbolic_trace(lambda a: F.softmax(a, 1) * 2 - a.sum())(t))
attempt("fx run", lambda: torch.fx.symbolic_trace(Module())(t))
attempt("fx interpreter", lambda: torch.fx.Interpreter(torch.fx.symbolic_trace(Module())).run(t))
attempt("fx failing", lambda: torch.fx.symbolic_trace(lambda a: a if a.sum() > 0 else -a))
attempt(
    "shape prop",
    lambda: torch.fx.passes.shape_prop.ShapeProp(torch.fx.symbolic_trace(Module())).propagate(t),
)
attempt("jit.trace", lambda: torch.jit.trace(lambda a: F.relu(a) + a.shape[0], (t,)))
attempt("jit.trace module", lambda: torch.jit.trace(Module(), (t,))(t))
attempt("jit.script", lambda: torch.jit.script(torch.nn.Linear(3, 3))(t))
attempt("jit.script function", lambda: torch.jit.script(scripted)(t))
attempt("fake tensors", lambda: fake_tensors())
attempt("einops-like", lambda: functools.reduce(lambda a, b: a @ b, [w] * 3))


def scripted(a: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.relu(a) + 1


def fake_tensors():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(2, 3)
        return (fake @ fake.T).shape, F.relu(fake)


def profiled():
    with torch.autograd.profiler.profile(), torch.profiler.record_function("mine"):
        return F.relu(t) + 1


attempt("jit.script a function", lambda: torch.jit.script(scripted)(t))
attempt("fake tensors again", fake_tensors)
attempt("profiler", profiled)


# ---- Training ----
def train():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            value = F.cross_entropy(net(t), torch.tensor([0, 1, 0, 1]))
        value.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return value.item()


attempt("train", train)
attempt("LBFGS", lambda: torch.optim.LBFGS(model.parameters()).step(lambda: model(t).sum()))
mark("end of autograd")
