"""Checks one program: plain runs, a traced one, and those under the modes."""

from tools.comparing import calls, differences
from tools.comparing.programs import DISPATCHED, PLAIN, TOLD, TRACED


def check(place, program, with_calls=True, left_out=lambda level, label: None):
    """The Comparison of a program's runs."""
    plain = [place.run(program, PLAIN) for _ in range(2)]
    traced = place.run(program, TRACED)
    found = differences.compare(plain, traced)
    if found.found:
        # What plain runs differ in at times may be seen only now.
        plain += [place.run(program, PLAIN) for _ in range(2)]
        found = differences.compare(plain, traced)
    if with_calls:
        told, dispatched = place.run(program, TOLD), place.run(program, DISPATCHED)
        found.add(calls.compare(plain[0], traced, told, dispatched, left_out))
    return found
