"""A rank that fails once, so that all ranks start again."""

import os
import sys

import torch

torch.ones(2).add(1)
restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
print("rank", os.environ["RANK"], "restart", restart, flush=True)
sys.exit(3 if restart == 0 and os.environ["RANK"] == "1" else 0)
