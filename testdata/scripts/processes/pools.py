"""multiprocessing's pools."""

import multiprocessing

import torch


def work(size):
    return torch.ones(size).mul(2).sum().item()


if __name__ == "__main__":
    for how in ("spawn", "forkserver"):
        with multiprocessing.get_context(how).Pool(2) as pool:
            print(pool.map(work, range(6)))
            pool.close()
            pool.join()
