"""Ways to run a part of a program: what the blocks of random programs call.

Each takes the block's name, its body and the tensors `t`, an object with attributes a to d.
"""

import asyncio
import atexit
import concurrent.futures
import contextvars
import functools
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import types
import weakref

import outcome
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Stop(Exception):
    """What a block raises at its end."""


def tensors(seed):
    """Four tensors, of one shape, so that any two of them go together. Seeds everything."""
    outcome.seed(seed)
    generator = torch.Generator().manual_seed(seed)
    a, b, c, d = (torch.randn(4, 4, generator=generator) for _ in range(4))
    return types.SimpleNamespace(a=a, b=b, c=c, d=d, seed=seed)


def copied(t):
    return types.SimpleNamespace(
        **{
            name: value.detach().clone() if name != "seed" else value
            for name, value in vars(t).items()
        }
    )


# ---- Threads ----


def _held(body, t):
    """What the body raised, as text: a thread or process hands no exception on."""
    try:
        body(t)
    except Stop as stop:
        return str(stop)
    return None


def _inside(place, body, t):
    with outcome.inside(f"{place}/"):
        return _held(body, t)


def thread(name, body, t):
    started = threading.Thread(target=_inside, args=(outcome.where(name), body, t))
    started.start()
    started.join()


def raising_thread(name, body, t):
    place = outcome.where(name)

    def run():
        with outcome.inside(f"{place}/"):
            body(t)
            raise Stop(f"{name} in its thread")

    hook, threading.excepthook = threading.excepthook, lambda told: print(told.exc_value)
    started = threading.Thread(target=run)
    started.start()
    started.join()
    threading.excepthook = hook


def two_threads(name, body, t):
    both = [
        threading.Thread(target=_inside, args=(outcome.where(name), body, copied(t)))
        for _ in range(2)
    ]
    for each in both:
        each.start()
    for each in both:
        each.join()


def pool(name, body, t):
    with concurrent.futures.ThreadPoolExecutor(1) as workers:
        work = [functools.partial(_inside, outcome.where(name), body, t) for _ in range(2)]
        return [future.result() for future in list(map(workers.submit, work))]


def daemon(name, body, t):
    """A thread that still waits when the program ends."""
    place = outcome.where(name)
    done = threading.Event()

    def run():
        _inside(place, body, t)
        done.set()
        threading.Event().wait()

    threading.Thread(target=run, daemon=True).start()
    done.wait()


# ---- Processes ----


def _child(place, body, t):
    _inside(place, body, t)
    sys.stdout.flush()
    outcome.end(place)


def _forked(name, body, t, finish):
    place = outcome.where(name)
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _child(place, body, t)
        finish()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork(name, body, t):
    return _forked(name, body, t, lambda: os._exit(7))


def killed_fork(name, body, t):
    return _forked(name, body, t, lambda: os.kill(os.getpid(), signal.SIGKILL))


def run_named(name, place, seed):
    """In a process of its own: the body of the main program's block of this name."""
    program = sys.modules.get("__mp_main__", sys.modules["__main__"])
    _child(place, getattr(program, f"{name}_body"), tensors(seed))


def _process(how, name, body, t):
    process = multiprocessing.get_context(how).Process(
        target=run_named, args=(name, outcome.where(name), t.seed)
    )
    process.start()
    process.join()
    return process.exitcode


forked_process = functools.partial(_process, "fork")
spawned_process = functools.partial(_process, "spawn")


def python(name, body, t):
    """A new Python that runs this program's file, of which only the body."""
    file = sys.modules["__main__"].__file__
    place = outcome.where(name)
    words = [sys.executable, file, name, place, str(t.seed)]
    env = {**os.environ, "FIDELITY_PROCESS": f"{place} at exit"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    return [done.returncode, done.stdout, outcome.without_addresses(done.stderr)]


def main(run):
    """The main program, or what `python` starts."""
    if len(sys.argv) == 4:
        run_named(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        run()


# ---- Python's ways to call ----


def generator(name, body, t):
    def steps():
        with torch.no_grad():
            yield 1
            body(t)
            yield torch.is_grad_enabled()

    return [*steps(), torch.is_grad_enabled()]


def closed_generator(name, body, t):
    def steps():
        try:
            yield t.a.sum()
        finally:
            body(t)

    made = steps()
    next(made)
    made.close()


def coroutine(name, body, t):
    async def one():
        await asyncio.sleep(0)
        body(t)

    async def both():
        await asyncio.gather(one(), asyncio.sleep(0))

    asyncio.run(both())


def deep(name, body, t):
    def down(depth):
        return down(depth - 1) if depth else body(t)

    return down(50)


def own_context(name, body, t):
    return contextvars.copy_context().run(body, t)


def compiled_text(name, body, t):
    exec(compile("body(t)", f"<{name}>", "exec"), {"body": body, "t": t})


def in_a_signal(name, body, t):
    before = signal.signal(signal.SIGUSR1, lambda *_: body(t))
    try:
        signal.raise_signal(signal.SIGUSR1)
        return torch.ones(1).item()
    finally:
        signal.signal(signal.SIGUSR1, before)


class _Finalized:
    pass


def finalizer(name, body, t):
    alive = _Finalized()
    weakref.finalize(alive, _held, body, t)
    del alive


_collecting = threading.RLock()


def deleted(name, body, t):
    class Deleted:
        def __del__(self):
            _held(body, t)

    # Another thread's collection would run it there.
    with _collecting:
        made = Deleted()
        made.itself = made
        del made
        gc.collect()


def at_exit(name, body, t):
    atexit.register(_inside, outcome.where(name), body, copied(t))


COMPILING = ("_dynamo/convert_frame.py", "_functorch/_aot_autograd/runtime_wrappers.py")


def _is_known_to_differ(frame):
    """Under torchtrace PathFinder.find_spec and functions of torch's compiler are built-in, and
    level 2 is one key more for PyTorch's caches while it compiles (docs/RUN.md)."""
    if "importlib" in frame.f_code.co_filename:
        return True
    while frame is not None and not frame.f_code.co_filename.endswith(COMPILING):
        frame = frame.f_back
    return frame is not None


def traced_by_python(name, body, t):
    events = [0]

    def trace(frame, event, argument):
        events[0] += not _is_known_to_differ(frame)
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        body(t)
    finally:
        sys.settrace(before)
    return events[0]


def profiled_by_python(name, body, t):
    names = []

    def hook(frame, event, argument):
        if event == "c_call" and not _is_known_to_differ(frame):
            names.append(argument.__name__)

    before = sys.getprofile()
    sys.setprofile(hook)
    try:
        body(t)
    finally:
        sys.setprofile(before)
    return [len(names), names[:200]]


# ---- Modes and subclasses ----


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(getattr(func, "__name__", type(func).__name__))
        return func(*args, **(kwargs or {}))


class Doubling(TorchFunctionMode):
    """Makes another call first."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        torch.neg(torch.ones(2))
        return func(*args, **(kwargs or {}))


class CountingOperators(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


class Named(torch.Tensor):
    """Python's protocol of functions."""

    seen = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Named.seen += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapped(torch.Tensor):
    """Python's protocol of operators, around a tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, strides=inner.stride()
        )

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def unwrap(value):
            return value.inner if isinstance(value, Wrapped) else value

        def wrap(value):
            return Wrapped(value) if isinstance(value, torch.Tensor) else value

        from torch.utils._pytree import tree_map

        return tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {})))


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x.square()


class Raising(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise Stop("in a backward")
