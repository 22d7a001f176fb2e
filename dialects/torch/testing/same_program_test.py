"""A traced program prints the same as an untraced one, and ends in the same way."""

import difflib
import functools
import re

import pytest

from dialects.torch.testing.trace_testing import trace, untraced

pytestmark = [pytest.mark.torch, pytest.mark.slow]

# The default levels, and all of them: what a single level changes shows in these too.
LEVELS = ["1,2", "0,1,2,3,4"]
# Each ends in its own way: the first with an exception, the second with an exit code.
PROGRAMS = [
    ("one_by_one.py", "same_modules.py", ",", "same_graphs.py", ",", "same_errors.py"),
    ("same_python.py",),
]


@functools.cache
def traced(levels, *program):
    return trace(*program, levels=levels)


def assert_same(ours, theirs):
    # torch.profiler says when it starts, with time and process.
    ours, theirs = (re.sub(r"(?m)^USDT:.*\] ", "", text) for text in (ours, theirs))
    difference = difflib.unified_diff(
        theirs.splitlines(), ours.splitlines(), "plain", "traced", n=2
    )
    text = "\n".join(difference)
    assert ours == theirs, text


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[-1])
def test_same_output_and_exit_code(program):
    for levels in LEVELS:
        ours, theirs = traced(levels, *program), untraced(*program)
        assert_same(ours.stdout, theirs.stdout)
        assert_same(ours.program_stderr, theirs.stderr)
        assert ours.exit_code == theirs.exit_code, levels


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[-1])
def test_something_was_recorded(program):
    for levels in LEVELS:
        run = traced(levels, *program).run
        for level in set(levels) - set(",3"):
            assert run["counts"]["levels"][level]["calls"] > 50, level
        assert not run["damage"]["damaged"]
        assert run["stopped"] == []


def test_the_scripts_run_to_their_ends():
    errors, python = (untraced(*program) for program in PROGRAMS)
    assert errors.exit_code == 1
    assert "grad_output" in errors.stderr.splitlines()[-1]
    assert python.exit_code == 3, python.stderr
