"""Makes modules as PyTorch's own test suite does and calls them, forward and backward: each call is
a section, each result is kept. --part=I/N: of N parts, the I-th from 0."""

import outcome  # first  # noqa: I001

import torch
from opinfo_samples import gradients
from torch.testing._internal.common_modules import module_db


class Taken:
    """What a module was called with, as a sample input."""

    def __init__(self, module, given):
        self.input = list(module.parameters())
        self.args, self.kwargs = given.args, given.kwargs


def run(info, training):
    name = info.formatted_name + " training" * training
    outcome.seed(11)
    outcome.mark(f"making inputs of {name}")
    made = info.module_inputs_func(
        info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
    )
    for number, each in enumerate(made):
        label = f"{name} {number}"
        outcome.seed(number)
        modules = []
        construct = each.constructor_input

        def constructed(construct=construct, modules=modules):
            modules.append(info.module_cls(*construct.args, **construct.kwargs).train(training))
            return modules[0].state_dict()

        outcome.attempt(f"{label} made", constructed)
        if not modules or (given := each.forward_input) is None:
            continue
        result = outcome.attempt(f"{label}", lambda m=modules, g=given: m[0](*g.args, **g.kwargs))
        outcome.attempt(f"{label} backward", gradients, result, Taken(modules[0], given))
        outcome.keep(f"{label} after", modules[0].state_dict())
    outcome.mark(f"after {name}")


if __name__ == "__main__":
    for each in outcome.one_by_one(outcome.part_of(module_db)):
        for is_training in (False, True):
            run(each, is_training)
