"""Two ranks that torch.multiprocessing starts."""

import os
import socket

import torch.multiprocessing as mp
from ranks import main


def worker(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    main(rank, world)


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(worker, (2, port), nprocs=2)
