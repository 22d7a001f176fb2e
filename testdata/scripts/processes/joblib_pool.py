"""Workers of joblib, which start by way of loky."""

import torch  # noqa: F401
from joblib import Parallel, delayed


def work(size):
    import torch

    return torch.ones(size).sum().item()


if __name__ == "__main__":
    print(Parallel(n_jobs=2)(delayed(work)(size) for size in range(6)))
