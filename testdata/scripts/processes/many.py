"""Four Pythons at once."""

import subprocess
import sys

import torch

torch.ones(1)
code = "import torch; [torch.ones(2).add(1) for _ in range(1000)]"
started = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
print([each.wait() for each in started])
