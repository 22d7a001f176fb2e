"""Many calls, each with other arguments; argument: how many. Prints a result."""

import sys

import torch

x = torch.ones(2)
total = 0
for index in range(int(sys.argv[1])):
    total += torch.add(x, index).sum().item()
print(total)
