"""Models, to compare their FLOPs with those that torch.utils.flop_counter counts.

python flop_models.py count    counts with FlopCounterMode, and prints JSON
python flop_models.py          runs the same parts of the models, each with a tag `part`
"""

import contextlib
import json
import os
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils import flop_counter
from torch.utils.checkpoint import checkpoint

F = nn.functional
MODELS = {}


def model(make):
    """`make` returns a module, or a function, and its arguments."""
    MODELS[make.__name__] = make
    return make


def leaf(*shape):
    return torch.randn(shape, requires_grad=True)


class Calls(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *arguments):
        return self.function(*arguments, **dict(self.named_children()))


def perceptron():
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 5, bias=False))


@model
def linear():
    return perceptron(), leaf(3, 7, 6)


@model
def convolutions():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 8, 3, padding="same", dilation=2),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 4, (1, 3), padding=(0, 1), bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 5),
    )
    return net, leaf(2, 3, 16, 14)


@model
def grouped():
    return nn.Sequential(nn.Conv2d(4, 8, 3, groups=4), nn.Conv2d(8, 6, 1, groups=2)), leaf(
        2, 4, 9, 8
    )


@model
def other_dimensions():
    def run(a, b, c, line, space, one):
        return line(a), space(b), one(c)

    net = Calls(
        run,
        line=nn.Conv1d(4, 6, 5, stride=2),
        space=nn.Conv3d(2, 3, (1, 2, 3), padding=1),
        one=nn.Conv2d(3, 2, 2),
    )
    return net, leaf(2, 4, 21), leaf(2, 2, 5, 6, 7), leaf(3, 6, 5)


@model
def transposed():
    def run(a, b, plane, line):
        return plane(a), line(b)

    plane = nn.Sequential(
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1),
        nn.ConvTranspose2d(6, 3, 2, dilation=2),
    )
    net = Calls(run, plane=plane, line=nn.ConvTranspose1d(4, 6, 3, stride=3))
    return net, leaf(2, 4, 7, 5), leaf(2, 4, 7)


@model
def unet():
    def run(x, down, middle, up, out):
        return out(torch.cat([x, up(F.relu(middle(F.relu(down(x)))))], 1))

    net = Calls(
        run,
        down=nn.Conv2d(3, 6, 3, stride=2, padding=1),
        middle=nn.Conv2d(6, 6, 3, padding=1),
        up=nn.ConvTranspose2d(6, 3, 2, stride=2),
        out=nn.Conv2d(6, 1, 1),
    )
    return net, leaf(2, 3, 8, 8)


@model
def transformer():
    return nn.Transformer(16, 4, 1, 1, 32, batch_first=True), leaf(2, 7, 16), leaf(2, 5, 16)


@model
def vision_transformer():
    def run(x, patches, layers, head):
        return head(layers(patches(x).flatten(2).transpose(1, 2))[:, 0])

    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    net = Calls(run, patches=nn.Conv2d(3, 16, 4, 4), layers=layers, head=nn.Linear(16, 10))
    return net, leaf(2, 3, 16, 16)


class Block(nn.Module):
    """Of a GPT, with `groups` heads of keys."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        self.norm = nn.LayerNorm(16)
        self.query = nn.Linear(16, 16)
        self.keys = nn.Linear(16, 8 * groups)
        self.out = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, x, memory=None):
        y = self.norm(x)
        query = self.query(y).unflatten(-1, (4, 4)).transpose(1, 2)
        keys = self.keys(y if memory is None else memory)
        key, value = keys.unflatten(-1, (2, self.groups, 4)).transpose(1, 3).unbind(2)
        mixed = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


def gpt(groups, run_block):
    def run(tokens, table, blocks, head):
        x = table(tokens)
        for block in blocks:
            x = run_block(block, x)
        return F.cross_entropy(head(x).flatten(0, 1), tokens.flatten())

    blocks = nn.ModuleList(Block(groups) for _ in range(2))
    net = Calls(run, table=nn.Embedding(20, 16), blocks=blocks, head=nn.Linear(16, 20, bias=False))
    net.head.weight = net.table.weight
    return net, torch.arange(10).view(2, 5)


@model
def language():
    return gpt(4, lambda block, x: block(x))


@model
def grouped_queries():
    return gpt(2, lambda block, x: block(x))


@model
def encoder_decoder():
    def run(x, y, encoder, decoder):
        return decoder(y, encoder(x))

    return Calls(run, encoder=Block(4), decoder=Block(2)), leaf(2, 9, 16), leaf(2, 4, 16)


@model
def checkpointed():
    return gpt(4, lambda block, x: checkpoint(block, x, use_reentrant=False))


@model
def checkpointed_reentrant():
    def run(x, net):
        return checkpoint(net, x, use_reentrant=True)

    return Calls(run, net=perceptron()), leaf(3, 6)


@model
def recurrent():
    def run(x, gru, rnn, lstm, cell):
        x = rnn(gru(x)[0])[0]
        return lstm(x)[0], cell(x[0])[0]

    net = Calls(
        run,
        gru=nn.GRU(6, 8, 2, bidirectional=True),
        rnn=nn.RNN(16, 4),
        lstm=nn.LSTM(4, 6, proj_size=2),
        cell=nn.LSTMCell(4, 5),
    )
    return net, leaf(7, 3, 6)


@model
def products():
    def run(a, b, c):
        both = b.expand(2, -1, -1)
        yield torch.einsum("bij,jk->bik", a, b), torch.einsum("bij,bjk->bik", a, both)
        yield torch.baddbmm(c, a, both), torch.addmm(c, a[0], b)
        yield torch.tensordot(a, b, 1), torch.inner(a, b.mT), a.matmul(b), a[:, None] @ b

    return Calls(lambda *all: list(run(*all))), leaf(2, 3, 5), leaf(5, 4), leaf(3, 4)


@model
def composed():
    def run(a, b, square):
        yield torch.linalg.multi_dot([a[0], b, b.mT]), torch.linalg.matrix_power(square, 3)
        yield torch.einsum("bij,jk,bik->b", a, b, a[..., :4])

    return Calls(lambda *all: list(run(*all))), leaf(2, 3, 5), leaf(5, 4), leaf(4, 4)


@model
def lower_precision():
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def run(x, net, line):
        return net(x), line(x)

    return Calls(run, net=perceptron(), line=nn.Conv1d(3, 2, 3)), leaf(4, 3, 6)


@model
def complex_numbers():
    def run(a, b):
        return (a.to(torch.complex64) @ b.to(torch.complex64)).abs()

    return Calls(run), leaf(3, 4), leaf(4, 5)


@model
def twice_differentiated():
    def run(x, net):
        # FlopCounterMode can't differentiate by a leaf.
        x = x * 1
        return torch.autograd.grad(net(x).sum(), x, create_graph=True)

    net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    return Calls(run, net=net), leaf(3, 6)


@model
def per_example():
    def run(x, net):
        def loss(weight, row):
            return (row @ weight.T).square().sum()

        yield torch.func.vmap(torch.func.grad(loss), (None, 0))(net.weight, x)
        yield torch.func.jvp(net, (x,), (x,))[1]

    return Calls(lambda *all, **net: list(run(*all, **net)), net=nn.Linear(6, 4)), leaf(3, 6)


@model
def meta():
    with torch.device("meta"):
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 6 * 6, 5))
        return net, leaf(2, 3, 8, 8)


@model
def inference():
    return Calls(torch.inference_mode()(lambda x, net: net(x)), net=perceptron()), torch.ones(3, 6)


@model
def compiled():
    net = torch.compile(perceptron(), backend="aot_eager")
    x = leaf(3, 7, 6)
    total(net(x)).backward()
    return net, x


@model
def sharded():
    from torch import distributed
    from torch.distributed.fsdp import fully_shard

    with tempfile.NamedTemporaryFile() as file:
        distributed.init_process_group(
            "gloo", init_method=f"file://{file.name}", rank=0, world_size=1
        )
    net = perceptron()
    fully_shard(net[0])
    fully_shard(net)
    return net, leaf(3, 7, 6)


@model
def uncounted():
    """What FlopCounterMode doesn't count: see UNCOUNTED in cmd/flops_test.py."""

    @torch.inference_mode()
    def run(a, b, c):
        return torch.addbmm(c, a, b), torch.mv(a[0], c[0, :5]), torch.dot(c[0], c[1])

    return Calls(run), leaf(2, 3, 5), leaf(2, 5, 6), leaf(3, 6)


@model
def flash():
    """An operator for CPUs, which FlopCounterMode doesn't count either."""

    @sdpa_kernel(SDPBackend.FLASH_ATTENTION)
    def run(q, k):
        return F.scaled_dot_product_attention(q, k, k)

    return Calls(run), leaf(2, 4, 16, 8), leaf(2, 4, 12, 8)


def total(result):
    if isinstance(result, torch.Tensor):
        return result.abs().float().sum()
    return sum(total(each) for each in result)


def run_model(name, part):
    """Runs the model's parts, each in `part(its name)`."""
    with part(f"{name} make"):
        net, *arguments = MODELS[name]()
        # A class of its own, by which modules of different models differ.
        net = type(name, (Calls,), {})(lambda *all, net: net(*all), net=net)
    with part(f"{name} forward"):
        loss = total(net(*arguments))
    if loss.requires_grad:
        with part(f"{name} backward"):
            loss.backward()


def count():
    """FLOPs by part, and by part and module: with those of the modules in it."""
    parts, modules = {}, {}
    for name in MODELS:
        counter = flop_counter.FlopCounterMode(display=False)

        def sums(counter=counter):
            return {key: sum(each.values()) for key, each in counter.get_flop_counts().items()}

        @contextlib.contextmanager
        def part(key, sums=sums):
            before = sums()
            yield
            new = {module: flops - before.get(module, 0) for module, flops in sums().items()}
            parts[key] = new.pop("Global", 0)
            modules[key] = new

        with counter:
            run_model(name, part)
    return {"parts": parts, "modules": modules}


def trace():
    import torchtrace

    for name in MODELS:
        run_model(name, lambda part: torchtrace.annotate(part=part, kind=part.rpartition(" ")[2]))


warnings.simplefilter("ignore")
with sdpa_kernel(SDPBackend.MATH):
    if sys.argv[1:] == ["count"]:
        print(json.dumps(count()))
    else:
        trace()
# FSDP's group ends without a word.
sys.stdout.flush()
os._exit(0)
