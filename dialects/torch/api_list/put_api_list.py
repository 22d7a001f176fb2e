"""The default list of PyTorch's APIs, one file for all versions.

python put_api_list.py SCAN...          puts into it what `torchtrace apis scan --default` wrote
python put_api_list.py --differences    prints, as Markdown, in what its versions differ
"""

import itertools
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
LIST = HERE / "torch_api_list.yaml"

sys.path.insert(0, str(HERE.parent / "versions"))
from version_spans import compress, expand, minor, minor_text  # noqa: E402

HEADER = """\
# Made by put_api_list.py of what `torchtrace apis scan --default` wrote (see docs/APIS.md).
library: torch
"""
ENTRY = re.compile(r'- \{api: ([^,}]*)(?:, versions: "([^"]*)")?(.*)\}')
# This many new names in one namespace are shown as one.
MANY = 8


def quoted(text):
    """The texts in double quotes, in order."""
    return re.findall('"([^"]*)"', text)


def read(text):
    """(versions, {(name, rest of its line): set of versions}) of the file, or of a scan."""
    known = [minor_text(v) for v in quoted(re.search("^versions?: .*$", text, re.MULTILINE)[0])]
    rows = {}
    for name, spans, rest in ENTRY.findall(text):
        rows.setdefault((name, rest), set()).update(expand(spans, known))
    return known, rows


def put(text, scan):
    """The file's text with the rows of the scan's version."""
    known, rows = read(text)
    (version,), new_rows = read(scan)
    for versions in rows.values():
        versions.discard(version)
    for row in new_rows:
        rows.setdefault(row, set()).add(version)
    return write({*known, version}, rows)


def write(known, rows):
    known = sorted(known, key=minor)

    def order(row):
        return row[0], [minor(version) for version in sorted(rows[row], key=minor)]

    lines = ["versions: [" + ", ".join(f'"{version}"' for version in known) + "]", "apis:"]
    for name, rest in sorted(filter(rows.get, rows), key=order):
        spans = compress(rows[name, rest], known)
        among = f', versions: "{spans}"' if spans else ""
        lines.append(f"- {{api: {name}{among}{rest}}}")
    return HEADER + "\n".join(lines) + "\n"


def shortened(names):
    """Shows many names of one namespace as one: `torch.foreach.*` (89)."""
    for space, members in itertools.groupby(sorted(names), lambda name: name.rpartition(".")[0]):
        members = list(members)
        if len(members) >= MANY:
            yield f"`{space}.*` ({len(members)})"
        else:
            yield from (f"`{name}`" for name in members)


def differences(text):
    """A table: each version's number of names, and what is new and gone since the one before."""
    known, rows = read(text)
    names = {v: {name for (name, _), versions in rows.items() if v in versions} for v in known}
    lines = ["| torch | names | new | gone |", "| -- | -- | -- | -- |"]
    before = names[known[0]]
    for version in known:
        new, gone = names[version] - before, before - names[version]
        cells = (
            version,
            str(len(names[version])),
            *(", ".join(shortened(part)) for part in (new, gone)),
        )
        lines.append(f"| {' | '.join(cells)} |")
        before = names[version]
    return "\n".join(lines)


def main(arguments):
    if arguments == ["--differences"]:
        print(differences(LIST.read_text("utf-8")))
        return
    for scan in arguments:
        LIST.write_text(
            put(LIST.read_text("utf-8"), pathlib.Path(scan).read_text("utf-8")), "utf-8"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
