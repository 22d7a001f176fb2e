"""A child that lives longer than its parent."""

import subprocess
import sys

import torch

torch.ones(1)
code = "import torch, time; torch.ones(2).add(1); time.sleep(2); torch.ones(3).mul(2)"
quiet = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
subprocess.Popen([sys.executable, "-c", code], start_new_session=True, **quiet)
print("the parent ends")
