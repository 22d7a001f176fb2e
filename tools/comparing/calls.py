"""The recorded calls against those that an independent mode received, all and in order.

They are compared in sections, one for each `outcome.attempt`. A section is left out where the mode
changes what the program does, which its result shows, or where `left_out` says so.
"""

import json

from dialects.torch.testing import trace_testing
from testdata.programs import comparison
from tools.comparing.differences import Comparison


def compare(plain, traced, witnessed, left_out=lambda level, label: None):
    """Runs of a program; `witnessed` has those under the modes, by level. `left_out` returns why a
    section is not compared, or None."""
    found = Comparison()
    _sound(found, traced.trace)
    if not witnessed:
        return found
    try:
        calls = trace_testing.read_calls(traced.trace)
    except AssertionError as error:
        found.found.append(f"calls: one isn't within its parent: {error}")
        return found
    if told := witnessed.get(1):
        theirs = comparison.sections(comparison.told_calls(told.folder))
        theirs = comparison.without_getters(theirs)
        ours = comparison.recorded_sections(calls)
        same = comparison.same_section
        _level(found, 1, plain, told, ours, theirs, same, left_out)
    if dispatched := witnessed.get(2):
        label_of = comparison.label_of_operator
        theirs = comparison.sections(comparison.dispatched_calls(dispatched.folder), label_of)
        ours = comparison.sections(comparison.recorded_operators(calls), label_of)
        same = comparison.same_operators
        _level(found, 2, plain, dispatched, ours, theirs, same, left_out)
    return found


def _sound(found, trace):
    """The trace itself says that it is whole."""
    if not (trace / "run.json").exists():
        found.found.append("run.json: missing")
        return
    run = json.loads((trace / "run.json").read_text())
    for fact, wanted in (("stopped", []), ("dropped", {})):
        if run[fact] != wanted:
            found.found.append(f"run.json: {fact}: {run[fact]}")
    if run["damage"]["damaged"]:
        found.found.append(f"run.json: damage: {run['damage']}")


def _level(found, level, plain, witnessed, ours, theirs, same, left_out):
    def reason(label):
        if plain.results.get(label) != witnessed.results.get(label):
            return "the mode changes the result"
        return left_out(level, label)

    chosen = {}
    for label, calls in theirs.items():
        if why := reason(label):
            found.not_compared[f"level {level}: {why}"] += 1
        else:
            chosen[label] = calls
            found.calls += len(calls)
    found.found += [
        f"calls of level {level} in {text}"
        for text in comparison.differences(ours, chosen, lambda label: False, same)
    ]
    for label in ours.keys() - theirs.keys():
        if not reason(label):
            found.found.append(f"calls of level {level}: section {label} is only in the trace")
