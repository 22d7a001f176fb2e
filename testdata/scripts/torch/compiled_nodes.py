"""torch.compile of what modes and proxies treat in their own ways; prints each graph's nodes."""

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

torch.manual_seed(0)


def name(target):
    return getattr(target, "__name__", str(target))


def show(graph_module, inputs):
    print([(node.op, name(node.target)) for node in graph_module.graph.nodes])
    return graph_module


def arithmetic(x, y):
    z = (x + y) * 2 - (x > 0) / 3 + x @ y
    z += 1
    return ~(z == x) & (1 - y < x), z**2 // 3


def to_number(x):
    return x.sum().item() + 1


def to_float(x):
    return float(x.sum()) + 1


def from_numpy(x):
    return np.float64(2) * x


def compared_with_none(x):
    return x + 1, x == None  # noqa: E711


def python_functions(x):
    return torch.nn.functional.layer_norm(torch.nn.functional.relu(x), x.shape) + torch.norm(x)


class Double(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


def with_a_mode(x):
    with Double():
        return torch.sin(x) + 1


def made(x):
    return x + torch.ones(3, 3)


def attempt(function, *inputs, **options):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=show, **options)
    for _ in range(2):
        try:
            print(function.__name__, options, compiled(*inputs))
        except Exception as error:
            print(function.__name__, options, type(error).__name__)


x, y = torch.randn(3, 3), torch.randn(3, 3)
attempt(arithmetic, x, y)
attempt(arithmetic, x, y, dynamic=True)
attempt(to_number, x)
for function in (to_number, to_float, from_numpy, compared_with_none, python_functions):
    attempt(function, x, fullgraph=True)
attempt(with_a_mode, x)
with Double():
    attempt(python_functions, x)
with torch.device("cpu"):
    attempt(made, x)
with torch._dynamo.config.patch(capture_scalar_outputs=True):
    attempt(to_number, x, fullgraph=True)

parameter = torch.nn.Parameter(torch.ones(2))
adam = torch.optim.Adam([parameter], lr=torch.tensor(0.1))
parameter.grad = torch.ones(2)
torch.compile(adam.step, backend=show)()
print(parameter)

explained = torch._dynamo.explain(arithmetic)(x, y)
print(
    explained.op_count,
    explained.graph_count,
    explained.graph_break_count,
    len(explained.out_guards),
)
print(torch._C._len_torch_function_stack(), torch._C._is_torch_function_mode_enabled())
print(
    torch.overrides._get_current_function_mode_stack(), torch.overrides._get_current_function_mode()
)
with Double() as mode, torch.device("cpu"):
    stack = torch.overrides._get_current_function_mode_stack()
    print(
        [type(each).__name__ for each in stack],
        torch.overrides._get_current_function_mode() is mode,
    )
    print(torch.sin(torch.ones(1)))
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
