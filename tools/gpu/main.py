"""What only a GPU proves: device times, memory and numbers, and what they cost."""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.benchmarks.tables import Table, ratio, replace_in

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "tools/gpu/workloads.py"
NO_GPU = 77  # by which test runners know a check that was skipped
LIMIT_S = 120  # of one program
ALL_S = 470
ROUNDS = 2
ends = time.monotonic() + ALL_S


def torchtrace():
    own = ROOT / ".build/bin/torchtrace"
    found = os.environ.get("TORCHTRACE") or shutil.which("torchtrace") or (own.exists() and own)
    if not found:
        sys.exit("gpu_check: there is no torchtrace: install its wheel, or name it by TORCHTRACE")
    return str(found)


def no_gpu():
    """Why there is nothing to check; None: there is a GPU."""
    try:
        import torch
    except ImportError:
        return f"{sys.executable} has no torch"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is no CUDA build"
    return None if torch.cuda.is_available() else "torch finds no GPU"


class Failed(Exception):
    """A program or a verb failed: what it printed."""


def run(*command):
    left = min(LIMIT_S, ends - time.monotonic())
    if left < 1:
        raise Failed(f"no time is left for {' '.join(map(str, command))}")
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=left, check=False
    )
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-5:])
        raise Failed(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{tail}")
    return done.stdout


class Traced:
    """A program's run under torchtrace: what it printed, and its trace."""

    def __init__(self, folder, options, program):
        command = [torchtrace(), "run", "-q", "-f", "--formats", "none", "--python", sys.executable]
        out = run(*command, "-o", folder, *options, WORKLOADS, *program)
        self.facts = json.loads(out.splitlines()[-1])
        self.folder = folder

    def json(self, verb, *options):
        return json.loads(run(torchtrace(), verb, self.folder, *options, "--format", "json"))

    def not_seen(self):
        return json.loads((self.folder / "run.json").read_text())["not_seen"]

    def work(self):
        """{name: [count, microseconds]}"""
        return by_name(
            (row["kernel"], row["count"], row["device_ns"] / 1000)
            for row in self.json("stats", "--by", "kernel")["kernels"]
        )


def plain(*program):
    return json.loads(run(sys.executable, WORKLOADS, *program).splitlines()[-1])


def by_name(work):
    """{name: [count, microseconds]}, with what the profiler adds to names of copies left out."""
    found = {}
    for name, count, time_us in work:
        if name.startswith(("Memcpy", "Memset")):
            name = name.partition(" (")[0]
        of_name = found.setdefault(name, [0, 0.0])
        of_name[0] += count
        of_name[1] += time_us
    return found


def differences(ours, theirs):
    """Names whose counts differ, with both."""
    names = sorted(ours.keys() | theirs.keys())
    counts = {name: (ours.get(name, [0])[0], theirs.get(name, [0])[0]) for name in names}
    return {name: both for name, both in counts.items() if both[0] != both[1]}


class Check:
    def __init__(self, folder):
        self.folder = folder
        self.table = Table("gpu", "What a GPU shows", ["check", "result", "verdict"])
        self.failed = 0

    def add(self, what, result, holds):
        self.failed += not holds
        self.table.add(what, result, "holds" if holds else "FAILS")
        print(f"{what}: {result}: {'holds' if holds else 'FAILS'}", flush=True)

    def traced(self, *program, options):
        return Traced(self.folder / program[0], options, program)

    def same(self, what, traced, untraced):
        same = traced.facts["digest"] == untraced["digest"]
        self.add(f"{what}: results traced and untraced", "the same" if same else "differ", same)

    def device_times(self):
        options = ["-l", "2", "--device-times"]
        untraced = plain("five_steps", "all")
        traced = self.traced("five_steps", options=options)
        self.same("GPT-2", traced, untraced)
        ours = traced.work()
        theirs = by_name((name, *use) for name, use in untraced["work"].items())
        differ = differences(ours, theirs)
        count = sum(number for number, _ in ours.values())
        self.add(
            "work of the device, by name, as torch.profiler's",
            f"{count} of "
            f"{sum(number for number, _ in theirs.values())}; differ: {differ or 'none'}",
            not differ,
        )
        both = [sum(time for _, time in work.values()) for work in (ours, theirs)]
        share = both[0] / max(both[1], 1)
        self.add("its time, of torch.profiler's", ratio(share), 0.9 < share < 1.1)
        lost = [text for text in traced.not_seen() if text.startswith("device times")]
        self.add("work without a call", "; ".join(lost) or "none", not lost)

        traced = self.traced("five_steps", "third", options=options)
        untraced = plain("five_steps", "third")
        differ = differences(traced.facts["work"], untraced["work"])
        self.add(
            "the program's own profile", f"differs: {differ}" if differ else "the same", not differ
        )
        said = [text for text in traced.not_seen() if "own profiler" in text]
        self.add("how long it ran", "; ".join(said) or "not said", len(said) == 1)
        self.same("GPT-2 with a profiler of its own", traced, untraced)

        # Neither replays of graphs nor compiled graphs are operators.
        for program, kernels in (("graph", 20), ("compiled", 10)):
            traced = self.traced(program, options=["-l", "2,3", "--device-times"])
            self.same(program, traced, plain(program))
            lost = [text for text in traced.not_seen() if "no recorded call" in text]
            found = sum(number for number, _ in traced.work().values())
            said = ", ".join([str(found), *lost])
            self.add(f"{program}: work of calls", said, found >= kernels and not lost)
        traced = self.traced("collective", options=options)
        self.same("NCCL, one rank", traced, plain("collective"))
        rows = traced.json("stats")["apis"]
        seen = sorted(row["api"] for row in rows if row["api"].startswith("c10d::"))
        took = sum(row["device_ns"] for row in rows if row["api"] in seen) / 1000
        self.add(f"NCCL: device time of {', '.join(seen)}", f"{took:.1f} us", took > 0)

    def memory(self):
        traced = self.traced("memory", options=["-l", "2", "--memory"])
        untraced = plain("memory")
        self.same("memory", traced, untraced)
        own = {key: traced.facts[key] for key in ("requested", "allocated")}
        self.add(
            "the allocator's own peaks, traced and untraced",
            own,
            own == {key: untraced[key] for key in own},
        )
        devices = traced.json("memory")["devices"]
        gpu = [row for row in devices if row["device"].startswith("cuda")][0]
        peaks = {
            "requested": gpu["peak_bytes"],
            "allocated": gpu["peak_bytes"] + (gpu["rounding_bytes"] or 0),
        }
        self.add(
            "peaks of torchtrace memory, of the allocator's", f"{peaks} of {own}", peaks == own
        )
        alive = traced.facts["alive"]
        self.add(
            "alive at the end, of torch.cuda.memory_snapshot's",
            f"{gpu['end_bytes']} of {alive}",
            gpu["end_bytes"] == alive,
        )

    def numbers(self):
        traced = self.traced("five_steps", options=["-l", "2", "--numbers"])
        self.same("GPT-2 with --numbers", traced, plain("five_steps"))
        rows = traced.json("stats", "--numbers")["apis"]
        noted = sum(row.get("least") is not None for row in rows)
        self.add("operators with numbers", str(noted), noted > 10)

    def costs(self):
        """Ratios to the untraced step of the same round."""
        subjects = {
            "2": ["-l", "2"],
            "2 --device-times": ["-l", "2", "--device-times"],
            "2 --memory": ["-l", "2", "--memory"],
        }
        for size, steps, most in (("small", 200, 1.25), ("large", 40, 1.02)):
            found = {name: [] for name in (*subjects, "torch.profiler")}
            untraced = []
            for _ in range(ROUNDS):
                untraced.append(plain("timed_steps", size, steps)["ms"])
                for name, options in subjects.items():
                    step = self.traced("timed_steps", size, str(steps), options=options).facts["ms"]
                    found[name].append(step / untraced[-1])
                found["torch.profiler"].append(
                    plain("timed_steps", size, steps, "all")["ms"] / untraced[-1]
                )
            medians = {name: statistics.median(ratios) for name, ratios in found.items()}
            step = f"{size} step, {statistics.median(untraced):.2f} ms"
            profiler = medians.pop("torch.profiler")
            self.add(f"{step}: torch.profiler", ratio(profiler), True)
            if profiler > 1.02:
                share = (medians["2 --device-times"] - 1) / (profiler - 1)
                self.add(f"{step}: --device-times, of what that adds", ratio(share), share <= 0.5)
            for name, times in medians.items():
                self.add(f"{step}: {name} [{ratio(most)}]", ratio(times), times <= most)


PARTS = {
    "device-times": Check.device_times,
    "memory": Check.memory,
    "numbers": Check.numbers,
    "costs": Check.costs,
}


def main():
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--update", metavar="PAGE", help="write the table into this page")
    options = parser.parse_args()
    if why := no_gpu():
        print(f"gpu_check: nothing was checked: {why}")
        return NO_GPU
    with tempfile.TemporaryDirectory(prefix="torchtrace-gpu-") as folder:
        check = Check(Path(folder))
        for name, part in PARTS.items():
            if options.only in (None, name):
                try:
                    part(check)
                except (Failed, subprocess.TimeoutExpired, ValueError, LookupError) as error:
                    check.add(name, f"{type(error).__name__}: {error}".replace("\n", " "), False)
    print()
    print(check.table.markdown())
    if options.update and (missing := replace_in(options.update, [check.table])):
        sys.exit(f"gpu_check: {options.update} has no place for {missing[0]}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
