"""torch.compile; arguments: the backend. Prints Dynamo's counters."""

import sys
import threading

import torch
from marks import mark
from torch._dynamo.utils import counters

backend = sys.argv[1]
torch.manual_seed(0)
x = torch.randn(3, 4, requires_grad=True)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4))


def function(x):
    y = model(x)
    z = torch.nn.functional.dropout(y, 0.0)
    return (torch.norm(z) + z.norm()).sum()


def breaking(x):
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return torch.cos(y)


def eagerly(x):
    torch.relu(x)
    torch.nn.functional.relu(x)
    torch.norm(x)
    x.sum()


def forget_gradients():
    model.zero_grad()
    x.grad = None


compiled = torch.compile(function, backend=backend)
mark("before")
eagerly(x)
mark("first call")
result = compiled(x)
mark("first backward")
result.backward()
mark("after")
eagerly(x)
forget_gradients()
mark("second call")
result = compiled(x)
mark("second backward")
result.backward()
mark("graph break")
broken = torch.compile(breaking, backend=backend)
mark("graph break's first call")
broken(x)
mark("graph break's second call")
broken(x)
mark("threads")


def work():
    mark("in a thread")
    eagerly(x)
    compiled(x)
    mark("in a thread after")
    eagerly(x)


for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
mark("other shape")
compiled(torch.randn(5, 4, requires_grad=True)).backward()
mark("at the end")
eagerly(x)
mark("end")
print(result.item().hex(), x.grad.double().sum().item().hex())
print(dict(counters["stats"]))
print(dict(counters["frames"]))
print(dict(counters["graph_break"]))
