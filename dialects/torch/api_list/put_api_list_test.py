"""The default list: one file for all versions of torch, made of what scans found."""

import pytest

from dialects.torch.api_list import put_api_list
from tools.testing import whole_tool as tool

ONE = """\
version: "2.9.1+cpu"
apis:
- {api: torch.abs, kind: builtin, levels: [0, 1], operators: [aten::abs]}
- {api: torch.old, kind: function}
"""
TWO = """\
version: "2.10.0"
apis:
- {api: torch.abs, kind: builtin, levels: [0, 1], operators: [aten::abs]}
- {api: torch.new}
- {api: torch.old, kind: function, levels: [0]}
"""
BOTH = """\
versions: ["2.9", "2.10"]
apis:
- {api: torch.abs, kind: builtin, levels: [0, 1], operators: [aten::abs]}
- {api: torch.new, versions: "2.10-"}
- {api: torch.old, versions: "2.9", kind: function}
- {api: torch.old, versions: "2.10-", kind: function, levels: [0]}
"""


@pytest.mark.parametrize("scans", [(ONE, TWO), (TWO, ONE), (ONE, TWO, ONE)])
def test_put(scans):
    text = scans[0]
    for scan in scans[1:]:
        text = put_api_list.put(text, scan)
    assert text == put_api_list.HEADER + BOTH


def test_put_replaces_the_rows_of_its_version():
    scan = 'version: "2.10.2"\napis:\n- {api: torch.abs}\n'
    assert put_api_list.read(put_api_list.put(BOTH, scan)) == (
        ["2.9", "2.10"],
        {
            ("torch.abs", ", kind: builtin, levels: [0, 1], operators: [aten::abs]"): {"2.9"},
            ("torch.old", ", kind: function"): {"2.9"},
            ("torch.abs", ""): {"2.10"},
        },
    )


def test_differences():
    assert put_api_list.differences(BOTH).splitlines()[2:] == [
        "| 2.9 | 2 |  |  |",
        "| 2.10 | 3 | `torch.new` |  |",
    ]
    names = [f"torch.many.f{n}" for n in range(put_api_list.MANY)]
    assert list(put_api_list.shortened([*names, "torch.one"])) == [
        f"`torch.many.*` ({put_api_list.MANY})",
        "`torch.one`",
    ]


def test_the_list_is_as_it_would_be_written():
    text = put_api_list.LIST.read_text("utf-8")
    assert put_api_list.write(*put_api_list.read(text)) == text


def test_the_page_has_the_numbers_of_names():
    page = (tool.ROOT / "docs/APIS.md").read_text("utf-8")
    table = put_api_list.differences(put_api_list.LIST.read_text("utf-8"))
    numbers = {row.split(" | ")[0][2:]: int(row.split(" | ")[1]) for row in table.splitlines()[2:]}
    first, last = [*numbers][0], [*numbers][-1]
    assert (
        f"for torch {first} ({numbers[first]:,} names) to {last} ({numbers[last]:,}; 2.13 has "
        f"{numbers['2.13']:,})"
    ) in " ".join(page.split())
