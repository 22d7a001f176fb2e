"""The checks of torchtrace.graph(), a function each; graph_test.py runs them all in one process.

python graph_checks.py prints {name: [traceback or null, reason of a skip or null]}.
"""

import copy
import json
import operator
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import torch
import torch.fx
import torch.nn.functional as F
import torchtrace
from torchtrace import _graph

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "testdata" / "scripts"))
from gpt2 import GPT2

TINY = {"vocabulary": 50, "length": 16, "width": 16, "layers": 3, "heads": 2}


def record(function, *args, **options):
    """(folder, result) of a traced call."""
    folder = tempfile.mkdtemp(prefix="torchtrace-graph-")
    options = {"levels": [1], "ids": True, "outputs": True, "values": 1 << 20, **options}
    with torchtrace.trace(folder, force=True, formats="none", **options):
        result = function(*args)
    return folder, result


def run(module):
    return module(*module.meta["example_inputs"])


def same(actual, expected):
    assert torch.equal(actual, expected), (actual, expected)


def refused(function, *words):
    try:
        function()
    except (ValueError, TypeError) as error:
        assert all(word in str(error) for word in words), error
        return
    raise AssertionError("nothing was raised")


def nodes(module, target):
    return [node for node in module.graph.nodes if node.target is target or node.target == target]


def check_no_text_of_a_trace_is_code():
    # A step as read_flow() returns it, but from a forged trace.
    def step(kind, name, args, **kwargs):
        target = {"kind": kind, "name": name}
        step = {"call": 0, "level": 1, "api": name, "target": target, "args": args}
        return {**step, "kwargs": kwargs, "sources": [], "modules": []}

    for one in (
        step("function", "torch.neg", [1], **{"x=1): import os #": 2}),
        step("function", "torch.neg", [1], **{"__debug__": 2}),
        step("function", "torch.os", []),
        step("function", "torch.os.system", ["touch x"]),
        step("method", "system", ["touch x"]),
        step("function", "torch.tensor", [1], cdata=1234),
        step("getter", "data", [{"type": "function", "value": "torch.add"}]),
    ):
        builder = _graph._Builder([one], None)
        try:
            builder._call(one)
        except _graph._CannotWrite:
            assert not builder.graph.nodes
            continue
        raise AssertionError(one)


def check_gradient_modes_and_tensors_without_elements():
    weight = torch.nn.Parameter(torch.ones(3))

    def program(x, nothing):
        with torch.no_grad():
            weight.mul_(2)
        return torch.cat([torch.mul(weight, x), nothing])

    folder, result = record(program, torch.arange(3.0), torch.empty(0))
    module = torchtrace.graph(folder)
    assert len(nodes(module, torch._C._set_grad_enabled)) == 2
    # Each has the parameter's value from before it was written to.
    transformed = torch.fx.Transformer(copy.deepcopy(module)).transform()
    for one in (module, transformed):
        again = one(*module.meta["example_inputs"])
        same(again, result)
        assert again.requires_grad and torch.is_grad_enabled()


def check_calls_are_made_under_their_autocast():
    linear = torch.nn.Linear(3, 3)

    def program(x):
        with torch.autocast("cpu", torch.bfloat16):
            hidden = linear(x)
            loss = F.mse_loss(linear(x), hidden * 2)
        return linear(x).sum() + loss

    folder, result = record(program, torch.ones(2, 3), levels=[1, 3])
    for modules in (None, linear):
        module = torchtrace.graph(folder, modules=modules)
        same(run(module), result)
        assert not torch.is_autocast_enabled("cpu")
    assert len(nodes(torchtrace.graph(folder), torch.amp.autocast_mode._enter_autocast)) == 2


class Branches(torch.nn.Module):
    """Its control flow depends on its data."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.b = torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.a(x)
        if x.sum() > 0:
            x = F.relu(x)
        else:
            x = torch.add(x.T.T, 1)
        while x.norm() > 1:
            x = x / 2
        return self.b(x)


class Values(torch.nn.Module):
    """Iterates over a tensor's values, and uses some as numbers."""

    def forward(self, x):
        total = torch.zeros(3)
        for row in x:
            if row[0].item() > 0:
                total = torch.add(total, row, alpha=int(row[1].abs().item()) + 1)
        total[0] += len(x)
        return total


@torch.jit.script
def repeat_add(x: torch.Tensor, times: int):
    for _ in range(times):
        x = x + 1.0
    return x


def check_what_a_program_returns():
    def tested(x):
        x = (x * 2).cos()
        while x.norm() > 1:
            x = x / 2
        return x

    def dead(x):
        y = x * 2
        torch.add(x, 1)
        return y

    def item(x):
        y = torch.mul(x, 3)
        y[0].add_(1)
        if y.sum().item() > 0:
            return y
        return None

    x = torch.ones(4)
    for function in (tested, dead, item, lambda x: x.sort()[0], lambda x: x.clone().add_(1)):
        for level in (1, 2):
            folder, result = record(function, x.clone(), levels=[level])
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                same(torchtrace.graph(folder, level=level)(x.clone()), result)
    # A result that the program no longer has causes a warning.
    folder, _ = record(lambda x: tested(x) is None, x)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        same(torchtrace.graph(folder)(x), tested(x))
    assert "if only by a test" in str(told[0].message), told
    folder, results = record(lambda x: (x.sum(), x.mean()), x)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        same(torchtrace.graph(folder)(x), results[1])
    assert "outputs=[0, 1] returns all" in str(told[0].message), told


def check_tensors_that_nobody_made():
    def program(x):
        return repeat_add(x * 2, 3).cos()

    x = torch.ones(4)
    folder, result = record(program, x, levels=[1, 2])
    same(torchtrace.graph(folder, level=2)(x), result)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        same(run(torchtrace.graph(folder)), result)
    text = str(told[0].message)
    assert "x_1, which call" in text and "aten::add" in text and "ScriptFunction" in text, text
    folder, result = record(program, x)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torchtrace.graph(folder)
    assert "x_1, which call 1 of torch.Tensor.cos takes: made while" in str(told[0].message), told


def check_a_call_that_raised():
    def program(x):
        try:
            torch.mm(x, x)
        except RuntimeError:
            return None

    folder, _ = record(program, torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torchtrace.graph(folder)
    try:
        run(module)
    except RuntimeError as error:
        assert "must be a matrix" in str(error) or "2D" in str(error), error
        return
    raise AssertionError("nothing was raised")


def check_gpt2():
    model = GPT2(**TINY).eval()
    tokens = torch.randint(0, 50, (2, 9))
    folder, logits = record(model, tokens)
    module = torchtrace.graph(folder)
    same(run(module), logits)
    same(module(tokens), logits)
    assert [node.op for node in module.graph.nodes].count("placeholder") == 1
    # The embedding's weight is also that of the last layer.
    assert len(list(module.parameters())) == len(list(model.parameters()))
    assert {node.target for node in module.graph.nodes if node.op == "call_method"} >= {
        "view",
        "split",
    }
    assert nodes(module, F.gelu) and nodes(module, F.softmax)


def check_gpt2_operators():
    model = GPT2(**TINY).eval()
    tokens = torch.randint(0, 50, (2, 9))
    folder, logits = record(model, tokens, levels=[2])
    module = torchtrace.graph(folder, level=2)
    same(module(tokens), logits)
    assert nodes(module, torch.ops.aten.addmm.default)
    for node in module.graph.nodes:
        if node.op == "call_function":
            assert isinstance(node.target, torch._ops.OpOverload) or node.target is operator.getitem


def check_gpt2_of_transformers():
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return "transformers is not installed"
    config = GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=99, n_positions=32)
    model = GPT2LMHeadModel(config).eval()
    tokens = torch.randint(0, 99, (2, 9))
    for level in (1, 2):
        levels = [level, 3]
        folder, result = record(
            lambda: model(tokens, use_cache=False), levels=levels, frames="modules", values=0
        )
        module = torchtrace.graph(folder, level=level, state=model)
        same(module(tokens), result.logits)
    return None


def check_state_of_a_module_by_level_3():
    model = GPT2(**TINY).eval()
    tokens = torch.randint(0, 50, (2, 9))
    folder, logits = record(model, tokens, levels=[1, 3], frames="modules", values=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = torchtrace.graph(folder, state=model)
    same(module(tokens), logits)
    assert set(dict(module.named_parameters())) == set(dict(model.named_parameters()))
    assert all(dict(model.named_parameters())[n] is p for n, p in module.named_parameters())


def check_state_by_contents_and_by_order():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    x = torch.randn(2, 3)
    shuffled = dict(reversed(list(model.named_parameters())))
    folder, y = record(model, x)
    same(torchtrace.graph(folder, state=shuffled)(x), y)
    folder, y = record(model, x, values=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        same(torchtrace.graph(folder, state=model)(x), y)
    assert "by their order" in str(told[0].message)
    refused(lambda: torchtrace.graph(folder, state=torch.nn.Linear(3, 4)), "shape [3, 3]")


def check_without_contents():
    folder, _ = record(torch.nn.Linear(3, 3), torch.randn(2, 3), values=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        module = torchtrace.graph(folder)
    assert "meta device" in str(told[0].message)
    assert module.meta["example_inputs"] == [None]
    assert module(torch.randn(2, 3, device="meta")).shape == (2, 3)


def check_branches():
    torch.manual_seed(0)
    model = Branches()
    refused_by_fx(model)
    for x in (torch.randn(4, 4), -torch.ones(4, 4) * 9, torch.ones(4, 4) * 9):
        folder, y = record(model, x)
        same(torchtrace.graph(folder)(x), y)
        folder, y = record(model, x, levels=[2])
        same(torchtrace.graph(folder, level=2)(x), y)


def check_values():
    model, x = Values(), torch.tensor([[1.0, 2.5, 3.0], [-1, 5, 6], [0.5, -7.25, 9]])
    refused_by_fx(model)
    folder, y = record(model, x)
    same(torchtrace.graph(folder)(x), y)


def refused_by_fx(model):
    try:
        torch.fx.symbolic_trace(model)
    except Exception:
        return
    raise AssertionError("fx traces it")


def additions(x, y):
    z = torch.add(x, y)
    return torch.add(z.view(-1), 2) + torch.add(y, x, alpha=1).reshape(-1)


def multiplications(x, y):
    z = torch.mul(x, y)
    return torch.mul(z.view(-1), 2) + torch.mul(y, x).reshape(-1)


def check_every_add_becomes_mul():
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    folder, _ = record(additions, x, y)
    module = torchtrace.graph(folder)
    found = nodes(module, torch.add)
    assert len(found) == 3
    for node in found:
        with module.graph.inserting_after(node):
            new = module.graph.call_function(torch.mul, node.args)
        node.replace_all_uses_with(new)
        module.graph.erase_node(node)
    module.recompile()
    same(run(module), multiplications(x, y))


def activations(x):
    return F.relu(x - 1) * F.relu(x)


def check_relu_is_decomposed():
    x = torch.randn(5)
    folder, y = record(activations, x)
    module = torchtrace.graph(folder)
    new, env = torch.fx.Graph(), {}
    tracer = torch.fx.proxy.GraphAppendingTracer(new)
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is F.relu:
            (argument,) = (torch.fx.Proxy(env[arg.name], tracer) for arg in node.args)
            env[node.name] = ((argument > 0) * argument).node
        else:
            env[node.name] = new.node_copy(node, lambda n: env[n.name])
    rewritten = torch.fx.GraphModule(module, new)
    assert not nodes(rewritten, F.relu) and len(nodes(rewritten, operator.gt)) == 2
    same(rewritten(x), ((x - 1 > 0) * (x - 1)) * ((x > 0) * x))
    same(rewritten(x), y)


def check_whatever_takes_graphs():
    torch.manual_seed(0)
    x = torch.randn(4, 4)
    model = Branches()
    folder, y = record(model, x)
    module = torchtrace.graph(folder)
    module.graph.lint()
    assert "torch._C._nn.linear" in module.code
    same(torch.fx.Interpreter(module).run(x), y)
    same(torch.fx.Transformer(module).transform()(x), y)
    same(torch.compile(module, backend="eager", fullgraph=True)(x), y)
    shapes = {node.name: node.meta.get("tensor_meta") for node in module.graph.nodes}
    torch.fx.passes.shape_prop.ShapeProp(module).propagate(x)
    for node in module.graph.nodes:
        mine, told = shapes[node.name], node.meta.get("tensor_meta")
        if node.op in ("call_function", "call_method"):
            assert mine[:2] == told[:2] and mine[3:] == told[3:], (node, mine, told)
    module(x).sum().backward()
    model(x).sum().backward()
    grads = [p.grad for p in module.parameters()]
    assert all(torch.equal(a, b.grad) for a, b in zip(grads, model.parameters(), strict=True))


def flow(x, y):
    x.add_(1)
    torch.neg(x, out=y)
    parts = y.split(2)
    pair = torch.max(torch.stack(parts), dim=0)
    swapped = 2 - pair.values
    first, *_ = torch.sort(swapped)
    x[0] = 7
    return first.unsqueeze(0) @ x.view(4, 1)[pair.indices]


def check_flow_of_all_kinds():
    x, y = torch.arange(4.0), torch.zeros(4)
    for level in (1, 2):
        folder, result = record(flow, x.clone(), y.clone(), levels=[level])
        module = torchtrace.graph(folder, level=level)
        same(run(module), result)
    whole = torch.arange(8.0)
    folder, result = record(lambda a, b: torch.add(a, b), whole[1:4], whole[4:7])
    module = torchtrace.graph(folder)
    same(run(module), result)
    # Neither argument has the whole storage, which is the graph's input.
    same(module(whole[:7]), result)
    folder, result = record(lambda z: (z.real + z.imag) * z.mT.real.T, torch.randn(2, 2) * 1j)
    module = torchtrace.graph(folder)
    same(run(module), result)


def check_parts_of_a_storage():
    def apart(a, b, c):
        x = a * 2
        a.add_(1)
        return (x + b) * c.sum()

    def overlapping(a, c):
        a.add_(1)
        return a * 2 + c

    def in_gaps(even, odd):
        return even + odd

    def of_bytes(a, b):
        return a + b

    whole = torch.arange(8.0)
    for program, parts in (
        (apart, (whole[0:3], whole[4:7], whole[::4])),
        (overlapping, (whole[0:3], whole[2:5])),
        # The ranges of these views overlap; the first has gaps.
        (in_gaps, (whole[0:7:2], whole[1:8:2])),
        (in_gaps, (whole.view(4, 2)[:, 0], whole[1:6].unfold(0, 2, 1)[:, 0])),
        (of_bytes, (whole[:3], whole.view(torch.int32)[3:6])),
    ):
        copies = torch.arange(8.0)
        again = [
            torch.empty(0, dtype=p.dtype).set_(
                copies.untyped_storage(), p.storage_offset(), p.shape, p.stride()
            )
            for p in parts
        ]
        folder, result = record(program, *again)
        same(run(torchtrace.graph(folder)), result)
        folder, result = record(program, *parts, levels=[2])
        same(run(torchtrace.graph(folder, level=2)), result)
        whole.copy_(torch.arange(8.0))


def check_inputs_of_all_layouts():
    for x in (
        torch.arange(3.0).expand(4, 3),
        torch.arange(6.0).unfold(0, 3, 1),
        torch.arange(24, dtype=torch.int16).view(2, 3, 4)[:, ::2].mT,
        torch.tensor(3.0),
    ):
        folder, result = record(torch.neg, x)
        module = torchtrace.graph(folder)
        same(run(module), result)
        assert module.meta["example_inputs"][0].stride() == x.stride()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.quint8)
    folder, result = record(torch.dequantize, x)
    module = torchtrace.graph(folder)
    assert module.meta["example_inputs"] == [None]
    same(module(x), result)


def check_inputs_that_require_a_gradient():
    x = torch.ones(3, requires_grad=True)

    def program(x):
        (x * 2).sum().backward()
        return x + 1

    folder, result = record(program, x)
    module = torchtrace.graph(folder)
    same(run(module), result)
    same(module.meta["example_inputs"][0].grad, x.grad)
    # For operators, it looks like a parameter.
    linear = torch.nn.Linear(3, 3)
    folder, result = record(linear, x.detach().expand(2, 3).clone().requires_grad_(), levels=[2])
    module = torchtrace.graph(folder, level=2, state=linear)
    same(run(module), result)
    assert [name for name, _ in module.named_parameters()] == ["weight", "bias"]


def check_data_of_a_parameter():
    weight = torch.nn.Parameter(torch.ones(3))

    def program(x):
        y = weight * x
        weight.data.mul_(3)
        return y + weight.data[1:].sum() + (weight * 2).data.T

    folder, result = record(program, torch.arange(3.0))
    module = torchtrace.graph(folder)
    got = run(module)
    same(got, result)
    for one in (got, result):
        one.sum().backward()
    (parameter,) = module.parameters()
    same(parameter, weight)
    same(parameter.grad, weight.grad)

    def data_first(x):
        other.data.clamp_(0, 0.5)
        return other * x + other.data

    other = torch.nn.Parameter(torch.ones(3))
    folder, result = record(data_first, torch.arange(3.0))
    module = torchtrace.graph(folder)
    same(run(module), result)
    assert [p.tolist() for p in module.parameters()] == [[0.5] * 3]
    state = torch.nn.ParameterDict({"p": torch.ones(3)})
    same(torchtrace.graph(folder, state=state)(torch.arange(3.0)), result)
    same(state["p"], other)


def check_buffers():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    )
    x = torch.randn(4, 3)
    # A weight looks like a variance, a bias like a mean.
    states = [copy.deepcopy(model) for _ in range(2)]
    states.append(copy.deepcopy(model).state_dict())
    folder, result = record(lambda x: model(model(x)), x, levels=[1, 3], frames="modules")
    for state in states:
        module = torchtrace.graph(folder, state=state)
        same(module(x), result)
        tensors = state if isinstance(state, dict) else state.state_dict()
        for name, tensor in model.state_dict().items():
            same(tensors[name], tensor)
    for values in (0, 1 << 20):
        fresh = copy.deepcopy(model)
        folder, result = record(model, x, levels=[1, 3], frames="modules", values=values)
        module = torchtrace.graph(folder, modules=fresh)
        calls = [node.target for node in module.graph.nodes if node.op == "call_module"]
        assert calls == ["0", "1", "2"]
        same(module(x), result)


def check_copies():
    model, whole = torch.nn.BatchNorm1d(3), torch.randn(9, 3)
    folder, result = record(lambda a, b: model(a) + b, whole[:4], whole[4:8])
    module = torchtrace.graph(folder)
    copied = copy.deepcopy(module)
    assert copied.code == module.code
    assert [node.meta for node in copied.graph.nodes] == [node.meta for node in module.graph.nodes]
    assert all(a is not b for a, b in zip(copied.parameters(), module.parameters(), strict=True))
    same(run(copied), result)
    same(run(module), result)


def check_what_results_tell():
    def program(x):
        out = torch.empty(0), torch.empty(0, dtype=torch.int64)
        torch.max(x, 0, out=out)
        return out[0] + out[1]

    folder, result = record(program, torch.randn(4, 3))
    module = torchtrace.graph(folder)
    same(run(module), result)
    shapes = [node.meta["tensor_meta"].shape for node in nodes(module, operator.getitem)]
    assert shapes == [(3,), (3,)]


def check_marks_of_a_profiler():
    def program(x):
        with torch.profiler.record_function("mark"):
            return x + 1

    for level in (1, 2):
        folder, result = record(program, torch.ones(2), levels=[level])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            same(run(torchtrace.graph(folder, level=level)), result)


def check_numbers_of_calls():
    folder, _ = record(lambda x: x.neg().abs().exp(), torch.ones(2))
    for calls, expected in (
        (None, [0, 1, 2]),
        (1, [1]),
        ((0, 1), [0, 1]),
        ((0, 1, 2), [0, 1, 2]),
        ([2, 0], [0, 2]),
        ({1}, [1]),
        (range(1, 3), [1, 2]),
        (range(0, 4, 2), [0, 2]),
        (range(2, 0, -1), [1, 2]),
        ("-1", [0, 1]),
    ):
        module = torchtrace.graph(folder, calls)
        assert [n.meta["call"] for n in module.graph.nodes if "call" in n.meta] == expected
    for calls, words in (
        ([], "no numbers"),
        ("", "no numbers"),
        (range(0), "no numbers"),
        (-1, "begin with 0"),
        ([-1], "begin with 0"),
        ((-3, 2), "begin with 0"),
        (range(-2, 3), "begin with 0"),
        ((1, 0), "after the last"),
        (1.5, "expected None, a number"),
        (b"1", "expected None, a number"),
        ([1.5], "expected an int"),
        (["1"], "expected an int"),
        (True, "expected an int"),
        ("abc", "abc"),
    ):
        refused(lambda calls=calls: torchtrace.graph(folder, calls), words)


def check_open_traces():
    with torchtrace.trace(tempfile.mkdtemp(), force=True, formats="none", ids=True) as trace:
        torch.neg(torch.ones(2))
        refused(lambda: torchtrace.graph(trace), "closed")


def check_modules():
    model = GPT2(**TINY).eval()
    tokens = torch.randint(0, 50, (2, 9))
    folder, logits = record(model, tokens, levels=[1, 3], frames="modules", values=0)
    module = torchtrace.graph(folder, modules=model)
    same(module(tokens), logits)
    calls = [node.target for node in module.graph.nodes if node.op == "call_module"]
    assert calls[:3] == ["wte", "wpe", "h.0.ln_1"] and "h.2.attn.qkv" in calls
    assert module.get_submodule("h.2.attn.qkv") is model.h[2].attn.qkv
    # Functions of the program stay functions in the graph.
    assert nodes(module, F.softmax) and nodes(module, F.linear)
    same(torch.compile(module, backend="eager")(tokens), logits)
    pooled = torch.nn.Sequential(torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.5)).eval()
    x = torch.randn(3)
    folder, y = record(pooled, x.clone(), levels=[1, 3], frames="modules")
    module = torchtrace.graph(folder, modules=pooled)
    assert [node.op for node in module.graph.nodes].count("call_module") == 2
    same(module(x.clone()), y)


def check_windows():
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    folder, _ = record(additions, x, y)
    module = torchtrace.graph(folder, calls=(0, 1))
    same(run(module), torch.add(x, y).view(-1))
    assert [n.target for n in torchtrace.graph(folder, calls=0).graph.nodes][2] is torch.add
    both = torchtrace.graph(folder, calls="0-2", outputs=[0, 2])
    same(run(both)[0], torch.add(x, y))
    refused(lambda: torchtrace.graph(folder, calls="900-"), "no calls of level 1")
    refused(lambda: torchtrace.graph(folder, outputs=77), "77")
    cut, _ = record(lambda: torch.stack([x] * 9999))
    refused(lambda: torchtrace.graph(cut), "none of these calls", "was cut")
    refused(lambda: torchtrace.graph(folder, level=3), "level=3")
    refused(lambda: torchtrace.graph(folder, state={"a": 1}), "state")
    for missing, words in ((["ids", "outputs"], "returned"), (["ids"], "which tensor is which")):
        bare, _ = record(additions, x, y, **dict.fromkeys(missing, False))
        refused(lambda bare=bare: torchtrace.graph(bare), words, "--outputs --ids")


def check_what_cannot_be_written_is_an_input():
    class Own:
        pass

    def program(x):
        y = torch.neg(x)
        z = torch.Tensor.apply_(y.clone(), lambda value: value * 2)
        return torch.add(z, x)

    x = torch.randn(3)
    folder, result = record(program, x)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        module = torchtrace.graph(folder)
    assert "torch.Tensor.apply_" in str(told[0].message)
    same(module(x, program(x) - x), (program(x) - x) + x)
    same(run(module), result)


def main():
    found = {}
    for name, check in list(globals().items()):
        if not name.startswith("check_"):
            continue
        try:
            found[name] = (None, check())
        except BaseException:
            found[name] = (traceback.format_exc(), None)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
