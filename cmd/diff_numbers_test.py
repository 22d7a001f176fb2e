"""torchtrace diff --numbers: the first call of two runs that computes something else."""

import json
import textwrap

import pytest

from python import warm_testing
from tools.testing import whole_tool as tool

LOGS = tool.ROOT / "testdata/logs/v1"

# A model that trains two steps. CHANGE runs in the second one, before the optimizer.
PROGRAM = """
import sys, torch, torchtrace
from torch import nn

def train(folder, change="", dtype=torch.float32, wrap=lambda model: model, lr=0.1, **options):
    torch.manual_seed(0)
    options |= {"levels": [1, 2, 3], "frames": "modules", "stacks": True, "quiet": True}
    with torchtrace.trace(folder, **options):
        net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))
        model = wrap(net.to(dtype))
        optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
        batches = [torch.randn(8, 16) for _ in range(2)]
        for step, batch in enumerate(batches):
            with torchtrace.annotate(step=step):
                optimizer.zero_grad()
                loss = model(batch.to(dtype)).float().square().sum()
                loss.backward()
                if step == 1:
                    exec(change)
                optimizer.step()
"""


def record(folder, *runs):
    """Runs of train(), each with its arguments as text."""
    code = textwrap.dedent(PROGRAM) + "".join(f"train({run})\n" for run in runs)
    warm_testing.python(code, folder).check()


def diff(*args, cwd="/"):
    return tool.torchtrace("diff", *args, cwd=cwd)


def numbers(a, b, *args, cwd):
    done = diff("--numbers", a, b, "--format", "json", *args, cwd=cwd)
    report = json.loads(done.out)
    assert (done.status, done.err) == (1 if report["different"] else 0, "")
    return report


def test_a_trace_is_the_same_as_itself():
    later = diff("--numbers", LOGS / "later.ttlog", LOGS / "later.ttlog")
    assert (later.status, later.err) == (0, "")
    assert "compared: 7 tensors: 7 the same bit for bit" in later.out
    log = LOGS / "numbers.ttlog"
    done = diff("--numbers", log, log)
    assert (done.status, done.err) == (0, "")
    assert "the same, bit for bit: all" in done.out and "not compared: " in done.out
    assert "# torchtrace diff --numbers" in diff("--numbers", log, log, "--format", "markdown").out


def test_other_comparisons_say_what_they_leave_out(tmp_path):
    log = LOGS / "numbers.ttlog"
    for mode in ([], ["--sequence"]):
        done = diff(log, log, *mode)
        assert (done.status, done.out) == (0, "")
        assert done.err == (
            "torchtrace: the numbers of tensors in both traces were not compared: "
            f"torchtrace diff --numbers {log} {log} does\n"
        )
        assert diff(log, log, "-q", *mode) == tool.Result(0, "", "")
    assert "not compared" not in diff(log, LOGS / "sample.ttlog").err


def test_traces_without_numbers():
    numbers, sample = LOGS / "numbers.ttlog", LOGS / "sample.ttlog"
    done = diff("--numbers", numbers, sample)
    assert (done.status, done.out) == (2, "")
    assert (
        f"{sample} has no numbers of tensors: record both with torchtrace run --numbers" in done.err
    )


def test_wrong_use():
    log = LOGS / "numbers.ttlog"
    for args, message in [
        (["--rtol", "0.1"], "--numbers"),
        (["--numbers", "--rtol", "-1"], "-1 is not a number from 0"),
        (["--numbers", "--atol", "nan"], "nan is not a number from 0"),
        (["--numbers", "--sequence"], "--numbers and --sequence exclude each other"),
        (["--numbers", "--ignore", "counts"], "--numbers doesn't compare counts"),
        (["--numbers", "--top", "3"], "--top is not for --numbers"),
        (["--nested"], "--nested needs --sequence or --numbers"),
    ]:
        done = diff(log, log, *args)
        assert (done.status, done.out) == (2, "") and message in done.err


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    record(
        folder,
        "'base', numbers=True",
        "'again', numbers=True",
        "'lr', lr=0.2, numbers=True",
        "'gradient', 'net[3].weight.grad.mul_(1.5)', numbers=True",
        "'data', 'net[0].bias.data = torch.from_numpy(net[0].bias.detach().numpy() + 1)', "
        "numbers=True",
        "'bf16', dtype=torch.bfloat16, numbers=True",
        "'results', numbers='results'",
        "'changed_results', 'net[3].weight.grad.mul_(1.5)', numbers='results'",
        "'values', ids=True, outputs=True, values='64KB'",
        "'changed_values', 'net[3].weight.grad.mul_(1.5)', ids=True, outputs=True, values='64KB'",
    )
    return folder


@pytest.mark.torch
def test_clean_runs_are_the_same(runs):
    report = numbers("base", "again", cwd=runs)
    assert not report["different"] and report["first"] is report["first_in_bits"] is None
    compared = report["compared"]
    assert compared["tensors"] == compared["tensors_same"] > 200
    # Traces with contents against traces with numbers.
    for name in ("values", "results"):
        report = numbers("base", name, cwd=runs)
        assert report["first_in_bits"] is None and report["compared"]["tensors_same"] > 100


@pytest.mark.torch
def test_another_learning_rate(runs):
    first = numbers("base", "lr", cwd=runs)["first"]
    assert first["origin"] == "computed" and first["tags"] == {"step": 0}
    assert first["level"] == 2 and "0.1" in first["a"] and "0.2" in first["b"]
    assert "other numbers or sizes" in " ".join(first["why"])


@pytest.mark.torch
@pytest.mark.parametrize(
    "a, b",
    [("base", "gradient"), ("results", "changed_results"), ("values", "changed_values")],
)
def test_a_changed_gradient(runs, a, b):
    """A call in place that only B makes."""
    report = numbers(a, b, cwd=runs)
    first = report["first"]
    assert first["origin"] == "only in one" and first["tags"] == {"step": 1}
    assert report["not_compared"]["calls_only_in_b"] > 0
    (source,) = first["sources"]
    assert source["of"] == "b" and "mul_" in source["config"]


@pytest.mark.torch
def test_all_levels_as_one_sequence(runs):
    assert not numbers("base", "again", "--nested", cwd=runs)["different"]
    apart, together = (numbers("base", "gradient", *args, cwd=runs) for args in ([], ["--nested"]))
    assert apart["first"] == together["first"] and apart["compared"] == together["compared"]


@pytest.mark.torch
def test_a_trace_and_its_replay(runs):
    """The calls again, by the script that export makes of them."""
    args = ["--python", tool.PYTHON, "values", "--level", "2", "-qfo", "replay.py"]
    assert tool.torchtrace("export", "python", *args, cwd=runs).status == 0
    script = (runs / "replay.py").read_text()
    assert script.count("alpha=-0.1)") > 4
    (runs / "other.py").write_text(script.replace("alpha=-0.1)", "alpha=-0.2)", 1))
    for name in ("replay", "other"):
        args = ["--python", tool.PYTHON, "-ql2", "--numbers", "--formats", "none", "-o", name]
        assert tool.torchtrace("run", *args, f"{name}.py", cwd=runs).status == 0
    report = numbers("values", "replay", "--level", "2", cwd=runs)
    assert report["first_in_bits"] is None and not report["different"]
    assert report["compared"]["tensors_same"] > 150
    first = numbers("values", "other", "--level", "2", cwd=runs)["first"]
    assert (
        first["origin"] == "computed" and "alpha=-0.1" in first["a"] and "alpha=-0.2" in first["b"]
    )


@pytest.mark.torch
def test_a_tensor_from_numpy(runs):
    first = numbers("base", "data", cwd=runs)["first"]
    assert first["origin"] in ("only in one", "outside") and first["tags"] == {"step": 1}


@pytest.mark.torch
def test_over_dtypes(runs):
    report = numbers("base", "bf16", "--rtol", "0.05", "--atol", "0.05", cwd=runs)
    dtypes = report["compared"]["other_dtypes"]
    assert [(each["a"], each["b"]) for each in dtypes] == [("float32", "bfloat16")]
    assert report["compared"]["tensors_close"] > 100
    assert report["first_in_bits"] is None
    text = diff("--numbers", "base", "bf16", cwd=runs).out
    assert "by numbers alone, not bit for bit: float32 against bfloat16" in text


@pytest.mark.torch
def test_text(runs):
    done = diff("--numbers", "base", "lr", cwd=runs)
    assert (done.status, done.err) == (1, "")
    lines = done.out.splitlines()
    assert lines[0].startswith("--- base") and lines[1].startswith("+++ lr")
    assert lines[4].startswith("first call with the same arguments and another result: call ")
    assert "step 0" in lines[6] and "script.py:" in lines[6]
    table = [line for line in lines if line.endswith("(no module)") or "(Linear)" in line]
    assert len(table) > 3
    assert len(diff("--numbers", "base", "lr", "--all", cwd=runs).out) > len(done.out)
    every = numbers("base", "lr", "--all", cwd=runs)
    assert len(every["calls"]) == every["compared"]["different"] + every["compared"]["close"]


@pytest.mark.torch
def test_a_compiled_model(tmp_path):
    record(
        tmp_path,
        "'eager', numbers=True",
        "'compiled', wrap=lambda model: torch.compile(model, backend='eager'), numbers=True",
        "'changed', 'net[3].weight.grad.mul_(1.5)', "
        "wrap=lambda model: torch.compile(model, backend='aot_eager'), numbers=True",
    )
    report = numbers("eager", "compiled", cwd=tmp_path)
    assert report["compiled"] and not report["different"]
    assert report["compared"]["tensors"] > 50
    report = numbers("eager", "changed", cwd=tmp_path)
    assert report["first"]["tags"] == {"step": 1}


CASE = """
import sys
import numpy, torch
x = torch.ones(3)
scale = torch.from_numpy(numpy.full(3, float({}), dtype=numpy.float32))
torch.mul(x, scale)
"""


@pytest.mark.torch
def test_values_differ(tmp_path):
    """shared/cases/14_values_differ.py"""
    for name, scale in (("a", 0.5), ("b", 0.25)):
        ended = warm_testing.python(
            "import torchtrace\n"
            "options = {'quiet': True, 'levels': [1, 2], 'ids': True, 'outputs': True}\n"
            f"with torchtrace.trace({name!r}, values='64KB', **options):\n"
            + textwrap.indent(CASE.format(scale), "    "),
            tmp_path,
        )
        ended.check()
    first = numbers("a", "b", cwd=tmp_path)["first"]
    assert first["origin"] == "outside" and first["inside"]["a"].startswith("torch.from_numpy(")
    assert first["taken"]["api"] == "torch.mul"
    assert first["taken"]["tensor"]["name"] == "argument args[1]"
