"""tools/bench: what tracing costs and how fast traces are read.

Every figure is the median of interleaved rounds of one run: in each round everything is measured
once, in an order that moves on by one, and compared with the untraced run of the same round.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile

import budgets as budgets_module
import processes
import scale
from tables import (
    Table,
    count,
    megabytes,
    microseconds,
    milliseconds,
    progress,
    ratio,
    replace_in,
)

HERE = os.path.dirname(os.path.abspath(__file__))
WORKLOADS = ("add", "mlp", "transformer")
CLOCKS = ("wall", "cpu")
# How often another checkout's process and ours take turns.
BEFORE_TURNS = 4
# What is measured in one process, by the beginnings of their names.
SUBJECTS = ("empty modes,", "hooks,", "torchtrace,", "Python tracer,")
OBSERVERS = ("torch.profiler", "ExecutionTraceObserver", "DebugMode")


class Run:
    """The options, the results by section, and the tables made of them."""

    def __init__(self, options, bench):
        self.options = options
        self.bench = bench
        self.clock = CLOCKS.index(options.clock)
        self.budgets = budgets_module.Budgets()
        self.results = {}
        self.tables = []

    def table(self, key, title, columns):
        self.tables.append(Table(key, title, columns))
        return self.tables[-1]


# ---- Sections: each measures, keeps its results and makes its tables ----


def section_steps(run):
    """The cost of a step under each subject, in one process per workload."""
    ratios, untraced = {}, {}
    for workload in WORKLOADS:
        progress(f"steps: {workload}")
        results = steps_of(run, workload)
        run.results.setdefault("steps", {})[workload] = results
        ratios[workload] = {}
        for prefix, result in results:
            bases = [
                statistics.median(times[run.clock] for times in times_of_round)
                for times_of_round in result["untraced"]
            ]
            untraced.setdefault(workload, statistics.median(bases))
            for name in result["rounds"][0]:
                ratios[workload][prefix + name] = statistics.median(
                    times[name][run.clock] / base
                    for times, base in zip(result["rounds"], bases, strict=True)
                )
    step_tables(run, untraced, ratios)


def steps_of(run, workload):
    """[(prefix of the rows, overhead.py's result)]; with --before, of two that take turns."""
    ours = command_of(HERE, workload, run.options.runtime, run.options.bench_module)
    # PyTorch's observers start threads, for which torchtrace would look from then on.
    parts = [("", [*ours, "--subjects", *SUBJECTS]), ("", [*ours, "--subjects", *OBSERVERS])]
    turns = 1
    if run.options.before is not None:
        turns = BEFORE_TURNS
        build = f"{run.options.before}/.build"
        before = command_of(
            f"{run.options.before}/tools/benchmarks",
            workload,
            f"{build}/runtime/{os.path.basename(run.options.runtime)}",
            f"{build}/bench/torchtrace_bench.so",
        )
        parts.append(("before: ", [*before, "--subjects", "torchtrace,"]))
    rounds = ["--rounds", str(-(-run.options.rounds // turns))]
    results = [(prefix, {"rounds": [], "untraced": []}) for prefix, _ in parts]
    for _ in range(turns):
        for (_, kept), (_, command) in zip(results, parts, strict=True):
            result = overhead([*command, *rounds], run.options.native_threads)
            for key, values in kept.items():
                values.extend(result[key])
    return results


def command_of(folder, workload, runtime, bench_module):
    """overhead.py of a checkout."""
    command = [f"{folder}/overhead.py", workload, "--runtime", runtime]
    return [*command, "--bench-module", bench_module]


def overhead(args, native_threads):
    """What overhead.py prints, with the executable's own pthread_create."""
    done = subprocess.run(
        [sys.executable, *args],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"LD_PRELOAD": native_threads},
    )
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(args)} failed ({done.returncode}):\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def step_tables(run, untraced, ratios):
    """The ratios, and what is added to a step by what."""
    table = run.table(
        "steps",
        "A step, as a multiple of the untraced one",
        ["", "torch.add on 4x4", "MLP train step", "transformer train step"],
    )
    table.add(
        "untraced",
        microseconds(untraced["add"] / 1000),  # a step is 1,000 calls
        f"{1e3 * untraced['mlp']:.3f} ms",
        f"{1e3 * untraced['transformer']:.1f} ms",
    )
    for name in ratios["add"]:
        table.add(name, *(ratio(ratios[workload][name]) for workload in WORKLOADS))

    added = run.table(
        "recording",
        "What recording adds, as a multiple of what empty hooks add, levels 1,2",
        ["", "torch.add on 4x4", "MLP train step", "transformer train step"],
    )

    def of(workload, name):
        return ratios[workload][name + ", 1,2"] - 1

    def row(title, function):
        added.add(title, *(f"{function(workload):.2f}" for workload in WORKLOADS))

    def beyond_modes(workload):
        empty = of(workload, "empty modes")
        return (of(workload, "torchtrace") - empty) / empty

    def beyond_hooks(workload):
        empty = of(workload, "hooks, recording off")
        return (of(workload, "torchtrace") - empty) / empty

    def recording_per_modes(workload):
        recording = of(workload, "torchtrace") - of(workload, "hooks, recording off")
        return recording / of(workload, "empty modes")

    def python_tracer(workload):
        return of(workload, "Python tracer") / of(workload, "torchtrace")

    row("torchtrace beyond the empty modes / empty modes", beyond_modes)
    row("torchtrace beyond its own hooks / its own hooks", beyond_hooks)
    row("torchtrace beyond its own hooks / empty modes", recording_per_modes)
    row("Python tracer / torchtrace", python_tracer)

    verdict = run.budgets
    verdict.at_most(
        "transformer step, levels 1,2",
        budgets_module.STEP_RATIO,
        ratios["transformer"]["torchtrace, 1,2"],
        ratio,
    )
    share = budgets_module.RECORDING_SHARE
    times = "{:.2f} of it".format
    verdict.at_most(
        "added beyond PyTorch's own empty modes, transformer",
        share,
        beyond_modes("transformer"),
        times,
    )
    verdict.at_most(
        "added beyond torchtrace's own hooks, transformer",
        share,
        beyond_hooks("transformer"),
        times,
    )
    verdict.at_most(
        "level 0, added to a call of torch.add",
        budgets_module.LEVEL_0_CALL_SECONDS,
        (ratios["add"]["torchtrace, 0"] - 1) * untraced["add"] / 1000,
        microseconds,
    )
    verdict.at_least(
        "Python tracer's added time, transformer",
        budgets_module.PYTHON_TRACER_TIMES,
        python_tracer("transformer"),
        "{:.0f} times ours".format,
    )


def section_training(run):
    """A whole training program: its own step times, memory, and what follows its last line."""
    steps = 20 if run.options.quick else 100
    progress("training: whole processes")
    result = run.results["training"] = processes.training(run.bench, steps)
    rounds = result["rounds"]
    step = f"step_{run.options.clock}"
    table = run.table(
        "training",
        f"A program of {steps} transformer steps, as whole processes",
        ["", "step", "after the last line", "peak memory"],
    )
    for name in rounds[0]:
        if name == "python":
            shown = milliseconds(processes.median(rounds, name, step))
        else:
            shown = ratio(
                statistics.median(values[name][step] / values["python"][step] for values in rounds)
            )
        table.add(
            "python" if name == "python" else "torchtrace run -l " + name,
            shown,
            milliseconds(processes.median(rounds, name, "exit")),
            megabytes(processes.median(rounds, name, "hwm_kb")),
        )
    log_rows(run, "transformer training, levels 1,2", result["trace"])


def log_rows(run, title, trace):
    """A line of the table of logs."""
    table = next((table for table in run.tables if table.key == "log"), None)
    table = table or run.table(
        "log",
        "Logs",
        ["", "calls", "configs", "bytes per event", "with definitions", "file"],
    )
    events = 2 * trace["calls"]
    with_definitions = (trace["event_bytes"] + trace["definition_bytes"]) / events
    table.add(
        title,
        count(trace["calls"]),
        count(trace["configs"]),
        f"{trace['event_bytes'] / events:.2f}",
        f"{with_definitions:.2f}",
        f"{trace['file_bytes'] / 1e6:.1f} MB",
    )
    run.budgets.at_most(
        f"log, {title}",
        budgets_module.BYTES_PER_EVENT,
        with_definitions,
        "{:.1f} bytes per event".format,
    )


def section_loop(run):
    """Ten million calls: flat memory, the cost of a call, reading the log."""
    calls = 400_000 if run.options.quick else 10_000_000
    progress(f"loop: {calls:,} calls")
    result = run.results["loop"] = processes.long_loop(run.bench, calls)
    table = run.table(
        "loop",
        f"A loop of {calls:,} small calls, level 1",
        ["", "CPU per call", "RSS after a tenth", "after half", "after all"],
    )
    for title, key in (("python", "plain"), ("torchtrace run -l 1", "traced")):
        own = result[key]
        table.add(title, microseconds(own["cpu"]), *map(megabytes, own["rss_kb"].values()))
    first, *_, last = result["traced"]["rss_kb"].values()
    run.budgets.at_most(
        "memory, from a tenth of the loop to its end",
        1 + budgets_module.MEMORY_GROWTH,
        last / first,
        "x{:.3f}".format,
    )
    log_rows(run, "loop of small calls, level 1", result["trace"])
    seconds = statistics.median(times[run.clock] for times in result["stats"])
    events = 2 * result["trace"]["calls"]
    reading = run.table("reading", "Reading a log", ["", "events", "time", "events per second"])
    reading.add(
        "torchtrace stats", count(events), milliseconds(seconds), f"{events / seconds / 1e6:.1f} M"
    )
    run.budgets.at_least(
        "torchtrace stats, events per second",
        budgets_module.EVENTS_READ_PER_SECOND,
        events / seconds,
        lambda value: f"{value / 1e6:.1f} M",
    )


def section_render(run):
    """Calls rendered per second."""
    progress("render")
    result = run.results["render"] = processes.rendering(
        run.bench, 500 if run.options.quick else 10_000
    )
    calls = result["trace"]["calls"]
    table = run.table(
        "render",
        f"Rendering {calls:,} calls of an MLP's training",
        ["", "time", "calls per second"],
    )
    for name in result["rounds"][0]:
        seconds = statistics.median(values[name][run.clock] for values in result["rounds"])
        table.add(f"--formats {name}", milliseconds(seconds), f"{calls / seconds / 1e6:.2f} M")
        run.budgets.at_least(
            f"rendering {name}, calls per second",
            budgets_module.RENDERED_PER_SECOND,
            calls / seconds,
            lambda value: f"{value / 1e6:.2f} M",
        )
    log_rows(run, "MLP training, levels 1,2", result["trace"])


def section_start(run):
    """Process start: programs that do nothing, and verbs on a small trace."""
    progress("start-up")
    result = run.results["start"] = processes.start_up(run.bench)
    table = run.table(
        "start",
        "Start-up",
        ["program", "levels", "python", "torchtrace run", "difference"],
    )
    for name, levels in processes.STARTS:
        traced_name = f"{name}, {levels}"
        plain = statistics.median(values[name][run.clock] for values in result)
        traced = statistics.median(values[traced_name][run.clock] for values in result)
        difference = statistics.median(
            values[traced_name][run.clock] - values[name][run.clock] for values in result
        )
        row = (milliseconds(plain), milliseconds(traced), milliseconds(difference))
        table.add(name, levels, *row)
        if levels == "0":
            run.budgets.at_most(
                "start-up at level 0, beside import torch",
                budgets_module.LEVEL_0_START_SECONDS,
                difference,
                milliseconds,
            )

    small = run.results["small"] = processes.small_trace(run.bench)
    calls = small["trace"]["calls"]
    table = run.table("small", f"Verbs on a trace of {calls:,} calls", ["", "wall", "CPU"])
    for verb in small["rounds"][0]:
        table.add(
            f"torchtrace {verb}",
            *(
                milliseconds(statistics.median(values[verb][clock] for values in small["rounds"]))
                for clock in (0, 1)
            ),
        )
    run.budgets.at_most(
        "torchtrace stats on a small trace",
        budgets_module.SMALL_STATS_SECONDS,
        statistics.median(values["stats"][0] for values in small["rounds"]),
        milliseconds,
    )


def section_known(run):
    """Calls counted against calls made."""
    made_of_each = 1000
    progress("known calls")
    result = run.results["known"] = processes.known_calls(run.bench, made_of_each)
    table = run.table("known", "Calls made and calls recorded", ["API", "made", "recorded"])
    for api, (made, counted) in result.items():
        table.add(api, count(made), count(counted))
    lost = sum(abs(made - counted) for made, counted in result.values())
    run.budgets.table.add(
        "calls lost, levels 1,2", "0", count(lost), "met" if lost == 0 else "missed"
    )


SECTIONS = {
    "steps": section_steps,
    "training": section_training,
    "loop": section_loop,
    "render": section_render,
    "start": section_start,
    "known": section_known,
    "scale": scale.section,
}


# ---- The machine ----


def pin():
    """Runs this process and its children on the last processor that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def machine(options):
    """What the figures depend on."""
    model = platform.processor()
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    version = subprocess.run(
        [options.exe, "version"], check=True, capture_output=True, text=True
    ).stdout.split("\n")[0]
    return {
        "processor": f"{model}, {os.cpu_count()} cores, pinned to one",
        "system": f"{platform.system()} {platform.release()}",
        "versions": f"{version}, Python {platform.python_version()}, "
        f"torch {importlib.metadata.version('torch')}",
        "rounds": f"{options.rounds}, {options.clock} time",
        "load at the start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def parse(args):
    """The command line; the first options come from tools/bench."""
    parser = argparse.ArgumentParser(
        prog="tools/bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    for name in ("--exe", "--runtime", "--bench-module", "--native-threads", "--make-trace"):
        parser.add_argument(name, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, help="rounds (default: 12; 3 with --quick)")
    parser.add_argument(
        "--only",
        action="append",
        choices=SECTIONS,
        help="measure this alone; may be repeated:\n"
        + "\n".join(f"{name}: {function.__doc__}" for name, function in SECTIONS.items()),
    )
    parser.add_argument("--quick", action="store_true", help="less work: a trial")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="what the tables show: wall time, or CPU time, which other work on the machine\n"
        "disturbs less (default: wall)",
    )
    parser.add_argument(
        "--before",
        metavar="CHECKOUT",
        help="measure steps in an earlier state as well: a checkout where tools/bench is built\n"
        "(`tools/bench --help` there builds it)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all measurements to FILE")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument(
        "--update", metavar="FILE", help="put the tables into a Markdown file, at its marks"
    )
    options = parser.parse_args(args)
    if options.rounds is None:
        options.rounds = 3 if options.quick else 12
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    return options


def main():
    """Entry point."""
    options = parse(sys.argv[1:])
    pin()
    facts = machine(options)
    folder = tempfile.mkdtemp(prefix="torchtrace-bench-")
    try:
        bench = processes.Bench(options.exe, sys.executable, folder, options.rounds, options.quick)
        run = Run(options, bench)
        for name, section in SECTIONS.items():
            if not options.only or name in options.only:
                section(run)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts["load at the end"] = " ".join(f"{load:.2f}" for load in os.getloadavg())

    about = Table("machine", "Machine", ["", ""])
    for name, value in facts.items():
        about.add(name, value)
    tables = [about, run.budgets.table, *run.tables]
    if not run.budgets.table.rows:  # of sections that have none, or tables of their own
        tables.remove(run.budgets.table)
    for table in tables:
        if options.markdown:
            print(f"### {table.title}\n\n{table.markdown()}\n")
        else:
            print(table.text() + "\n")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": facts, "results": run.results}, file, indent=1)
    if options.update:
        # Of some sections' run, the page's own account of machine and budgets stays. That of
        # large traces has one of its own.
        whole = not options.only or set(SECTIONS) - {"scale"} <= set(options.only)
        for key in replace_in(options.update, tables if whole else run.tables):
            progress(f"{options.update} has no mark for the table {key}")


if __name__ == "__main__":
    main()
