"""Calls that may fail, each in a section of its own of what a function mode is told.

A mark is a call of a function written in C, so that it is seen whatever is done about the others.
"""

import torch

ONE = torch.ones(1)


def mark(label):
    try:
        torch.div(ONE, 1, rounding_mode=label)
    except RuntimeError:
        pass


def attempt(label, call, *args, **kwargs):
    """Makes the call in a section of this name. One that failed ends with a mark of its own."""
    mark(label)
    try:
        result = call(*args, **kwargs)
    except Exception as error:
        mark(f"failed: {type(error).__name__}")
        return None
    return result
