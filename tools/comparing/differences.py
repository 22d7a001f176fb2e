"""What differs between a traced run and plain ones. What differs among the plain ones is not
compared, but counted."""

import collections
import dataclasses
import difflib
import os

# The largest resident memory of a process may be larger by a part and by a fixed amount: the
# runtime, the mapped frames of the log and tables of known calls.
MEMORY_PART = 0.1
MEMORY_KB = 32 * 1024
MOST_SHOWN = 12
LONG = 400


@dataclasses.dataclass
class Comparison:
    """Counts, and the differences found, as texts."""

    compared: int = 0
    calls: int = 0
    not_compared: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    found: list = dataclasses.field(default_factory=list)

    def add(self, other):
        self.compared += other.compared
        self.calls += other.calls
        self.not_compared += other.not_compared
        self.found += other.found


def compare(plain, traced):
    """Of runs by `python`, at least two, and one by torchtrace."""
    comparison = Comparison()
    _values(comparison, "exit code", [{"": each.status} for each in plain], {"": traced.status})
    for name in ("out", "err"):
        title = f"standard {'output' if name == 'out' else 'error'}"
        _texts(comparison, title, [getattr(each, name) for each in plain], getattr(traced, name))
    for name, title in (("results", "result"), ("ends", "at the end"), ("files", "file")):
        _values(comparison, title, [getattr(each, name) for each in plain], getattr(traced, name))
    for process, used in traced.memory_kb.items():
        before = max((each.memory_kb.get(process, 0) for each in plain), default=0)
        comparison.compared += 1
        if before and used > before * (1 + MEMORY_PART) + MEMORY_KB:
            comparison.found.append(f"memory of {process}: {before} kB plain, {used} kB traced")
    return comparison


def apart(mine, theirs):
    """Both texts, of long ones the part around the first difference."""
    same = len(os.path.commonprefix([mine, theirs]))
    start = max(0, same - 100) if same > LONG else 0
    return ["..." * bool(start) + text[start : start + LONG] for text in (mine, theirs)]


def _values(comparison, title, plain, traced):
    """{name: value} of each run."""
    first, *others = plain
    names = dict.fromkeys(name for each in plain for name in each)
    steady = [n for n in names if all(n in each and each[n] == first[n] for each in plain)]
    unsteady = len(names) - len(steady)
    comparison.compared += len(steady)
    comparison.not_compared["differs between plain runs"] += unsteady
    for name in steady:
        if name not in traced:
            comparison.found.append(f"{title} {name}: {first[name]} plain, missing traced")
        elif traced[name] != first[name]:
            mine, theirs = apart(str(first[name]), str(traced[name]))
            comparison.found.append(f"{title} {name}:\n    plain:  {mine}\n    traced: {theirs}")
    more = [name for name in traced if name not in names]
    if len(more) > unsteady:
        comparison.found += [f"{title} {name}: only traced: {traced[name]}" for name in more]


def _texts(comparison, title, plain, traced):
    """Lines of each run, in order if the plain runs have the same order."""
    first, *others = plain
    if all(each == first for each in others):
        comparison.compared += len(first)
        if traced != first:
            lines = difflib.unified_diff(first, traced, "plain", "traced", n=1, lineterm="")
            text = "\n    ".join([*lines][: MOST_SHOWN * 2])
            comparison.found.append(f"{title}:\n    {text}")
        return
    counts = [collections.Counter(each) for each in plain]
    least, most = counts[0], counts[0]
    for each in counts[1:]:
        least, most = least & each, most | each
    comparison.compared += least.total()
    comparison.not_compared["differs between plain runs"] += (most - least).total()
    if missing := least - collections.Counter(traced):
        comparison.found.append(f"{title}: missing lines: {[*missing][:MOST_SHOWN]}")
