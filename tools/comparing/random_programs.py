"""Random programs, and the smallest part of one that still differs."""

import copy
import re
import time

from tools.comparing import generator
from tools.comparing.checking import check
from tools.comparing.programs import ROOT, Place, Program

# What docs/internals/DESIGN.md says that the levels do not see, or see otherwise than a mode:
# (level, texts of the blocks around a statement, outermost first, and its own; why its calls are
# not compared).
RULES = (
    (
        1,
        re.compile(r"hooked\(.*^blocks\.(killed_)?fork", re.MULTILINE | re.DOTALL),
        "a process forked in a backward pass: its log doesn't say what its calls are inside of",
    ),
    (2, re.compile(r"print\(|repr\("), "printing a tensor turns modes off"),
)
FOUND = ROOT / ".build/fidelity/found"


def program_of(tree):
    files = {"program.py": tree.source()}
    return Program(f"seed {tree.seed}", ["program.py"], files, {}, tree.levels, tree.options)


def left_out_of(tree):
    """Tells by a section's name why the calls of a level in it are not compared."""
    texts = {}

    def visit(nodes, around):
        for node in nodes:
            texts[node.name] = [*around, node.text]
            visit(node.body or (), texts[node.name])

    visit(tree.body, [])

    def left_out(level, label):
        names = re.findall(r"\bn\d+", label)
        around = "\n".join(texts[names[-1]]) if names else ""
        for of, pattern, why in RULES:
            if of == level and pattern.search(around):
                return why
        return None

    return left_out


def compare(tree, place, levels=(1, 2)):
    """With the calls of these levels, unless something is compiled, which modes prevent."""
    levels = () if tree.compiles() else levels
    return check(place, program_of(tree), levels, left_out_of(tree))


# ---- Shrinking ----


def kind(text):
    """What differs, without where."""
    return re.match(r"calls of level \d|[a-z ]*[a-z]", text)[0]


def smaller(tree):
    """Trees that lack a part of this one, large parts first."""
    lists = [tree.body, *(node.body for node in tree.nodes() if node.body)]
    length = max(map(len, lists), default=0)
    while length:
        for index, nodes in enumerate(lists):
            for start in range(0, len(nodes), length):
                if length <= len(nodes):
                    yield changed(tree, index, start, length, [])
        length //= 2
    for index, nodes in enumerate(lists):
        for start, node in enumerate(nodes):
            if node.body is not None:
                yield changed(tree, index, start, 1, node.body)
    if tree.levels != "1,2" or tree.options:
        simple = copy.deepcopy(tree)
        simple.levels, simple.options = "1,2", []
        yield simple
    for index, node in enumerate(tree.nodes()):
        if node.raises:
            calm = copy.deepcopy(tree)
            [*calm.nodes()][index].raises = False
            yield calm


def changed(tree, index, start, length, others):
    """With others in place of some nodes of one of its lists."""
    new = copy.deepcopy(tree)
    lists = [new.body, *(node.body for node in new.nodes() if node.body)]
    lists[index][start : start + length] = copy.deepcopy(others)
    return new


def shrink(tree, differs, deadline):
    """The smallest part of the tree that was found until the deadline and of which `differs` is
    true."""
    while True:
        for candidate in smaller(tree):
            if time.monotonic() > deadline:
                return tree
            if differs(candidate):
                tree = candidate
                break
        else:
            return tree


# ---- The section ----


def section(run):
    """random programs, from --seed on, for as long as --time says"""
    seed = run.seed
    while True:
        tree = generator.grow(seed)
        place = Place()
        found = compare(tree, place)
        run.case(f"seed {seed}", found)
        if found.found:
            report(run, tree, found, place)
        seed += 1
        if run.is_over():
            return


def report(run, tree, found, place):
    wanted = {kind(text) for text in found.found}

    levels = [level for level in (1, 2) if f"calls of level {level}" in wanted]

    def differs(candidate):
        return not wanted.isdisjoint(map(kind, compare(candidate, place, levels).found))

    small = shrink(tree, differs, time.monotonic() + run.shrinking_seconds)
    FOUND.mkdir(parents=True, exist_ok=True)
    path = FOUND / f"random-{tree.seed}.py"
    options = " ".join(["-l", small.levels, *small.options])
    about = f"# Differs: {'; '.join(sorted(wanted))}. Traced with {options}.\n"
    about += f"# tools/fidelity random --seed {tree.seed} --time 1s finds it in a larger program.\n"
    path.write_text(about + small.source())
    run.say(f"the smallest that still differs: {path}")
