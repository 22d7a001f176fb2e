"""A launcher that becomes a shell, which starts a Python."""

import os
import sys

code = "import torch; torch.ones(2).add(1); print('trained')"
os.execvp("bash", ["bash", "-c", f'{sys.executable} -c "{code}"; exit 5'])
