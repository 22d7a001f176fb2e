"""Tables of results, as text for a terminal or as Markdown."""

import sys


class Table:
    """A title, columns and rows of text; `key` is its name in documents."""

    def __init__(self, key, title, columns):
        self.key = key
        self.title = title
        self.columns = columns
        self.rows = []

    def add(self, *cells):
        self.rows.append([str(cell) for cell in cells])

    def text(self):
        """Aligned: the first column to the left, the others to the right."""
        lines = [self.columns, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        out = [self.title]
        for line in lines:
            cells = [line[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
            out.append("  " + "  ".join(cells).rstrip())
        return "\n".join(out)

    def markdown(self):
        """With no title: a document has its own headings."""
        out = ["| " + " | ".join(self.columns) + " |"]
        out.append("|---" + "|--:" * (len(self.columns) - 1) + "|")
        out += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join(out)


def replace_in(path, tables):
    """Puts Markdown tables between the lines `<!-- bench KEY -->` and `<!-- end -->`."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    by_mark = {f"<!-- bench {table.key} -->": table for table in tables}
    out, skipping = [], False
    for line in lines:
        if line == "<!-- end -->":
            skipping = False
        if not skipping:
            out.append(line)
        if line in by_mark:
            out.append(by_mark.pop(line).markdown())
            skipping = True
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out))
    return [table.key for table in by_mark.values()]


def ratio(value):
    """ "x1.234", with fewer digits where they mean nothing."""
    if value < 3:
        return f"x{value:.2f}"
    return f"x{value:.1f}" if value < 20 else f"x{value:.0f}"


def microseconds(seconds):
    return f"{1e6 * seconds:.2f} us"


def milliseconds(seconds):
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def gigabytes(size):
    return f"{size / 1e9:.1f} GB"


def megabytes(kb):
    return f"{kb / 1024:.0f} MiB"


def count(number):
    return f"{number:,}"


def progress(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)
