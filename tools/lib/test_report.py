"""Sums up one run of tools/test.

Usage: test_report.py [--checks FILE] [--bazel FILE] [--pytest FILE] [--matrix FILE]
                      [--times FILE] [--failed NAME]...

FILEs are tools/check's results, Bazel's build event file (JSON), pytest's JUnit XML and
tools/matrix's results; that of --times has a line `SECONDS NAME` for each part of the run.
--failed adds a failure that none of them holds. Prints the failures, with --times what took
longest, a line per part, and as the last line of all `N passed, N failed` with `, N skipped`
behind it if any. The exit code is 1 if anything failed or nothing ran.
"""

import argparse
import collections
import json
import os
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree

# passed, failed or skipped; a Bazel label or a Python file; seconds
Case = collections.namedtuple("Case", "name verdict target seconds", defaults=("", 0.0))
SLOWEST = 20


def line_cases(text, prefix):
    """The results of tools/check and matrix: `ok`, `failed` or `skipped` and a name a line."""
    for line in text.splitlines():
        verdict, name = line.split(None, 1)
        yield Case(prefix + name, "passed" if verdict == "ok" else verdict)


def xml_cases(root, label=""):
    """The test cases of a JUnit XML tree, written by GoogleTest, Bazel or pytest.

    Those of pytest have no label: their class names contain the file."""
    prefix = f"{label} " if label else ""
    for case in root.iter("testcase"):
        scope = case.get("classname")
        name = prefix + (f"{scope}.{case.get('name')}" if scope else case.get("name", ""))
        if case.find("failure") is not None or case.find("error") is not None:
            verdict = "failed"
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            verdict = "skipped"
        else:
            verdict = "passed"
        yield Case(name, verdict, label or scope or name, float(case.get("time") or 0))


def target_cases(label, event):
    """The cases of a target that ran, given its testResult event."""
    cases = []
    for output in event.get("testActionOutput", []):
        path = urllib.parse.unquote(urllib.parse.urlparse(output.get("uri", "")).path)
        if output.get("name") == "test.xml" and os.path.exists(path):
            try:
                cases = list(xml_cases(ElementTree.parse(path).getroot(), label))
            except ElementTree.ParseError:
                cases = []
    # A sanitizer's report or a crash at exit comes after the last case.
    if event.get("status") != "PASSED" and not any(case.verdict == "failed" for case in cases):
        cases.append(Case(f"{label} ({event.get('status', 'no status').lower()})", "failed"))
    return cases


def bazel_cases(lines):
    """The cases of all test targets, and one failed case for each target not built."""
    finished = False
    for line in lines:
        event = json.loads(line)
        kind, key = next(iter(event["id"].items()))
        if kind == "testResult":
            yield from target_cases(key["label"], event["testResult"])
        elif kind == "targetCompleted":
            # The results of tests that were built come from testResult events.
            if not event.get("completed", {}).get("success"):
                yield Case(key["label"] + " (not built)", "failed")
        elif kind in ("pattern", "unconfiguredLabel", "configuredLabel") and "aborted" in event:
            what = event["aborted"].get("description", "").strip() or str(key)
            yield Case("bazel: " + what.splitlines()[0], "failed")
        elif kind == "buildFinished":
            finished = True
    if not finished:
        yield Case("bazel did not finish", "failed")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def report(parts, out):
    """Prints parts, [(name, [Case])], to out and returns the exit code."""
    total = collections.Counter()
    failed = []
    lines = []
    for name, cases in parts:
        counts = collections.Counter(case.verdict for case in cases)
        total += counts
        failed += [case.name for case in cases if case.verdict == "failed"]
        lines.append(f"{name:<12}{counted(counts)}")
    if failed:
        print("\nFailed:", file=out)
        for name in failed:
            print("  " + name, file=out)
    print("\n" + "\n".join(lines), file=out)
    print(counted(total), file=out)
    return 1 if failed or not total["passed"] else 0


def report_times(lines, parts, out):
    """Prints what took longest: cases, their targets, and the parts of the run."""
    cases = [case for _, cases in parts for case in cases]
    targets = collections.Counter()
    for case in cases:
        targets[case.target] += case.seconds
    slowest = sorted(cases, key=lambda case: -case.seconds)[:SLOWEST]
    print("\nSlowest test cases, in seconds:", file=out)
    for case in slowest:
        print(f"{case.seconds:8.1f}  {case.name}", file=out)
    print("\nSlowest files and targets, in seconds of their cases:", file=out)
    for target, seconds in targets.most_common(SLOWEST):
        print(f"{seconds:8.1f}  {target}", file=out)
    print("\nMinutes:", file=out)
    times = [line.split(None, 1) for line in lines]
    for seconds, name in [*times, (sum(float(seconds) for seconds, _ in times), "all")]:
        print(f"{float(seconds) / 60:8.1f}  {name}", file=out)


def counted(counts):
    text = f"{counts['passed']} passed, {counts['failed']} failed"
    return text + (f", {counts['skipped']} skipped" if counts["skipped"] else "")


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("--checks")
    parser.add_argument("--bazel")
    parser.add_argument("--pytest")
    parser.add_argument("--matrix")
    parser.add_argument("--times")
    parser.add_argument("--failed", action="append", default=[])
    options = parser.parse_args(arguments)

    parts = []
    if options.checks:
        parts.append(("checks", list(line_cases(read(options.checks), "tools/check: "))))
    if options.bazel:
        parts.append(("C++", list(bazel_cases(read(options.bazel).splitlines()))))
    if options.pytest:
        root = ElementTree.fromstring(read(options.pytest))
        parts.append(("Python", list(xml_cases(root))))
    if options.matrix:
        cases = list(line_cases(read(options.matrix), "tools/matrix: "))
        parts.append(("matrix", cases))
    if options.failed:
        parts.append(("other", [Case(name, "failed") for name in options.failed]))
    if options.times:
        report_times(read(options.times).splitlines(), parts, sys.stdout)
    return report(parts, sys.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
