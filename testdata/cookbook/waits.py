"""Two threads that wait (docs/DUMP.md)."""

import threading

import torch


class Slow(torch.nn.Module):
    def forward(self, x):
        threading.Event().wait(60)


def load():
    torch.stack([torch.zeros(16)] * 32)
    loaded.set()
    threading.Event().wait(60)


loaded = threading.Event()
threading.Thread(target=load, name="loader", daemon=True).start()
loaded.wait()
torch.nn.Sequential(Slow())(torch.zeros(4, 16))
