"""Compiles the tool's own C++ files for aarch64, without generating code: are there errors there?

Usage: check_aarch64.py [--all BAZEL_BIN]

Without --all only the files that test for a processor, or include a header of ours that does; of
these, none that includes torch's headers or generated files. BAZEL_BIN is the folder in which a
build left the files that it generates. Torch's headers are those of the Python that runs this.
Prints the compiler's messages; the exit code is 1 if there are any.
"""

import concurrent.futures
import os
import platform
import re
import subprocess
import sys

import check_rooms
import tidy

COMPILER = ["aarch64-linux-gnu-g++", "-fsyntax-only"]
FLAGS = ["-std=c++20", "-DNDEBUG", "-DXXH_INLINE_ALL", "-Wall", "-Werror", "-I."]
FOLDERS = ("cmd/", "dialects/", "python/", "serialize/", "tracer/")
ASKS = re.compile(rb"\b(__x86_64__|__aarch64__|asm|_mm_\w+)\b")
LINKS = os.path.join(tidy.ROOT, ".build", "aarch64")


def include_folders():
    yield from tidy.header_folders()
    # Debian's pyconfig.h includes that of the processor, which its packages only have for the
    # host's. For a syntax check, that of another processor is good enough.
    link = os.path.join(LINKS, "aarch64-linux-gnu")
    if not os.path.islink(link):
        os.makedirs(LINKS, exist_ok=True)
        os.symlink(f"/usr/include/{platform.machine()}-linux-gnu", link)
    yield LINKS


def sources():
    paths = [path for path in tidy.sources() if path.startswith(FOLDERS)]
    return [p for p in paths if "/testing/" not in p and not check_rooms.IS_TEST.search(p)]


def asks(path):
    """Whether the file, or a header of ours that it includes, tests for a processor."""
    return any(ASKS.search(content) for content in (tidy.closure([path]) or {}).values())


def complaint(path, flags):
    command = [*COMPILER, *FLAGS, *flags, path]
    result = subprocess.run(command, cwd=tidy.ROOT, capture_output=True, text=True)
    lines = result.stderr.splitlines()
    told = [line for line in lines if " error: " in line or " warning: " in line]
    return "\n".join(told or lines) if result.returncode else ""


def main(arguments):
    paths = sources()
    flags = [word for folder in include_folders() for word in ("-isystem", folder)]
    if arguments[:1] == ["--all"]:
        flags += ["-I", arguments[1]]
    else:
        paths = [path for path in paths if asks(path)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda path: complaint(path, flags), paths) if text]
    print("\n".join(complaints) or f"{len(paths)} files")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
