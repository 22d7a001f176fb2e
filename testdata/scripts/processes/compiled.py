"""Inductor compiles; it may start helpers."""

import torch


@torch.compile
def function(x):
    return (x * 2 + 1).relu().sum()


if __name__ == "__main__":
    print(function(torch.ones(16)).item())
