"""A DataLoader with worker processes; arguments: how they start, how many epochs."""

import sys

import torch
from marks import mark
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.sin(torch.full((3,), float(index)))


def main():
    mark("before")
    torch.cos(torch.ones(2))
    loader = DataLoader(Numbers(), 5, num_workers=2, multiprocessing_context=sys.argv[1])
    total = 0
    for epoch in range(int(sys.argv[2])):
        for batch in loader:
            total += torch.cos(batch).double().sum().item()
    mark("after")
    torch.cos(torch.ones(2))
    print(total.hex())


if __name__ == "__main__":
    main()
