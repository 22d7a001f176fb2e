"""Checks one program: plain runs, a traced one, and those under the modes."""

import dataclasses

from tools.comparing import calls, differences
from tools.comparing.programs import DISPATCHED, PLAIN, TOLD, TRACED

WAYS = {1: TOLD, 2: DISPATCHED}


def check(place, program, levels=(1, 2), left_out=lambda level, label: None, ordered=True):
    """The Comparison of a program's runs, with the calls of these levels. Not `ordered`: lines of
    several processes come in any order."""

    def run(*how):
        left = place.run(program, *how)
        return (
            left
            if ordered
            else dataclasses.replace(left, out=sorted(left.out), err=sorted(left.err))
        )

    plain = [run(PLAIN) for _ in range(2)]
    traced = run(TRACED)
    found = differences.compare(plain, traced)
    if found.found:
        # What plain runs differ in at times may be seen only now, and what depends on memory that
        # nobody has written.
        plain += [run(PLAIN, fill) for fill in (0x00, 0x55)]
        found = differences.compare(plain, traced)
    witnessed = {level: run(WAYS[level]) for level in levels}
    found.add(calls.compare(plain[0], traced, witnessed, left_out))
    return found
