"""A rank with a DataLoader's worker."""

import os

from loader import Numbers
from torch.utils.data import DataLoader

if __name__ == "__main__":
    loader = DataLoader(Numbers(), batch_size=4, num_workers=1, multiprocessing_context="spawn")
    print("rank", os.environ["RANK"], [batch.sum().item() for batch in loader], flush=True)
