"""matrix.py's outputs for results: rows of a document, lines for tools/test."""

import pytest

from tools.lib import matrix

DOCUMENT = """# Title

<!-- matrix results -->

| Python | torch | self-test | seed | MLP | compiled | level 0 | level 1 | level 2 | module | threads | numbers |
| -- | -- | -- | -- | -- | -- | -- | -- | -- | -- | -- | -- |
| 3.9 | 2.7.0 | right | same | same | same | a | b | c | d | e | f |
| 3.11 | 2.9.0 | right | same | same | same | a | b | c | d | e | f |

<!-- end -->

Between.

<!-- matrix differences -->

- 3.11-2.9.0, MLP: `1: torch.old`
- 3.9-2.7.0, MLP: `1: torch.kept`

<!-- end -->

Behind.
"""  # noqa: E501
GOOD = {name: {"verdict": "same"} for name in matrix.PROGRAMS}
GOOD.update({name: {"verdict": "7 passed"} for name in matrix.TESTS})
GOOD[matrix.SELF_TEST] = {"verdict": "right"}


@pytest.fixture
def document(tmp_path, monkeypatch):
    file = tmp_path / "VERSIONS.md"
    file.write_text(DOCUMENT)
    monkeypatch.setattr(matrix, "DOCUMENT", file)
    return file


def test_a_pair_takes_the_place_of_its_row_and_others_stay(document):
    differing = {"verdict": "2 configs differ", "differences": ["1: torch.a", "2: aten::b"]}
    matrix.write({"3.11-2.9.0": GOOD, "3.11-2.10.0": {**GOOD, "compiled": differing}})
    text = document.read_text()
    rows = [line for line in text.splitlines() if line.startswith("| 3.")]
    good = "| right | same | same | same |" + " 7 passed |" * len(matrix.TESTS)
    assert rows[0] == "| 3.9 | 2.7.0 | right | same | same | same | a | b | c | d | e | f |"
    assert rows[1] == f"| 3.11 | 2.9.0 {good}"
    assert rows[2].startswith("| 3.11 | 2.10.0 | right | same | same | 2 configs differ |")
    assert sum(line.startswith("|") for line in text.splitlines()) == 2 + len(rows) == 5
    told = [line for line in text.splitlines() if line.startswith("- ")]
    assert told == [
        "- 3.9-2.7.0, MLP: `1: torch.kept`",
        "- 3.11-2.10.0, compiled: `1: torch.a`, `2: aten::b`",
    ]
    assert "\n\nBetween.\n\n" in text and text.endswith("<!-- end -->\n\nBehind.\n")


def test_of_many_differences_the_first_are_told(document):
    apis = [f"2: aten::a{i}" for i in range(matrix.MOST_TOLD + 3)]
    differing = {"verdict": "11 configs differ", "differences": apis}
    matrix.write({"3.11-2.9.0": {**GOOD, "MLP": differing}})
    matrix.write({"3.11-2.10.0": GOOD})  # keeps all other rows
    text = document.read_text()
    items = [line for line in text.splitlines() if line.startswith(("-", " "))]
    assert max(map(len, items)) <= matrix.WIDTH and all(line.count("`") % 2 == 0 for line in items)
    text = text.replace("\n  ", " ")
    (line,) = [line for line in text.splitlines() if "3.11-2.9.0, MLP" in line]
    assert line.startswith("- 3.11-2.9.0, MLP: `2: aten::a0`, ")
    assert line.endswith(f"`2: aten::a{matrix.MOST_TOLD - 1}` and 3 more")


def test_pairs_that_differ_alike_share_an_item(document):
    differing = {**GOOD, "compiled": {"verdict": "1 config differs", "differences": ["1: torch.a"]}}
    matrix.write({"3.11-2.9.0": differing, "3.11-2.10.0": differing})
    assert "- 3.11-2.9.0, 3.11-2.10.0, compiled: `1: torch.a`\n" in document.read_text()
    matrix.write({"3.11-2.9.0": GOOD})
    assert "\n- 3.11-2.10.0, compiled: `1: torch.a`\n" in document.read_text()


def test_writing_twice_changes_nothing(document):
    matrix.write({"3.11-2.10.0": GOOD})
    once = document.read_text()
    matrix.write({"3.11-2.10.0": GOOD})
    assert document.read_text() == once


def test_lines_for_the_report():
    bad = {"verdict": "1 of 3 failed", "problem": "test_x"}
    cells = {"seed": {"verdict": "same"}, "level 1": bad, "level 2": {"verdict": ""}}
    assert list(matrix.lines({"3.12-2.15.0": cells})) == [
        "ok      3.12-2.15.0 seed\n",
        "failed  3.12-2.15.0 level 1: 1 of 3 failed\n",
    ]
