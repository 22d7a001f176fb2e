"""The sections that measure whole processes: each runs a measurement of processes.py, stores the
results and makes its tables.
"""

import statistics

import budgets as budgets_module
import processes
from tables import count, megabytes, microseconds, milliseconds, progress, ratio


def training(run):
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


def together(run):
    """Two threads, two spawned workers, two ranks of DDP: traced against untraced."""
    progress("two at once")
    result = run.results["together"] = processes.together(
        run.bench, 10 if run.options.quick else 60
    )
    table = run.table(
        "together", "Two at once, levels 1,2, wall time", ["", "python", "torchtrace run"]
    )
    for name, title in zip(
        ("transformer", *processes.TOGETHER),
        (
            "one alone: a step",
            "two threads: a step of each",
            "two spawned workers",
            "two DDP ranks",
        ),
        strict=True,
    ):
        cost = statistics.median(values[f"{name}, traced"] / values[name] for values in result)
        seconds = statistics.median(values[name] for values in result)
        table.add(title, milliseconds(seconds), ratio(cost))
        if name != "transformer":
            run.budgets.at_most(
                f"{title}, against untraced", budgets_module.TOGETHER_RATIO, cost, ratio
            )


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


def loop(run):
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


def render(run):
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


def start(run):
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


def known(run):
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
