"""Kills processes of traced jobs at random, and tells whether a call that was entered is missing.

    .venv/bin/python tools/testing/kill_often.py [--kills 1000] [--seed SEED]

A job is a main process, forks, a spawned worker and a Python started by a shell, each with two
threads. Every call is counted in shared memory as soon as it runs; the trace must have as many of
each thread, and at most one more.
"""

import argparse
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SLOTS = 64
MINE = """
import mmap
with open(COUNTS, "r+b") as file:
    counts = mmap.mmap(file.fileno(), 0)
def f(slot, number):
    counts[8 * slot : 8 * slot + 8] = number.to_bytes(8, "little")
"""
PROGRAM = """
import multiprocessing, os, subprocess, sys, threading
sys.path.insert(0, FOLDER)
import mine

def work(slot):
    # A list of pids, for who kills.
    with open(os.path.join(FOLDER, f"pid-{slot}.new"), "w") as file:
        file.write(str(os.getpid()))
    os.rename(os.path.join(FOLDER, f"pid-{slot}.new"), os.path.join(FOLDER, f"pid-{slot}"))
    other = threading.Thread(target=calls, args=(2 * slot + 1,), daemon=True)
    other.start()
    calls(2 * slot)

def calls(place):
    number = 0
    while not os.path.exists(os.path.join(FOLDER, "stop")):
        for _ in range(50):
            number += 1
            mine.f(place, number)

if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(int(sys.argv[1]))
        sys.exit()
    for slot in (1, 2):
        if os.fork() == 0:
            work(slot)
            os._exit(0)
    multiprocessing.get_context("spawn").Process(target=work, args=(3,), daemon=False).start()
    shell = subprocess.Popen(["bash", "-c", '"$@"; true', "bash", sys.executable, __file__, "4"])
    work(0)
    shell.wait()
"""


def wait_for(condition, seconds=60):
    """Whether it has become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def a_round(folder, chance, torchtrace):
    """Kills all processes of one job in a random order. Returns what was killed, and errors."""
    counts = folder / "counts"
    counts.write_bytes(bytes(8 * SLOTS))
    (folder / "mine.py").write_text(f"COUNTS = {str(counts)!r}\n{MINE}")
    (folder / "program.py").write_text(f"FOLDER = {str(folder)!r}\n{PROGRAM}")
    words = ["run", "-qo", "out", "-l", "0", "--library", "mine", "--python", sys.executable]
    job = subprocess.Popen(
        [torchtrace, *words, "--formats", "none", "program.py"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    slots = list(range(5))
    if not wait_for(lambda: all((folder / f"pid-{slot}").exists() for slot in slots)):
        job.kill()
        return 0, [f"the job did not start: {job.communicate()[1]}"]
    pids = {slot: int((folder / f"pid-{slot}").read_text()) for slot in slots}
    chance.shuffle(slots)
    for slot in slots:
        time.sleep(chance.uniform(0, 0.03))
        os.kill(pids[slot], signal.SIGKILL)
    (folder / "stop").touch()
    job.communicate()
    with open(counts, "r+b") as file, mmap.mmap(file.fileno(), 0) as shared:
        made = {
            place: int.from_bytes(shared[8 * place : 8 * place + 8], "little")
            for place in range(10)
        }
    asked = [torchtrace, "stats", "out", "--by", "thread", "--format", "json"]
    said = subprocess.run(asked, cwd=folder, capture_output=True, check=True, text=True)
    stats = json.loads(said.stdout)
    recorded = {}
    for thread in stats["threads"]:
        pid = int(Path(thread["log"]).stem.rpartition("-")[2])
        recorded.setdefault(pid, []).append(thread["calls"])
    errors = [line for line in said.stderr.splitlines() if "never returned" not in line]
    for slot, pid in pids.items():
        want = sorted((made[2 * slot], made[2 * slot + 1]))
        have = sorted([0, 0, *recorded.get(pid, [])])[-2:]
        if any(not 0 <= b - a <= 1 for a, b in zip(want, have, strict=True)):
            errors.append(f"slot {slot}: entered {want}, recorded {have}")
    return len(pids), errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torchtrace = os.environ.get("TORCHTRACE", str(ROOT / ".build/bin/torchtrace"))
    chance = random.Random(options.seed)
    killed = rounds = 0
    wrong = []
    while killed < options.kills and len(wrong) < 10:
        folder = Path(tempfile.mkdtemp(prefix="torchtrace-kill-"))
        done, errors = a_round(folder, chance, torchtrace)
        killed, rounds = killed + done, rounds + 1
        if errors:
            wrong.append(errors)
            print(f"round {rounds}, {folder}: {'; '.join(errors)}", flush=True)
        else:
            shutil.rmtree(folder)
        if done == 0:
            break
    print(f"{killed} processes of {rounds} jobs killed, {len(wrong)} jobs with a call missing")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
