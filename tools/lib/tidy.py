"""Runs clang-tidy on all C++ files except tests.

Usage: tidy.py BAZEL_BIN

BAZEL_BIN is the folder in which a build left the files that it generates. Torch's headers are those
of the Python that runs this. The files of a folder are read as one, as they are compiled
(tools/bazel/rooms.bzl): most of the time goes into their headers. A folder that passed is skipped
until a file of it, a header of ours that one includes, or .clang-tidy changes: .build/tidy/ holds
one empty file per pass.
"""

import collections
import concurrent.futures
import functools
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.path.join(ROOT, ".build", "tidy")
CLANG_TIDY = os.path.join(os.path.dirname(sys.executable), "clang-tidy")
FLAGS = ["-std=c++20", "-DXXH_INLINE_ALL", "-Wall", "-Wextra", "-I."]
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
TORCH = re.compile(r"^(torch|ATen|c10|pybind11|local_torch)/")
# Each is a program of its own.
ALONE = re.compile(r"_(benchmark|fuzzer)\.cc$|^tools/")
OURS = re.compile(r"^(cmd|dialects|python|replay|serialize|tracer)/")


def sources():
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "*.cc"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [path for path in listing.stdout.splitlines() if not path.endswith("_test.cc")]


def units():
    """[[path]]: what is read as one. Torch's headers take longest, so all rooms with them are."""
    folders = collections.defaultdict(list)
    for path in sources():
        folder = "dialects/torch" if path.startswith("dialects/torch/") else os.path.dirname(path)
        folders[path if ALONE.search(path) else folder].append(path)
    return sorted(folders.values(), key=len, reverse=True)


def header_folders():
    """Python's and torch's headers."""
    torch = os.path.join(sysconfig.get_paths()["purelib"], "torch", "include")
    api = os.path.join(torch, "torch", "csrc", "api", "include")
    return [sysconfig.get_paths()["include"], torch, api]


def read(path):
    try:
        with open(os.path.join(ROOT, path), "rb") as file:
            return file.read()
    except OSError:
        return None


def closure(paths, generated=None):
    """The files and the headers of ours that they include: {path: bytes}.

    Generated headers are read from the folder `generated`; without it, returns None if generated
    headers or torch's are included."""
    found = {}
    todo = list(paths)
    while todo:
        current = todo.pop()
        if current in found:
            continue
        content = read(current)
        if content is None and OURS.match(current):
            if not generated:
                return None
            content = read(os.path.join(generated, current))
        if content is None:
            continue
        found[current] = content
        for _, name in INCLUDE.findall(content.decode("utf-8", "replace")):
            if TORCH.match(name) and not generated:
                return None
            todo.append(name)
    return found


@functools.cache
def surroundings():
    """Everything else that a verdict depends on."""
    version = subprocess.check_output([CLANG_TIDY, "--version"])
    torch = read(os.path.join(sysconfig.get_paths()["purelib"], "torch", "version.py"))
    return repr((version, FLAGS, torch, read(".clang-tidy"))).encode()


def cache_key(files):
    digest = hashlib.sha256(surroundings())
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + hashlib.sha256(files[path]).digest())
    return os.path.join(CACHE, digest.hexdigest())


def tidy(paths, generated):
    """clang-tidy's messages about the files, or ''."""
    passed = cache_key(closure(paths, generated))
    if os.path.exists(passed):
        return ""
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as unit:
        unit.writelines(f'#include "{path}"  // NOLINT\n' for path in paths)
        unit.flush()
        system = [word for folder in header_folders() for word in ("-isystem", folder)]
        command = [CLANG_TIDY, "--quiet", "--config-file=.clang-tidy", unit.name]
        command += ["--", *FLAGS, "-I", generated, *system]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode == 0:
        open(passed, "w").close()
        return ""
    lines = (result.stdout or result.stderr).splitlines()
    # Leaves out notes, each longer than the rest.
    return "\n".join(line for line in lines if ": error: " in line or ": warning: " in line)


def main(generated):
    os.makedirs(CACHE, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda paths: tidy(paths, generated), units())
        complaints = [text for text in found if text]
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
