"""Random small models that train two steps, as a seed says: what planted.py plants something in.

Every program has its own blocks, data, precision, checkpoints and optimizer. `probe` of `train`
sees which part of a step begins, and may change what passes by it.
"""

import contextlib
import random

import numpy
import torch
import torch.nn.functional as F
import torchtrace
from torch import nn
from torch.utils.checkpoint import checkpoint

BATCH, LENGTH, WIDTH, WORDS = 2, 4, 8, 11
STEPS = 2


class Mlp(nn.Sequential):
    def __init__(self, rng):
        activation = rng.choice([nn.GELU, nn.SiLU, nn.ReLU, nn.Tanh, nn.Softplus])
        dropout = nn.Dropout(rng.choice([0.0, 0.2]))
        super().__init__(nn.Linear(WIDTH, 12), activation(), dropout, nn.Linear(12, WIDTH))


class Convolution(nn.Module):
    def __init__(self, rng):
        super().__init__()
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.norm = rng.choice([nn.BatchNorm1d(WIDTH), nn.GroupNorm(2, WIDTH)])

    def forward(self, x):
        return torch.relu_(self.norm(self.conv(x.transpose(1, 2)))).transpose(1, 2)


class Image(nn.Module):
    def __init__(self, rng):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.pool = rng.choice([nn.MaxPool2d(2), nn.AvgPool2d(2)])
        self.out = nn.Linear(LENGTH * WIDTH // 2, WIDTH)

    def forward(self, x):
        return x + self.out(self.pool(self.conv(x[:, None])).flatten(1))[:, None]


class Attention(nn.Module):
    """With a mask of -inf."""

    def __init__(self, rng):
        super().__init__()
        self.kind = rng.choice(["own", "scaled_dot_product", "causal"])
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        if self.kind == "causal":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        if self.kind == "scaled_dot_product":
            mask = torch.zeros(LENGTH, LENGTH, dtype=q.dtype).masked_fill(hidden, -torch.inf)
            return F.scaled_dot_product_attention(q, k, v, mask)
        scores = q @ k.transpose(1, 2) / WIDTH**0.5
        return torch.softmax(scores.masked_fill(hidden, -torch.inf), -1) @ v


class Heads(nn.Module):
    def __init__(self, rng):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.need_weights = rng.choice([True, False])

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        return self.attention(x, x, x, attn_mask=mask, need_weights=self.need_weights)[0]


class Recurrent(nn.GRU):
    def __init__(self, rng):
        super().__init__(WIDTH, WIDTH, batch_first=True)

    def forward(self, x):
        return super().forward(x)[0]


class Views(nn.Module):
    """Writes in place through views."""

    def __init__(self, rng):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        y = x * self.scale
        y[:, 0].mul_(0.5)
        y.view(-1, WIDTH)[1::2].add_(0.25)
        first, second = y.split(LENGTH // 2, 1)
        second = second.clone()
        second.transpose(1, 2).clamp_(-3, 3)
        return torch.cat([first, second], 1)


BLOCKS = [Mlp, Convolution, Image, Attention, Heads, Recurrent, Views]
OPTIMIZERS = [
    (torch.optim.AdamW, {"fused": True}),
    (torch.optim.AdamW, {"foreach": True}),
    (torch.optim.AdamW, {"foreach": False}),
    (torch.optim.SGD, {"momentum": 0.9, "foreach": True}),
    (torch.optim.SGD, {"momentum": 0.9, "fused": True}),
    (torch.optim.SGD, {"foreach": False}),
    (torch.optim.RMSprop, {"foreach": True}),
    (torch.optim.Adagrad, {"foreach": False}),
]


class Model(nn.Module):
    def __init__(self, rng, probe):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(block(rng) for block in rng.choices(BLOCKS, k=3))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)
        # None: not checkpointed; else use_reentrant.
        self.checkpoints = [rng.choice([None, None, False, True]) for _ in self.blocks]
        self.probe = probe

    def forward(self, words, features):
        x = self.embedding(words) + features
        for place, (block, reentrant) in enumerate(zip(self.blocks, self.checkpoints, strict=True)):
            if reentrant is None:
                y = block(x)
            else:
                y = checkpoint(block, x, use_reentrant=reentrant)
            x = self.probe.passes(x + y, place)
        return self.head(self.norm(x))


def train(seed, probe, wrap=lambda model: model):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    numbers = numpy.random.default_rng(seed)
    probe.part = "start"
    model = Model(rng, probe)
    lower = rng.choice([None, None, None, torch.bfloat16, torch.float16])
    kind, options = OPTIMIZERS[rng.randrange(len(OPTIMIZERS))]
    from_numpy = rng.choice([True, False])
    clip = rng.choice([True, False])
    trained = wrap(model)
    optimizer = kind(model.parameters(), lr=0.01, **options)
    for step in range(STEPS):
        with torchtrace.annotate(step=step):
            probe.step, probe.part = step, "data"
            words = torch.from_numpy(numbers.integers(WORDS, size=(BATCH, LENGTH)))
            if from_numpy:
                features = numbers.normal(size=(BATCH, LENGTH, WIDTH)).astype("float32")
                features = torch.from_numpy(probe.comes_in(features))
            else:
                features = torch.randn(BATCH, LENGTH, WIDTH) * 0.5
            features = probe.passes(features, "data")
            probe.part = "forward"
            with torch.autocast("cpu", lower) if lower else contextlib.nullcontext():
                logits = trained(words, features)
                loss = F.cross_entropy(logits.flatten(0, 1).float(), words.flatten())
            probe.part = "backward"
            loss.backward()
            probe.part = "clip"
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            probe.before_step(optimizer)
            probe.part = "optimizer"
            optimizer.step()
            optimizer.zero_grad()
    probe.part = "end"
