"""A small GPT learns to write a sentence by heart, then writes it."""

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and the dog sleeps on. "
LETTERS = sorted(set(TEXT))
BLOCK = 16


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, time, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        query, key, value = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in parts
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, time, width)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    def __init__(self, width=48, heads=4, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(len(LETTERS), width)
        self.positions = nn.Embedding(BLOCK, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, len(LETTERS), bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.inference_mode()
    def write(self, start, letters):
        tokens = encode(start)[None]
        for _ in range(letters):
            logits = self(tokens[:, -BLOCK:])[:, -1]
            tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
        return "".join(LETTERS[i] for i in tokens[0].tolist())


def encode(text):
    return torch.tensor([LETTERS.index(letter) for letter in text])


torch.manual_seed(1)
data = encode(TEXT * 4)
model = GPT()
decay = [p for p in model.parameters() if p.dim() > 1]
keep = [p for p in model.parameters() if p.dim() == 1]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.01}, {"params": keep, "weight_decay": 0.0}], lr=1e-2
)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40, eta_min=1e-3)

model.train()
for step in range(40):
    starts = torch.randint(len(data) - BLOCK, (16,))
    x = torch.stack([data[i : i + BLOCK] for i in starts])
    y = torch.stack([data[i + 1 : i + 1 + BLOCK] for i in starts])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=step % 10 == 9):
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if step % 10 == 0:
        print(f"step {step:2}  loss {loss.item():.4f}  gradient norm {norm.item():.4f}")

model.eval()
print(f"finished  loss {loss.item():.4f}")
print(model.write("the quick", 20))
total = sum(p.double().sum() for p in model.parameters()).item()
print(f"digest  {loss.item().hex()} {total.hex()}")
