"""Runs programs plain and traced, and tells every difference between the two.

Compared are standard output and error, exit codes, files, results to the last bit, random numbers,
compile counters, settings, memory; and the recorded calls with those that modes of PyTorch's own
receive. docs/FIDELITY.md says how.
"""

import argparse
import datetime
import importlib.metadata
import json
import platform
import re
import sys
import time

from tools.benchmarks.tables import Table, count, replace_in
from tools.comparing import differences, numbers, processes, random_programs, samples, suites
from tools.comparing.programs import ROOT

SECTIONS = {
    "opinfo": samples.opinfo,
    "moduleinfo": samples.moduleinfo,
    "optimizerinfo": samples.optimizerinfo,
    "suites": suites.section,
    "random": random_programs.section,
    "processes": processes.section,
    "numbers": numbers.section,
}
MOST_SHOWN = 20
RESULTS = ROOT / ".build/fidelity/results.json"


class Run:
    """A section under way: what it compared so far, and when its time is over."""

    def __init__(self, name, seed, seconds):
        self.name = name
        self.seed = seed
        self.began = time.monotonic()
        self.deadline = self.began + seconds
        self.shrinking_seconds = seconds
        self.cases = 0
        self.total = differences.Comparison()

    def is_over(self):
        return time.monotonic() > self.deadline

    def say(self, text):
        print(f"{self.name}: {text}", flush=True)

    def case(self, name, found):
        """A case was compared."""
        self.cases += 1
        self.total.add(found)
        left_out = sum(found.not_compared.values())
        self.say(
            f"{name}: {count(found.compared)} facts, {count(found.calls)} calls, "
            f"not compared: {left_out}; {len(found.found) or 'no'} "
            f"difference{'s' * (len(found.found) != 1)}"
        )
        for text in found.found[:MOST_SHOWN]:
            print("  " + text.replace("\n", "\n  "))
        if len(found.found) > MOST_SHOWN:
            print(f"  ... and {len(found.found) - MOST_SHOWN} more")

    def end(self):
        """Returns the row of the table."""
        for why, times in sorted(self.total.not_compared.items()):
            if times:
                self.say(f"not compared: {count(times)}: {why}")
        return [
            self.name,
            count(self.cases),
            count(self.total.compared),
            count(self.total.calls),
            count(self.total.not_compared.total()),
            count(len(self.total.found)),
            f"{(time.monotonic() - self.began) / 60:.1f}",
            str(datetime.date.today()),
        ]


def seconds(text):
    match = re.fullmatch(r"(\d+)([smh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is not a time such as 90s, 10m or 2h")
    return int(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="tools/fidelity", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "sections",
        metavar="SECTION",
        nargs="*",
        help="one of these (default: all):\n"
        + "\n".join(f"{name}: {function.__doc__}" for name, function in SECTIONS.items()),
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first random program")
    parser.add_argument(
        "--time",
        type=seconds,
        default=600,
        help="of each section, which begins no case after it (default: 10m)",
    )
    parser.add_argument(
        "--update", metavar="FILE", help="put the last result of every section into a Markdown file"
    )
    options = parser.parse_args(arguments)
    for name in options.sections:
        if name not in SECTIONS:
            parser.error(f"no section {name}; there are {', '.join(SECTIONS)}")
    return options


def table_of(rows):
    torch = importlib.metadata.version("torch")
    title = f"Python {platform.python_version()}, torch {torch}"
    columns = ["section", "cases", "facts", "calls", "not compared", "differences", "minutes"]
    table = Table("fidelity", title, [*columns, "date"])
    for row in rows:
        table.add(*row)
    return table


def main(arguments):
    options = parse(arguments)
    # The last result of each section, for --update.
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    rows = []
    found = 0
    for name, section in SECTIONS.items():
        if not options.sections or name in options.sections:
            run = Run(name, options.seed, options.time)
            section(run)
            rows.append(run.end())
            kept[name] = rows[-1]
            found += len(run.total.found)
            RESULTS.parent.mkdir(parents=True, exist_ok=True)
            RESULTS.write_text(json.dumps(kept))
    print(table_of(rows).text())
    if options.update:
        replace_in(options.update, [table_of(kept[name] for name in SECTIONS if name in kept)])
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
