"""Trains a GPT-2 for a few steps on random letters, each step's calls tagged with its number.

Its size is that of nanoGPT's example (11 million parameters). Wants torchtrace: torchtrace run train_gpt2.py [BATCH]
"""

import sys

import torch
import torch.nn.functional as F
import torchtrace
from gpt2 import GPT2

LETTERS = 65
STEPS = 4
batch = int(sys.argv[1]) if len(sys.argv) > 1 else 2

torch.manual_seed(0)
model = GPT2(LETTERS, length=256, width=384, layers=6, heads=6)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(STEPS):
    torchtrace.annotate(step=step)
    tokens = torch.randint(LETTERS, (batch, 65))
    letters, targets = tokens[:, :-1], tokens[:, 1:]
    loss = F.cross_entropy(model(letters).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step}  loss {loss.item():.4f}  gradient norm {norm.item():.4f}")
