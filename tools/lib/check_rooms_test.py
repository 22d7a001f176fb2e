"""tools/lib/check_rooms.py: each kind of report, in a temporary tree."""

import pytest

from tools.lib import check_rooms

ROWS = {
    "serialize/base": ("texts (traced)", ""),
    "serialize/log": ("logs (traced)", "`serialize/base`"),
    "serialize/testing": ("samples (for tests)", ""),
    "cmd": ("verbs", "`serialize/log`"),
}
FILES = {
    "serialize/base/text.h": "",
    "serialize/log/log.h": '#include "serialize/base/text.h"\n#include "absl/strings/str_cat.h"\n',
    "serialize/log/log_test.cc": '#include "serialize/testing/samples.h"\n#include "cmd/verb.h"\n',
    "serialize/testing/samples.h": '#include "serialize/log/log.h"\n',
    "cmd/verb.h": '#include "serialize/log/log.h"\n#include "cmd/verb.h"\n',
}


def complaints(root, rows, files):
    table = [check_rooms.HEADING, "|---|---|---|"]
    table += [
        f"| `{name}/` | {what} | {uses or 'nothing'} |" for name, (what, uses) in rows.items()
    ]
    page = root / check_rooms.TABLE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("# Rooms\n\n" + "\n".join(table) + "\n\n| other | table | here |\n")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return list(check_rooms.problems(root, list(files)))


def test_a_tree_that_keeps_its_table(tmp_path):
    assert complaints(tmp_path, ROWS, FILES) == []


TESTING = '#include "serialize/testing/samples.h"\n'
LOG = '#include "serialize/log/log.h"\n'


@pytest.mark.parametrize(
    "rows, files, complaint",
    [
        ({}, {"serialize/new/x.h": ""}, "serialize/new/ has no row"),
        ({"serialize/old": ("gone", "")}, {}, "no C++ file in serialize/old/"),
        ({}, {"serialize/base/b.cc": LOG}, "b.cc: serialize/base/ may not use serialize/log/"),
        (
            {},
            {"serialize/base/below/b.py": "from serialize.log import log\n"},
            "b.py: serialize/base/ may not use serialize/log/",
        ),
        (
            {"cmd": ("verbs", "`serialize/log`, `serialize/base`")},
            {},
            "cmd/ may use serialize/base/ and does not",
        ),
        (
            {"cmd": ("verbs", "`serialize/log`, `cmd/cli`")},
            {},
            "cmd/ may use cmd/cli/, which has no row",
        ),
        (
            {},
            {"cmd/main.cc": "#if PY_VERSION_HEX >= 0x030C0000\n"},
            "cmd/main.cc: PY_VERSION_HEX is for tracer/cpython/ alone",
        ),
        (
            {},
            {"cmd/main.cc": "#if TORCH_VERSION_MINOR >= 13\n"},
            "cmd/main.cc: TORCH_VERSION_ is for no file",
        ),
        ({}, {"cmd/main.cc": TESTING}, "cmd/main.cc: serialize/testing/ is for tests"),
        (
            {"serialize/base": ("texts", "")},
            {},
            "serialize/log/ is linked into traced processes, serialize/base/ is not",
        ),
        (
            {"serialize/base": ("texts (traced)", "`serialize/log`")},
            {"serialize/base/b.cc": LOG},
            "a circle: serialize/log -> serialize/base -> serialize/log",
        ),
    ],
)
def test_what_is_wrong_is_told(tmp_path, rows, files, complaint):
    found = complaints(tmp_path, {**ROWS, **rows}, {**FILES, **files})
    assert len(found) == 1 and complaint in found[0]


def test_a_page_without_the_table(tmp_path):
    (tmp_path / "docs/internals").mkdir(parents=True)
    (tmp_path / check_rooms.TABLE).write_text("# Rooms\n")
    with pytest.raises(SystemExit, match="no table"):
        list(check_rooms.problems(tmp_path, []))
