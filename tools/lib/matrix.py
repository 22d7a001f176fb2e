"""Tries torchtrace on one pair of Python and torch, and lists pairs tried in docs/VERSIONS.md.

Usage: matrix.py try --pair 3.12-2.15.0 --python PYTHON --reference PYTHON --output FILE [--quick]
       matrix.py lost --pair 3.12-2.15.0 --output FILE
       matrix.py report FILE... [--no-write] [--results FILE]

`try` lets the self-test be made anew and runs programs untraced and traced: both must say the same
and end alike, and the trace must be that of the reference's Python but for what torch itself
changed, which the document lists. Then it runs the test files of each level under the pair's
Python. `lost` is for a pair that could not be set up. FILE is JSON but for --results, where each
program and test file is a line, `ok NAME` or `failed NAME`. The exit code is 1 where something
failed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TORCHTRACE = ROOT / ".build/bin/torchtrace"
DOCUMENT = ROOT / "docs/VERSIONS.md"
SCRIPTS = ROOT / "testdata/scripts"

# Dynamo's counters show whether tracing changed the compilation.
COMPILED = (
    f"import runpy; runpy.run_path({str(SCRIPTS / 'compiled_step.py')!r})\n"
    "from torch._dynamo.utils import counters\n"
    "names = ('frames', 'stats', 'graph_break')\n"
    "print({name: dict(sorted(counters[name].items())) for name in names})\n"
)
PROGRAMS = {
    "seed": [str(SCRIPTS / "seed_example.py")],
    "MLP": [str(SCRIPTS / "train_mlp.py")],
    "compiled": ["-c", COMPILED],
}
LEVELS = "0,1,2"
SELF_TEST = "self-test"
MOST_TOLD = 3  # names for a pair and program
WIDTH = 120  # line width of the document
TESTS = {
    "level 0": [
        "dialects/python/setattr/script_hook_test.py",
        "dialects/torch/setattr/setattr_test.py",
        "python/hot_loop_test.py",
        "python/level_0_test.py",
    ],
    "level 1": ["dialects/torch/function/function_test.py"],
    "level 2": ["dialects/torch/dispatch/dispatch_test.py"],
    "module": ["python/trace_test.py"],
    "threads": ["dialects/torch/testing/thread_test.py"],
    "numbers": ["dialects/torch/describe/numbers_test.py", "cmd/nan_test.py"],
}


def environment():
    """The environment without variables that choose a Python or configure a run."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TORCHTRACE", "PYTHON"))}
    # A CUDA build reports, with the time, that it finds no GPU.
    return {
        **kept,
        "KINETO_LOG_LEVEL": "99",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCHTRACE": str(TORCHTRACE),
    }


def run(command, **variables):
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        env=environment() | variables,
        stdin=subprocess.DEVNULL,
    )


def ended(result):
    # torch.compile's processes and warnings print addresses, process numbers and times.
    stderr = re.sub(r"0x[0-9a-f]+|\d+", "#", result.stderr)
    return result.stdout, stderr, result.returncode


def traced(python, program, folder):
    command = [TORCHTRACE, "run", "-q", "-f", "--formats", "none", "-l", LEVELS, "-o", folder]
    return run([*command, "--python", python, *program])


def self_test(options, folder):
    """What torchtrace reports about the levels on the first use of this pair."""
    command = [
        TORCHTRACE,
        "run",
        "-q",
        "-f",
        "--formats",
        "none",
        "-l",
        LEVELS,
        "-o",
        folder / "own",
    ]
    command += ["--python", options.python, "-c", "import torch"]
    ran = run(command, XDG_CACHE_HOME=str(folder / "cache"))
    if ran.returncode != 0:
        return {"verdict": "refused", "problem": ran.stderr[-2000:]}
    failed = json.loads((folder / "own/run.json").read_text()).get("self_test", {}).get("failed")
    if failed is None:
        return {"verdict": "not made", "problem": "run.json names no self-test"}
    if failed:
        return {"verdict": "levels switched off", "problem": "\n".join(failed)}
    return {"verdict": "right"}


def compare(name, program, options, folder):
    """The matrix's result for one program: {"verdict", "problem"?, "differences"?}."""
    reference, own = folder / f"{name}-reference", folder / name
    plain = run([options.python, *program])
    if plain.returncode != 0:
        return {"verdict": "fails untraced", "problem": plain.stderr[-2000:]}
    seen = traced(options.python, program, own)
    if ended(seen) != ended(plain):
        return {
            "verdict": "another program",
            "problem": f"untraced: {ended(plain)}\ntraced: {ended(seen)}"[-4000:],
        }
    wanted = traced(options.reference, program, reference)
    if wanted.returncode != 0:
        return {"verdict": "no reference", "problem": wanted.stderr[-2000:]}
    shown = run([TORCHTRACE, "diff", "--format", "json", reference, own])
    if shown.returncode not in (0, 1):
        return {"verdict": "no comparison", "problem": shown.stderr[-2000:]}
    different = json.loads(shown.stdout)
    configs = different["configs"]
    if not configs:
        return {"verdict": "same"}
    apis = sorted({f"{change['level']}: {change['api']}" for change in configs})
    verdict = "1 config differs" if len(configs) == 1 else f"{len(configs)} configs differ"
    return {"verdict": verdict, "differences": apis}


def test(files, options, folder):
    results = folder / "pytest.xml"
    command = [options.python, "-m", "pytest", "-q", "-n", str(min(4, os.cpu_count() or 1))]
    command += ["--dist", "worksteal", "-p", "no:cacheprovider", f"--junitxml={results}", *files]
    ran = run(command)
    if not results.exists():
        return {"verdict": "pytest fails", "problem": (ran.stdout + ran.stderr)[-2000:]}
    cases = list(ElementTree.parse(results).getroot().iter("testcase"))
    results.unlink()
    failed = [c for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = sum(c.find("skipped") is not None for c in cases)
    passed = len(cases) - len(failed) - skipped
    if not failed and passed:
        return {"verdict": f"{passed} passed"}
    problem = "\n".join(f"{c.get('classname')}::{c.get('name')}" for c in failed)
    return {"verdict": f"{len(failed)} of {passed + len(failed)} failed", "problem": problem}


def is_bad(cell):
    return "problem" in cell


def try_pair(options):
    columns = {}
    with tempfile.TemporaryDirectory(prefix="torchtrace-matrix-") as name:
        folder = Path(name)
        columns[SELF_TEST] = self_test(options, folder)
        for program, words in PROGRAMS.items():
            columns[program] = compare(program, words, options, folder)
        for level, files in TESTS.items():
            columns[level] = {"verdict": ""} if options.quick else test(files, options, folder)
    return columns


def cells(columns):
    return [
        columns.get(name, {"verdict": ""})["verdict"] for name in (SELF_TEST, *PROGRAMS, *TESTS)
    ]


def order(pair):
    return [int(number) for number in re.findall(r"\d+", pair)]


def between(text, mark):
    """The lines between `<!-- matrix MARK -->` and `<!-- end -->`: (before, lines, after)."""
    begin = f"<!-- matrix {mark} -->\n"
    before, _, rest = text.partition(begin)
    lines, end, behind = rest.partition("<!-- end -->")
    return before + begin, lines.splitlines(), end + behind


def kept_rows(lines, width):
    """The rows of a Markdown table: {"3.12-2.15.0": cells}."""
    rows = {}
    for line in [line for line in lines if line.startswith("|")][2:]:
        fields = [field.strip() for field in line.strip("|").split("|")]
        if len(fields) == width:
            rows[f"{fields[0]}-{fields[1]}"] = fields[2:]
    return rows


def wrapped(item):
    """Wraps like mdformat, not within code."""
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", "\0"), item)
    filled = textwrap.fill(whole, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return filled.replace("\0", " ")


def lines(results):
    """For tools/test: a line for each cell."""
    for pair, columns in sorted(results.items()):
        for name, cell in columns.items():
            if cell["verdict"]:
                verdict = (
                    f"failed  {pair} {name}: {cell['verdict']}"
                    if is_bad(cell)
                    else f"ok      {pair} {name}"
                )
                yield verdict + "\n"


def write(results):
    """Writes the results into the document, and keeps the rows of other pairs."""
    text = DOCUMENT.read_text()
    names = ["Python", "torch", SELF_TEST, *PROGRAMS, *TESTS]
    before, lines, behind = between(text, "results")
    rows = kept_rows(lines, len(names))
    rows.update({pair: cells(columns) for pair, columns in results.items()})
    table = ["| " + " | ".join(names) + " |", "|" + " -- |" * len(names)]
    for pair in sorted(rows, key=order):
        table.append("| " + " | ".join([*pair.split("-"), *rows[pair]]) + " |")
    text = before + "\n" + "\n".join(table) + "\n\n" + behind

    before, lines, behind = between(text, "differences")
    told = {}
    for line in "\n".join(lines).replace("\n  ", " ").splitlines():
        if match := re.match(r"- ([^:]+), (\S+): (.*)", line):
            told |= {(pair, match[2]): match[3] for pair in match[1].split(", ")}
    for pair, columns in results.items():
        for program in PROGRAMS:
            told.pop((pair, program), None)
            if apis := columns.get(program, {}).get("differences"):
                more = len(apis) - MOST_TOLD
                named = ", ".join(f"`{api}`" for api in apis[:MOST_TOLD])
                told[pair, program] = named + f" and {more} more" * (more > 0)
    pairs = {}
    for pair, program in sorted(told, key=lambda key: (order(key[0]), key[1])):
        pairs.setdefault((program, told[pair, program]), []).append(pair)
    listed = [
        wrapped(f"- {', '.join(of)}, {program}: {text}") for (program, text), of in pairs.items()
    ]
    DOCUMENT.write_text(before + "\n" + "\n".join(listed) + "\n\n" + behind)


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(dest="verb", required=True)
    trying = verbs.add_parser("try")
    lost = verbs.add_parser("lost")
    for verb in (trying, lost):
        verb.add_argument("--pair", required=True)
        verb.add_argument("--output", type=Path, required=True)
    trying.add_argument("--python", required=True)
    trying.add_argument("--reference", required=True)
    report = verbs.add_parser("report")
    report.add_argument("files", nargs="*", type=Path)
    report.add_argument("--results", type=Path)
    for verb in (trying, report):
        verb.add_argument("--quick", action="store_true")
        verb.add_argument("--no-write", action="store_true")
    options = parser.parse_args()

    if options.verb == "report":
        results = {file.stem: json.loads(file.read_text()) for file in options.files}
        if not options.no_write and not options.quick:
            write(results)
        if options.results:
            options.results.write_text("".join(lines(results)))
        good = sum(not any(map(is_bad, columns.values())) for columns in results.values())
        print(f"{good} passed, {len(results) - good} failed")
        return 0 if good == len(results) else 1
    columns = (
        try_pair(options)
        if options.verb == "try"
        else {"seed": {"verdict": "not built", "problem": "see above"}}
    )
    options.output.write_text(json.dumps(columns, indent=1))
    for name, cell in columns.items():
        if cell["verdict"]:
            print(f"  {name}: {cell['verdict']}")
        for line in cell.get("problem", "").splitlines():
            print(f"    {line}")
    return 1 if any(map(is_bad, columns.values())) else 0


if __name__ == "__main__":
    sys.exit(main())
