"""A traced program prints the same as an untraced one, and ends in the same way."""

import difflib
import functools
import re

import pytest

from dialects.torch.testing.trace_testing import trace, untraced

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SCRIPTS = ["same_modules.py", "same_graphs.py", "same_errors.py", "same_python.py"]
RUNS = [(script, levels) for script in SCRIPTS for levels in ("1,2", "0,1,2", "3,4")]
RUNS += [("same_errors.py", "1"), ("same_errors.py", "2")]


@functools.cache
def traced(script, levels):
    return trace(script, levels=levels)


def assert_same(ours, theirs):
    # torch.profiler says when it starts, with time and process.
    ours, theirs = (re.sub(r"(?m)^USDT:.*\] ", "", text) for text in (ours, theirs))
    difference = difflib.unified_diff(
        theirs.splitlines(), ours.splitlines(), "plain", "traced", n=2
    )
    text = "\n".join(difference)
    assert ours == theirs, text


@pytest.mark.parametrize(("script", "levels"), RUNS)
def test_same_output_and_exit_code(script, levels):
    ours, theirs = traced(script, levels), untraced(script)
    assert_same(ours.stdout, theirs.stdout)
    assert_same(ours.program_stderr, theirs.stderr)
    assert ours.exit_code == theirs.exit_code


def test_the_scripts_run_to_their_ends():
    assert untraced("same_modules.py").exit_code == 0, untraced("same_modules.py").stderr
    assert untraced("same_graphs.py").exit_code == 0, untraced("same_graphs.py").stderr
    assert untraced("same_errors.py").exit_code == 1
    assert "grad_output" in untraced("same_errors.py").stderr.splitlines()[-1]
    assert untraced("same_python.py").exit_code == 3, untraced("same_python.py").stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_something_was_recorded(script):
    for levels, seen in (("1,2", "12"), ("3,4", "4")):
        run = traced(script, levels).run
        for level in seen:
            assert run["counts"]["levels"][level]["calls"] > 50
        assert not run["damage"]["damaged"]
        assert run["stopped"] == []
