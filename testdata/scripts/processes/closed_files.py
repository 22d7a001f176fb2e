"""A child without standard streams."""

import os
import sys

code = "import torch; torch.ones(2); open('ended', 'w').write('ok')"
pid = os.fork()
if pid == 0:
    os.closerange(0, 3)
    os.execv(sys.executable, [sys.executable, "-c", code])
print(os.waitpid(pid, 0)[1], open("ended").read())
