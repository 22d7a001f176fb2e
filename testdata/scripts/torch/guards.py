"""Traces that begin and end within each guard that puts a thread's dispatch keys back.

Prints what they lack of the calls behind the guard, and where a thread has kept level 2's key.
"""

import sys
import threading
from pathlib import Path

import torch
import torchtrace
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

C = torch._C
X = torch.ones(2, 2)


class Doing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, body):
        ctx.body = body
        if body is not None and x.dim() == 2:
            body()
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.body is not None and gradient.dim() == 1:
            ctx.body()
        return gradient, None


class Mode(TorchDispatchMode):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.neg.default:
            self.body()
        return func(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    body = None

    @staticmethod
    def __new__(cls, inner, body):
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape)
        made.inner, made.body = inner, body
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args[0].body()
        return func(*tree_map(lambda x: getattr(x, "inner", x), args), **(kwargs or {}))


def within(make, *args):
    def run(body):
        with make(*args):
            body()

    return run


def generator(body):
    @torch.inference_mode()
    def steps():
        body()
        yield 1
        yield 2

    for _ in steps():
        pass


def forced(body):
    keys = C._dispatch_tls_local_include_set(), C._dispatch_tls_local_exclude_set()
    with C._ForceDispatchKeyGuard(*keys):
        body()


def differentiated(register):
    def run(body):
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        register(x, y, body)
        (y * y).sum().backward()

    return run


def saved_hook(body):
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: (body(), t)[1]):
        y = x.exp()
    y.sum().backward()


def once(body):
    bodies = [body]

    def run():
        if bodies:
            bodies.pop()()

    return run


# The kernel of an operator of a library of the program.
g_bodies = threading.local()
g_library = torch.library.Library("guards", "DEF")
g_library.define("doing(Tensor x) -> Tensor")
g_library.impl("doing", lambda x: (g_bodies.body(), x.clone())[1], "CompositeExplicitAutograd")


def library(body):
    g_bodies.body = body
    torch.ops.guards.doing(X)


GUARDS = {
    "inference_mode": within(torch.inference_mode),
    "inference_mode(False)": lambda body: within(torch.inference_mode)(
        lambda: within(torch.inference_mode, False)(body)
    ),
    "a generator in inference_mode": generator,
    "no_grad": within(torch.no_grad),
    "autocast": within(torch.autocast, "cpu"),
    "ForceDispatchKeyGuard": forced,
    "PreserveDispatchKeyGuard": within(C._PreserveDispatchKeyGuard),
    "IncludeDispatchKeyGuard": within(C._IncludeDispatchKeyGuard, C.DispatchKey.PythonTLSSnapshot),
    "ExcludeDispatchKeyGuard": within(
        C._ExcludeDispatchKeyGuard, C.DispatchKeySet(C.DispatchKey.AutocastCPU)
    ),
    "AutoDispatchBelowAutograd": within(C._AutoDispatchBelowAutograd),
    "AutoDispatchBelowADInplaceOrView": within(C._AutoDispatchBelowADInplaceOrView),
    "DisableTorchDispatch": within(C._DisableTorchDispatch),
    "EnablePythonDispatcher": within(C._EnablePythonDispatcher),
    "vmap": lambda body: torch.vmap(lambda x: (body(), x.sin())[1])(X),
    "grad": lambda body: torch.func.grad(lambda x: (body(), x.sin().sum())[1])(X),
    "jvp": lambda body: torch.func.jvp(lambda x: (body(), x.sin())[1], (X,), (X,)),
    "functionalize": lambda body: torch.func.functionalize(lambda x: (body(), x.sin())[1])(X),
    "a tensor's hook": differentiated(lambda x, y, body: x.register_hook(lambda g: body())),
    "a node's hook": differentiated(lambda x, y, body: y.grad_fn.register_hook(lambda *g: body())),
    "a hook after accumulation": differentiated(
        lambda x, y, body: x.register_post_accumulate_grad_hook(lambda x: body())
    ),
    "a hook of saved tensors": saved_hook,
    "a function's forward": lambda body: Doing.apply(X, body),
    "a function's backward": lambda body: (
        Doing.apply(torch.ones(2, requires_grad=True), body).sum().backward()
    ),
    "checkpoint": lambda body: torch.utils.checkpoint.checkpoint(
        lambda x: (body(), x.sin())[1], torch.ones(2, requires_grad=True), use_reentrant=False
    ),
    "a mode": lambda body: within(Mode, body)(lambda: torch.neg(X)),
    "a subclass": lambda body: torch.neg(Subclass(X, body)),
    "an operator of a library": library,
}

SESSIONS = [2], [1, 2], [1, 4], None
SEEN = {1: {"torch.relu", "torch.sigmoid"}, 2: {"aten::relu", "aten::sigmoid"}}
SEEN[4] = SEEN[2]


def check_no_key(where):
    if "Fake" in str(C._dispatch_tls_local_include_set()):
        print(where, "has the key")


def check(name, guard):
    """Traces that begin and end within the guard, while another thread is inside one too."""
    meet = threading.Barrier(2, timeout=20).wait

    def other_thread():
        for levels in SESSIONS:

            def body(levels=levels):
                meet()
                meet()  # the trace has ended
                check_no_key("another thread within " + name)
                meet()  # the next one has begun
                if levels:
                    torch.abs(X)

            guard(once(body))
            if levels:
                torch.sigmoid(X)
        check_no_key("another thread behind " + name)

    thread = threading.Thread(target=other_thread)
    thread.start()
    trace = None
    for levels in SESSIONS:
        meet()
        if trace is not None:
            guard(once(lambda trace=trace: (trace.stop(), check_no_key(name))))
            check_no_key("behind " + name)
            seen = set(Path(trace.path, "api_apis.txt").read_text().split())
            missing = set().union(*(SEEN[level] for level in traced)) - seen
            if missing:
                print(name, traced, "lacks", sorted(missing))
        meet()
        traced = levels
        if levels:
            trace = torchtrace.trace(
                "out", levels=levels, formats="apis.txt", force=True, quiet=True
            )
            guard(once(trace.start))
        meet()
        if levels:
            torch.relu(X)
    thread.join()


for name in sys.argv[1:] or GUARDS:
    check(name, GUARDS[name])
print("done", len(GUARDS))
