"""A backward pass that waits forever, and is killed (docs/COOKBOOK.md)."""

import os
import threading

import torch


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        threading.Timer(1, os.kill, (os.getpid(), 9)).start()
        threading.Event().wait()  # for a rank that never comes


x = torch.ones(3, requires_grad=True)
loss = Gather.apply(x).sum()
loss.backward()
