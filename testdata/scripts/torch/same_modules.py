"""Modules, training and random numbers, printed to the last bit."""

import torch
import torch.nn.functional as F
from torch import nn


def bits(*tensors):
    print(*[tensor.detach().double().sum().item().hex() for tensor in tensors])


torch.manual_seed(0)
for batch_first in (True, False):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=batch_first)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    tokens = torch.randn(2, 5, 16)
    mask = torch.zeros(2, 5, dtype=torch.bool)
    mask[1, 3:] = True
    with torch.no_grad():
        bits(encoder(tokens))
        if batch_first:
            bits(encoder(tokens, src_key_padding_mask=mask))
    bits(encoder(tokens))
    bits(encoder.train()(tokens))
attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()
with torch.no_grad():
    bits(*attention(tokens, tokens, tokens))
    bits(attention(tokens, tokens, tokens, need_weights=False)[0])
bits(*attention(tokens, tokens, tokens))
with torch.inference_mode():
    bits(*attention(tokens, tokens, tokens))
bits(nn.TransformerDecoderLayer(16, 2, 32, batch_first=True).eval()(tokens, tokens))
bits(*nn.LSTM(16, 8, batch_first=True)(tokens)[1])
bits(nn.GRU(16, 8, 2, bidirectional=True)(tokens)[0])
bits(nn.Conv2d(3, 4, 3)(torch.randn(1, 3, 8, 8)))

model = nn.Sequential(
    nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.1), nn.BatchNorm1d(5), nn.Linear(16, 4)
)
for kind in (torch.optim.SGD, torch.optim.AdamW):
    optimizer = kind(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), torch.arange(10) % 4)
        loss.backward()
        optimizer.step()
        schedule.step()
    bits(loss, *model.parameters())
with torch.autocast("cpu", dtype=torch.bfloat16):
    bits(model(tokens))
bits(torch.rand(3), torch.randn(3), torch.randperm(5), torch.bernoulli(torch.full((9,), 0.5)))
print(torch.get_rng_state().sum().item(), torch.initial_seed())
bits(torch.utils.checkpoint.checkpoint(model, tokens, use_reentrant=False))
torch.nn.utils.parametrizations.weight_norm(model[0])
bits(model(tokens))
hooks = []
model[1].register_forward_hook(lambda module, args, out: hooks.append(out.shape))
model(tokens)
print(hooks, model)
x = torch.arange(6.0).view(2, 3)
print(x, x + 1, x.tolist(), x[0], f"{x[0, 1]:.2f}", repr(nn.Parameter(x)), sep="\n")
for row in x:
    print(row.sum().item(), 1.0 in row, len(row), bool(row.any()))
x[x > 2] *= 2
x.resize_(3, 2).t_()
print(x, x.numpy().sum(), torch.from_numpy(x.numpy()).dtype, x.storage_offset())
