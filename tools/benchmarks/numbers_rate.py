"""Seconds in which the numbers of contiguous tensors are computed: prints them as JSON.

{dtype: {bytes: [[wall, CPU] of a round, ...]}}
"""

import argparse
import functools
import json

import budgets
import overhead
import subjects
import torch

# Within a core's cache, and far beyond.
SIZES = (1 << 20, 64 << 20)
STEPS = 5


def main():
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", required=True)
    parser.add_argument("--bench-module", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    bench = subjects.load_bench_module(args.runtime, args.bench_module)
    torch.manual_seed(0)
    steps = {}
    for name in budgets.NUMBERS_BYTES_PER_SECOND:
        dtype = getattr(torch, name)
        for size in SIZES:
            tensor = torch.randn(size // dtype.itemsize).to(dtype)
            steps[name, size] = functools.partial(bench.read_numbers, tensor)
    found = {name: {size: [] for size in SIZES} for name, _ in steps}
    for _ in range(args.rounds):
        for (name, size), step in steps.items():
            found[name][size].append(overhead.measure(step, STEPS))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
