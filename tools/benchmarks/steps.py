"""The cost of a step under each subject, in one process per workload: overhead.py's figures."""

import glob
import json
import os
import platform
import statistics
import subprocess
import sys

import budgets as budgets_module
from tables import gigabytes, microseconds, progress, ratio

HERE = os.path.dirname(os.path.abspath(__file__))
WORKLOADS = ("add", "mlp", "transformer")
FUNCTION_WORKLOADS = ("fib", "transformer", "loader")
PYTHON_WORKLOADS = ("fib", "dataset", "tokenizer")
TITLES = {
    "add": "torch.add on 4x4",
    "mlp": "MLP train step",
    "transformer": "transformer train step",
    "fib": "fib(18)",
    "loader": "DataLoader epoch",
    "dataset": "DataLoader over Python",
    "tokenizer": "tokenizer",
}
PYTHON_SUBJECTS = ("torchtrace, 0", "torchtrace, 1", "torchtrace, 2")
PYTHON_ROWS = ("torchtrace, 0", "torchtrace, 0,1,2")
# How often another checkout's process and ours alternate.
BEFORE_TURNS = 4
# Subjects measured together in one process, by prefixes of their names.
SUBJECTS = ("empty modes,", "hooks,", "torchtrace,", "Python tracer,")
OBSERVERS = ("torch.profiler", "ExecutionTraceObserver", "DebugMode")
# Rows with more recorded: {options of run: (members of RecordingOptions, subjects)}.
MORE = {
    "--numbers": ({"numbers": "all"}, ("torchtrace, 2", "torchtrace, 1,2")),
    "--numbers=results": ({"numbers": "results"}, ("torchtrace, 2",)),
    "--memory": ({"memory": True}, ("torchtrace, 2", "torchtrace, 1,2")),
}


def section(run):
    """The cost of a step under each subject, in one process per workload."""
    ratios, untraced = {}, {}
    for workload in WORKLOADS:
        progress(f"steps: {workload}")
        results = steps_of(run, workload)
        run.results.setdefault("steps", {})[workload] = results
        ratios[workload] = {}
        for row, result in results:
            base, of_subjects = ratios_of(run, result)
            untraced.setdefault(workload, base)
            ratios[workload] |= {row.format(name): each for name, each in of_subjects.items()}
    step_tables(run, untraced, ratios)


def ratios_of(run, result):
    """Of overhead.py's result: the untraced seconds, and {subject: its multiple of them}."""
    bases = [
        statistics.median(times[run.clock] for times in times_of_round)
        for times_of_round in result["untraced"]
    ]
    return statistics.median(bases), {
        name: statistics.median(
            times[name][run.clock] / base
            for times, base in zip(result["rounds"], bases, strict=True)
        )
        for name in result["rounds"][0]
    }


def steps_of(run, workload):
    """[(format of the rows' names, overhead.py's result)]; with --before, of two that alternate."""
    ours = command_of(HERE, workload, run.options.runtime, run.options.bench_module)
    parts = [("{}", [*ours, "--subjects", *SUBJECTS])]
    for option, (recording, subjects) in MORE.items():
        more = ["--recording", json.dumps(recording), "--subjects", *subjects]
        parts.append((f"{{}} {option}", [*ours, *more]))
    # PyTorch's observers start threads, which torchtrace would watch from then on.
    parts.append(("{}", [*ours, "--subjects", *OBSERVERS]))
    turns = 1
    if run.options.before is not None:
        turns = BEFORE_TURNS
        build = f"{run.options.before}/.build"
        before = command_of(
            f"{run.options.before}/tools/benchmarks",
            workload,
            sorted(glob.glob(f"{build}/runtime/py*"))[0],
            f"{build}/bench/torchtrace_bench.so",
        )
        parts.append(("before: {}", [*before, "--subjects", "torchtrace,"]))
    rounds = ["--rounds", str(-(-run.options.rounds // turns))]
    results = [(row, {"rounds": [], "untraced": []}) for row, _ in parts]
    for _ in range(turns):
        for (_, kept), (_, command) in zip(results, parts, strict=True):
            result = overhead([*command, *rounds], run.options.native_threads)
            for key, values in kept.items():
                values.extend(result[key])
    return results


def numbers_section(run):
    """How fast the numbers of a tensor are computed, without a trace."""
    progress("numbers")
    command = [f"{HERE}/numbers_rate.py", "--rounds", str(run.options.rounds)]
    command += ["--runtime", run.options.runtime, "--bench-module", run.options.bench_module]
    results = run.results["numbers"] = overhead(command, run.options.native_threads)
    sizes = next(iter(results.values()))
    table = run.table(
        "numbers",
        "Numbers of a contiguous tensor: bytes read a second",
        ["", *(f"{int(size) >> 20} MiB" for size in sizes)],
    )
    for dtype, rounds_of in results.items():
        rates = [
            int(size) / statistics.median(times[run.clock] for times in rounds)
            for size, rounds in rounds_of.items()
        ]
        table.add(dtype, *map(gigabytes, rates))
        run.budgets.at_least(
            f"numbers of {dtype}, a second",
            budgets_module.NUMBERS_BYTES_PER_SECOND[dtype],
            min(rates),
            gigabytes,
        )


def functions_section(run):
    """What it costs to see the functions written in Python, beside viztracer."""
    ratios, bases = alone(run, "functions", FUNCTION_WORKLOADS, ("torchtrace, 3", "viztracer"))
    function_table(
        run, "functions", "Functions of Python, as a multiple of the untraced step", ratios, bases
    )
    for workload in FUNCTION_WORKLOADS:
        run.budgets.at_most(
            f"level 3, added to {TITLES[workload]}, of what viztracer adds",
            budgets_module.FUNCTIONS_SHARE,
            (ratios[workload]["torchtrace, 3"] - 1) / (ratios[workload]["viztracer"] - 1),
            "{:.2f} of it".format,
        )


def python_section(run):
    """What levels 0 to 2 add to Python code that calls little of torch."""
    version = ".".join(platform.python_version_tuple()[:2])
    ratios, bases = alone(run, "python", PYTHON_WORKLOADS, PYTHON_SUBJECTS)
    function_table(
        run,
        f"python-{version}",
        f"Python {version}'s own code, as a multiple of the untraced step",
        {
            workload: {name: of_subjects[name] for name in PYTHON_ROWS}
            for workload, of_subjects in ratios.items()
        },
        bases,
    )
    limit = budgets_module.PYTHON_RATIO_311 if version == "3.11" else budgets_module.PYTHON_RATIO
    run.budgets.at_most(
        f"fib(18), level 0 to 2, Python {version}", limit, max(ratios["fib"].values()), ratio
    )


def alone(run, section, workloads, subjects):
    """Ratios {workload: {subject: ratio}} and seconds {workload: untraced} of these subjects."""
    ratios, bases = {}, {}
    for workload in workloads:
        progress(f"{section}: {workload}")
        command = command_of(HERE, workload, run.options.runtime, run.options.bench_module)
        rounds = ["--rounds", str(run.options.rounds), "--subjects", *subjects]
        result = overhead([*command, *rounds], run.options.native_threads)
        run.results.setdefault(section, {})[workload] = result
        bases[workload], ratios[workload] = ratios_of(run, result)
    return ratios, bases


def function_table(run, key, title, ratios, bases):
    table = run.table(key, title, ["", *(TITLES[name] for name in ratios)])
    table.add("untraced", *(f"{1e3 * base:.2f} ms" for base in bases.values()))
    for name in next(iter(ratios.values())):
        table.add(name, *(ratio(each[name]) for each in ratios.values()))


def command_of(folder, workload, runtime, bench_module):
    """The command that runs a checkout's overhead.py."""
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
    """The ratios, and what each feature adds to a step."""
    table = run.table(
        "steps",
        "A step, as a multiple of the untraced one",
        ["", *(TITLES[name] for name in WORKLOADS)],
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
        ["", *(TITLES[name] for name in WORKLOADS)],
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
    for workload, limit in budgets_module.NUMBERS_STEP_RATIOS.items():
        verdict.at_most(
            f"{TITLES[workload]}, level 2 --numbers",
            limit,
            ratios[workload]["torchtrace, 2 --numbers"],
            ratio,
        )
    for levels in ("2", "1,2"):
        verdict.at_most(
            f"{TITLES['transformer']}, levels {levels} --memory, of the same without",
            budgets_module.MEMORY_RATIO,
            ratios["transformer"][f"torchtrace, {levels} --memory"]
            / ratios["transformer"][f"torchtrace, {levels}"],
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
