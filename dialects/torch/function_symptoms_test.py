"""Nothing that a program can see tells whether level 1 is on: each way that a function mode on the
program's stack would show."""

import difflib
import functools

import pytest

from dialects.torch.trace_testing import trace, untraced

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LEVELS = ["1", "0", "1,2"]
SECTION = "---- "


@functools.cache
def plain(script, *arguments):
    return untraced(script, *arguments)


@functools.cache
def traced(script, levels, *arguments):
    return trace(script, *arguments, levels=levels, options=["--formats", "none"])


def by_section(text):
    parts = ("\n" + text).split("\n" + SECTION)
    return dict(part.partition("\n")[::2] for part in parts[1:])


def difference(ours, theirs):
    lines = difflib.unified_diff(theirs.splitlines(), ours.splitlines(), "plain", "traced", n=2)
    return "\n".join(list(lines)[:80])


SAME = [
    "with, finally, except",
    "what the stack says",
    "a callback that changes the stack",
    "frames",
    "tracing functions",
    "recursion",
    "functions are the same objects",
    "fast paths",
    "profiler's stacks",
    "end",
]


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("section", SAME)
def test_the_same(section, levels):
    theirs = by_section(plain("same_level_1.py").check().stdout)
    ours = by_section(traced("same_level_1.py", levels).check().stdout)
    assert section in theirs
    assert ours.get(section) == theirs[section], difference(ours.get(section, ""), theirs[section])
