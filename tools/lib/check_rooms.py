"""Checks the rooms of the code against their table in docs/internals/DESIGN.md.

A room is a folder with C++ files. The table says which rooms each may use; the #include lines, and
the imports of Python files there or below, say which it uses. Reports a folder without a row and a
row without a folder, a use that is missing in the table or listed there in vain, a cycle, test
support used outside tests, and what a traced process links beyond the rooms that are marked for it.
Tests, fuzzers and benchmarks may use every room. Also reports tests for the version of Python
outside the room that handles its internals.
"""

import posixpath
import re
import subprocess
import sys
from pathlib import Path

TABLE = "docs/internals/DESIGN.md"
HEADING = "| room | what is there | may use |"
# Marks in the second column.
TEST_SUPPORT = "(for tests)"
TRACED = "(traced)"
TOPS = ("cmd", "dialects", "python", "replay", "serialize", "tracer")
# Programs for developers may use any room.
IS_TEST = re.compile(r"_(test|fuzzer|benchmark)\.(cc|h)$|_(test|testing|checks)\.py$")
# Macros that only one room may test, and that room; torch is tested by its headers' contents, not
# its version.
VERSIONS = {"PY_VERSION_HEX": "tracer/cpython", "TORCH_VERSION_": None}
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
IMPORT = re.compile(r"^\s*(?:from|import) (\w[\w.]*)", re.MULTILINE)
# Where a package is installed.
INSTALLED = {"torchtrace._replay": "replay"}


class Room:
    def __init__(self, may_use, what):
        self.may_use = may_use
        self.for_tests = TEST_SUPPORT in what
        self.traced = TRACED in what


def read_table(text):
    """Rooms by name, from the rows below HEADING."""
    lines = iter(text.split("\n"))
    if not any(line.strip() == HEADING for line in lines):
        raise SystemExit(f"{TABLE}: no table that begins with {HEADING}")
    next(lines)
    rooms = {}
    for line in lines:
        if not line.startswith("|"):
            break
        name, what, may_use = (cell.strip() for cell in line.strip().strip("|").split("|"))
        rooms[name.strip("`").rstrip("/")] = Room(set(re.findall(r"`([^`]+)`", may_use)), what)
    return rooms


def room_of(file, rooms):
    """The nearest folder above that is a room; else the file's own folder."""
    above = folder = posixpath.dirname(file)
    while above and above not in rooms:
        above = posixpath.dirname(above)
    return above or folder


def used_by(text, rooms):
    """The rooms that a Python file imports from."""
    for module in IMPORT.findall(text):
        for installed, package in INSTALLED.items():
            if f"{module}.".startswith(f"{installed}."):
                module = module.replace(installed, package, 1)
        room = room_of(module.replace(".", "/") + "/", rooms)
        if room in rooms:
            yield room


def arrows(root, files, rooms):
    """Yields (file, room used) for each #include or import of another room."""
    for file in files:
        text = (root / file).read_text(encoding="utf-8")
        if file.endswith(".py"):
            found, room = used_by(text, rooms), room_of(file, rooms)
        else:
            found, room = map(posixpath.dirname, INCLUDE.findall(text)), posixpath.dirname(file)
        for folder in found:
            if folder in rooms and folder != room:
                yield file, folder


def circle(rooms):
    """The names of rooms that use each other in a cycle, or nothing."""
    done = set()

    def walk(name, path):
        if name in path:
            return path[path.index(name) :] + [name]
        if name in done or name not in rooms:
            return []
        for used in sorted(rooms[name].may_use):
            if found := walk(used, path + [name]):
                return found
        done.add(name)
        return []

    for name in sorted(rooms):
        if found := walk(name, []):
            return found
    return []


def problems(root, files):
    """Yields what is wrong with the C++ and Python `files` below `root`, a line each."""
    rooms = read_table((root / TABLE).read_text(encoding="utf-8"))
    files = [file for file in files if file.split("/")[0] in TOPS]
    folders = {posixpath.dirname(file) for file in files if not file.endswith(".py")}
    for folder in sorted(folders - rooms.keys()):
        yield f"{folder}/ has no row in {TABLE}"
    for name in sorted(rooms.keys() - folders):
        yield f"{TABLE}: no C++ file in {name}/"
    used = {name: set() for name in rooms}
    for file, target in arrows(root, files, rooms):
        name = room_of(file, rooms)
        if name not in rooms or IS_TEST.search(file) or rooms[name].for_tests:
            continue
        if rooms[target].for_tests:
            yield f"{file}: {target}/ is for tests"
        elif target not in rooms[name].may_use:
            yield f"{file}: {name}/ may not use {target}/ ({TABLE})"
        used[name].add(target)
    for name, room in sorted(rooms.items()):
        for target in sorted(room.may_use):
            if target not in rooms:
                yield f"{TABLE}: {name}/ may use {target}/, which has no row"
            elif target not in used[name] and not room.for_tests:
                yield f"{TABLE}: {name}/ may use {target}/ and does not"
            elif room.traced and not rooms[target].traced:
                yield f"{TABLE}: {name}/ is linked into traced processes, {target}/ is not"
    for file in files:
        if file.endswith(".py"):
            continue
        text = (root / file).read_text(encoding="utf-8")
        for name, room in VERSIONS.items():
            if name in text and posixpath.dirname(file) != room:
                yield f"{file}: {name} is for {f'{room}/ alone' if room else 'no file'}"
    if found := circle(rooms):
        yield f"{TABLE}: a circle: {' -> '.join(found)}"


def main():
    root = Path(__file__).resolve().parents[2]
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    done = subprocess.run(
        listed + ["*.cc", "*.h", "*.py"], cwd=root, capture_output=True, text=True, check=True
    )
    files = [file for file in done.stdout.split("\n") if file and (root / file).is_file()]
    found = list(problems(root, files))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
