"""Level 1 records exactly what a function mode at the bottom of every thread's stack receives: the
same programs run by plain python under such a mode (testdata/programs/witness.py told).

It also records three things that the mode doesn't receive: calls that fail before they reach it;
functions that make tensors without calling a mode; and what a backward pass calls back.
"""

import functools
import re
import subprocess
import sys
import tempfile

import pytest

from dialects.torch.testing.trace_testing import ROOT, SCRIPTS, environment, trace
from testdata.programs import comparison

pytestmark = [pytest.mark.torch, pytest.mark.slow]

WITNESS = ROOT / "testdata" / "programs" / "witness.py"
# The scripts of each run in one process: most of the time goes by until torch is there.
PROGRAMS = {
    # They pickle, which reads properties, and differs for tensors with own state.
    "pickling": ["told_threads.py", "told_operators.py"],
    "calling": [
        "told_overrides.py",
        "told_modes.py",
        "told_autograd.py",
        "told_opinfo.py",
        "told_repeated.py",
        "told_distributed.py",
    ],
}
MAX_SHOWN = 40
# Where the two are known to differ: docs/internals/DESIGN.md, "What levels 1 and 2 do not see".
KNOWN = re.compile(
    r"delete grad|save and load|(overload|packet) op|jit operation|einsum sublists.*"
    r"|in an own index|wrap_torch_function"
    r"|.*(generator|dict values).*"
    # What a mode receives of these depends on how long it keeps their arguments alive, or on a
    # list that the function makes of them.
    r"|a call with a thread|all_reduce_coalesced .*: tensors"
    # The mode receives these without `out`; without arguments, it receives what they call.
    r"|sym_sum .*|chain_matmul .*|meshgrid .*"
    # Inside functions that make tensors without calling a mode.
    r"|dlpack|Buffer|nested jagged"
)


def words(program):
    return ["one_by_one.py", *" , ".join(PROGRAMS[program]).split()]


def witness(program):
    """Runs the program under the mode. Returns its output and {label: calls}."""
    with tempfile.TemporaryDirectory(prefix="torchtrace-test-") as folder:
        script, *arguments = words(program)
        command = [sys.executable, str(WITNESS), "told", folder, str(SCRIPTS / script), *arguments]
        ended = subprocess.run(
            command, cwd=folder, env=environment(), capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout, comparison.sections(comparison.told_calls(folder))


@functools.cache
def told(program):
    return witness(program)


@functools.cache
def traced(program, getters=False):
    options = ["--formats", "none"] + ["--include-getters"] * getters
    return trace(*words(program), levels="1", options=options).check()


def recorded(run):
    return comparison.recorded_sections(run.calls)


def check(ours, theirs):
    found = comparison.differences(ours, theirs, KNOWN.fullmatch, comparison.same_section)
    count = f"{len(found)} of {len(theirs)} sections differ"
    assert not found, "\n".join([count, *found[:MAX_SHOWN]])
    assert ours.keys() == theirs.keys()


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_calls(program):
    _, theirs = told(program)
    check(recorded(traced(program)), comparison.without_getters(theirs))


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_calls_with_getters(program):
    _, theirs = told(program)
    check(recorded(traced(program, getters=True)), theirs)


def test_getters_are_counted():
    _, theirs = told("calling")
    getters = sum(call.api.endswith(".__get__") for calls in theirs.values() for call in calls)
    ours = traced("calling", getters=True)
    getters += sum(call.api.endswith(".__get__") for call in ours.level(1))
    getters -= sum(call.api.endswith(".__get__") for call in comparison.told_of(ours.calls))
    assert traced("calling").run["excluded_getters"] == getters > 0


@pytest.mark.parametrize("program", PROGRAMS)
def test_same_output(program):
    assert traced(program).stdout == told(program)[0]


@functools.cache
def strict():
    """{label: calls recorded} of what failed before it reached a mode in told_overrides.py."""
    _, theirs = told("calling")
    ours = recorded(traced("calling"))
    failed = (label for label, calls in theirs.items() if calls and comparison.label_of(calls[0]))
    return {label: ours[label] for label in failed}


def test_a_call_that_fails_before_it_is_told_is_recorded():
    """Functions with too many arguments: what Python itself refuses to call is not entered."""
    # meshgrid fails in a wrapper that calls no mode.
    too_much = [label for label in strict() if label.endswith(": too much")]
    wrong = [label for label in too_much if not label.startswith("meshgrid")]
    in_functions = [label for label in wrong if " None " not in label]
    assert len(in_functions) > 400
    missing = [label for label in in_functions if not strict()[label][0].raised]
    missing += [label for label in in_functions if comparison.label_of(strict()[label][0])]
    assert missing == []
