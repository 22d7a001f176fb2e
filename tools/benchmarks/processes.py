"""Measurements of whole processes: programs run by python and by torchtrace, and the verbs that
read traces. Each function returns plain data for the tables and for --json."""

import json
import os
import shutil
import statistics
import subprocess
import threading
import time

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs.py")


class Process:
    """One run of a command: its output, wall and CPU seconds, and with `peak` its peak resident
    memory. `codes` are the exit codes of success."""

    def __init__(self, command, cwd, peak=False, codes=(0,)):
        start = time.time()
        self.child = subprocess.Popen(
            command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        watch = PeakMemory(self.child.pid) if peak else None
        self.output = self.child.stdout.read()
        _, status, usage = os.wait4(self.child.pid, 0)
        self.end = time.time()
        self.hwm_kb = watch.stop() if peak else None
        self.child.returncode = os.waitstatus_to_exitcode(status)
        self.wall = self.end - start
        self.cpu = usage.ru_utime + usage.ru_stime
        if self.child.returncode not in codes:
            raise SystemExit(f"bench: exit code {self.child.returncode}: {' '.join(command)}")

    def json(self):
        """The program's own report."""
        return json.loads(self.output.splitlines()[-1])


class PeakMemory:
    """Watches the peak of a process's resident memory. The kernel's own figure for an ended
    child is useless: it includes the memory of the parent that started it."""

    def __init__(self, pid):
        self.path = f"/proc/{pid}/status"
        self.hwm_kb = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        while True:
            try:
                with open(self.path, encoding="utf-8") as file:
                    for line in file:
                        if line.startswith("VmHWM"):
                            self.hwm_kb = int(line.split()[1])
            except OSError:
                return
            if self.ended.wait(0.01):
                return

    def stop(self):
        """The peak in kB, except for the last hundredth of a second."""
        self.ended.set()
        self.thread.join()
        return self.hwm_kb


class Bench:
    """Paths, and how often to measure."""

    def __init__(self, exe, python, folder, rounds, quick):
        self.exe = exe
        self.python = python
        self.folder = folder
        self.rounds = rounds
        self.quick = quick

    def run(self, *command, **how):
        return Process([str(word) for word in command], self.folder, **how)

    def plain(self, *args):
        """`python ARGS`"""
        return self.run(self.python, *args)

    def traced(self, levels, formats, *args, output="out"):
        """`torchtrace run ARGS`, into `output`."""
        options = ["-q", "-f", "--python", self.python, "-l", levels, "-o", output]
        if formats is not None:
            options += ["--formats", formats]
        return self.run(self.exe, "run", *options, *args)

    def path(self, name):
        return os.path.join(self.folder, name)

    def info(self, trace):
        return json.loads(self.run(self.exe, "info", trace, "--format", "json").output)

    def interleaved(self, measurements, rounds=None):
        """Rounds of {name: function()}, in an order that is rotated by one each round."""
        names = list(measurements)
        result = []
        for number in range(rounds or self.rounds):
            first = number % len(names)
            values = {}
            for name in names[first:] + names[:first]:
                values[name] = measurements[name]()
            result.append(values)
        return result


# Programs and levels.
STARTS = (
    ("pass", "1,2"),
    ("import torch", "1,2"),
    ("import torch", "0"),
    ("import torch", "0,1,2"),
)


def start_up(bench):
    """Wall and CPU seconds of programs that do nothing."""
    measurements = {name: lambda name=name: bench.plain("-c", name) for name, _ in STARTS}
    for name, levels in STARTS:
        measurements[f"{name}, {levels}"] = lambda name=name, levels=levels: bench.traced(
            levels, None, "-c", name
        )
    rounds = bench.interleaved(measurements)
    return [{name: (p.wall, p.cpu) for name, p in values.items()} for values in rounds]


def training(bench, steps):
    """A training program from start to end: step, memory and time at exit."""

    def program(process):
        own = process.json()
        return {
            "step_cpu": own["cpu"],
            "step_wall": own["wall"],
            "hwm_kb": own["hwm_kb"],
            "exit": process.end - own["end"],
            "wall": process.wall,
            "cpu": process.cpu,
        }

    args = (PROGRAMS, "transformer", steps)
    measurements = {
        "python": lambda: program(bench.plain(*args)),
        "1": lambda: program(bench.traced("1", "none", *args)),
        "2": lambda: program(bench.traced("2", "none", *args)),
        "1,2": lambda: program(bench.traced("1,2", "none", *args)),
        "1,2, all files": lambda: program(bench.traced("1,2", None, *args, output="all")),
    }
    rounds = bench.interleaved(measurements)
    return {"steps": steps, "rounds": rounds, "trace": trace_size(bench, "all")}


# Programs of two that work at once, and levels.
TOGETHER = ("threads", "workers", "ranks")


def together(bench, steps):
    """Wall seconds of a step of one alone, and of two at once."""
    measurements = {}
    for name in ("transformer", *TOGETHER):
        args = (PROGRAMS, name, steps)
        measurements[name] = lambda args=args: bench.plain(*args).json()["wall"]
        measurements[f"{name}, traced"] = lambda args=args: bench.traced(
            "1,2", "none", *args
        ).json()["wall"]
    return bench.interleaved(measurements)


def trace_size(bench, trace):
    """Calls and bytes of a trace."""
    info = bench.info(trace)
    sizes = [process["bytes"] for process in info["processes"]]
    return {
        "calls": info["counts"]["calls"],
        "configs": info["counts"]["configs"],
        "event_bytes": sum(size["events"] for size in sizes),
        "definition_bytes": sum(size["definitions"] for size in sizes),
        "file_bytes": sum(size["file"] for size in sizes),
    }


def long_loop(bench, calls):
    """A loop of millions of calls: memory, cost of a call, and the speed of reading its log."""
    shutil.rmtree(bench.path("loop"), ignore_errors=True)
    plain = bench.plain(PROGRAMS, "loop", calls).json()
    traced = bench.traced("1", "none", PROGRAMS, "loop", calls, output="loop").json()
    rounds = bench.interleaved(
        {"stats": lambda: times(bench.run(bench.exe, "stats", "loop"))}, min(bench.rounds, 5)
    )
    return {
        "calls": calls,
        "plain": plain,
        "traced": traced,
        "trace": trace_size(bench, "loop"),
        "stats": [values["stats"] for values in rounds],
    }


def times(process):
    """(wall, CPU) seconds."""
    return process.wall, process.cpu


def rendering(bench, steps):
    """The listing files of a trace of an MLP's training."""
    bench.traced("1,2", "none", PROGRAMS, "mlp", steps, output="mlp")

    def render(formats):
        shutil.rmtree(bench.path("rendered"), ignore_errors=True)
        command = [bench.exe, "render", "-q", "mlp", "-o", "rendered", "--formats", formats]
        return times(bench.run(*command))

    formats = {name: name for name in ("trace.txt", "trace.yaml", "all")}
    measurements = {name: lambda name=name: render(name) for name in formats}
    rounds = bench.interleaved(measurements, min(bench.rounds, 5))
    return {"trace": trace_size(bench, "mlp"), "rounds": rounds}


def small_trace(bench):
    """Reading verbs on a small trace, process start included."""
    bench.traced("1,2", "none", PROGRAMS, "transformer", 1, output="small")
    measurements = {
        verb: lambda verb=verb: times(bench.run(bench.exe, verb, "small"))
        for verb in ("stats", "info")
    }
    measurements["version"] = lambda: times(bench.run(bench.exe, "version"))
    return {
        "trace": trace_size(bench, "small"),
        "rounds": bench.interleaved(measurements, 3 * bench.rounds),
    }


def known_calls(bench, count):
    """Calls made and calls counted, by API."""
    made = bench.traced("1,2", "none", PROGRAMS, "known", count, output="known").json()["made"]
    stats = json.loads(bench.run(bench.exe, "stats", "known", "--format", "json").output)
    counted = {api["api"]: api["calls"] for api in stats["apis"]}
    return {api: (calls, counted.get(api, 0)) for api, calls in made.items()}


def median(rounds, name, key):
    """Median over the rounds of rounds[i][name][key]."""
    return statistics.median(values[name][key] for values in rounds)
