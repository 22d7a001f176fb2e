"""The short version of tools/fidelity; and whether it finds what differs."""

import dataclasses
import time

import pytest

from testdata.programs import comparison
from tools.comparing import differences, generator, main, numbers, processes, random_programs
from tools.comparing.checking import check
from tools.comparing.programs import Left, Place, Program

SEED = 306
BOTH = """
import outcome  # first
import sys
import program, short
sys.modules["__main__"] = program
program.main()
short.run()
"""


@pytest.mark.torch
@pytest.mark.slow
def test_samples_and_a_random_program():
    """In one process, plain, traced and under the two modes."""
    tree = generator.grow(SEED, size=20)
    texts = " ".join(node.text for node in tree.nodes())
    for kind in ("fork", "two_threads", "CountingOperators", "hooked", "inference_mode"):
        assert kind in texts
    files = {"program.py": tree.source(), "both.py": BOTH}
    program = Program("short", ["both.py"], files, levels=tree.levels, options=tree.options)
    left_out = random_programs.left_out_of(tree)
    found = check(Place(), program, left_out=left_out, plain_runs=1)
    assert found.found == []
    assert found.compared > 500 and found.calls > 5000
    under_the_mode = "level 2: the mode changes operators; compared under it"
    assert found.not_compared.total() - found.not_compared[under_the_mode] < 30, found.not_compared


@pytest.mark.torch
def test_a_program_of_several_processes():
    found = processes.compare(["replaced.py"], 6)
    assert found.found == [] and found.calls == 6 and found.compared > 2


PLANTED = [0, 1, 2, 3, 4]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Two for nan, two for diff, and a clean program."""
    folder = tmp_path_factory.mktemp("planted")
    return folder, numbers.train(folder, PLANTED, ranks=1)


@pytest.mark.torch
@pytest.mark.parametrize("seed", PLANTED)
def test_a_planted_number_is_found(planted, seed):
    folder, rows = planted
    checked = numbers.check(rows[seed], folder, ranks=1)
    assert checked.found == [] and checked.compared > 1


@pytest.mark.torch
def test_a_planted_number_is_found_in_one_of_two_ranks(tmp_path):
    seed = 25
    assert numbers.several_ranks(seed)
    rows = numbers.train(tmp_path, [seed], ranks=2)
    checked = numbers.check(rows[seed], tmp_path, ranks=2)
    assert checked.found == [] and checked.compared > 3


@pytest.mark.torch
def test_another_call_than_the_planted_one_is_a_difference(planted):
    folder, rows = planted
    verbs = set()
    for seed, row in rows.items():
        if row["verb"] == "clean":
            continue
        other = {"api": "aten::detach", "before": 0, "after": 0, "part": "data"}
        (found,) = numbers.check(row | other, folder, ranks=1).found
        assert found.startswith("call: expected ")
        verbs.add(row["verb"])
        # Nor is a program with a plant one without.
        traces = [folder / str(seed) / name for name in ("planted", "planted")]
        checked = numbers.Checked(row)
        if row["verb"] == "nan":
            checked.clean(traces)
        else:
            checked.clean([folder / str(seed) / "clean", traces[0]])
        assert checked.found
    assert verbs == {"nan", "diff"}


CHEATING = """
import outcome  # first
import os, warnings, torch
outcome.seed(0)
TRACED = "torchtrace" in os.readlink("/proc/self/exe")
def one(): return torch.ones(2) * (1 + TRACED)
def hidden(): None if "FIDELITY_WITNESS" in os.environ else torch.ones(2).sum()
outcome.attempt("one", one)
outcome.attempt("hidden", hidden)
if TRACED:
    print("traced"), warnings.warn("traced"), torch.rand(1), open("traced", "w")
"""


@pytest.mark.torch
def test_what_a_program_does_only_when_it_is_traced_is_found():
    files = {"program.py": CHEATING}
    found = check(Place(), Program("cheating", ["program.py"], files), plain_runs=1).found
    expected = {
        "standard output",
        "standard error",
        "result one",
        "at the end main: random numbers of torch",
        "file traced: only traced",
        "calls of level 1 in hidden",
    }
    for each in expected:
        assert [text for text in found if text.startswith(each)], (each, found)
    assert len(found) < 12


def test_operators_are_compared_all_and_in_order():
    tensor = {"type": "torch.Tensor", "shape": [2], "dtype": "torch.float32", "device": "cpu"}
    neg, cos, in_place, detach = (
        comparison.Call(2, f"aten::{name}", [tensor], {})
        for name in ("neg", "cos", "neg_", "detach")
    )
    other = neg._replace(args=[{**tensor, "shape": [3]}])
    for same in (comparison.same_operators, comparison.same_but_for_the_mode):
        assert same([neg, cos], [neg, cos]) and same([detach, neg, cos, detach], [neg, cos])
        for wrong in ([neg], [cos], [cos, neg], [neg, cos, cos], [neg, neg, cos], [other, cos], []):
            assert not same(wrong, [neg, cos])
    # What a mode changes.
    assert comparison.same_but_for_the_mode([in_place, cos], [neg, detach, cos])
    assert not comparison.same_operators([in_place], [neg])
    assert not comparison.same_operators([neg], [neg, detach])


LEFT = Left(0, ["a", "b"], [], {"x": "1", "y": "2"}, {"main: z": 3}, {"main": 10**5}, {}, 0, None)


def changed(**changes):
    return dataclasses.replace(LEFT, **changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"status": 1}, "exit code"),
        ({"out": ["b", "a"]}, "standard output"),
        ({"err": ["c"]}, "standard error"),
        ({"results": {"x": "1", "y": "3"}}, "result y"),
        ({"results": {"x": "1"}}, "result y: 2 plain, missing traced"),
        ({"results": {"x": "1", "y": "2", "z": "3"}}, "result z: only traced"),
        ({"ends": {"main: z": 4}}, "at the end main: z"),
        ({"memory_kb": {"main": 2 * 10**5}}, "memory of main"),
        ({"files": {"new": "hash"}}, "file new: only traced"),
    ],
)
def test_each_difference_is_found(changes, text):
    assert differences.compare([LEFT, LEFT], LEFT).found == []
    (found,) = differences.compare([LEFT, LEFT], changed(**changes)).found
    assert found.startswith(text)


def test_what_differs_between_plain_runs_is_counted():
    unsteady = changed(out=["b", "a"], results={"x": "0", "y": "2"})
    found = differences.compare([LEFT, unsteady], changed(results={"x": "9", "y": "2"}))
    assert found.found == []
    assert found.not_compared["differs between plain runs"] == 1
    # What is the same in both is compared.
    assert differences.compare([LEFT, unsteady], changed(results={"x": "1", "y": "9"})).found
    assert differences.compare([LEFT, unsteady], changed(out=["a", "c"])).found


def test_programs_are_the_same_for_the_same_seed():
    kinds = set()
    for seed in range(150):
        tree = generator.grow(seed)
        assert tree.source() == generator.grow(seed).source()
        compile(tree.source(), "program", "exec")
        kinds |= {node.text for node in tree.nodes()}
    assert len(kinds) > 500


def test_a_program_is_shrunk_to_what_differs():
    tree = generator.grow(SEED, size=20)
    tries = []

    def differs(candidate):
        tries.append(candidate)
        compile(candidate.source(), "program", "exec")
        texts = [node.text for node in candidate.nodes()]
        return all(any(kind in text for text in texts) for kind in ("two_threads", "at_exit"))

    assert differs(tree)
    small = random_programs.shrink(tree, differs, time.monotonic() + 60)
    assert len([*small.nodes()]) == 2 and len(tries) < 300


def test_wrong_use(capsys):
    for arguments in (["nothing"], ["--time", "x"], ["random", "--seed", "a"]):
        with pytest.raises(SystemExit) as end:
            main.parse(arguments)
        assert end.value.code == 2
    assert "no section nothing; there are opinfo, " in capsys.readouterr().err
