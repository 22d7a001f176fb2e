"""Pythons with several options."""

import subprocess
import sys

import torch

CODE = "import torch; print(torch.ones(2).add(1).sum().item())"
found = f"import sys; sys.path += {sys.path!r}; "
for options in ([], ["-I"], ["-E"], ["-S"], ["-O"], ["-Xdev", "-W", "ignore"]):
    code = (found if "-S" in options else "") + CODE
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True)
    print(options, done.returncode, done.stdout.strip())
