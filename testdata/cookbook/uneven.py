"""Four ranks of data parallel training; the last one has a batch less, and the others wait."""

import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STORE, DONE = Path("store").absolute(), Path("done").absolute()


def work(rank):
    dist.init_process_group("gloo", init_method=STORE.as_uri(), rank=rank, world_size=4)
    model = DistributedDataParallel(torch.nn.Linear(8, 2))
    for _ in range(2 if rank == 3 else 3):
        model(torch.randn(4, 8)).sum().backward()
    if rank == 3:
        DONE.touch()
    time.sleep(600)


if __name__ == "__main__":
    ranks = torch.multiprocessing.spawn(work, nprocs=4, join=False)
    while not DONE.exists():
        time.sleep(0.1)
    time.sleep(3)
    for process in ranks.processes:
        process.kill()
