"""One part of a training step is compiled by inductor, the other is not."""

import torch


@torch.compile
def compiled(x, y):
    return torch.tanh(x * y + 1).sum()


torch.manual_seed(5)
x = torch.randn(32, 32, requires_grad=True)
for step in range(3):
    loss = compiled(x, torch.ones(32, 32) * step) + torch.relu(x).mean()
    loss.backward()
    print(f"step {step}  loss {loss.item().hex()}")
print(f"digest {x.grad.double().sum().item().hex()}")
