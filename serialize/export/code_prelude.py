import base64
import math

import torch

_random = torch.Generator().manual_seed(0)


def _drawn(count, dtype, low, high):
    if dtype == torch.bool or not (dtype.is_floating_point or dtype.is_complex):
        if low is None:
            low, high = (0, 1) if dtype == torch.bool else (1, 4)
        return torch.randint(low, high + 1, (count,), generator=_random).to(dtype)
    if dtype.is_complex:
        parts = torch.randn((count, 2), generator=_random)
        return torch.view_as_complex(parts).to(dtype)
    return torch.randn(count, generator=_random).to(dtype)


def tensor(shape, dtype, stride=None, device="cpu", low=None, high=None, contents=None):
    """A tensor of that description: with its recorded contents, else drawn from the seed."""
    count = math.prod(shape)
    extent = count
    if stride is not None and count:
        extent = 1 + sum((size - 1) * step for size, step in zip(shape, stride))
    if contents is None:
        storage = _drawn(extent, dtype, low, high)
    else:
        values = bytearray(base64.b64decode(contents))
        storage = values = torch.frombuffer(values, dtype=torch.uint8).view(dtype)
        if stride is not None:
            storage = torch.zeros(extent, dtype=dtype)
            places = torch.arange(extent).as_strided(shape, stride).reshape(-1)
            storage[places] = values
    made = storage.view(shape) if stride is None or not count else storage.as_strided(shape, stride)
    return made.to(device)
