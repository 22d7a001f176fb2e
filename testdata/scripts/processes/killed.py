"""A child that the signal which the argument names ends."""

import signal
import subprocess
import sys

import torch  # noqa: F401

code = "import torch, time; torch.ones(2).add(1); print('up', flush=True); time.sleep(30)"
child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
child.stdout.readline()
child.send_signal(getattr(signal, sys.argv[1]))
print(child.wait())
