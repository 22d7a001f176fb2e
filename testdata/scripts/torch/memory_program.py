"""Allocates and frees, in a step that PyTorch's profiler watches too, on another thread, and in a forked process.

Modules that are in each other, with many parameters, are called often.
"""

import gc
import json
import os
import threading

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.testing._internal.two_tensor import TwoTensor

torch.manual_seed(0)

# 400,000 bytes, of which 100,000 go, and another 200,000 by other means than operators that return a tensor.
kept = torch.empty(75_000)
gone = torch.empty(25_000)
del gone
kept.set_(torch.empty(0).untyped_storage())
grown = torch.empty(1)
grown.resize_(50_000)
freed_elsewhere = [torch.empty(10_000)]
thread = threading.Thread(target=freed_elsewhere.clear)
thread.start()
thread.join()

if os.fork() == 0:
    grown.resize_(60_000)
    torch.empty(3)
    os._exit(0)
os.wait()

model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(64, 256), torch.randint(10, (64,))


# As long as no optimizer has stepped, the parameters of what is called are looked for.
outermost = torch.nn.Identity()
outermost.layers = torch.nn.ModuleList(torch.nn.Identity() for _ in range(50))
outermost.many = torch.nn.ParameterList(torch.zeros(1) for _ in range(500))
for layer in outermost.layers:
    layer.outermost = outermost
    layer.layers = outermost.layers
for _ in range(200):
    outermost(x)
del outermost, layer
gc.collect()

# A tensor without memory of its own, which holds two, one of them in another one.
inner = [torch.ones(1000), torch.ones(1000)]
around = torch.nn.Identity()
around.parameter = torch.nn.Parameter(TwoTensor(inner[0], TwoTensor(*inner)))
around(x)

leaked = []


def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    leaked.append(torch.ones(1000))
    loss.backward()
    optimizer.step()


step()
step()
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
    with record_function("the step"):
        step()
events = profiler.profiler.kineto_results.events()
used = [event.nbytes() for event in events if event.name() == "[memory]"]
state = sum(value.nbytes for values in optimizer.state.values() for value in values.values())
gradients = sum(parameter.grad.nbytes for parameter in model.parameters())
print(
    json.dumps(
        {
            "allocated": sum(bytes for bytes in used if bytes > 0),
            "state": state,
            "gradients": gradients,
            "parameters": sum(each.nbytes for each in [*model.parameters(), *inner]),
        }
    )
)
