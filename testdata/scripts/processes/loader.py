"""A DataLoader's workers: how they are started, and whether they stay."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.full((3,), float(index)).mul(2)


if __name__ == "__main__":
    loader = DataLoader(
        Numbers(),
        batch_size=2,
        num_workers=2,
        multiprocessing_context=sys.argv[1],
        persistent_workers=len(sys.argv) > 2,
    )
    for _ in range(2):
        print([batch.sum().item() for batch in loader])
