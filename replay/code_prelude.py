import base64

import torch

_random = torch.Generator().manual_seed(0)


def _drawn(count, dtype, low, high):
    if dtype.is_complex:
        parts = torch.randn((count, 2), generator=_random)
        return torch.view_as_complex(parts).to(dtype)
    if dtype.is_floating_point:
        return torch.randn(count, generator=_random).to(dtype)
    if low is None:
        low, high = (0, 1) if dtype == torch.bool else (1, 4)
    # Beyond 2**63 - 1, the highest that is drawn, numbers wrap around, and uint64 wraps them back.
    drawn = torch.randint(0, min(high - low + 1, 2**63 - 1), (count,), generator=_random)
    return (drawn + ((low + 2**63) % 2**64 - 2**63)).to(dtype)


def tensor(
    shape, dtype, stride=None, device="cpu", low=None, high=None, contents=None, memory=None
):
    """A tensor of that description: with its recorded contents, else drawn from the seed."""
    made = torch.empty(shape, dtype=dtype)
    if stride is not None:
        made = torch.empty_strided(shape, stride, dtype=dtype)
    # No view of another tensor: detach_() and resize_() take none.
    data = torch.empty(0, dtype=torch.uint8).set_(made.untyped_storage())
    extent = len(data) // made.element_size()
    if memory is not None:
        data.copy_(torch.frombuffer(bytearray(base64.b64decode(memory)), dtype=torch.uint8))
    elif contents is None:
        made.as_strided((extent,), (1,)).copy_(_drawn(extent, dtype, low, high))
    elif extent:
        values = torch.frombuffer(bytearray(base64.b64decode(contents)), dtype=torch.uint8)
        places = torch.arange(extent).as_strided(made.shape, made.stride()).reshape(-1)
        data.zero_().view(extent, -1)[places] = values.view(len(places), -1)
    return made.to(device)
