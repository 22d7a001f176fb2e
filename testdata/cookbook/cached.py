"""A checkpointed block that keeps what it has seen: the second run sees more."""

import torch
from torch.utils.checkpoint import checkpoint


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = torch.nn.Linear(8, 8)
        self.seen = []

    def forward(self, x):
        self.seen.append(self.keys(x))
        keys = torch.cat(self.seen)
        return torch.softmax(x @ keys.t(), dim=-1) @ keys


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8), Attention()])

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return x


model = Model()
model(torch.randn(4, 8)).sum().backward()
