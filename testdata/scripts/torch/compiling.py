"""torch.compile with each of the backends that the arguments name; prints Dynamo's counters."""

import sys
import threading

import torch
from marks import mark
from torch._dynamo.utils import counters


def eagerly(x):
    torch.relu(x)
    torch.nn.functional.relu(x)
    torch.norm(x)
    x.sum()


def breaking(x):
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return torch.cos(y)


def compile_with(backend):
    def section(name):
        mark(f"{backend}: {name}")

    def forget_gradients():
        model.zero_grad()
        x.grad = None

    def function(x):
        y = model(x)
        z = torch.nn.functional.dropout(y, 0.0)
        return (torch.norm(z) + z.norm()).sum()

    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    x = torch.randn(3, 4, requires_grad=True)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4))
    compiled = torch.compile(function, backend=backend)
    section("before")
    eagerly(x)
    section("first call")
    result = compiled(x)
    section("first backward")
    result.backward()
    section("after")
    eagerly(x)
    forget_gradients()
    section("second call")
    result = compiled(x)
    section("second backward")
    result.backward()
    section("graph break")
    broken = torch.compile(breaking, backend=backend)
    section("graph break's first call")
    broken(x)
    section("graph break's second call")
    broken(x)
    section("threads")

    def work():
        section("in a thread")
        eagerly(x)
        compiled(x)
        section("in a thread after")
        eagerly(x)

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    section("other shape")
    compiled(torch.randn(5, 4, requires_grad=True)).backward()
    section("at the end")
    eagerly(x)
    section("end")
    print(backend, result.item().hex(), x.grad.double().sum().item().hex())
    print(dict(counters["stats"]))
    print(dict(counters["frames"]))
    print(dict(counters["graph_break"]))


for each in sys.argv[1:]:
    compile_with(each)
