"""Checks rules that apply to every text file, on the given files.

No tabs except in tables (.tsv), no space at the end of a line, a newline at the end of the file; a
header and a script begin with a comment that says what they are. With --fix, repairs what it can.
"""

import re
import sys

# Traces and expected outputs are exempt.
EXEMPT = re.compile(r"^testdata/(?!.*\.(py|md)$)")


def problems(path, text):
    """Yields (line number, what is wrong)."""
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "\t" in line and not path.endswith(".tsv"):
            yield number, "tab"
        if line != line.rstrip():
            yield number, "space at the end of the line"
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        yield len(lines), "a file ends with one newline"
    if path.endswith(".h") and not text.startswith("// "):
        yield 1, "a header begins with a comment that says what it is"
    if text.startswith("#!") and not re.match(r'# |"""', (lines + [""])[1]):
        yield 2, "a script begins with a comment that says what it does"


def fixed(text):
    lines = [line.rstrip() for line in text.split("\n")]
    body = "\n".join(lines).rstrip("\n")
    return body + "\n" if body else ""


def main(arguments):
    fix = "--fix" in arguments
    failed = False
    for path in arguments:
        if path.startswith("--") or EXEMPT.match(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            continue
        if fix:
            if fixed(text) != text:
                with open(path, "w", encoding="utf-8", newline="") as file:
                    file.write(fixed(text))
            continue
        for number, problem in problems(path, text):
            print(f"{path}:{number}: {problem}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
