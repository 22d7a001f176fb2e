"""The committed table has what read_function_protocol.py finds in the local torch, and the default
list of APIs agrees with it."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from dialects.torch.api_list import put_api_list
from dialects.torch.versions.version_spans import expand, minor_text
from tools.testing import whole_tool as tool

HERE = Path(__file__).parent


def rows_of(version):
    known, *lines = (HERE / "function_protocol.tsv").read_text("utf-8").splitlines()
    known = known.split("\t")
    if version not in known:
        pytest.skip(f"the table has no torch {version}")
    cells = (line.split("\t", 1) for line in lines)
    return sorted(row for versions, row in cells if version in expand(versions, known))


@pytest.mark.torch
@pytest.mark.slow
def test_rows_of_the_local_torch():
    code = "import torch; print(torch.__version__)"
    version = subprocess.check_output([tool.PYTHON, "-c", code], text=True)
    rows = rows_of(minor_text(version))
    reader = [tool.PYTHON, HERE / "read_function_protocol.py"]
    found = subprocess.run(reader, capture_output=True, text=True, check=True, timeout=600)
    assert sorted(found.stdout.splitlines()) == rows


# Of the default list's functions in C those whose calls level 1 doesn't see: they take and make no
# tensor, or are operators' objects, whose type is in the table, or call the program's code.
OTHERS = {
    "torch.autograd.Function.apply",
    "torch.autograd.kineto_available",
    "torch.nn.attention.flex_attention.flex_attention_hop",
    "torch.quantized_gru",
    "torch.quantized_lstm",
    "torch.read_vitals",
    "torch.vitals_enabled",
}
KINDS = {"function", "builtin", "method", "classmethod", "staticmethod"}
FIND = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
import read_function_protocol as protocol
request = json.load(sys.stdin)
protocol.import_askers()

def found(path):
    try:
        member = protocol.find(path.removesuffix(".__get__").removesuffix(".__set__"))
    except (KeyError, AttributeError):
        return None
    member = getattr(member, "__func__", member) if not callable(member) else member
    if isinstance(member, (staticmethod, classmethod)):
        member = member.__func__
    return getattr(member, "__wrapped__", member)

known = [found(path) for path in request["functions"]]
known_ids = {id(member) for member in known}
for api in request["apis"]:
    member = found(api)
    seen = id(member) in known_ids or (
        isinstance(member, types.BuiltinFunctionType) and member in known
    )
    in_c = member is not None and not isinstance(member, (type, types.FunctionType))
    print(json.dumps([api, member is not None, seen, in_c]))
"""


@pytest.mark.torch
@pytest.mark.slow
def test_the_list_of_apis_says_what_level_1_sees():
    """And of functions in C, which hide what they call, it sees all but some without tensors."""
    code = "import torch; print(torch.__version__)"
    version = minor_text(subprocess.check_output([tool.PYTHON, "-c", code], text=True))
    rows = [row.split("\t") for row in rows_of(version)]
    told = {row[1] for row in rows}
    known, listed = put_api_list.read(put_api_list.LIST.read_text("utf-8"))
    facts = {name: rest for (name, rest), versions in listed.items() if version in versions}
    kinds = {name: re.search(r"kind: (\w+)", rest)[1] for name, rest in facts.items()}
    request = {"functions": [row[0] for row in rows], "apis": sorted(facts)}
    find = [tool.PYTHON, "-c", FIND, str(HERE)]
    answer = subprocess.run(
        find, input=json.dumps(request), capture_output=True, text=True, check=True, timeout=600
    )
    unseen, wrong = set(), []
    for api, there, seen, in_c in map(json.loads, answer.stdout.splitlines()):
        if not there or kinds[api] not in KINDS:
            continue
        aliases = re.search(r"aliases: \[(.*?)\]", facts[api])
        names = {api, *(aliases[1].split(", ") if aliases else ())}
        if in_c and not seen:
            unseen.add(api)
        if ("levels: [0, 1]" in facts[api]) != (seen or not told.isdisjoint(names)):
            wrong.append(api)
    assert unseen <= OTHERS and wrong == []
