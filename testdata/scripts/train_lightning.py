"""PyTorch Lightning trains and validates a regression; --workers N loads data in N processes."""

import argparse
import logging
import warnings

import pytorch_lightning as pl
import torch
import torchmetrics
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="pytorch_lightning")


class Waves(Dataset):
    """A wave, sampled where a generator of its own says."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.rand(size, 4, generator=generator)
        self.y = torch.sin(self.x @ torch.tensor([1.0, -2.0, 3.0, 0.5]))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Regression(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Dropout(0.05), nn.Linear(32, 1))
        self.error = torchmetrics.MeanSquaredError()
        self.losses = []

    def training_step(self, batch, batch_index):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x).squeeze(1), y)
        self.log("loss", loss)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, batch_index):
        x, y = batch
        self.error.update(self.net(x).squeeze(1), y)

    def on_validation_epoch_end(self):
        self.log("error", self.error.compute())
        self.error.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    workers = parser.parse_args().workers
    pl.seed_everything(7, verbose=False)
    model = Regression()
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=3,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        gradient_clip_val=1.0,
    )
    trainer.fit(
        model,
        DataLoader(Waves(128, 1), batch_size=16, shuffle=True, num_workers=workers),
        DataLoader(Waves(32, 2), batch_size=16, num_workers=workers),
    )
    print(f"first loss {model.losses[0]:.4f}  last loss {model.losses[-1]:.4f}")
    print(f"error {trainer.callback_metrics['error'].item():.4f}")
    total = sum(p.double().sum() for p in model.parameters()).item()
    print(f"digest {model.losses[-1].hex()} {total.hex()}")


if __name__ == "__main__":
    main()
