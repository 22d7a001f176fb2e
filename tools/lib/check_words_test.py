"""tools/lib/check_words.py: phrases on one line and across lines, and what is exempt."""

import pytest

from tools.lib import check_words


@pytest.mark.parametrize(
    "text, found",
    [
        ("An unknown name is told at the end.", (1, "is told")),
        ('\n  Say("a * stands "\n      "for any text");\n', (2, "stands for")),
        ("x\n// What the log lacks, nobody\n// knows.\n", (2, "nobody knows")),
        ("# by default, where nothing\n# is said\n", (1, "where nothing is said")),
        ("It is written Nevertheless.", (1, "Nevertheless")),
        ("'x' is no number and no range", (1, "is no number")),
        ("which tells\nof it", (1, "tells of")),
    ],
)
def test_a_banned_phrase(text, found):
    line, words = found
    (problem,) = check_words.problems(text)
    assert problem[0] == line and problem[1].startswith(f'"{words}": write "')


@pytest.mark.parametrize(
    "text",
    [
        "There is no trace in it.",
        "They are all the same size.",
        "told = [told_name(x) for x in told]",
        "It is reported at the end.",
        "a number stands alone",
    ],
)
def test_plain_words(text):
    assert list(check_words.problems(text)) == []


def test_files(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "testdata").mkdir()
    for name in ("page.md", "testdata/old.md"):
        (tmp_path / name).write_text("This is\ntold.\n")
    (tmp_path / "data.bin").write_bytes(b"is told\0")
    assert check_words.main(["testdata/old.md", "data.bin"]) == 0
    assert check_words.main(["page.md", "data.bin"]) == 1
    assert capsys.readouterr().out == 'page.md:1: "is told": write "is reported, is printed"\n'
