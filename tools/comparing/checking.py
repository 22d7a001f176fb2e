"""Checks one program: plain runs, a traced one, and those under the modes."""

import collections
import functools

from tools.comparing import calls, differences
from tools.comparing.programs import DISPATCHED, PLAIN, TOLD, TRACED, TRACED_DISPATCHED

WAYS = {1: TOLD, 2: DISPATCHED}


def check(
    place,
    program,
    levels=(1, 2),
    left_out=lambda level, label: None,
    arranged=lambda left: left,
    plain_runs=2,
):
    """The Comparison of a program's runs, with the calls of these levels. `arranged` makes of what
    a run left what is compared."""

    def run(*how):
        return arranged(place.run(program, *how))

    plain = [run(PLAIN) for _ in range(plain_runs)]
    if any(each.status is None for each in plain):
        return differences.Comparison(not_compared=collections.Counter({"takes too long": 1}))
    traced = run(TRACED)
    found = differences.compare(plain, traced)
    if found.found:
        # What plain runs differ in at times may be seen only now, and what depends on memory that
        # nobody has written.
        plain += [run(PLAIN, fill) for fill in (0x00, 0x55)]
        found = differences.compare(plain, traced)
    witnessed = {level: run(WAYS[level]) for level in levels}
    under_mode = functools.partial(run, TRACED_DISPATCHED)
    found.add(calls.compare(plain[0], traced, witnessed, under_mode, left_out))
    return found
