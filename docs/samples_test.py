"""What README.md and docs/ show: each command is run, each sample compared.

A ```console block has commands and what they print:

    $ torchtrace stats out       a command, run in a folder of its own, with standard error
    API   level  calls ...       what it prints; nothing: it isn't compared
    ...                          a line of dots: any lines

In ```console times only the first line is compared: where lines come by time, others may come.
Durations, percentages, long decimals, sizes of files, ids of processes and paths are not compared.
After a change of an output,

    .venv/bin/python3 docs/samples_test.py --update [PAGE...]

writes the samples anew, with as many lines before and behind the dots as there were. Each command
is run once, in the order of PAGES, and may take what those before it on its page and in README.md
have made.

A ```sh block is a script that is run, in a folder of its page with the traces that EXAMPLES makes;
a ```sh elsewhere block wants what isn't here: another machine, another package. A ```python block
is a program that is run, in an empty folder, after PRELUDE. Other blocks hold no commands, but for
synopses, which are compared with --help.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import filelock
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.testing import whole_tool as tool

PACKAGE = Path(tool.TORCHTRACE).resolve().parents[1] / "runtime/py{}.{}".format(*sys.version_info)
PAGES = [tool.ROOT / "README.md", tool.ROOT / "docs/COOKBOOK.md"]
PAGES += sorted(set((tool.ROOT / "docs").rglob("*.md")) - set(PAGES))

BLOCK = re.compile(r"^```console( times)?\n(.*?)^```$", re.M | re.S)
SCRIPT = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
EXAMPLES = """
sed 's/range(40)/range(5)/' testdata/scripts/train_mlp.py > examples/train.py
cd examples
torchtrace run -q -l 1,2 -o out train.py
for rank in 0 1; do RANK=$rank torchtrace run -q -l 1 -o out-$rank train.py; done
"""
# What the pages' programs take for granted.
PRELUDE = """
import numpy, torch, torchtrace
model = torch.nn.Linear(3, 2)
batch = torch.randn(4, 3)
loader = [batch, batch]
def train(batch=batch): model(batch).sum().backward()
evaluate = train
def my_code(count, size): return torch.add(torch.ones(size), torch.ones(size), alpha=count)
"""
DOTS = "..."
FIRST_LINES = 12  # of a sample that has only dots

# What differs from run to run, each with its replacement.
VARYING = [
    (r"\S*tools/torchtrace(?= )", "torchtrace"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"\d[\d.]* (ns|us|ms|s|min|h)\b", "DURATION"),
    (r"\d[\d.]*%", "PERCENT"),
    (r"\d+\.\d{3,}(e[+-]\d+)?\b", "FLOAT"),
    (r"\d[\d.]* (bytes|[kMG]B)\b", "SIZE"),
    (r"\b(main|worker|fork|child)-\d+", r"\1-PID"),
    (r"\bpid \d+", "pid PID"),
    (r" +", " "),
]


def is_open(command):
    return command.endswith("\\") or ("<<'END'" in command and not command.endswith("\nEND"))


def commands_of(block):
    """[(command, lines of its sample)]; a command goes on behind a backslash, and in a here
    document to its END."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif not found[-1][1] and is_open(found[-1][0]):
            found[-1] = (f"{found[-1][0]}\n{line}", [])
        else:
            found[-1][1].append(line)
    return found


def compared(line):
    for pattern, name in VARYING:
        line = re.sub(pattern, name, line)
    return line.strip()


class Sandbox:
    """A folder with testdata/, docs/ and tools/ in it, in which commands are run, each once; after
    those of `earlier`, if that is one."""

    def __init__(self, folder=None, earlier=None):
        self.folder = folder or Path(tempfile.mkdtemp(prefix="torchtrace-samples-"))
        self.earlier = earlier
        self.printed = {}
        if earlier is not None:
            self.printed = json.loads((earlier / "printed.json").read_text())
            own = {"testdata", "docs", "tools", "bin", "printed.json"}
            shutil.copytree(
                earlier,
                self.folder,
                symlinks=True,
                ignore=lambda of, names: own if Path(of) == earlier else (),
                dirs_exist_ok=True,
            )
        for name in ("testdata", "docs"):
            (self.folder / name).symlink_to(tool.ROOT / name)
        for name in ("tools", "bin"):
            (self.folder / name).mkdir()
            command = self.folder / name / "torchtrace"
            command.write_text(f'#!/bin/sh\nexec "{tool.TORCHTRACE}" "$@"\n')
            command.chmod(0o755)
        self.environment = tool.environment(
            {
                "TORCHTRACE_PYTHON": tool.PYTHON,
                # The module torchtrace, for programs that are not run by it.
                "PYTHONPATH": str(PACKAGE),
                "PATH": f"{self.folder}/bin:{Path(tool.PYTHON).parent}:{os.environ['PATH']}",
            }
        )

    def run(self, command):
        """The lines that it prints."""
        if command not in self.printed:
            done = subprocess.run(
                ["bash", "-c", f"{{ {command}\n}} 2>&1"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
                timeout=600,
            )
            assert done.returncode in (0, 1), f"$ {command}\n{done.stdout}"
            text = done.stdout.replace(f"{tool.ROOT}/tools/", "tools/")
            for folder in filter(None, (self.folder, self.earlier)):
                text = text.replace(f"{folder}/", "")
            self.printed[command] = [line.rstrip() for line in text.splitlines()]
        return self.printed[command]

    def run_blocks(self, page):
        for _, block in BLOCK.findall(page.read_text()):
            for command, _ in commands_of(block):
                self.run(command)

    def run_script(self, page, script):
        """With every command of it; 1 is what diff and others exit with."""
        folder = self.folder / "pages" / page.stem
        if not folder.exists():
            examples = self.folder / "examples"
            if not examples.exists():
                examples.mkdir()
                self.run(EXAMPLES)
            shutil.copytree(examples, folder)
            for name in ("testdata", "docs", "tools"):
                (folder / name).symlink_to(self.folder / name)
        trap = "trap 'status=$?; [ $status = 1 ] || exit $status' ERR"
        self.run(f"cd {folder}\n{trap}\n{script}")

    def run_program(self, page, number, program):
        folder = self.folder / "programs" / f"{page.stem}-{number}"
        folder.mkdir(parents=True)
        (folder / "program.py").write_text(PRELUDE + program)
        self.run(f"cd {folder} && {{ python3 program.py || exit 2; }}")


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory, request):
    """With what README.md makes, which all workers share."""
    shared = tmp_path_factory.getbasetemp()
    # pytest-xdist's workers have folders in one.
    shared = shared.parent if hasattr(request.config, "workerinput") else shared
    kept = shared / "readme"
    with filelock.FileLock(shared / "readme.lock"):
        if not (kept / "printed.json").exists():
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir()
            first = Sandbox(kept)
            first.run_blocks(PAGES[0])
            (kept / "printed.json").write_text(json.dumps(first.printed))
    made = Sandbox(earlier=kept)
    yield made
    shutil.rmtree(made.folder)


def check(command, sample, printed):
    """Between dots stands what was printed, in order."""
    printed = [compared(line) for line in printed]
    groups = itertools.groupby(map(compared, sample), DOTS.__eq__)
    parts = [list(lines) for dots, lines in groups if not dots]
    at = 0
    for number, part in enumerate(parts):
        begins_with_dots = number > 0 or compared(sample[0]) == DOTS
        places = [i for i in range(at, len(printed)) if printed[i : i + len(part)] == part]
        if not begins_with_dots:
            places = [place for place in places if place == 0]
        if not places:
            assert printed[at : at + len(part)] == part, f"$ {command}"
        at = places[0] + len(part)
    assert compared(sample[-1]) == DOTS or at == len(printed), f"$ {command}: more is printed"


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_samples(page, sandbox):
    for times, block in BLOCK.findall(page.read_text()):
        for command, sample in commands_of(block):
            printed = sandbox.run(command)
            if sample and times:
                check(command, [sample[0], DOTS], printed)
            elif sample:
                check(command, sample, printed)


def of_pages_with(pattern):
    pages = [page for page in PAGES if pattern.search(page.read_text())]
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.stem)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(900)
@of_pages_with(SCRIPT)
def test_scripts(page, sandbox):
    for script in SCRIPT.findall(page.read_text()):
        sandbox.run_script(page, script)


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(900)
@of_pages_with(PROGRAM)
def test_programs(page, sandbox):
    for number, program in enumerate(PROGRAM.findall(page.read_text())):
        sandbox.run_program(page, number, program)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_stand_in_blocks_that_are_run(page):
    """Else they are synopses, and those are --help's."""
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", page.read_text(), re.M | re.S)
    for block in [block for kind, block in blocks if not kind.startswith(("console", "sh"))]:
        for command, verb in re.findall(r"^(?:\$ )?(?:\S*/)?(torchtrace (\w+) .*)$", block, re.M):
            usage = re.search(r"Usage: (.*)", tool.torchtrace(verb, "--help", cwd="/").out)
            assert command == usage[1], "in a block that is not run"


def updated(sample, printed):
    """What was printed, in the form of the sample."""
    if DOTS not in sample:
        return printed if sample else []
    first = sample.index(DOTS)
    last = len(sample) - sample.index(DOTS) - 1
    if len(sample) == 1:
        first = FIRST_LINES
    if len(printed) <= first + last + 1:
        return printed
    return [*printed[:first], DOTS, *(printed[-last:] if last else [])]


def update_page(page, sandbox):
    def anew(match):
        lines = []
        for command, sample in commands_of(match.group(2)):
            print(f"{page.name}: $ {command}", flush=True)
            try:
                sample = updated(sample, sandbox.run(command))
            except AssertionError as failed:
                print(f"left as it is: {failed}", file=sys.stderr)
            lines += [f"$ {command}", *sample]
        return "\n".join([f"```console{match.group(1) or ''}", *lines, "```"])

    page.write_text(BLOCK.sub(anew, page.read_text()))


def update(names):
    if unknown := set(names) - {page.name for page in PAGES}:
        sys.exit(f"no page is called {', '.join(sorted(unknown))}; one is COOKBOOK.md")
    sandbox = Sandbox()
    for page in PAGES:
        if not names or page.name in names:
            update_page(page, sandbox)
    shutil.rmtree(sandbox.folder)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--update"]:
        sys.exit(__doc__)
    update(sys.argv[2:])
