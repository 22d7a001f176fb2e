"""Other versions of Python, without torch."""

import glob
import os
import subprocess

found = glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")) + ["/usr/bin/python3"]
for python in sorted(filter(os.path.exists, found)):
    done = subprocess.run([python, "-c", "import sys; print(sys.version)"], capture_output=True)
    print(python, done.returncode, done.stdout)
