"""The timed programs: each is a function that makes one step."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A transformer block as in GPT-2: attention and an MLP, each after a LayerNorm."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(batch, length, width)
        x = x + F.dropout(self.out(y), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), 0.1)


class Transformer(nn.Module):
    """Token and position embeddings, blocks, and the loss of the next token."""

    def __init__(self, vocabulary=1000, width=128, heads=4, layers=4, length=64):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def make_add():
    """1,000 times torch.add of two 4x4 tensors."""
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    calls = range(1000)

    def step():
        add = torch.add
        for _ in calls:
            add(a, b)

    return step


def make_mlp():
    """A training step of two linear layers, batch 16, SGD with momentum."""
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.randn(16, 32), torch.randn(16, 8)

    def step():
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()

    return step


def make_transformer():
    """A training step of 4 layers of width 128 on 4 sequences of 64 tokens, AdamW."""
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, 1000, (4, 64))
    targets = torch.randint(0, 1000, (4, 64))

    def step():
        optimizer.zero_grad()
        model(tokens, targets).backward()
        optimizer.step()

    return step


def make_fib():
    """fib(18) by recursion: 8,361 calls of a function."""

    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return lambda: fib(18)


def make_loader():
    """An epoch of a DataLoader in the process: 256 samples of 8 floats, batch 16."""
    samples = torch.randn(256, 8)
    dataset = torch.utils.data.TensorDataset(samples, samples)
    loader = torch.utils.data.DataLoader(dataset, batch_size=16, shuffle=True)

    def step():
        for _ in loader:
            pass

    return step


class Lines(torch.utils.data.Dataset):
    """Samples that Python code makes of lines of text."""

    def __init__(self, count):
        self.lines = [f"{n},{n * n % 97},{n % 7}" for n in range(count)]

    def __len__(self):
        return len(self.lines)

    def fields(self, line):
        return [self.number(field) for field in line.split(",")]

    def number(self, field):
        return self.scaled(int(field))

    def scaled(self, number):
        return number / 97

    def __getitem__(self, index):
        return self.fields(self.lines[index])


def make_dataset():
    """An epoch of a DataLoader over a dataset in Python: 512 samples, batch 64."""
    loader = torch.utils.data.DataLoader(Lines(512), batch_size=64, collate_fn=torch.tensor)

    def step():
        for _ in loader:
            pass

    return step


class Tokenizer:
    """Byte pairs, in Python."""

    def __init__(self, text):
        words = text.split()
        pairs = sorted({pair for word in words for pair in self.pairs(tuple(word))})
        self.ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self.numbers = {}

    def pairs(self, parts):
        return list(zip(parts, parts[1:], strict=False))

    def rank(self, pair):
        return self.ranks.get(pair, len(self.ranks))

    def best(self, parts):
        return min(self.pairs(parts), key=self.rank, default=None)

    def merged(self, parts, pair):
        at = self.pairs(parts).index(pair)
        return (*parts[:at], parts[at] + parts[at + 1], *parts[at + 2 :])

    def word(self, word):
        parts = tuple(word)
        while (pair := self.best(parts)) is not None and self.rank(pair) < len(self.ranks):
            parts = self.merged(parts, pair)
        return [self.number(part) for part in parts]

    def number(self, part):
        return self.numbers.setdefault(part, len(self.numbers))


def make_tokenizer():
    """The tokens of a short text by merging pairs of letters."""
    text = "the quick brown fox jumps over the lazy dog and runs away from them " * 4
    tokenizer = Tokenizer(text)

    def step():
        for word in text.split():
            tokenizer.word(word)

    return step


class Workload:
    """How to run a program: `steps` timed ones in a measurement, `slow_steps` for a tracer that
    takes many times as long."""

    def __init__(self, make, steps, slow_steps):
        self.make = make
        self.steps = steps
        self.slow_steps = slow_steps


WORKLOADS = {
    "add": Workload(make_add, 20, 3),
    "mlp": Workload(make_mlp, 60, 10),
    "transformer": Workload(make_transformer, 8, 2),
    "fib": Workload(make_fib, 20, 20),
    "loader": Workload(make_loader, 20, 20),
    "dataset": Workload(make_dataset, 20, 20),
    "tokenizer": Workload(make_tokenizer, 20, 20),
}


def make(name):
    """A step function of the workload, the same in every process."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return WORKLOADS[name].make()
