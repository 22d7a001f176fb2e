"""What Python can see of PyTorch: copies, pickles, files, identities, debuggers."""

import copy
import gc
import inspect
import io
import pickle
import sys
import tempfile
import threading
import weakref

import torch
import torch.nn.functional as F

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
model.attribute = {"a": [1, 2]}
twin = copy.deepcopy(model)
print(all((a == b).all().item() for a, b in zip(model.parameters(), twin.parameters())))
loaded = pickle.loads(pickle.dumps(model))
print(loaded, sum(parameter.sum() for parameter in loaded.parameters()))
buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
print(len(buffer.getvalue()))
buffer.seek(0)
print(model.load_state_dict(torch.load(buffer)))
with tempfile.TemporaryDirectory() as folder:
    torch.save(model.state_dict(), f"{folder}/file.pt")
    print(list(torch.load(f"{folder}/file.pt", weights_only=True)))
print(pickle.loads(pickle.dumps(torch.add)) is torch.add, pickle.dumps(F.relu))
print(copy.copy(torch.ones(2)), copy.deepcopy(torch.nn.Parameter(torch.ones(2))))

print(inspect.signature(F.layer_norm), F.relu.__module__, F.relu.__code__.co_filename[-13:])
print(
    torch.add.__self__, type(torch.add), torch.Tensor.add, torch.Tensor.shape, torch.ones.__name__
)
print(torch.add.__doc__[:30], torch.Tensor.add is torch.Tensor.add, callable(torch.relu))
print(sorted(name for name in vars(torch) if "trace" in name.lower()))
print(
    threading.Thread.start.__qualname__, threading.active_count(), threading.current_thread().name
)
print(sorted(name for name in sys.modules if "torchtrace" in name))
print(sys.getrefcount(torch.add) < 10**6, gc.isenabled(), gc.get_threshold())

tensor = torch.ones(1000)
reference = weakref.ref(tensor)
torch.add(tensor, 1)
F.relu(tensor)
before = sys.getrefcount(tensor)
torch.sin(tensor)
F.silu(tensor)
print(before == sys.getrefcount(tensor))
del tensor
print(reference() is None)


class Freed:
    def __del__(self):
        print("freed")


attached = torch.ones(1)
attached.owner = Freed()
F.relu(attached)
torch.add(attached, 1)
del attached
print("after")

print(torch.overrides.is_tensor_like(1), torch.is_grad_enabled(), torch.is_inference_mode_enabled())
print(torch.utils._python_dispatch._get_current_dispatch_mode())
print(torch._C._len_torch_dispatch_stack())
print(torch.compiler.is_compiling(), torch.jit.is_scripting(), torch.jit.is_tracing())
print(torch.get_default_dtype(), torch.get_num_threads() > 0)
with torch.profiler.profile(record_shapes=True) as profile:
    torch.sin(torch.ones(3))
print(sorted({event.name for event in profile.events()}))

events = []


def tracer(frame, event, argument):
    if frame.f_code.co_filename == __file__:
        events.append((event, frame.f_code.co_name, frame.f_lineno))
        return tracer


def traced_by_python(x):
    y = F.relu(x)
    z = torch.add(y, 1)
    try:
        F.layer_norm(z, (99,))
    except RuntimeError:
        pass
    return z.sum()


sys.settrace(tracer)
traced_by_python(torch.ones(3))
sys.settrace(None)
print(events)
calls = []


def profiler(frame, event, argument):
    if event == "call":
        calls.append(frame.f_code.co_name)


sys.setprofile(profiler)
F.relu(torch.ones(3))
sys.setprofile(None)
print("relu" in calls)
stack = []
torch.add(torch.ones(1), 1)
print([frame.function for frame in inspect.stack()])
print(torch.tensor([1.5], device=torch.device("cpu")).item(), torch.empty(0).numel())
sys.exit(3)
