"""What torch.profiler is told of on this thread, counted by name: printed for level 4 to be held against."""

import collections
import json
import threading

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

# Every sample looks in the stack for the test that it is for, which takes most of the time.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

torch.manual_seed(0)
model = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
optimizer = torch.optim.Adam(model.parameters())


def steps():
    for _ in range(2):
        with record_function("step"):
            model(torch.randn(2, 4, 16)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()


def generator():
    with record_function("in a generator"):
        torch.sin(torch.ones(2))
        yield
        torch.cos(torch.ones(2))


def operators():
    for op in op_db[::7]:
        grad = op.supports_autograd
        try:
            samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=grad))[:2]
        except Exception:
            continue
        for sample in samples:
            try:
                result = op(sample.input, *sample.args, **sample.kwargs)
                if isinstance(result, torch.Tensor) and result.requires_grad:
                    result.sum().backward()
            except Exception:
                pass


with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
    with record_function("all of it"):
        steps()
        for _ in generator():
            torch.tan(torch.ones(2))
        thread = threading.Thread(target=steps)
        thread.start()
        thread.join()
        operators()
events = profiled.profiler.kineto_results.events()
print(json.dumps(collections.Counter(event.name() for event in events)))
