"""The tests of packages that use PyTorch: the same ones pass and fail."""

import dataclasses
from pathlib import Path

from tools.comparing.checking import check
from tools.comparing.programs import ROOT, Place, Program

VENV = ROOT / ".build/venv/fidelity"
SOURCES = ROOT / ".build/fidelity/sources"
PYTHON = VENV / "bin/python3"

# Where a package has its tests, and what they need.
SUITES = {
    "einops": ("SITE/einops/tests", {"EINOPS_TEST_BACKENDS": "numpy,torch"}),
    "linear_operator": ("SOURCES/linear_operator-*/test", {}),
    # Its tests are in its repository alone: a checkout of it has to be put there.
    "tensordict": ("SOURCES/tensordict/test", {}),
    "torchao": ("SITE/test", {}),
}
# Of one file: a file whose tests take longer is left out.
MOST_SECONDS = 240


def files_of(place):
    (site,) = VENV.glob("lib/python3*/site-packages")
    root, pattern = (site, place[5:]) if place.startswith("SITE/") else (SOURCES, place[8:])
    folders = sorted(root.glob(pattern))
    return sorted(file for folder in folders for file in folder.rglob("test_*.py"))


def program_of(file, env):
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "test_outcomes", str(file)]
    return Program(file.name, words, env=env, python=str(PYTHON), timeout=MOST_SECONDS)


def outcomes(left):
    """Only these are compared: tests print times."""
    return dataclasses.replace(left, out=[], err=[], ends={}, memory_kb={}, files={})


def section(run):
    """the tests of einops, linear_operator, tensordict and torchao: same outcomes"""
    queues = {name: files_of(place) for name, (place, _) in SUITES.items()}
    for name, files in queues.items():
        if not files:
            wanted = SUITES[name][0].replace("SOURCES", str(SOURCES))
            run.say(f"{name}: not run: no tests at {wanted}")
    # One file of each in turn, so that all have their share of the time.
    while any(queues.values()) and not run.is_over():
        for name, files in queues.items():
            if files and not run.is_over():
                compare(run, name, files.pop(0))
    for name, files in queues.items():
        if files:
            run.say(f"{name}: {len(files)} files were not run: the time is over")


def compare(run, name, file):
    program = program_of(file, SUITES[name][1])
    found = check(Place(), program, levels=(), arranged=outcomes, plain_runs=1)
    run.case(f"{name}: {Path(*file.parts[-2:])}", found)
