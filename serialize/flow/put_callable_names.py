"""Writes the names that generated code may call: those in callable.yaml that torch has.

python serialize/flow/put_callable_names.py          writes callable_names.txt
python serialize/flow/put_callable_names.py --print  prints it

Traces are untrusted, and `torch.os` matches `torch.*`: code that is generated without torch
must use only names known to be a function, method or property that replay would call too.
"""

import contextlib
import pathlib
import sys

import torch
import yaml

HERE = pathlib.Path(__file__).parent
LIST = HERE / "callable_names.txt"

sys.path.insert(0, str(HERE.parents[1]))
from replay import names as replay_names  # noqa: E402

HEADER = "# Made by put_callable_names.py.\n"


def names_in(place):
    """The names of the members of a module or class of torch, by its dotted name."""
    if place == "torch._VF":
        # It forwards attributes, so dir() doesn't list them.
        place = "torch._C._VariableFunctions"
    owner = torch
    for part in place.split(".")[1:]:
        owner = getattr(owner, part)
    return dir(owner)


def callable_names(resolver, globs):
    for glob in globs:
        place, _, rest = glob.partition(".*")
        for member in names_in(place):
            name = f"{place}.{member}{rest}"
            with contextlib.suppress(replay_names.Skip):
                if callable(resolver.resolve(name).function):
                    yield name


def text():
    rules = yaml.safe_load((HERE.parents[1] / "replay" / "rules.yaml").read_text())
    lists = yaml.safe_load((HERE / "callable.yaml").read_text())
    # A program may call what replay leaves out, in its place.
    rules["callable"] = {**lists, "out of place": lists["not written"]}
    resolver = replay_names.Names(rules)
    names = {*callable_names(resolver, rules["callable"]["apis"])}
    return HEADER + "".join(f"{name}\n" for name in sorted(names))


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(text())
    else:
        LIST.write_text(text())
