"""The verbs on traces of 1, 10 and 100 million calls, compared with DuckDB doing the same.

DuckDB reads Parquet files with a row per call, on one thread like torchtrace. Making and exporting
the traces is not part of a measurement; exporting is measured separately.
"""

import os
import shutil
import statistics
import sys

import budgets as budgets_module
from tables import count, megabytes, milliseconds, progress, ratio

HERE = os.path.dirname(os.path.abspath(__file__))
PARTS = 64  # logs to be merged
EDITS = 1000  # calls that are missing in one of two compared runs

# By verb; A and B are files of calls, PARTS is a pattern of such files.
QUERIES = {
    "reading": "SELECT level, api, count(*) FROM 'A' GROUP BY level, api",
    "stats": "SELECT level, api, count(*), count(DISTINCT config), sum(duration_ns)"
    " FROM 'A' GROUP BY level, api",
    "dedup": "SELECT level, config, count(*) FROM 'A' GROUP BY level, config ORDER BY config",
    "merge": "COPY (SELECT * FROM 'PARTS' ORDER BY start_ns) TO 'merged.parquet'"
    " (FORMAT parquet, COMPRESSION zstd)",
    "diff": "SELECT a.config, b.config, a.calls, b.calls FROM"
    " (SELECT level, config, count(*) AS calls FROM 'A' GROUP BY level, config) a FULL OUTER JOIN"
    " (SELECT level, config, count(*) AS calls FROM 'B' GROUP BY level, config) b"
    " ON a.level = b.level AND a.config = b.config WHERE a.calls IS DISTINCT FROM b.calls",
}

# The name of a verb in the tables, and how many traces of a size it reads.
TITLES = {
    "reading": ("stats --no-times", 1),
    "stats": ("stats", 1),
    "dedup": ("dedup --counts", 1),
    "merge": (f"merge of {PARTS} logs", 1),
    "diff": ("diff", 2),
    "sequence": ("diff --sequence", 2),
}


def make(run, name, *options):
    """A trace by tools/make_trace."""
    run.bench.run(run.options.make_trace, "-o", name, *options)


def export(run, trace, file):
    words = ("export", "parquet", "--calls", "--python", sys.executable, "-fq", trace, "-o", file)
    return run.bench.run(run.options.exe, *words, peak=True)


def commands(run):
    """{verb: command} on the traces `a`, `b` and those in `parts`."""
    exe = run.options.exe
    parts = [f"parts/{number}" for number in range(PARTS)]
    return {
        "reading": (exe, "stats", "a", "--no-times"),
        "stats": (exe, "stats", "a"),
        "dedup": (exe, "dedup", "a", "--counts", "-q", "-f", "-o", "configs.txt"),
        "merge": (exe, "merge", "-q", "-f", "--formats", "none", *parts, "-o", "merged"),
        "diff": (exe, "diff", "a", "b"),
        "sequence": (exe, "diff", "--sequence", "a", "b"),
    }


def measure(run, calls):
    """Medians {(tool, verb): (wall, cpu, peak kB)} on traces of `calls` calls, and the export."""
    make(run, "a", "--calls", calls)
    make(run, "b", "--calls", calls, "--leave-out", EDITS)
    for number in range(PARTS):
        make(run, f"parts/{number}", "--calls", calls // PARTS, "--seed", number)
        export(run, f"parts/{number}", f"parts/{number}.parquet")
    exported = export(run, "a", "a.parquet")
    export(run, "b", "b.parquet")

    def times(process):
        return process.wall, process.cpu, process.hwm_kb

    def verb(command):
        # diff exits with 1 if there are differences.
        return lambda: times(run.bench.run(*command, peak=True, codes=(0, 1)))

    def query(text):
        text = text.replace("'A'", "'a.parquet'").replace("'B'", "'b.parquet'")
        command = (
            sys.executable,
            f"{HERE}/duckdb_query.py",
            text.replace("PARTS", "parts/*.parquet"),
        )
        return lambda: times(run.bench.run(*command, peak=True))

    measurements = {("torchtrace", name): verb(words) for name, words in commands(run).items()}
    measurements |= {("duckdb", name): query(text) for name, text in QUERIES.items()}
    rounds = run.bench.interleaved(
        measurements, min(run.options.rounds, max(1, 30_000_000 // calls))
    )
    size = os.path.getsize(run.bench.path("a.parquet"))
    for name in ("a", "b", "parts", "merged", "a.parquet", "b.parquet", "merged.parquet"):
        path = run.bench.path(name)
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    medians = {
        name: [statistics.median(column) for column in zip(*(r[name] for r in rounds), strict=True)]
        for name in measurements
    }
    return {"rounds": len(rounds), "medians": medians, "export": (*times(exported), size)}


def section(run):
    """The verbs on traces of 1, 10 and 100 million calls, beside DuckDB."""
    sizes = [1_000_000] if run.options.quick else [1_000_000, 10_000_000, 100_000_000]
    results = {}
    for calls in sizes:
        progress(f"scale: {calls:,} calls")
        results[calls] = measure(run, calls)
    run.results["scale"] = {
        calls: {**result, "medians": {" ".join(k): v for k, v in result["medians"].items()}}
        for calls, result in results.items()
    }

    budgets = budgets_module.Budgets("scale-budgets", "Budgets of large traces")
    run.tables.append(budgets.table)
    table = run.table(
        "scale",
        "Verbs on large traces, and DuckDB on their calls as Parquet",
        ["", "calls", "time", "events per second", "peak memory", "DuckDB", "its memory"],
    )
    for name, (title, traces) in TITLES.items():
        for calls, result in results.items():
            taken = result["medians"]["torchtrace", name]
            events = 2 * traces * calls
            other = result["medians"].get(("duckdb", name))
            table.add(
                title,
                count(traces * calls),
                milliseconds(taken[run.clock]),
                f"{events / taken[run.clock] / 1e6:.1f} M",
                megabytes(taken[2]),
                ratio(other[run.clock] / taken[run.clock]) if other else "",
                megabytes(other[2]) if other else "",
            )
            if name in ("stats", "dedup", "merge"):
                budgets.at_least(
                    f"{title}, {calls // 1_000_000} M calls, events per second",
                    budgets_module.EVENTS_READ_PER_SECOND,
                    events / taken[run.clock],
                    lambda value: f"{value / 1e6:.1f} M",
                )
        if name in ("stats", "dedup", "merge") and len(sizes) > 1:
            peaks = [results[calls]["medians"]["torchtrace", name][2] for calls in sizes[-2:]]
            budgets.at_most(
                f"{title}, peak memory at {sizes[-1] // 1_000_000} M calls"
                f" beside {sizes[-2] // 1_000_000} M",
                1 + budgets_module.SAME_MEMORY,
                peaks[1] / peaks[0],
                "x{:.3f}".format,
            )

    exports = run.table(
        "export",
        "export parquet --calls",
        ["calls", "time", "calls per second", "peak memory", "file"],
    )
    for calls, result in results.items():
        *taken, peak, size = result["export"]
        seconds = taken[run.clock]
        exports.add(
            count(calls),
            milliseconds(seconds),
            f"{calls / seconds / 1e6:.2f} M",
            megabytes(peak),
            f"{size / 1e6:.0f} MB",
        )
