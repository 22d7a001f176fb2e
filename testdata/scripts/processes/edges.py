"""Children with odd environments, and odd ends."""

import os
import subprocess
import sys

PYTHON = sys.executable
LOOK = (
    "import os, torch; torch.ones(2).add(1); print(os.environ.get('LD_PRELOAD'), len(os.environ))"
)
LIBM = "/lib/x86_64-linux-gnu/libm.so.6"


def go(label, command, **how):
    done = subprocess.run(command, capture_output=True, text=True, **how)
    print(label, done.returncode, done.stdout.strip(), done.stderr.strip()[-200:], flush=True)


look = [PYTHON, "-c", LOOK]
go("no environment", look, env={})
go("env -i", ["env", "-i", *look])
go("own library", look, env={**os.environ, "LD_PRELOAD": LIBM})
go("own library by bash", ["bash", "-c", f'LD_PRELOAD={LIBM} {PYTHON} -c "{LOOK}"; true'])
go("large", look, env={**os.environ, **{f"V{each}": "x" * 50 for each in range(12000)}})
go("su", ["su", "nobody", "-s", "/bin/sh", "-c", "echo $LD_PRELOAD; id -un"])
go("another user", ["/usr/bin/env"], user=65534, env={"A": "1"})
go("kill -9", [PYTHON, "-c", "import torch, os; torch.ones(2); os.kill(os.getpid(), 9)"])
go("fault", [PYTHON, "-c", "import torch, ctypes; torch.ones(2); ctypes.string_at(0)"])
go("exit 7", [PYTHON, "-c", "import sys; sys.exit(7)"])
go("version", [PYTHON, "--version"])
go("bad option", [PYTHON, "--nonsense"])
go("input", [PYTHON, "-"], input="import torch; torch.ones(1); print(__name__)")
inner = (
    f"import os; print(os.popen('{PYTHON} -c \"import torch; torch.ones(1); print(5)\"').read())"
)
go("popen", [PYTHON, "-c", inner])
go("renamed", ["bash", "-c", f"exec -a weird {PYTHON} -c 'import sys; print(sys.orig_argv)'"])
