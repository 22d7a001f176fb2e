"""Workers of a ProcessPoolExecutor, started as the argument says."""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor

import torch


def work(size):
    return torch.ones(size).sum().item()


if __name__ == "__main__":
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(sys.argv[1])) as executor:
        print(list(executor.map(work, range(6))))
