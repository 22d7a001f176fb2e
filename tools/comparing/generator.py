"""Random programs: a tree of blocks and statements, and its text.

Every statement works on the same four tensors, so any part of a tree is a program too.
"""

import dataclasses
import random
import re
from pathlib import Path

VARIABLES = ("a", "b", "c", "d")


def read_grammar():
    """{heading: lines}"""
    found = {}
    for line in Path(__file__).with_name("grammar.txt").read_text().splitlines():
        if line.startswith("["):
            lines = found[line.strip("[]")] = []
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


GRAMMAR = read_grammar()


HEADER = """\
import outcome  # first

import contextlib, copy, functools, gc, inspect, io, os, pickle, random, sys, warnings

import numpy
import torch
import torch.autograd.forward_ad as fwAD
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

import blocks
from statements import *
"""


@dataclasses.dataclass
class Node:
    """A statement, or a block, which has a body."""

    number: int
    text: str
    body: list | None = None
    raises: bool = False  # the body raises at its end

    @property
    def name(self):
        return f"n{self.number}"

    def nodes(self):
        yield self
        for child in self.body or ():
            yield from child.nodes()

    def source(self):
        """Functions: of what is in it, of its body, and its own."""
        text = self.text
        made = ""
        if self.body is not None:
            made = "".join(child.source() for child in self.body)
            made += f"def {self.name}_body(t):\n" + calls(self.body)
            made += f"    raise blocks.Stop({self.name!r})\n\n\n" if self.raises else "\n\n"
            text = text.replace("BODY", f"{self.name}_body").replace("NAME", repr(self.name))
        return made + f"def {self.name}(t):\n" + function_body(text) + "\n\n"


def calls(nodes):
    return "".join(f"    run({each.name}, t)\n" for each in nodes) or "    pass\n"


def function_body(text):
    """The lines of a function that returns the value of the last expression."""
    *first, last = text.split("; ")
    if not first and text.startswith(("with ", "for ")):
        return f"    {text}\n"
    if text.startswith("with "):
        head, first[0] = first[0].split(": ", 1)
        made = [f"    {head}:\n", *(f"        {each}\n" for each in first)]
    else:
        made = [f"    {each}\n" for each in first]
    return "".join(made) + f"    return {last}\n"


@dataclasses.dataclass
class Tree:
    """A random program."""

    seed: int
    body: list
    levels: str
    options: list

    def nodes(self):
        for node in self.body:
            yield from node.nodes()

    def compiles(self):
        return any("torch.compile" in node.text or ".export" in node.text for node in self.nodes())

    def source(self):
        made = "".join(node.source() for node in self.body)
        main = f"def main():\n    t = blocks.tensors({self.seed})\n" + calls(self.body)
        ending = '\n\nif __name__ == "__main__":\n    blocks.main(main)\n'
        return HEADER + "\n\n" + made + main + ending


class Growing:
    """Grows a tree, the same for the same seed."""

    def __init__(self, seed, size):
        self.random = random.Random(seed)
        self.size = size
        self.count = 0
        self.compiling = self.random.random() < 0.4
        self.may_start = self.random.random() < 0.3

    def filled(self, text):
        """The text with its variables and numbers."""
        values = {letter: self.random.choice(VARIABLES) for letter in "XYZ"}
        values["N"] = str(self.random.randint(1, 3))
        return re.sub(r"\b[XYZN]\b", lambda match: values[match[0]], text)

    def node(self, text, body=None, raises=False):
        self.count += 1
        return Node(self.count, self.filled(text), body, raises)

    def choice(self, kinds):
        kind = self.random.choice(kinds)
        return kind, self.random.choice(GRAMMAR[kind])

    def statement(self, ordered):
        kinds = ["statements"] * 6 + ["ordered statements"] * 2 * ordered
        kinds += ["compiling statements"] * (ordered and self.compiling)
        return self.node(self.choice(kinds)[1])

    def block(self, depth, ordered):
        kinds = ["blocks"] * 6 + (["ordered blocks"] * 3 + ["parallel blocks"]) * ordered
        if ordered and self.may_start and self.random.random() < 0.3:
            kinds = ["starting blocks"]
            self.may_start = False
        kind, text = self.choice(kinds)
        ordered = ordered and kind != "parallel blocks"
        body = self.some(self.random.randint(1, 4), depth + 1, ordered)
        return self.node(text, body, raises=self.random.random() < 0.15)

    def some(self, count, depth=0, ordered=True):
        return [
            self.block(depth, ordered)
            if depth < 4 and self.random.random() < 0.35
            else self.statement(ordered)
            for _ in range(count)
        ]


OPTIONS = (
    ("1,2", []),
    ("1,2", ["--outputs", "--ids", "--values", "1KB"]),
    ("1,2", ["--stacks"]),
    ("0,1,2", []),
    ("0,1,2,3,4", []),
    ("1,2,3,4", ["--frames", "all", "--stacks"]),
)


def grow(seed, size=16):
    growing = Growing(seed, size)
    levels, options = growing.random.choice(OPTIONS)
    return Tree(seed, growing.some(size), levels, list(options))
