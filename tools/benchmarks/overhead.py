"""One workload, all subjects, in one process: prints their times as JSON.

A round times every subject once, in an order that moves on by one each round, and the untraced
program several times in between. A time is the median of a measurement's steps, by two clocks:
[wall, CPU] seconds.
"""

import argparse
import gc
import json
import statistics
import tempfile
import time

import subjects as subjects_module
import workloads

UNTRACED_EVERY = 4


def measure(step, steps):
    """Medians of a step's wall and CPU seconds, after one that is not timed."""
    step()
    wall, cpu = [], []
    for _ in range(steps):
        wall_start, cpu_start = time.perf_counter(), time.thread_time()
        step()
        cpu.append(time.thread_time() - cpu_start)
        wall.append(time.perf_counter() - wall_start)
    return statistics.median(wall), statistics.median(cpu)


def run(args):
    """{"rounds": [{subject: times}], "untraced": [[times of one], ...], "ends": ...}"""
    workload = workloads.WORKLOADS[args.workload]
    step = workloads.make(args.workload)
    untraced = subjects_module.Untraced()
    rounds, untraced_rounds, ends = [], [], []
    with tempfile.TemporaryDirectory(prefix="torchtrace-bench-") as folder:
        bench = subjects_module.load_bench_module(args.runtime, args.bench_module)
        bench.start(folder, args.recording)
        subjects = subjects_module.make_subjects(bench, folder)
        del subjects["untraced"]
        if args.subjects:
            subjects = {n: s for n, s in subjects.items() if any(w in n for w in args.subjects)}
        for _ in range(3):
            measure(step, workload.steps)
        names = list(subjects)
        for number in range(-1, args.rounds):  # the first one only warms up
            first = number % len(names) if names else 0
            times, bases, end_times = {}, [], {}
            for place, name in enumerate(names[first:] + names[:first]):
                if place % UNTRACED_EVERY == 0:
                    bases.append(timed(untraced, step, workload.steps)[0])
                subject = subjects[name]
                steps = workload.slow_steps if subject.slow or number < 0 else workload.steps
                times[name], end_times[name] = timed(subject, step, steps)
            bases.append(timed(untraced, step, workload.steps)[0])
            if number >= 0:
                rounds.append(times)
                untraced_rounds.append(bases)
                ends.append(end_times)
        bench.finish()
    return {"rounds": rounds, "untraced": untraced_rounds, "ends": ends}


def timed(subject, step, steps):
    """The times of a step with the subject on, and the seconds of turning it off."""
    gc.collect()
    gc.disable()
    with subject.on():
        times = measure(step, steps)
        end = time.perf_counter()
    end = time.perf_counter() - end
    gc.enable()
    return times, end


def main():
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=workloads.WORKLOADS)
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--bench-module", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--subjects", nargs="*", default=[])
    parser.add_argument("--recording", default="{}", help="members of RecordingOptions, as JSON")
    subjects_module.check_empty()
    print(json.dumps(run(parser.parse_args())))


if __name__ == "__main__":
    main()
