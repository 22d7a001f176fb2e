"""What only a GPU proves: runs tools/gpu/program.py plain, profiled and traced, and compares."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = Path(__file__).with_name("program.py")
TORCHTRACE = os.environ.get("TORCHTRACE", "torchtrace")
SECONDS = 460  # in all
STEPS = 5
MOST_HOST_BOUND, MOST_COMPUTE_BOUND = 1.25, 1.02


class Failed(Exception):
    """A program or a verb, with its last lines."""


class Runs:
    """Programs, as long as there is time."""

    def __init__(self, python, folder, seconds=SECONDS):
        self.python, self.folder = python, Path(folder)
        self.ends = time.monotonic() + seconds

    def output(self, command):
        left = self.ends - time.monotonic()
        if left < 5:
            raise Failed("no time is left")
        try:
            ended = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, timeout=left
            )
        except subprocess.TimeoutExpired:
            raise Failed("it took too long") from None
        if ended.returncode != 0:
            raise Failed(f"exit code {ended.returncode}: {ended.stderr.strip()[-300:]}")
        return ended.stdout

    def plain(self, section, *options, steps=STEPS):
        command = [self.python, PROGRAM, section, "--steps", steps, *options]
        return json.loads(self.output(command).splitlines()[-1])

    def traced(self, section, *options, trace_options=(), steps=STEPS):
        """The program's result, and its trace."""
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        command = [TORCHTRACE, "run", "-q", "--python", self.python, "-fo", folder, *trace_options]
        command += [PROGRAM, section, "--steps", steps, *options]
        return json.loads(self.output(command).splitlines()[-1]), folder

    def kernels(self, folder):
        """Rows of `stats --by kernel`."""
        report = self.output([TORCHTRACE, "stats", folder, "--by", "kernel", "--format", "json"])
        return json.loads(report)["kernels"]


def by_name(rows):
    """{name: [count, microseconds]} of rows of `stats --by kernel`, kernels only."""
    kernels = {}
    for row in rows:
        if row["kind"] == "kernel":
            kernel = kernels.setdefault(row["kernel"], [0, 0.0])
            kernel[0] += row["count"]
            kernel[1] += row["device_ns"] / 1e3
    return kernels


def compare_kernels(ours, theirs):
    """Two {name: [count, microseconds]} of equal programs: a sentence, and whether they agree."""
    theirs = {
        name: use for name, use in theirs.items() if not name.startswith(("Memcpy", "Memset"))
    }
    apart = sorted(
        name
        for name in ours.keys() | theirs.keys()
        if ours.get(name, [0])[0] != theirs.get(name, [0])[0]
    )
    count, us = (sum(use[i] for use in ours.values()) for i in (0, 1))
    of_profiler, us_of_profiler = (sum(use[i] for use in theirs.values()) for i in (0, 1))
    text = f"{count} kernels, {us / 1e3:.2f} ms; "
    text += f"torch.profiler {of_profiler}, {us_of_profiler / 1e3:.2f} ms"
    if apart:
        text += f"; other counts of {len(apart)} names: {apart[0][:60]}"
    return text, not apart and count > 0 and abs(us - us_of_profiler) <= 0.1 * us_of_profiler


def device_times(runs):
    profiled = runs.plain("train", "--profile")
    traced, folder = runs.traced("train", trace_options=["-l", "2", "--device-times"])
    text, same = compare_kernels(by_name(runs.kernels(folder)), profiled["kernels"])
    not_seen = json.loads((folder / "run.json").read_text()).get("not_seen", [])
    said = "; ".join(sentence for sentence in not_seen if "device times" in sentence)
    return text + (f" ({said})" if said else ""), same and traced["losses"] == profiled["losses"]


def own_profiler(runs):
    plain = runs.plain("train", "--profile")["kernels"]
    traced, _ = runs.traced("train", "--profile", trace_options=["-l", "2", "--device-times"])
    counts = [
        {name: use[0] for name, use in kernels.items()} for kernels in (plain, traced["kernels"])
    ]
    return f"{sum(counts[1].values())} events, untraced {sum(counts[0].values())}", counts[
        0
    ] == counts[1]


def graph(runs):
    replays = 20
    _, folder = runs.traced("graph", steps=replays, trace_options=["-l", "0,2", "--device-times"])
    replayed = [row for row in runs.kernels(folder) if "replay" in row["api"]]
    count = sum(row["count"] for row in replayed)
    return f"{count} kernels of {replays} replays belong to their call", count >= 2 * replays


def triton(runs):
    steps = 10
    _, folder = runs.traced("triton", steps=steps, trace_options=["-l", "2,3", "--device-times"])
    count = sum(row["count"] for row in runs.kernels(folder) if row["kernel"].startswith("triton_"))
    return f"{count} Triton kernels of {steps} calls", count >= steps


def nccl(runs):
    plain = runs.plain("nccl")
    traced, folder = runs.traced("nccl", trace_options=["-l", "2", "--device-times"])
    collectives = [row for row in runs.kernels(folder) if row["operation"]]
    names = sorted({f"{row['operation']} of group {row['group']}" for row in collectives})
    # A group of one rank may copy instead.
    return f"kernels of {', '.join(names) or 'no collective'}", plain == traced


def memory(runs):
    traced, folder = runs.traced("train", trace_options=["-l", "2", "--memory"])
    plain = runs.plain("train")
    report = json.loads(runs.output([TORCHTRACE, "memory", folder, "--format", "json"]))
    devices = json.dumps(report)[:120]
    return (
        f"max_memory_allocated {traced['peak']}, untraced {plain['peak']}; {devices}",
        traced == plain,
    )


def host_bound_cost(runs):
    return cost(runs, "host_bound", MOST_HOST_BOUND, steps=100)


def compute_bound_cost(runs):
    return cost(runs, "compute_bound", MOST_COMPUTE_BOUND, steps=20)


def cost(runs, section, most, steps):
    plain = min(runs.plain(section, steps=steps)["ms"] for _ in range(2))
    levels, timed = (
        min(runs.traced(section, steps=steps, trace_options=options)[0]["ms"] for _ in range(2))
        for options in (["-l", "2"], ["-l", "2", "--device-times"])
    )
    profiled = runs.plain(section, "--profile", steps=steps)["ms"]
    text = f"{plain:.2f} ms a step; level 2 x{levels / plain:.2f}, "
    text += f"with device times x{timed / plain:.2f}"
    text += f", torch.profiler x{profiled / plain:.2f}; budget x{most}"
    return text, timed <= most * plain


CHECKS = {
    "device times of a training step": device_times,
    "the program's own profile": own_profiler,
    "CUDA graphs": graph,
    "Triton": triton,
    "NCCL, one rank": nccl,
    "`--memory`": memory,
    "cost, host-bound": host_bound_cost,
    "cost, compute-bound": compute_bound_cost,
}


def run_checks(checks, runs):
    """Rows of the table: name, result, whether it holds."""
    rows = []
    for name, check in checks.items():
        try:
            text, holds = check(runs)
        except (Failed, ValueError, KeyError, IndexError) as error:
            text, holds = f"{type(error).__name__}: {error}", False
        rows.append((name, text, holds))
    return rows


def table(rows):
    lines = ["| check | result | holds |", "| -- | -- | -- |"]
    for name, text, holds in rows:
        cell = " ".join(text.replace("|", "\\|").split())
        lines.append(f"| {name} | {cell} | {'yes' if holds else '**no**'} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="one whose torch has CUDA")
    parser.add_argument("--only", help="checks whose names contain this")
    options = parser.parse_args()
    chosen = {name: check for name, check in CHECKS.items() if (options.only or "") in name}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torchtrace-gpu-") as folder:
        rows = run_checks(chosen, Runs(options.python, folder))
    facts = "import torch; print(torch.cuda.get_device_name(0), 'torch', torch.__version__)"
    device = subprocess.run(
        [options.python, "-c", facts], capture_output=True, text=True, check=False
    )
    print(f"{device.stdout.strip()}, {time.monotonic() - began:.0f} s\n\n{table(rows)}")
    sys.exit(0 if all(holds for _, _, holds in rows) else 1)


if __name__ == "__main__":
    main()
