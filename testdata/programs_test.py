"""Real programs behave the same under torchtrace, and their traces are complete.

Each program runs untraced, traced at levels 0,1,2, traced at levels 1,2 with additional modes that
see every call (testdata/programs/witness.py modes), and untraced with PyTorch's profiler and a mode
that sees every function, or, where modes change the calls, Python's profile hook (witness.py
functions, witness.py counts).
"""

import collections
import json
import operator
import os
import pathlib
import re
import shlex
import subprocess
import sys

import filelock
import pytest
import yaml

from testdata.programs import comparison

pytestmark = [pytest.mark.torch, pytest.mark.slow]

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "testdata" / "scripts"
WITNESS = ROOT / "testdata" / "programs" / "witness.py"
TORCHTRACE = os.environ.get("TORCHTRACE", str(ROOT / ".build" / "bin" / "torchtrace"))

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("TORCHTRACE")},
    "OMP_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}

PROGRAMS = {
    "seed_example": ["seed_example.py"],
    "train_mlp": ["train_mlp.py"],
    "train_transformer": ["train_transformer.py"],
    # Of one worker, the batches arrive in order.
    "train_lightning": ["train_lightning.py", "--workers", "1"],
    "train_gcn": ["train_gcn.py"],
    "encoder_eval": ["encoder_eval.py"],
    "compiled_step": ["compiled_step.py"],
    "opinfo_samples": ["opinfo_samples.py", "--samples", "3"],
}

# The 40 steps or epochs make the same calls: 11 are enough, and have one of each kind.
STEPS = ("range(40)", "range(11)")

# Modes change the calls of these programs: the encoder does without its fused kernels, and
# torch.compile runs eagerly.
CHANGED_BY_MODES = ("encoder_eval", "compiled_step")

# Under any dispatch mode the gradient of some samples of prod raises, and that of some samples of
# linalg.eig doesn't, which changes the program's further calls.
CHANGED_BY_DISPATCH_MODE = ("opinfo_samples",)

# Calls that torch.multiprocessing makes for a tensor that a worker sends: in a thread of its queue,
# where modes are off.
OF_FEEDER_THREADS = {
    "torch.Tensor.untyped_storage",
    "torch.Tensor.storage_offset",
    "torch.Tensor.size",
    "torch.Tensor.stride",
}

# Python's profile hook does not report operators like +, calls of types, or the class in which a
# method was looked up.
UNTOLD = ("torch.Tensor.", "torch.ops.", "torch.device")


class Runs:
    """The runs of one program for one test, in a folder where only traces may appear. `shared` is
    a folder for all tests of the program."""

    def __init__(self, folder, program, shared):
        self.folder = folder
        self.shared = shared
        shared.mkdir(exist_ok=True, parents=True)
        script = shared / program[0]
        self.program = [str(script), *program[1:]]
        with filelock.FileLock(shared / "lock"):
            if not script.exists():
                script.write_text((SCRIPTS / program[0]).read_text().replace(*STEPS))

    def start(self, *command):
        cwd = self.folder / "cwd"
        cwd.mkdir(exist_ok=True)
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(self.shared / "inductor"),
            "TMPDIR": str(self.folder),
        }
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**ENVIRONMENT, **caches},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert list(cwd.iterdir()) == []
        return done

    def once(self, name, run):
        """The finished process of `run()`, which only the first test to ask starts."""
        kept = self.shared / f"{name}.json"
        with filelock.FileLock(self.shared / "lock"):
            if not kept.exists():
                done = run()
                kept.write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
        return subprocess.CompletedProcess([], *json.loads(kept.read_text()))

    def untraced(self):
        return self.once("untraced", lambda: self.python(*self.program))

    def python(self, *command):
        return self.start(sys.executable, *command)

    def torchtrace(self, *command):
        return self.start(TORCHTRACE, *map(str, command))

    def traced(self, name, *command, options=("--levels", "1,2", "--formats", "none")):
        out = self.folder / name
        run = ["run", "-q", "--python", sys.executable, "-o", out, *options]
        return self.torchtrace(*run, *command), out

    def read(self, *command):
        """The output of a verb that reads traces."""
        done = self.torchtrace(*command)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def calls(self, trace):
        """The calls of main threads by process, and those of other threads."""
        dump = self.read("dump", "--format", "jsonl", trace)
        run = json.loads((trace / "run.json").read_text())
        return comparison.recorded_calls(map(json.loads, dump.splitlines()), run)


@pytest.fixture
def runs_of(request, tmp_path_factory):
    """Makes the Runs of a program, in a folder."""
    shared = tmp_path_factory.getbasetemp()
    # Each worker of pytest-xdist has a folder of its own in that of all.
    shared = shared.parent if hasattr(request.config, "workerinput") else shared
    return lambda name, folder: Runs(folder, PROGRAMS[name], shared / "programs" / name)


@pytest.fixture
def runs(request, tmp_path, runs_of):
    return runs_of(getattr(request, "param", "seed_example"), tmp_path)


told = operator.attrgetter("told")

# What the witness itself calls, with torch functions disabled, to describe tensors.
OF_THE_WITNESS = {"torch.Tensor.is_contiguous", "torch.Tensor.stride"}


def counter(calls, level):
    return collections.Counter(call.api for call in calls if call.level == level)


def check_counts(runs, trace, everything):
    """run.json, info, stats and the log are consistent."""
    run = json.loads((trace / "run.json").read_text())
    info = json.loads(runs.read("info", "--format", "json", trace))
    stats = json.loads(runs.read("stats", "--format", "json", trace))
    apis = collections.Counter((call.level, call.api) for call in everything)
    assert run["counts"] == info["counts"]
    assert run["exit_code"] == info["exit_code"] == 0
    assert run["counts"]["calls"] == stats["total_calls"] == len(everything)
    assert run["counts"]["apis"] == stats["total_apis"] == len(apis)
    assert run["counts"]["configs"] == stats["total_configs"]
    assert {(row["level"], row["api"]): row["calls"] for row in stats["apis"]} == apis
    for level, count in run["counts"]["levels"].items():
        assert count["calls"] == counter(everything, int(level)).total()
    assert run["open_calls"] == 0
    assert run["dropped"] == {} and run["stopped"] == [] and not run["damage"]["damaged"]
    return run


def check_modes(runs, witnessed, trace):
    """The trace has all calls that the modes saw, in order; all other records were dispatched."""
    recorded, elsewhere = runs.calls(trace)
    assert {call.api for call in elsewhere} <= OF_FEEDER_THREADS
    seen = comparison.witnessed_calls(witnessed)
    assert seen
    operators = collections.Counter(
        name for _, name, _ in comparison.read_lines(witnessed / "operators.jsonl")
    )
    for pid, calls in seen.items():
        missing, extra = comparison.missing_and_extra(recorded.get(pid, []), calls)
        assert missing is None, f"{missing}\nin process {pid}"
        extra_functions = counter([call for call in extra if call.told], 1)
        assert extra_functions.keys() <= OF_THE_WITNESS
        for api in counter(extra, 2):
            assert counter(recorded[pid], 2)[api] <= operators[api], (
                f"{api} was not called that often"
            )
    assert recorded.keys() == seen.keys()


def same_at_all_levels(runs, *options):
    """Checks that the program behaves the same at levels 0,1,2 and untraced. Returns the untraced
    process, the calls by process, those of other threads, and run.json."""
    untraced = runs.untraced()
    options = ("--levels", "0,1,2", "--formats", "none", *options)
    traced, trace = runs.traced("traced", *runs.program, options=options)
    assert traced.stdout == untraced.stdout
    assert traced.stderr == untraced.stderr
    assert traced.returncode == untraced.returncode == 0
    calls, elsewhere = runs.calls(trace)
    run = check_counts(runs, trace, [call for each in calls.values() for call in each] + elsewhere)
    return untraced, calls, elsewhere, run


def main_calls(calls, run):
    return calls[next(each["pid"] for each in run["processes"] if each["role"] == "main")]


def check_level_0(main, run):
    assert not any("level 0" in text for text in run["not_seen"])
    level0 = counter(main, 0)
    assert level0.total() > 0
    for api, number in counter(main, 1).items():
        if api.startswith("torch.nn.functional."):
            assert level0[api] >= number, f"{api} was called more often"


def witnessed_alone(runs, kind, untraced):
    """The folder that this witness wrote of the untraced program."""
    folder = runs.folder / kind
    folder.mkdir()
    done = runs.python(str(WITNESS), kind, str(folder), *runs.program)
    assert (done.returncode, done.stdout) == (0, untraced.stdout)
    return folder


def check_operators(main, witnessed):
    """The operators are those that PyTorch's profiler saw."""
    operators = comparison.operators_below_autograd(
        comparison.read_lines(witnessed / "operators.jsonl")
    )
    level2 = [call for call in main if call.level == 2]
    assert comparison.first_difference(level2, operators) is None
    opened, closed = comparison.ranges(level2)
    assert opened == closed


def check_counts_of_functions(main, witnessed):
    functions = json.loads((witnessed / "functions.json").read_text())
    for api, number in counter(filter(told, main), 1).items():
        if not api.startswith(UNTOLD):
            assert number <= functions.get(api, 0), f"{api} was not called that often"


def check_functions(main, witnessed):
    """The functions are those that a mode saw."""
    seen = max(comparison.witnessed_calls(witnessed).values(), key=len)
    level1 = [[call for call in each if call.level == 1 and call.told] for each in (main, seen)]
    missing, extra = comparison.missing_and_extra(*level1)
    assert missing is None
    assert [call for call in extra if call.api not in OF_THE_WITNESS] == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("runs, name", [(name, name) for name in PROGRAMS], indirect=["runs"])
def test_program(runs, name):
    untraced, calls, elsewhere, run = same_at_all_levels(runs)
    assert ("digest" in untraced.stdout) == (name not in ("seed_example", "opinfo_samples"))
    if name == "opinfo_samples":
        assert int(re.search(r"operators: (\d+)", untraced.stdout)[1]) >= 100
    assert {call.api for call in elsewhere} <= OF_FEEDER_THREADS
    main = main_calls(calls, run)
    not_seen = [text for text in run["not_seen"] if "started" not in text]
    assert (not_seen != []) == (name == "compiled_step")
    if name == "compiled_step":
        assert any("kernels that a backend fused" in text for text in run["not_seen"])
    check_level_0(main, run)

    # Without level 0, the other levels see the same.
    if name in CHANGED_BY_MODES:
        witnessed = witnessed_alone(runs, "counts", untraced)
        check_operators(main, witnessed)
        check_counts_of_functions(main, witnessed)
        if name == "compiled_step":  # the test of compilations runs it at these levels
            return
        done, again = runs.traced("again", *runs.program)
        assert (done.returncode, done.stdout, done.stderr) == (0, untraced.stdout, untraced.stderr)
        calls, _ = runs.calls(again)
        below = main_calls(calls, json.loads((again / "run.json").read_text()))
        assert below == [call for call in main if call.level > 0]
        return
    witnessed = witnessed_alone(runs, "functions", untraced)
    check_operators(main, witnessed)
    check_functions(main, witnessed)
    witnessed = runs.folder / "modes"
    witnessed.mkdir()
    done, again = runs.traced("again", str(WITNESS), "modes", str(witnessed), *runs.program)
    assert done.returncode == 0, done.stderr
    check_modes(runs, witnessed, again)
    assert (done.stdout == untraced.stdout) == (name not in CHANGED_BY_DISPATCH_MODE)


# The calls of everything that a scan finds are hard to predict, so this checks only a few.
@pytest.mark.timeout(900)
def test_programs_with_everything_at_level_0(tmp_path, runs_of):
    # Both use one list of everything in torch, which takes half a minute to make.
    for name in ("train_mlp", "compiled_step"):
        (tmp_path / name).mkdir()
        runs = runs_of(name, tmp_path / name)
        _, calls, _, run = same_at_all_levels(runs, "--disable-torch-api-list")
        (part,) = run["api_list"]
        assert part["list"] == "everything" and part["apis"] > 20_000
        level0 = counter([call for each in calls.values() for call in each], 0)
        assert any("._" in api for api in level0)  # private


def test_comparison():
    """The comparison finds a lost, changed or moved call on either side."""
    size = {"type": "list", "value": [2]}
    calls = [comparison.Call(2, "aten::ones", [size], {}), comparison.Call(2, "aten::cos", [1], {})]
    calls.append(calls[0]._replace(args=[{"type": "list", "value": [3]}]))
    assert comparison.missing_and_extra(calls, calls) == (None, [])
    assert comparison.missing_and_extra(calls, calls[::2]) == (None, [calls[1]])
    for wrong in (calls[:-1], calls[::2], calls[::-1], [*calls[:2], calls[0]]):
        assert comparison.missing_and_extra(wrong, calls)[0] is not None

    tensor = {"type": "torch.Tensor", "shape": [4]}
    records = [
        comparison.Call(2, "aten::cos", [tensor], {}),
        comparison.Call(2, "aten::ones", [size], {}),
    ]
    profile = [
        [0, "aten::cos", [[4]]],
        [1, "aten::empty.memory_format", [[], [], [], [], [], []]],
        [0, "aten::ones", [[], [], [], [], []]],
    ]
    told = comparison.operators_below_autograd(profile)
    assert comparison.first_difference(records, told) is None
    for wrong in (records[:1], records[1:], records[::-1], records + records[:1]):
        assert comparison.first_difference(wrong, told) is not None
    shape = [records[0]._replace(args=[{**tensor, "shape": [5]}]), records[1]]
    assert comparison.first_difference(shape, told) is not None


# ---- The rendered files ----

SEED_LINES = """\
torch.randn(2, 3, device="cpu")
torch.ones(2, 3)
torch.add(Tensor([2, 3], "float32"), Tensor([2, 3], "float32"), alpha=10)
torch.Tensor.sum(Tensor([2, 3], "float32"))
"""
SEED_TENSOR = {"type": "torch.Tensor", "shape": [2, 3], "dtype": "torch.float32", "device": "cpu"}
SEED_CALLS = [
    {"api": "torch.randn", "args": [2, 3], "kwargs": {"device": "cpu"}},
    {"api": "torch.ones", "args": [2, 3], "kwargs": {}},
    {"api": "torch.add", "args": [SEED_TENSOR, SEED_TENSOR], "kwargs": {"alpha": 10}},
    {"api": "torch.Tensor.sum", "args": [SEED_TENSOR], "kwargs": {}},
]
LISTINGS = {"api_trace.txt", "api_trace.yaml"}


def files_in(trace):
    """{name: bytes} of the rendered files."""
    return {path.name: path.read_bytes() for path in trace.glob("api_*")}


def sorted_lines(text):
    return sorted(set(text.splitlines()), key=str.encode)


def test_seed_example(runs):
    done, trace = runs.traced("out", *runs.program, options=["--levels", "1"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (trace / "api_trace.txt").read_text() == SEED_LINES
    assert yaml.safe_load((trace / "api_trace.yaml").read_text()) == SEED_CALLS
    apis = [call["api"] for call in SEED_CALLS]
    assert (trace / "api_apis.txt").read_text() == "".join(api + "\n" for api in sorted(apis))
    configs = (trace / "api_configs.txt").read_text()
    assert configs == "".join(line + "\n" for line in sorted_lines(SEED_LINES))
    statistics = (trace / "api_statistics.txt").read_text()
    assert statistics == "Total APIs: 4\nTotal API calls: 4\n\n" + "".join(
        f"{api}: 1 (25.00%)\n" for api in apis
    )


def test_seed_example_at_levels_0_and_1(runs):
    """The calls of api_tracer's README, once at each level, those of level 1 inside level 0's."""
    done, trace = runs.traced("out", *runs.program, options=["--levels", "0,1", "--merge-output"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    lines = (trace / "api_trace.txt").read_text().splitlines()
    assert lines == [line for line in SEED_LINES.splitlines() for _ in (0, 1)]
    assert (trace / "api_configs.txt").read_text().splitlines() == sorted_lines(SEED_LINES)
    assert (trace / "api_apis.txt").read_text().split() == sorted(
        call["api"] for call in SEED_CALLS
    )
    calls = [
        json.loads(line) for line in runs.read("dump", "--format", "jsonl", trace).split("\n")[:-1]
    ]
    assert [call["level"] for call in calls] == [0, 1] * 4
    assert [call.get("parent") for call in calls[1::2]] == [call["call"] for call in calls[::2]]
    _, apart = runs.traced("apart", *runs.program, options=["--levels", "0,1", "--no-merge-output"])
    for level in (0, 1):
        assert (apart / f"api_trace_level_{level}.txt").read_text() == SEED_LINES
        listing = (apart / f"api_trace_level_{level}.yaml").read_text()
        assert yaml.safe_load(listing) == SEED_CALLS


def test_levels_apart(runs):
    both, merged = runs.traced("merged", *runs.program, options=["--levels", "1,2"])
    done, apart = runs.traced(
        "apart", *runs.program, options=["--levels", "1,2", "--no-merge-output"]
    )
    assert (both.returncode, done.returncode) == (0, 0)
    assert (apart / "api_trace_level_1.txt").read_text() == SEED_LINES
    assert yaml.safe_load((apart / "api_trace_level_1.yaml").read_text()) == SEED_CALLS
    below = (apart / "api_trace_level_2.txt").read_text().splitlines()
    assert [line.partition("(")[0] for line in below] == [
        "aten::randn",
        "aten::ones",
        "aten::add.Tensor",
        "aten::sum",
    ]
    names = set(files_in(merged))
    assert set(files_in(apart)) == {
        f"{name.partition('.')[0]}_level_{level}.{name.partition('.')[2]}"
        for name in names
        for level in (1, 2)
    }
    # Each call of level 1 is followed by the one that it makes at level 2.
    together = (merged / "api_trace.txt").read_text().splitlines()
    assert together == [line for pair in zip(SEED_LINES.splitlines(), below) for line in pair]


def test_rendered_later(runs):
    direct, out = runs.traced("direct", *runs.program, options=["--levels", "1,2"])
    none, later = runs.traced("later", *runs.program)
    assert (direct.returncode, none.returncode) == (0, 0)
    assert files_in(later) == {}
    runs.torchtrace("render", later, "--formats", "all")
    assert files_in(later) == files_in(out) and len(files_in(out)) >= 7
    elsewhere = runs.folder / "elsewhere"
    runs.torchtrace("render", later, "--formats", "txt", "-o", elsewhere)
    texts = {name: data for name, data in files_in(out).items() if name.endswith(".txt")}
    assert files_in(elsewhere) == texts


def test_killed(runs):
    """Every call that was entered is in the files, including the one that was still running."""
    script = runs.folder / "killed.py"
    script.write_text(
        (SCRIPTS / "seed_example.py").read_text()
        + "import os, signal\n"
        + "torch.ones(1).apply_(lambda x: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    done, trace = runs.traced("out", str(script), options=["--levels", "1"])
    assert done.returncode == -9
    assert files_in(trace) == {}
    assert runs.torchtrace("render", trace, "--formats", "all").returncode == 0
    lines = (trace / "api_trace.txt").read_text()
    assert lines.startswith(SEED_LINES + "torch.ones(1)\n")
    calls = yaml.safe_load((trace / "api_trace.yaml").read_text())
    assert len(calls) == len(lines.splitlines())
    assert calls[-1]["api"] == "torch.Tensor.apply_"
    info = json.loads(runs.read("info", "--format", "json", trace))
    assert info["counts"]["calls"] == len(calls)
    assert info["open_calls"] == 1


def test_render_limit(runs):
    options = ["--python", sys.executable, "--levels", "1", "--render-limit", "3"]
    out = runs.folder / "out"
    done = runs.torchtrace("run", "-o", out, *options, *runs.program)
    assert done.returncode == 0
    command = next(
        line.partition("to make them: ")[2]
        for line in done.stderr.splitlines()
        if "left out" in line and "to make them: " in line
    )
    assert files_in(out).keys().isdisjoint(LISTINGS)
    assert "api_configs.txt" in files_in(out)
    assert json.loads((out / "run.json").read_text())["not_rendered"]["command"] == command
    words = shlex.split(command)
    # The command may have a path.
    assert pathlib.Path(words[0]).name == "torchtrace"
    assert runs.torchtrace(*words[1:]).returncode == 0
    assert (out / "api_trace.txt").read_text() == SEED_LINES
    assert LISTINGS <= set(files_in(out))
