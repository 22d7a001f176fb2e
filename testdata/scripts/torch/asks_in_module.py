"""Asks in a module's own code, which imports the name of what calls are handed to."""

import torch
from attempts import attempt
from torch.overrides import handle_torch_function, has_torch_function

__all__ = ["handle_torch_function"]

attempt("asked in a module", has_torch_function, (1,))
has_torch_function((1,))
attempt("in a module that asked", torch.add, torch.ones(2), 1)
