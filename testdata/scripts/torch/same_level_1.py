"""What programs could see of a function mode on their stack. Prints it all; nothing may differ."""

import _thread
import cProfile
import contextlib
import gc
import inspect
import linecache
import os
import pickle
import pstats
import sys
import threading
import traceback
import warnings
import weakref

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function

x = torch.ones(2, 3)


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)


class Refusing:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class PassOn(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


sub = x.as_subclass(Sub)
lock = threading.RLock()  # handed over in the lock, a function enters it twice


def title(text):
    print(f"---- {text}", flush=True)


# ---- with, finally and except of a function that asks for overrides ----
left = []


def in_with(tensor):
    with torch.no_grad():
        if has_torch_function((tensor,)):
            return handle_torch_function(in_with, (tensor,), tensor)
        return tensor.view(7)


def in_lock(tensor):
    with lock:
        if has_torch_function((tensor,)):
            return handle_torch_function(in_lock, (tensor,), tensor)
        return tensor.view(7)


def in_finally(tensor):
    try:
        if has_torch_function((tensor,)):
            return handle_torch_function(in_finally, (tensor,), tensor)
        return tensor.view(7)
    finally:
        left.append("finally")


def in_except(tensor):
    try:
        if has_torch_function((tensor,)):
            return handle_torch_function(in_except, (tensor,), tensor)
        return tensor.view(7)
    except RuntimeError:
        left.append("except")
        return "caught"


def always(tensor):
    """Hands over without asking."""
    with contextlib.ExitStack() as stack:
        stack.callback(left.append, "stack")
        with torch.no_grad():
            try:
                return handle_torch_function(always, (tensor,), tensor)
            finally:
                left.append("finally of always")


title("with, finally, except")
for function in (in_with, in_finally, in_except, always):
    for tensor in (x, sub, Refusing()):
        try:
            print(function.__name__, function(tensor))
        except Exception as error:
            print(function.__name__, type(error).__name__, str(error).splitlines()[0])
            print([frame.name for frame in traceback.extract_tb(error.__traceback__)])
        print(torch.is_grad_enabled(), left)
        torch.set_grad_enabled(True)
        left.clear()
for tensor in (x, Refusing()):
    try:
        in_lock(tensor)
    except Exception as error:
        print(type(error).__name__, lock._is_owned())

title("functions that ask come and go")


def ask_in_a_closure():
    class Big:
        pass

    big = Big()

    def closure(tensor):
        if has_torch_function((tensor,)):
            return handle_torch_function(closure, (tensor,), tensor)
        return big

    for _ in range(3):
        closure(x)
    return weakref.ref(big), weakref.ref(closure)


references = ask_in_a_closure()
gc.collect()
print([reference() is None for reference in references])

title("what the stack says")
print(has_torch_function((x,)), has_torch_function(()), torch.overrides.has_torch_function_unary(x))
print(torch.overrides.has_torch_function_variadic(x, 1), has_torch_function((sub,)))
print(torch._C._len_torch_function_stack(), torch._C._is_torch_function_mode_enabled())
print(torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled())
print(
    torch.overrides._get_current_function_mode(), torch.overrides._get_current_function_mode_stack()
)
try:
    torch._C._get_function_stack_at(0)
except Exception as error:
    print(type(error).__name__)
with PassOn() as mode:
    print(torch._C._len_torch_function_stack(), torch._C._get_function_stack_at(0) is mode)
    with torch.overrides._pop_mode_temporarily() as popped:
        print(popped is mode, torch._C._len_torch_function_stack())
print(torch._C._len_torch_function_stack())

title("frames")


def stack_of(tensor):
    if has_torch_function((tensor,)):
        return handle_torch_function(stack_of, (tensor,), tensor)
    return [frame.function for frame in inspect.stack()], sys._getframe(1).f_code.co_name


class Stack(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        print(func.__name__, [frame.function for frame in inspect.stack()][:6])
        warnings.warn("in a subclass", stacklevel=2)
        warnings.warn("one further", stacklevel=3)
        return 42


warnings.simplefilter("always")
warnings.showwarning = lambda message, category, filename, lineno, *more: print(
    message, os.path.basename(filename), linecache.getline(filename, lineno).strip()
)
print(stack_of(x), stack_of(sub))
stacked = x.as_subclass(Stack)
for call in (
    lambda: F.relu(stacked),
    lambda: stacked + 1,
    lambda: torch.add(stacked, 1),
    lambda: stack_of(stacked),
):
    print(call())
for call in (
    lambda: F.layer_norm(x, (5,)),
    lambda: F.layer_norm(sub, (5,)),
    lambda: torch.norm(x, p="odd"),
    lambda: x.split(-1),
    lambda: torch.add(Refusing(), 1),
    lambda: F.relu(Refusing()),
    lambda: handle_torch_function(stack_of, (Refusing(),), 1),
    lambda: handle_torch_function(stack_of, (x,), x),
    lambda: F.dropout(x, 2.0),
    lambda: torch.einsum("ij,jk", x, x),
    lambda: torch.ops.aten.add.Tensor(x),
    lambda: x + "a",
):
    try:
        call()
    except Exception as error:
        print("".join(traceback.format_exception(error)))
F.softmax(x)
F.mse_loss(x, torch.ones(1))

title("tracing functions")
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.LayerNorm(2))


def work():
    F.relu(x)
    F.softmax(x, 1)
    torch.norm(x)
    model(x).sum().backward()
    (x + 1) * 2 - x[0]
    torch.split(x, 1)
    F.relu(sub)
    try:
        F.layer_norm(x, (5,))
    except RuntimeError:
        pass
    with PassOn():
        F.gelu(x)
    [torch.neg(each) for each in x]


work()
OWN = os.sep + "torch" + os.sep


def place(frame):
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_code.co_name}:{frame.f_lineno}"


def profile_events():
    events = []

    def profile(frame, event, argument):
        events.append(
            (event, place(frame), getattr(argument, "__name__", "") if event[0] == "c" else "")
        )

    sys.setprofile(profile)
    work()
    sys.setprofile(None)
    return events


def trace_events():
    events = []

    def trace(frame, event, argument):
        events.append((event, place(frame)))
        return trace

    sys.settrace(trace)
    work()
    sys.settrace(None)
    return events


def coverage_lines():
    lines = set()

    def trace(frame, event, argument):
        if "functional.py" not in frame.f_code.co_filename:
            return None
        lines.add((frame.f_code.co_name, frame.f_lineno))
        return trace

    sys.settrace(trace)
    work()
    sys.settrace(None)
    return sorted(lines)


for events in (profile_events(), trace_events(), coverage_lines()):
    print(len(events))
    for event in events:
        print(*event)
profiler = cProfile.Profile()
profiler.runcall(work)
stats = pstats.Stats(profiler).stats
for (path, line, name), (calls, all_calls, _, _, callers) in sorted(stats.items()):
    print(
        os.path.basename(path),
        line,
        name.split(" at 0x")[0],
        calls,
        all_calls,
        sorted(c[2] for c in callers),
    )

title("recursion")


def depth(count=0):
    try:
        return depth(count + 1)
    except RecursionError:
        return count


class Deep(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        try:
            return F.relu(args[0]) + 1
        except RecursionError:
            return 0


def through_apply(count=0):
    try:
        torch.ones(1).apply_(lambda value: (reached.append(count), through_apply(count + 1), 0)[2])
    except RecursionError:
        pass


class Nested(torch.nn.Module):
    def forward(self, tensor, count=0):
        reached.append(count)
        F.relu(tensor)
        return self(tensor, count + 1)


def through(call, count=0):
    call()
    reached.append(count)
    through(call, count + 1)


CALLS = {
    "relu": lambda: F.relu(x),
    "softmax": lambda: F.softmax(x, 1),
    "split": lambda: x.split(1),
    "norm": lambda: torch.norm(x),
    "max_pool1d": lambda: F.max_pool1d(x, 1),
    "backward": lambda: torch.ones(1, requires_grad=True).sum().backward(),
    "add": lambda: torch.add(x, 1),
    "operator": lambda: x + 1,
    "repr": lambda: repr(x),
}
for call in CALLS.values():
    call()
sys.setrecursionlimit(400)
print(depth(), F.relu(x.as_subclass(Deep)))
functions = {name: lambda call=call: through(call) for name, call in CALLS.items()}
functions |= {"apply_": through_apply, "module": lambda: Nested()(x)}
for name, function in functions.items():
    reached = []
    try:
        function()
    except RecursionError:
        pass
    print(name, max(reached))
sys.setrecursionlimit(1000)

title("functions are the same objects")
for function in (
    F.relu,
    torch.norm,
    torch.add,
    torch.Tensor.split,
    torch.Tensor.add,
    torch.split,
    F.max_pool1d,
    has_torch_function,
    torch.nn.init.ones_,
    torch.autograd.grad,
):
    print(
        type(function),
        getattr(function, "__code__", None) and function.__code__.co_name,
        function.__qualname__,
    )
    print(sorted(vars(function)) if hasattr(function, "__dict__") else None, callable(function))
    try:
        print(inspect.signature(function))
    except ValueError as error:
        print(str(error)[:30])
    try:
        print(pickle.loads(pickle.dumps(function)) is function)
    except Exception as error:
        print(type(error).__name__)
print(
    torch.nn.functional.relu is F.relu,
    torch.Tensor.add is torch.Tensor.__dict__.get("add", torch._C.TensorBase.add),
)
print(
    inspect.isfunction(F.relu),
    inspect.isbuiltin(torch.add),
    inspect.ismethoddescriptor(torch.Tensor.add),
)
print(
    inspect.getsource(F.relu)[:20],
    F.relu.__defaults__,
    F.relu.__globals__ is vars(F),
    F.relu.__closure__,
)
print(
    len({torch.add, torch.Tensor.add, F.relu}), torch.add == torch.add, hash(F.relu) == hash(F.relu)
)

title("fast paths")


def operators(call):
    with torch.autograd.profiler.profile() as profile, torch.no_grad():
        call()
    return sorted(
        {
            event.name
            for event in profile.function_events
            if "transformer" in event.name or "native_multi" in event.name
        }
    )


layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
encoder = torch.nn.TransformerEncoder(layer, 2).eval()
attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
batch = torch.ones(1, 3, 4)
print(operators(lambda: layer(batch)), operators(lambda: encoder(batch)))
print(operators(lambda: attention(batch, batch, batch)))
print(operators(lambda: attention(batch, batch, batch.as_subclass(Sub))))

title("profiler's stacks")
with torch.profiler.profile(with_stack=True) as profile:
    F.relu(x)
    torch.norm(x)
    F.relu(sub)
for event in profile.events():
    if event.name.startswith("aten::"):
        print(event.name, [line.replace(os.getcwd(), "") for line in event.stack])
names = [event.name() for event in profile.profiler.kineto_results.events()]
print(len([name for name in names if ".py(" in name]))
print(sorted(name.rpartition("/")[2] for name in names if ".py(" in name))


def stack():
    length = torch._C._len_torch_function_stack()
    return [type(torch._C._get_function_stack_at(place)).__name__ for place in range(length)]


title("popping an empty stack")
# In a process of its own: whoever takes a mode that is not the program's ends what it does.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of a fork among threads, with the process's number
    child = os.fork()
if child == 0:
    for pop in (torch._C._pop_torch_function_stack, torch.overrides._pop_mode):
        try:
            print(pop())
        except Exception as error:
            print(type(error).__name__, error)

    def popping(value):
        try:
            torch.overrides._pop_mode()
        except RuntimeError as error:
            print(error)
        return value

    torch.ones(1).apply_(popping)
    print(stack())
    F.relu(x)
    print(stack())
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)

title("a callback that changes the stack")


def inside(change):
    mode = PassOn()
    lengths = []

    def callback(value):
        lengths.append(torch._C._len_torch_function_stack())
        change(mode)
        lengths.append(torch._C._len_torch_function_stack())
        return value

    torch.ones(1).apply_(callback)
    lengths.append(torch._C._len_torch_function_stack())
    return mode, lengths


mode, lengths = inside(lambda mode: mode.__enter__())
print(lengths, torch._C._get_function_stack_at(0) is mode)
mode.__exit__(None, None, None)
mode, lengths = inside(lambda mode: torch.set_default_device("meta"))
print(lengths, torch.ones(1).device)
torch.set_default_device(None)
print(torch._C._len_torch_function_stack(), torch.ones(1).device)


def entering(value):
    PassOn().__enter__()
    return value


leaf = torch.ones(1, requires_grad=True)
leaf.register_hook(entering)
for call in (lambda: torch.ones(1).apply_(entering), lambda: (leaf * 2).sum().backward()):
    call()
    print(stack())
    F.relu(x)
    print(stack())
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    print(stack())


def change_in_relu(tensor):
    class Pushing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            print("in", func.__name__, torch._C._len_torch_function_stack())
            PassOn().__enter__()
            return 42

    print(F.relu(tensor.as_subclass(Pushing)))
    print(torch._C._len_torch_function_stack())
    torch._C._pop_torch_function_stack()


change_in_relu(x)
print(torch._C._len_torch_function_stack())

# ---- Threads ----
title("small stacks")


def recurse(n):
    return 0 if n == 0 else 1 + recurse(n - 1)


for kilobytes in (64, 128, 512):
    threading.stack_size(kilobytes << 10)
    thread = threading.Thread(target=lambda: print(recurse(950)))
    thread.start()
    thread.join()
threading.stack_size(0)


class Depth:
    def measure(self, *arguments, done):
        self.reached = 0
        try:
            self.descend()
        except RecursionError:
            pass
        print(self.reached, arguments)
        done.release()

    def descend(self):
        self.reached += 1
        self.descend()

    __call__ = measure


title("starts of threads")
done = threading.Lock()
done.acquire()
for function in (Depth().measure, Depth()):
    _thread.start_new_thread(function, (1, 2), {"done": done})
    done.acquire()
    thread = threading.Thread(target=function, args=(3,), kwargs={"done": done})
    thread.start()
    thread.join()
    done.acquire()


def fail(error):
    raise error


def unraisable(what):
    print(what.object is fail, what.exc_type.__name__, what.err_msg)
    done.release()


sys.unraisablehook = unraisable
for error in (SystemExit(), ValueError()):
    _thread.start_new_thread(fail, (error,))
done.acquire()

title("end")
