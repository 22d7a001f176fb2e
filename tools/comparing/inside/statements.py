"""What the statements of random programs use."""

import re
import traceback

import torch


def run(function, t):
    import outcome

    return outcome.attempt(function.__name__, function, t)


def leaf(tensor):
    return tensor.detach().clone().requires_grad_()


def module(number):
    with torch.random.fork_rng():
        torch.manual_seed(number)
        return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))


def step(model, optimizer, x):
    optimizer.zero_grad()
    model(x.detach()).pow(2).sum().backward()
    optimizer.step()


def saved(function, x):
    """Autograd keeps what the function saves as something else."""
    pack = torch.autograd.graph.saved_tensors_hooks(lambda y: y.numpy(), torch.from_numpy)
    with pack:
        return function(x)


def fail(call):
    """What the call raised."""
    try:
        return call()
    except Exception as error:
        return error


def traceback_of(call):
    """The text of the traceback of what the call raised."""
    try:
        return call()
    except Exception:
        return re.sub("0x[0-9a-f]+", "0x...", traceback.format_exc())


def hooked(x, call):
    """Calls in a backward pass."""
    x = leaf(x)
    x.register_hook(lambda grad: call())
    with torch.enable_grad():
        (x * 2).sum().backward()
    return x.grad


def broken(x):
    """Compiled, its graph breaks."""
    y = x.sin()
    print("a graph break")
    return y.cos()


def branching(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((2,), float(index)) ** 2


scaled = torch.library.custom_op("random_programs::scaled", mutates_args=())


@scaled
def _scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return torch.mul(x, factor)


__all__ = ["run", "leaf", "module", "step", "saved", "fail", "traceback_of", "hooked", "broken"]
__all__ += ["branching", "Squares"]
