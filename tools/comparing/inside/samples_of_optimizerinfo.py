"""Makes three steps of optimizers as PyTorch's own test suite configures them, in all their
implementations: each step is a section, parameters and states are kept. --part=I/N: of N parts, the
I-th from 0."""

import outcome  # first  # noqa: I001

import torch
from torch.testing._internal.common_optimizers import optim_db


def parameters():
    generator = torch.Generator().manual_seed(3)
    return [torch.nn.Parameter(torch.randn(*size, generator=generator)) for size in ((3, 2), (3,))]


def loss_of(params):
    return (params[0].sum(1) * params[1]).sin().pow(2).sum()


def run(info, kwargs, label):
    params = parameters()
    if info.optim_cls.__name__ == "Muon":
        params = params[:1]
    outcome.seed(5)
    made = []

    def construct():
        made.append(info.optim_cls(params, **kwargs))

    outcome.attempt(f"{label} made", construct)
    if not made:
        return

    def closure():
        made[0].zero_grad()
        loss = params[0].sin().sum() if len(params) == 1 else loss_of(params)
        loss.backward(create_graph=False)
        if info.only_supports_sparse_grads:
            for each in params:
                each.grad = each.grad.to_sparse()
        return loss

    def step():
        if info.step_requires_closure:
            return made[0].step(closure)
        closure()
        return made[0].step()

    for number in range(3):
        outcome.attempt(f"{label} step {number}", step)
        outcome.keep(f"{label} after step {number}", [*params, made[0].state_dict()])


def ways(supported):
    """The options that choose an implementation."""
    return [{"foreach": False}] * ("foreach" in supported) + [{each: True} for each in supported]


def run_all(info, most=None):
    """With its first configurations, in all implementations."""
    name = info.optim_cls.__name__
    outcome.mark(f"making inputs of {name}")
    for index, one in enumerate(info.optim_inputs_func(device="cpu")[:most]):
        for way in [{}, *ways(info.supported_impls)]:
            chosen = "".join(f" {option}={on}" for option, on in way.items())
            run(info, {**one.kwargs, **way}, f"{name} {index}{chosen}")


if __name__ == "__main__":
    for each in outcome.one_by_one(outcome.part_of(optim_db)):
        run_all(each)
