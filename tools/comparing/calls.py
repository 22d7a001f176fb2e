"""The recorded calls against those that an independent mode received, all and in order.

They are compared in sections, one for each `outcome.attempt`.
"""

import json

from dialects.torch.testing import trace_testing
from testdata.programs import comparison
from tools.comparing.differences import Comparison

# What describes results (inside/outcome.py) calls itself, with torch functions disabled.
OF_THE_INSTRUMENTS = {
    f"torch.Tensor.{name}"
    for name in (
        "element_size",
        "is_conj",
        "is_inference",
        "is_neg",
        "numel",
        "storage_offset",
        "stride",
        "untyped_storage",
    )
}
# What modules call in place of several functions, unless a mode of level 1 is on.
FAST_PATHS = {"torch._native_multi_head_attention", "torch._transformer_encoder_layer_fwd"}


def compare(plain, traced, witnessed, under_mode, left_out):
    """Runs of a program; `witnessed` has those under the modes, by level, and `under_mode` makes
    one that is traced under that of level 2. `left_out` returns why a section is not compared, or
    None."""
    found = Comparison()
    _sound(found, traced.trace)
    if not witnessed:
        return found
    try:
        calls = trace_testing.read_calls(traced.trace)
        if told := witnessed.get(1):
            _functions(found, plain, calls, told, left_out)
        if dispatched := witnessed.get(2):
            _operators(found, plain, calls, dispatched, under_mode, left_out)
    except AssertionError as error:
        found.found.append(f"calls: {error}")
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


def _functions(found, plain, calls, told, left_out):
    """Level 1. A section whose result the mode changes is left out."""
    theirs = comparison.sections(comparison.told_calls(told.folder))
    theirs, ours = (
        {
            label: [call for call in each if call.api not in OF_THE_INSTRUMENTS]
            for label, each in comparison.without_getters(sections).items()
        }
        for sections in (theirs, comparison.recorded_sections(calls))
    )

    def reason(label):
        if plain.results.get(label) != told.results.get(label):
            return "the mode changes the result"
        if any(call.api in FAST_PATHS for call in ours.get(label, [])):
            return "the mode keeps modules from their fast path"
        return left_out(1, label)

    chosen = _chosen(found, 1, ours, theirs, reason)
    _differences(found, 1, ours, chosen, comparison.same_section)


def _operators(found, plain, calls, dispatched, under_mode, left_out):
    """Level 2. A mode changes results and autograd's formulas: where it does, it is compared with
    what is recorded under it."""
    ours, theirs = _operator_sections(calls, dispatched)
    chosen = _chosen(found, 2, ours, theirs, lambda label: left_out(2, label))
    changed = {
        label
        for label, seen in chosen.items()
        if plain.results.get(label) != dispatched.results.get(label)
        or not comparison.same_but_for_the_mode(ours.get(label, []), seen)
    }
    if not changed:
        return
    found.not_compared["level 2: the mode changes operators; compared under it"] += len(changed)
    run = under_mode()
    ours, theirs = _operator_sections(trace_testing.read_calls(run.trace), run)
    seen = {label: theirs.get(label, []) for label in chosen if label in changed}
    _differences(found, 2, ours, seen, comparison.same_operators)


def _operator_sections(calls, witnessed):
    """What was recorded, and what the mode saw."""
    return [
        comparison.sections(threads, comparison.label_of_operator)
        for threads in (
            comparison.recorded_operators(calls),
            comparison.dispatched_calls(witnessed.folder),
        )
    ]


def _chosen(found, level, ours, theirs, reason):
    """The sections to be compared; what only the trace has is a difference."""
    chosen = {}
    for label, calls in theirs.items():
        if why := reason(label):
            found.not_compared[f"level {level}: {why}"] += 1
        else:
            chosen[label] = calls
            found.calls += len(calls)
    if not chosen:
        found.found.append(f"calls of level {level}: the mode saw no section")
    for label in ours.keys() - theirs.keys():
        if not reason(label):
            found.found.append(f"calls of level {level}: section {label} is only in the trace")
    return chosen


def _differences(found, level, ours, chosen, same):
    found.found += [
        f"calls of level {level} in {text}"
        for text in comparison.differences(ours, chosen, lambda label: False, same)
    ]
