"""Programs that PyTorch captures in other ways than torch.compile; each section runs one."""

import sys

import torch
from marks import mark
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)).sum(-1)


def doubled(x):
    return torch.sin(x) * 2


@torch.jit.script
def repeated(x, times: int):
    for _ in range(times):
        x = torch.relu(x)
    return x


def summed(v):
    return torch.sin(v).sum()


x = torch.rand(3, 4)
model = Model()
program = torch.export.export(model, (x,)).module()
traced = torch.jit.trace(doubled, (x,))

with torch.no_grad():
    mark("eager")
    model(x)
    mark("exported")
    program(x)
mark("scripted")
repeated(x, 2)
mark("jit-traced")
traced(x)
mark("cond")
torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
mark("while")
while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, torch.sin(y)), (torch.tensor(0), x))
mark("map")
map_over(lambda row: torch.sin(row), x)
mark("scan")
scan(lambda carry, row: (carry + row, torch.sin(carry)), torch.zeros(4), x)
mark("flex")
query = torch.randn(1, 1, 16, 16)
flex_attention(query, query, query, score_mod=lambda score, b, h, i, j: score + i)
mark("vmap")
torch.func.vmap(summed)(x)
mark("grad")
torch.func.grad(summed)(x[0])
mark("vmap of grad")
torch.func.vmap(torch.func.grad(summed))(x)
mark("end")
for section in sys.argv[1:]:
    with torch.no_grad():
        path = torch._inductor.aoti_compile_and_package(
            torch.export.export(model, (x,)), package_path=section
        )
        package = torch._inductor.aoti_load_package(path)
        mark("package")
        print(torch.allclose(package(x), model(x)))
        package(x)
        mark("end")
        library = torch._export.aot_compile(model, (x,))
        loaded = torch._export.aot_load(library, "cpu")
        mark("library")
        print(torch.allclose(loaded(x), model(x)))
        mark("end")
