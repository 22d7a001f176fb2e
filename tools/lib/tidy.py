"""Runs clang-tidy on the C++ files that include no header of torch or Arrow.

Those that do take a minute each, and nearly all of it goes into torch's own headers.
A file that passed is not looked at again until it, a header of ours that it includes,
or .clang-tidy changes: .build/tidy/ holds one empty file per pass.
"""

import concurrent.futures
import hashlib
import os
import re
import subprocess
import sys
import sysconfig

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.path.join(ROOT, ".build", "tidy")
CLANG_TIDY = "clang-tidy-19"
FLAGS = [
    "-std=c++20",
    "-DXXH_INLINE_ALL",
    "-Wall",
    "-Wextra",
    "-I.",
    "-isystem",
    sysconfig.get_paths()["include"],
]
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)
TORCH = re.compile(r"^(torch|ATen|c10|pybind11|local_torch)/")
OURS = re.compile(r"^(cmd|dialects|python|replay|serialize|tracer)/")


def sources():
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "*.cc"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    skipped = ("_test.cc", "_bench.cc", "_fuzz.cc")
    return [path for path in listing.stdout.splitlines() if not path.endswith(skipped)]


def read(path):
    try:
        with open(os.path.join(ROOT, path), "rb") as file:
            return file.read()
    except OSError:
        return None


def closure(path):
    """The file and the headers of ours that it includes: {path: bytes}.

    None where torch's or Arrow's headers are among them, or a file that the build generates.
    """
    found = {}
    todo = [path]
    while todo:
        current = todo.pop()
        if current in found:
            continue
        content = read(current)
        if content is None and OURS.match(current):
            return None
        if content is None:
            continue
        found[current] = content
        for _, name in INCLUDE.findall(content.decode("utf-8", "replace")):
            if TORCH.match(name):
                return None
            todo.append(name)
    return found


def cache_key(files):
    digest = hashlib.sha256(repr((CLANG_TIDY, FLAGS, read(".clang-tidy"))).encode())
    for path in sorted(files):
        digest.update(path.encode() + b"\0" + hashlib.sha256(files[path]).digest())
    return os.path.join(CACHE, digest.hexdigest())


def tidy(path):
    """What clang-tidy has to say about the file, or ''."""
    files = closure(path)
    if not files:
        return ""
    passed = cache_key(files)
    if os.path.exists(passed):
        return ""
    result = subprocess.run(
        [CLANG_TIDY, "--quiet", path, "--", *FLAGS], cwd=ROOT, capture_output=True, text=True
    )
    if result.returncode == 0:
        open(passed, "w").close()
        return ""
    lines = (result.stdout or result.stderr).splitlines()
    # Without the chains of notes, each longer than the rest.
    return "\n".join(line for line in lines if ": error: " in line or ": warning: " in line)


def main():
    os.makedirs(CACHE, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(tidy, sources()) if text]
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
