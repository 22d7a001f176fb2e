"""A call for each task of Slurm (docs/COOKBOOK.md)."""

import os

import torch

torch.nn.functional.relu(torch.ones(2 + int(os.environ["SLURM_PROCID"]), 8))
