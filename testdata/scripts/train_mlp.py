"""Trains a small network to tell three spiral arms apart."""

import math

import torch
from torch import nn

torch.manual_seed(0)


def make_spirals(points_per_arm):
    """Points in the plane, and the number of the arm that each lies on."""
    points, arms = [], []
    for arm in range(3):
        radius = torch.linspace(0.1, 1, points_per_arm)
        angle = 4 * radius + arm * 2 * math.pi / 3 + 0.1 * torch.randn(points_per_arm)
        points.append(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1))
        arms.append(torch.full((points_per_arm,), arm))
    return torch.cat(points), torch.cat(arms)


points, arms = make_spirals(100)
model = nn.Sequential(
    nn.Linear(2, 64),
    nn.ReLU(),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Linear(64, 3),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(40):
    for batch in torch.randperm(len(points)).split(60):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points[batch]), arms[batch])
        loss.backward()
        optimizer.step()
    if epoch % 10 == 0:
        print(f"epoch {epoch:2}  loss {loss.item():.4f}")

with torch.no_grad():
    logits = model(points)
    loss = nn.functional.cross_entropy(logits, arms)
    right = (logits.argmax(dim=1) == arms).float().mean()
print(f"finished  loss {loss.item():.4f}  accuracy {right.item():.1%}")
print(
    f"digest    {loss.item().hex()} {sum(p.double().sum() for p in model.parameters()).item().hex()}"
)
