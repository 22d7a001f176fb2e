"""Programs with a NaN, an infinity or another number planted at a call: `nan` and `diff --numbers`
must name that call, and none in programs without."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from python import module_testing
from tools.comparing.differences import Comparison
from tools.comparing.programs import SEARCHED
from tools.testing import whole_tool

# Of five, two are for `nan`, two for `diff`, and one is clean.
SEEDS = 250
BATCH = 10
PROGRAM = Path(__file__).with_name("inside") / "planted.py"
# As `nan` calls the parts of a step; None: not compared.
PARTS = {"start": "forward", "data": "forward", "clip": None, "end": None}


def several_ranks(seed):
    return seed // 5 % 6 == 5


def train(folder, seeds, ranks):
    """Runs the program in each rank; returns what must be found, by seed."""
    env = whole_tool.environment(
        {
            "PYTHONPATH": os.pathsep.join(map(str, [module_testing.PACKAGE, *SEARCHED])),
            "OMP_NUM_THREADS": "1",
            "WORLD_SIZE": str(ranks),
        }
    )
    command = [sys.executable, "-B", PROGRAM, folder, *map(str, seeds)]
    running = [
        subprocess.Popen(
            command,
            env=env | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    for each in running:
        out, _ = each.communicate(timeout=600)
        if each.returncode:
            raise RuntimeError(f"seeds {seeds} failed:\n{out}")
    rows = map(json.loads, (folder / "expected.jsonl").read_text().splitlines())
    return {row["seed"]: row for row in rows}


def ask(*words):
    """(exit code, the answer in JSON)"""
    done = whole_tool.torchtrace(*words, "--format", "json", cwd="/")
    if done.status > 1 or done.err:
        raise RuntimeError(f"{words}: exit code {done.status}: {done.err}")
    return done.status, json.loads(done.out)


class Calls:
    """Of a trace."""

    def __init__(self, trace):
        done = whole_tool.torchtrace("dump", trace, "--format", "jsonl", cwd="/")
        if done.status:
            raise RuntimeError(done.err)
        rows = map(json.loads, done.out.splitlines())
        self.rows = {row["call"]: row for row in rows if "call" in row}

    def number_of(self, row):
        """Of the call that was planted."""
        alike = [
            number
            for number, each in self.rows.items()
            if each["level"] == 2
            and each["api"] == row["api"]
            and (each.get("tags") or {}).get("step") == row["step"]
        ]
        # Modes change how gradients are added up in backward passes: what follows them is counted
        # from the end of the step.
        index = -1 - row["after"] if row["part"] in ("clip", "optimizer") else row["before"]
        return alike[index]

    def storages(self, call):
        return {each["storage"] for each in self.rows[call].get("tensors", [])}

    def around(self, call):
        """It, and the calls around it."""
        while call is not None:
            yield call
            call = self.rows[call].get("parent")


def found_in(trace):
    findings = [each for process in trace["processes"] for each in process["findings"]]
    return findings[0] if findings else None


class Checked(Comparison):
    """Of one seed."""

    def __init__(self, row):
        super().__init__()
        self.row = row
        self.found = []

    def same(self, what, expected, got, is_same=None):
        self.compared += 1
        if not (expected == got if is_same is None else is_same):
            self.found.append(f"{what}: expected {expected}, got {got}")

    def place(self, call):
        row = self.row
        self.same("step", row["step"], (call.get("tags") or {}).get("step"))
        module = call.get("module") or ""
        if row["module"]:
            # A wrapper puts something before the path, diff the class after it.
            path = module.partition(" (")[0]
            self.same("module", row["module"], path, ("." + path).endswith("." + row["module"]))
        part = call.get("part")
        if part and 1 in row["levels"]:
            self.same("part", PARTS.get(row["part"], row["part"]) or part, part)

    def nan(self, folders):
        status, answer = ask("nan", *folders)
        self.same("exit code", 1, status)
        # Without ranks there is one.
        rank = self.row["rank"]
        calls = Calls(folders[rank])
        self.calls += len(calls.rows)
        number = calls.number_of(self.row)
        findings = [found_in(trace) for trace in answer["traces"]]
        first = findings[rank]
        expected = self.row["how"], number, self.row["api"]
        got = first and (first["how"], first["call"], first["api"])
        is_same = got == expected
        if first and got[0] == expected[0] == "came in":
            # A call of another level that takes the same memory may be the first.
            is_same = not calls.storages(number).isdisjoint(calls.storages(first["call"]))
            is_same = is_same and first["call"] <= number
        self.same("call", expected, got, is_same)
        if is_same:
            self.place(first)
        for each in findings:
            if each is not first and each is not None:
                by = (each["from"] or {}).get("api", "")
                got = each["how"], by if "reduce" not in by else "c10d::allreduce_"
                self.same("other rank", ("came in", "c10d::allreduce_"), got)

    def diff(self, clean, planted):
        status, answer = ask("diff", "--numbers", clean, planted)
        calls = Calls(planted)
        self.calls += len(calls.rows)
        number = calls.number_of(self.row)
        first = answer["first_in_bits"] or answer["first"]
        if first is None:
            self.same("call", (number, self.row["api"]), None)
            return
        if answer["first"]:
            self.same("exit code", 1, status)
        named = first["b_call"]
        if self.row["origin"] == "only in one":
            named = first["sources"][0]["call"] if first.get("sources") else None
        elif self.row["origin"] == "outside" and first.get("taken"):
            named = first["taken"]["b_call"]
        if self.row["origin"] == "outside":
            is_there = named in calls.around(number)
        else:
            is_there = number in calls.around(named)
        is_same = is_there and first["origin"] == self.row["origin"]
        expected = self.row["origin"], number, self.row["api"]
        self.same("call", expected, (first["origin"], named, first["api"]), is_same)
        if is_same and self.row["origin"] == "computed":
            self.place(first)

    def other_rank(self, clean, planted):
        """Where nothing was planted: a difference must be what a collective brought."""
        _, answer = ask("diff", "--numbers", clean, planted)
        first = answer["first_in_bits"] or answer["first"]
        if first is not None:
            self.same("other rank", "collective", first["origin"])

    def clean(self, traces):
        for name in traces:
            status, answer = ask("nan", name)
            first = found_in(answer["traces"][0])
            self.same(
                "nan of a clean run", (0, None), (status, first and (first["how"], first["api"]))
            )
        status, answer = ask("diff", "--numbers", *traces)
        first = answer["first_in_bits"] or answer["first"]
        got = status, first and (first["origin"], first["api"])
        self.same("diff of clean runs", (0, None), got)


def check(row, folder, ranks):
    folder = folder / str(row["seed"])
    names = [f"-{rank}" for rank in range(ranks)] if ranks > 1 else [""]
    planted, clean, again = (
        [folder / f"{name}{each}" for each in names] for name in ("planted", "clean", "again")
    )
    checked = Checked(row)
    if row["verb"] == "nan":
        checked.nan(planted)
    for rank in range(ranks):
        if row["verb"] == "clean":
            checked.clean([clean[rank], again[rank]])
        elif row["verb"] == "diff" and rank == row["rank"]:
            checked.diff(clean[rank], planted[rank])
        elif row["verb"] == "diff":
            checked.other_rank(clean[rank], planted[rank])
    return checked


def about(row):
    levels = ",".join(map(str, row["levels"]))
    if row["verb"] == "clean":
        return f"seed {row['seed']} clean, levels {levels}"
    where = ", ".join(row["groups"])
    return (
        f"seed {row['seed']} {row['verb']}, {row['plant']}, {row['api']} ({where}), levels {levels}"
    )


def section(run, seeds=SEEDS):
    """a NaN or another number planted at a random call: nan and diff --numbers name it"""
    wanted = range(run.seed, run.seed + seeds)
    for ranks in (1, 2):
        of_ranks = [seed for seed in wanted if several_ranks(seed) == (ranks == 2)]
        for start in range(0, len(of_ranks), BATCH):
            if run.is_over():
                run.say(
                    f"seeds from {of_ranks[start]} with {ranks} ranks: not run: the time is over"
                )
                break
            with tempfile.TemporaryDirectory(prefix="torchtrace-numbers-") as folder:
                batch = of_ranks[start : start + BATCH]
                rows = train(Path(folder), batch, ranks)
                for seed in batch:
                    run.case(about(rows[seed]), check(rows[seed], Path(folder), ranks))
