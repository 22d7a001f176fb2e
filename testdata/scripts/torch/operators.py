"""Calls many operators of all kinds under a witness; its argument: the witness's file."""

import sys

import torch
import torch._dynamo  # at its import some versions call operators, unseen by modes
import torch.nn.functional as F
from marks import mark
from repeated import REPEATED
from witness import Witness

torch.manual_seed(0)
x = torch.randn(2, 3)
y = torch.randn(2, 3)
square = torch.randn(3, 3)
spd = square @ square.T + torch.eye(3)
image = torch.randn(1, 3, 8, 8)
integers = torch.arange(6).view(2, 3)
complexes = torch.randn(2, 3, dtype=torch.complex64)
leaf = torch.randn(2, 3, requires_grad=True)
weight = torch.nn.Parameter(torch.randn(4, 3))
generator = torch.Generator().manual_seed(1)

CALLS = [
    # Numbers that PyTorch wraps into tensors.
    lambda: x + 1,
    lambda: x + 1e-12,
    lambda: x * True,
    lambda: x + 1j,
    lambda: 2**63 - 1 + integers,
    lambda: x * float("inf"),
    lambda: x * float("nan"),
    lambda: x * -0.0,
    lambda: 1 - x,
    lambda: 2**x,
    lambda: torch.where(x > 0, x, 0.5),
    lambda: torch.div(x, 3, rounding_mode="floor"),
    lambda: torch.add(x, y, alpha=2),
    lambda: torch.add(x, y, alpha=1),
    lambda: torch.add(x, torch.tensor(2.0)),
    lambda: torch.clamp(x, min=0),
    lambda: torch.clamp(x, max=0.5),
    lambda: torch.addmm(square, square, square, beta=0.5, alpha=2),
    lambda: torch.baddbmm(torch.zeros(1), image[0], image[0].mT),
    # Enums, devices, layouts, generators.
    lambda: torch.zeros(2, dtype=torch.float16),
    lambda: torch.zeros(2, 3, layout=torch.sparse_coo),
    lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last),
    lambda: torch.empty_like(x, memory_format=torch.preserve_format),
    lambda: torch.full((2,), 7),
    lambda: torch.full((2,), 1.5, dtype=torch.bfloat16, device="cpu"),
    lambda: torch.ones(2, device="meta"),
    lambda: torch.arange(5),
    lambda: torch.arange(0, 1, 0.25),
    lambda: torch.linspace(0, 1, 5),
    lambda: torch.eye(3),
    lambda: torch.randn(2),
    lambda: torch.randn(2, generator=generator),
    lambda: torch.randint(0, 10, (2,)),
    lambda: torch.randperm(4),
    lambda: torch.bernoulli(torch.full((2,), 0.5), generator=generator),
    lambda: torch.empty_strided((2, 3), (1, 2)),
    lambda: torch.scalar_tensor(3),
    lambda: torch.tensor([1.0, 2.0]),
    lambda: x.to(torch.float64),
    lambda: x.to("meta"),
    lambda: x.to(torch.float16, memory_format=torch.contiguous_format),
    lambda: x.clone(memory_format=torch.contiguous_format),
    lambda: image.to(memory_format=torch.channels_last),
    lambda: x.half(),
    lambda: x.bfloat16().float(),
    lambda: x.sum(dtype=torch.float64),
    lambda: torch.softmax(x, 1, dtype=torch.float64),
    lambda: torch.cumsum(integers, 0),
    # Views, indices, lists of tensors, optional tensors.
    lambda: x.t(),
    lambda: x.view(3, 2),
    lambda: x.reshape(-1),
    lambda: x.t().reshape(-1),
    lambda: x.permute(1, 0),
    lambda: x.expand(4, 2, 3),
    lambda: x[0],
    lambda: x[:, 1:],
    lambda: x[..., ::2],
    lambda: x[None],
    lambda: x[x > 0],
    lambda: x[torch.tensor([0, 1])],
    lambda: x[:, torch.tensor([0, 2])],
    lambda: x.clone().__setitem__((0, 1), 5.0),
    lambda: x.clone().__setitem__(torch.tensor([0]), 1),
    lambda: torch.cat([x, y]),
    lambda: torch.cat([x, y], 1),
    lambda: torch.stack([x, y], dim=-1),
    lambda: torch.split(x, 1),
    lambda: x.chunk(2),
    lambda: x.unbind(),
    lambda: torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"),
    lambda: torch._foreach_add([x, y], 1),
    lambda: torch._foreach_mul([x, y], [2, 3.5]),
    lambda: torch.gather(x, 1, integers % 3),
    lambda: torch.index_select(x, 0, torch.tensor([1])),
    lambda: x.as_strided((2, 2), (1, 1)),
    lambda: torch.einsum("ij,kj->ik", x, y),
    lambda: torch.nonzero(x),
    lambda: x.unfold(1, 2, 1),
    # In place and out.
    lambda: x.clone().add_(1).mul_(2),
    lambda: x.clone().relu_(),
    lambda: torch.add(x, y, out=torch.empty(2, 3)),
    lambda: torch.sum(x, 0, out=torch.empty(3)),
    lambda: x.clone().copy_(y),
    lambda: x.clone().fill_(3),
    lambda: x.clone().zero_(),
    lambda: torch.empty(0).resize_(3, 5),
    lambda: x.clone().uniform_(0, 1),
    lambda: x.clone().normal_(generator=generator),
    # Reductions and linear algebra.
    lambda: x.sum(),
    lambda: x.mean(1, keepdim=True),
    lambda: x.max(),
    lambda: x.max(1),
    lambda: x.argmax(),
    lambda: x.sort(descending=True),
    lambda: x.topk(2),
    lambda: x.std(),
    lambda: x.var(1, correction=0),
    lambda: x.norm(),
    lambda: torch.norm(x, p=float("inf")),
    lambda: torch.linalg.norm(x, ord=2),
    lambda: torch.linalg.inv(spd),
    lambda: torch.linalg.svd(square),
    lambda: torch.linalg.cholesky(spd),
    lambda: torch.linalg.solve(spd, square),
    lambda: torch.quantile(x, 0.5),
    lambda: torch.allclose(x, x, rtol=1e-7),
    lambda: torch.equal(x, y),
    lambda: x.sum().item(),
    lambda: bool((x > 0).any()),
    # Neural networks.
    lambda: F.linear(x, weight.detach()),
    lambda: F.linear(x, weight),
    lambda: F.relu(x),
    lambda: F.gelu(x, approximate="tanh"),
    lambda: F.softmax(x, -1),
    lambda: F.layer_norm(x, (3,), eps=1e-12),
    lambda: F.batch_norm(image, torch.zeros(3), torch.ones(3), training=True),
    lambda: F.group_norm(image, 3),
    lambda: F.conv2d(image, torch.randn(2, 3, 3, 3), padding=1),
    lambda: F.conv2d(image, torch.randn(2, 3, 3, 3), padding="same"),
    lambda: F.conv_transpose2d(image, torch.randn(3, 2, 2, 2), stride=2),
    lambda: F.max_pool2d(image, 2),
    lambda: F.avg_pool2d(image, 2),
    lambda: F.adaptive_avg_pool2d(image, 1),
    lambda: F.interpolate(image, scale_factor=2),
    lambda: F.interpolate(image, size=(5, 5), mode="bilinear", align_corners=False),
    lambda: F.pad(x, (1, 1)),
    lambda: F.pad(image, (1, 1, 1, 1), mode="reflect"),
    lambda: F.dropout(x, 0.5),
    lambda: F.embedding(integers % 4, weight, padding_idx=0),
    lambda: F.cross_entropy(x, torch.tensor([0, 2]), label_smoothing=0.1),
    lambda: F.nll_loss(x, torch.tensor([0, -100])),
    lambda: F.mse_loss(x, y, reduction="none"),
    lambda: F.one_hot(integers % 3),
    lambda: F.scaled_dot_product_attention(image, image, image, is_causal=True),
    lambda: F.scaled_dot_product_attention(image, image, image, scale=0.5),
    lambda: torch.nn.LSTM(3, 4)(x),
    lambda: F.huber_loss(x, y, delta=0.5),
    # Complex, sparse, quantised, FFT.
    lambda: complexes * 2j,
    lambda: complexes.conj(),
    lambda: complexes.conj().resolve_conj(),
    lambda: torch.view_as_real(complexes),
    lambda: complexes.abs(),
    lambda: torch.fft.fft(x),
    lambda: torch.fft.rfft(x, norm="ortho"),
    lambda: torch.stft(torch.randn(64), 16, return_complex=True),
    lambda: torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2)),
    lambda: x.to_sparse().to_dense(),
    lambda: square.to_sparse_csr() @ square,
    lambda: torch.sparse.mm(square.to_sparse(), square),
    lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize(),
    lambda: torch.nested.nested_tensor([x[0], y[0]]) + 1,
    # Autograd.
    lambda: (leaf * 2).sum().backward(),
    lambda: F.linear(leaf, weight).relu().pow(2).mean().backward(),
    lambda: F.layer_norm(leaf, (3,)).sum().backward(),
    lambda: F.cross_entropy(leaf, torch.tensor([0, 1])).backward(),
    lambda: torch.autograd.grad((leaf**3).sum(), leaf, create_graph=True)[0].sum().backward(),
    lambda: leaf.detach(),
    lambda: leaf.clone().requires_grad_(),
    # By their own names.
    lambda: torch.ops.aten.add.Tensor(x, y, alpha=3),
    lambda: torch.ops.aten.mean.dim(x, [1], True),
    lambda: torch.ops.aten._to_copy(x, dtype=torch.int32),
    lambda: torch.ops.aten.index_put(x, [torch.tensor([0]), None], torch.tensor(1.0)),
    lambda: torch.ops.aten.native_dropout(x, 0.5, True),
    lambda: torch.ops.aten.upsample_nearest2d.vec(image, [4, 4], None),
    # Last, as some tests look for an operator's first call.
    *REPEATED,
]

mark("start")
print(len(CALLS))
witness = Witness()
mark("witness")
with witness:
    for call in CALLS:
        call()
mark("making a model")
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
mark("optimizer")
for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
    optimizer = kind(model.parameters(), lr=0.1)
    with witness:
        for _ in range(2):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
mark("end")
witness.write(sys.argv[1])
# The same without the mode: the program's own calls.
mark("alone")
for call in CALLS:
    call()
mark("end")
