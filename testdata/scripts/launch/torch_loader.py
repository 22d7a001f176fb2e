"""A DataLoader with worker processes, and one that fails."""

import sys
import threading

import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == int(sys.argv[2]):
            raise ValueError(f"item {i}")
        return torch.tensor(i) ** 2


if __name__ == "__main__":
    # A second worker may overtake the failing one, and the traceback tells.
    workers = 2 if int(sys.argv[2]) < 0 else 1
    loader = DataLoader(
        Squares(), batch_size=2, num_workers=workers, multiprocessing_context=sys.argv[1]
    )
    for batch in loader:
        print(batch)
    # The interpreter's end may cut a queue's thread off in the middle of unlinking a semaphore.
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join()
