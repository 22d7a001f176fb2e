"""A step of distributed training with Gloo (docs/COOKBOOK.md)."""

import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 4))
model(torch.ones(2 + dist.get_rank(), 8)).sum().backward()
dist.barrier()
os._exit(0)  # Gloo's threads may abort at the interpreter's end
