"""Calls that tell a trace's reader where it is: recorded at level 1, and nothing else."""

from torch.overrides import handle_torch_function, has_torch_function


def mark(name):
    """Begins a section of the trace."""
    if has_torch_function((None,)):
        return handle_torch_function(mark, (), name)


def show(label, value):
    """Has `value` recorded."""
    if has_torch_function((None,)):
        return handle_torch_function(show, (), label, value)
