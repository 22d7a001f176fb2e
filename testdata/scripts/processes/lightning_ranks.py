"""Two ranks of Lightning, by the strategy that the argument names."""

import logging
import os
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
logging.getLogger("lightning").setLevel(logging.ERROR)
import pytorch_lightning as pl  # noqa: E402
from loader import Numbers  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

# Gloo's end dies at random, untraced too.
torch.distributed.destroy_process_group = lambda *_: None


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, index):
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


if __name__ == "__main__":
    torch.set_num_threads(1)
    quiet = dict.fromkeys(
        ["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False
    )
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy=sys.argv[1], **quiet)
    trainer.fit(Model(), DataLoader(Numbers(), batch_size=2))
    print("rank", trainer.global_rank, "steps", trainer.global_step, flush=True)
    os._exit(0)
