"""Tensors whose numbers are recorded, and those that have none, in sections (marks.py)."""

import sys

import numpy
import torch
from marks import mark

torch.manual_seed(3)
nan, inf = float("nan"), float("inf")

mark("operators")
x = torch.tensor([[1.0, nan], [-inf, 3.0]])
x.add(1)
x.t().clone()

mark("memory")
memory = torch.empty(4)
memory.view(2, 2).abs()
memory[:2].fill_(7.0)
memory.neg()
memory.resize_(400)
memory.abs()
memory.zero_()
torch.empty(3).unsqueeze_(0).abs()
torch.add(torch.ones(2), 1, out=torch.empty(2))
torch.ones_like(torch.empty(2))
with torch.inference_mode():
    inside = torch.empty(3)
    inside.abs()
    inside.fill_(2.0)
    inside.abs()

mark("views")
base = torch.zeros(2, 3)
base[1].add_(1)
base.sum()
base.t().sum()
base.data.add_(1)
base.sum()
base.data.add_(1)
base.sum()
base.view(torch.int32).sum()

mark("written")
parts = [torch.ones(2), torch.zeros(3)]
torch._foreach_add_(parts, 1.0)
parameter = torch.nn.Parameter(torch.ones(3))
parameter.grad = torch.full((3,), 0.5)
torch.optim.AdamW([parameter], lr=0.1, fused=True).step()
norm = torch.nn.BatchNorm1d(2)
norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
try:
    torch.ones(3).add_(torch.ones(2))
except RuntimeError:
    pass

mark("numpy")
array = numpy.zeros(2, dtype=numpy.float32)
seen = torch.from_numpy(array)
seen.sum()
array[0] = 5
seen.sum()

mark("kinds")
torch.tensor([3 + 4j, complex(nan, 1), 0j]).clone()
torch.tensor([True, False, True]).clone()
torch.tensor([-0.0, 0.0, 2.0], dtype=torch.bfloat16).clone()
torch.tensor([1.0, -2.0]).to(torch.float8_e4m3fn).clone()
torch.zeros(0, 3).clone()
torch.tensor(7).clone()
torch.quantize_per_tensor(torch.tensor([1.0, 2.0]), 0.5, 0, torch.quint8).clone()
torch.tensor([[0.0, 5.0], [6.0, 0.0]]).to_sparse().mul(2)
torch.tensor([[0.0, 5.0], [6.0, 0.0]]).to_sparse_csr().clone()
torch.nested.nested_tensor([torch.ones(2), torch.full((1,), 4.0)]).clone()

mark("signs")
complex_ = torch.tensor([[1 + 2j, complex(nan, -3)], [4 - 0j, -1j]])
complex_.sum()
complex_.conj().clone()
complex_.conj().t().clone()
complex_.conj().imag.clone()
torch._neg_view(complex_.conj()).clone()
torch._neg_view(torch.tensor([1.0, -2.0, inf], dtype=torch.bfloat16)).clone()
torch._neg_view(torch.tensor([1, 2])).clone()

mark("none")
torch.ones(2, device="meta").clone()
with torch._subclasses.FakeTensorMode():
    torch.ones(2).clone()
torch.vmap(torch.sin)(torch.ones(2, 2))

mark("end")
sys.stdout.write(f"{torch.rand(1).item()}\n")
