"""A DataLoader with worker processes; arguments: how they start, how many of them, how many epochs.
Prints a sum after each epoch."""

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
    start, workers, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    loader = DataLoader(Numbers(), 5, num_workers=workers, multiprocessing_context=start)
    total = 0
    for epoch in range(epochs):
        for batch in loader:
            total += torch.cos(batch).double().sum().item()
        print(total.hex())
    mark("after")
    torch.cos(torch.ones(2))


if __name__ == "__main__":
    main()
