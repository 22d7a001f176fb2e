"""Attaches to a busy program many times, and tells whether that has harmed it.

    .venv/bin/python tools/testing/attach_often.py [--rounds 200] [--kill] [--python PYTHON]

The program multiplies matrices on two threads and works with objects on two more, and compares all
results. --kill: torchtrace itself is killed after a random time, often within the attaching.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import os, sys, threading
import torch
torch.set_num_threads(2)
bad, stop = [], threading.Event()
def churn():
    while not stop.is_set():
        made = {i: [str(i)] * 3 for i in range(300)}
        if sum(len(each) for each in made.values()) != 900:
            bad.append("objects")
threads = [threading.Thread(target=churn) for _ in range(2)]
for thread in threads:
    thread.start()
a = torch.arange(10000, dtype=torch.float64).reshape(100, 100) / 1e4
want, rounds = (a @ a).sum().item(), 0
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    if (a @ a).sum().item() != want:
        bad.append("matrices")
    rounds += 1
stop.set()
for thread in threads:
    thread.join()
print(rounds, "rounds, wrong:", bad or "none")
sys.exit(bool(bad))
"""


def facts(pid):
    """What would grow if something were left behind."""
    maps = Path(f"/proc/{pid}/maps").read_text().count("\n")
    return {
        "mappings": maps,
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--python", default=str(ROOT / ".venv/bin/python3"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="torchtrace-attach-"))
    stop = folder / "stop"
    program = subprocess.Popen(
        [options.python, "-c", PROGRAM, str(stop)], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout.readline() == "ready\n"
    attach = [str(ROOT / ".build/bin/torchtrace"), "attach", str(program.pid), "-q"]
    traced = failed = 0
    first, began = None, time.time()
    for i in range(options.rounds):
        out = folder / str(i)
        attaching = subprocess.Popen(
            [*attach, "--duration", "20ms", "-o", str(out)], stderr=subprocess.PIPE, text=True
        )
        if options.kill:
            time.sleep(random.uniform(0, 0.1))
            attaching.send_signal(signal.SIGKILL)
        said = attaching.communicate(timeout=120)[1]
        traced += attaching.returncode == 0
        if attaching.returncode > 0:
            failed += 1
            print(said, end="")
        if program.poll() is not None:
            break
        first = first or facts(program.pid)
    print(
        f"{options.rounds} times in {time.time() - began:.0f} s: traced {traced}, failed {failed},",
        f"killed {options.rounds - traced - failed}",
    )
    print("first:", first)
    if program.poll() is None:
        print("last: ", facts(program.pid))
    stop.touch()
    print("the program:", program.communicate(timeout=120)[0].strip() or program.returncode)
    return program.returncode


if __name__ == "__main__":
    sys.exit(main())
