"""Pythons that other programs start, in all ways."""

import os
import subprocess
import sys

import torch  # noqa: F401

PYTHON = sys.executable
CODE = "import torch; print(torch.ones(2).add(1).sum().item())"
RUN = [PYTHON, "-c", CODE]


def go(*command, **how):
    done = subprocess.run(*command, capture_output=True, text=True, **how)
    print(done.returncode, done.stdout.strip(), flush=True)


go(["env", *RUN])
go(["nohup", *RUN])
go(["bash", "-c", f'{PYTHON} -c "{CODE}"; true'])
go(f'{PYTHON} -c "{CODE}"', shell=True)
os.system(f'{PYTHON} -c "{CODE}"')
with open("script", "w") as script:
    script.write(f"#!{PYTHON}\n{CODE}\n")
os.chmod("script", 0o755)
go(["./script"])
os.waitpid(os.posix_spawn(PYTHON, RUN, os.environ), 0)
os.waitpid(os.posix_spawnp("env", ["env", *RUN], os.environ), 0)
if os.fork() == 0:
    os.execve(PYTHON, RUN, os.environ)
os.wait()
go(RUN, close_fds=False)
