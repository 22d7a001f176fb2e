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
import subprocess
import sys
import tempfile

import budgets as budgets_module
import process_sections
import processes
import scale
import steps
from tables import Table, progress, replace_in

CLOCKS = ("wall", "cpu")


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


# Each measures, stores its results and makes its tables.
SECTIONS = {
    "steps": steps.section,
    "numbers": steps.numbers_section,
    "functions": steps.functions_section,
    "python": steps.python_section,
    "training": process_sections.training,
    "together": process_sections.together,
    "loop": process_sections.loop,
    "render": process_sections.render,
    "start": process_sections.start,
    "known": process_sections.known,
    "scale": scale.section,
}


def pin():
    """Runs this process and its children on the last processor that it may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def machine(options):
    """The facts that the figures depend on."""
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
    if not run.budgets.table.rows:  # no section that ran adds to it
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
        # If only some sections ran, the page keeps its description of machine and budgets. That of
        # large traces has its own.
        whole = not options.only or set(SECTIONS) - {"scale"} <= set(options.only)
        for key in replace_in(options.update, tables if whole else run.tables):
            progress(f"{options.update} has no mark for the table {key}")


if __name__ == "__main__":
    main()
