"""torchtrace export python, pytest and fx: code that runs without torchtrace."""

import json
import subprocess

import pytest

from python import warm_testing
from tools.testing import warm_python
from tools.testing import whole_tool as tool

PROGRAM = """
import torch
import torchtrace

linear = torch.nn.Linear(3, 3)
words = torch.nn.Embedding(7, 3)

def forward(tokens, x):
    y = linear(words(tokens)) + x.T
    if y.sum().item() > -100:
        y = torch.add(y, 2, alpha=3)
    y[0, 1:] = 5
    first, second = torch.max(y, dim=0)
    out = torch.empty(3)
    torch.mul(first, 2 - first, out=out)
    out.clamp_(max=0.5)
    try:
        torch.mm(out, out)
    except RuntimeError:
        pass
    return torch.stack([out, second.float()])[:, [0, 2]]

with torch.no_grad():
    torchtrace.resume()
    result = forward(torch.tensor([6, 0, 2]), torch.arange(9.0).view(3, 3))
    torchtrace.pause()
print(result.tolist())
"""

# Invalid arguments in a file of calls.
HOSTILE = [
    ("torch.add\nimport os", [1], {}),
    ("torch.add(__import__('os').system('x'))", [], {}),
    ("os.system", ["echo"], {}),
    ("torch.load", ["x.pt"], {}),
    ("torch.neg", [1], {"a=1, b": 2}),
    ("torch.neg", ['"""\n\\\r\u2028'], {}),
    ("torch.neg", [{"type": "torch.dtype", "value": "torch.x or evil"}], {}),
    ("torch.neg", [{"type": "torch.device", "value": 'cpu") or evil("'}], {}),
    ("torch.neg", [{"type": "object", "value": "a.B\n"}], {}),
    ("aten::neg.x\n", [1], {}),
]
TENSOR = {
    "type": "torch.Tensor", "shape": [2], "dtype": "torch.float32", "device": "cpu", "id": 1
}  # fmt: skip
OS = {"type": "function", "value": "torch.os"}
# Calls that would reach outside torch, and a word of the code that must not appear.
REACHING = [
    ("torch.Tensor.system", [OS, "touch x"], {}, "system"),
    ("torch.Tensor.system", [TENSOR, "touch x"], {}, "system"),
    ("torch.Tensor.dump", [TENSOR, "x"], {}, "dump"),
    ("torch.Tensor.tril", [OS, 1], {}, "tril"),
    ("torch.Tensor.mT.__get__", [{"type": "function", "value": "torch.add"}], {}, "mT"),
    ("torch.Tensor.grad.__set__", ["a", 1], {}, "grad"),
    ("torch.neg", [OS], {}, "torch.os"),
    ("torch.os", [], {}, "torch.os"),
    ("torch.PyTorchFileWriter", ["x"], {}, "PyTorchFileWriter"),
    ("torch._from_blob", [0, [1]], {}, "_from_blob"),
    ("torch.neg", [TENSOR], {"__debug__": 1}, "__debug__"),
    ("torch.neg", [{"type": "int", "value": "1" * 5000}], {}, "1" * 5000),
    ("torch.neg", [{"type": "torch.dtype", "value": "torch.save"}], {}, "torch.save"),
    ("torch.neg", [{"type": "torch.layout", "value": "torch.sys"}], {}, "torch.sys"),
    ("torch.neg", [{**TENSOR, "dtype": "torch.import_ir_module"}], {}, "import_ir_module"),
    ("torch.neg", [{"type": "function", "value": "torch.manual_seed"}], {}, "neg(torch"),
    ("torch.cond", [True, TENSOR, TENSOR, [TENSOR]], {}, "cond"),
    ("torch.Tensor.__dict__.__get__", [TENSOR], {}, "__dict__"),
    ("torch.Tensor.__class__.__set__", [TENSOR, 1], {}, "__class__"),
    ("torch.Tensor._typed_storage", [TENSOR], {}, "_typed_storage"),
    ("torch.Tensor.new", [TENSOR], {"cdata": 1234}, "cdata"),
    ("torch.ops.evil.add.Tensor", [TENSOR], {}, "evil"),
    ("torch.ops.aten", [TENSOR], {}, "ops"),
    ("torch.ops.aten.add.x\n", [TENSOR], {}, "ops"),
]


def python(*args, cwd, python=None):
    command = [python or warm_python.path(), *args]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "program.py").write_text(PROGRAM)
    options = ["--ids", "--outputs", "--values", "64KB", "-l", "1,2", "-o", "out", "-q"]
    options += ["--start-paused"]
    done = tool.torchtrace("run", "--python", tool.PYTHON, *options, "program.py", cwd=folder)
    assert done.status == 0, done.err
    return folder, done.out


def pytest_run(folder):
    return python("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_configs.py", cwd=folder)


def export(folder, *args, python=None):
    """The default Python has imported torch; each format has a test with a real one."""
    env = {"TORCHTRACE_PYTHON": python or warm_python.path()}
    done = tool.torchtrace("export", *args, cwd=folder, env=env)
    assert done.status == 0, done.err
    return done


def recorded(folder, program, levels):
    """Traces the program into `out`, and returns what it prints."""
    options = f"levels={levels}, ids=True, outputs=True, values='64KB'"
    return warm_testing.traced(program, folder, options).out


@pytest.mark.torch
def test_a_script_does_what_the_program_did(traced):
    folder, printed = traced
    done = export(folder, "python", "out", "--force", "-o", "script.py", python=tool.PYTHON)
    assert "1 call raised, and the program went on" in done.err
    code = (folder / "script.py").read_text()
    for line in (
        "y[0, 1:] = 5",
        "2 - ",
        ".clamp_(max=0.5)",
        "[:, [0, 2]]",
        "    except RuntimeError:\n",
    ):
        assert line.removeprefix("y") in code, code
    code = """
import torch, script
with torch.no_grad():
    print(script.program(*script.inputs()).tolist())
"""
    status, out, err = python("-c", code, cwd=folder, python=tool.PYTHON)
    assert (status, out) == (0, printed), err


@pytest.mark.torch
def test_the_last_call_raises_as_it_did(traced):
    folder, _ = traced
    calls = tool.torchtrace(
        "dump", "out", "-l", "1", "--where", "raised", "--format", "jsonl", cwd=folder
    )
    number = str(json.loads(calls.out)["call"])
    for format in ("python", "fx"):
        done = export(
            folder, format, "out", "-l", "1", "--calls", number, "-f", "-o", f"raise_{format}.py"
        )
        assert "the last call raised" in done.err
        run = "raise_fx.graph_module()(*raise_fx.example_inputs())"
        if format == "python":
            run = "raise_python.program(*raise_python.inputs())"
        status, _, err = python("-c", f"import raise_{format}; {run}", cwd=folder)
        assert status == 1 and "RuntimeError" in err, err


MODES = """
import torch
torch.manual_seed(0)
linear, out = torch.nn.Linear(3, 3), torch.ones(2, 3)
total = torch.nn.functional.linear(out, linear.weight)
with torch.no_grad():
    linear.weight.mul_(2)
    torch.mul(linear(out), 2, out=out)
    with torch.enable_grad():
        total = torch.add(total, linear(out))
    linear.weight.random_(0, 4, generator=torch.default_generator)
print(torch.mul(total, out).tolist())
"""


@pytest.mark.torch
def test_gradient_modes_are_those_of_the_program(tmp_path):
    told = recorded(tmp_path, MODES, "[1, 2]")
    for level in "12":
        export(tmp_path, "python", "out", "-l", level, "-o", f"script_{level}.py")
        export(tmp_path, "fx", "out", "-l", level, "-o", f"graph_{level}.py")
    code = """
import torch, script_1, script_2, graph_1
torch.manual_seed(0)
result = script_1.program(*script_1.inputs())
print(result.tolist())
assert torch.is_grad_enabled() and result.requires_grad
module = graph_1.graph_module()
module.graph.eliminate_dead_code()
module.recompile()
torch.manual_seed(0)
result = module(*graph_1.example_inputs())
print(result.tolist())
assert torch.is_grad_enabled() and result.requires_grad
torch.manual_seed(0)
with torch.no_grad():
    print(script_2.program(*script_2.inputs()).tolist())
"""
    status, printed, err = python("-c", code, cwd=tmp_path)
    assert (status, printed) == (0, told * 3), err
    assert "with torch.no_grad():" in (tmp_path / "script_1.py").read_text()
    assert 'getattr(torch.ops.aten.random_, "from")(' in (tmp_path / "script_2.py").read_text()
    # A part of the calls begins in its recorded mode.
    number = export(tmp_path, "csv", "out", "--calls", "-l", "1", "--include", "torch.mul").out
    number = number.splitlines()[1].split(",")[0]
    assert "with torch.no_grad():" in export(tmp_path, "python", "out", "--calls", number).out


AUTOCAST = """
import torch
torch.manual_seed(0)
linear, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
with torch.autocast("cpu", torch.bfloat16):
    hidden = linear(x).relu()
    with torch.no_grad():
        loss = torch.nn.functional.mse_loss(linear(x), hidden)
total = linear(x).sum() + loss
print(loss.dtype, total.item())
"""


@pytest.mark.torch
def test_calls_are_made_under_their_autocast(tmp_path):
    told = recorded(tmp_path, AUTOCAST, "[1]")
    export(tmp_path, "python", "out", "-o", "exported.py")
    export(tmp_path, "fx", "out", "-o", "graph.py")
    export(tmp_path, "pytest", "out", "-o", "calls_test.py")
    code = """
import exported, graph, torch
torch.manual_seed(0)
expected = exported.program(*exported.inputs())
torch.manual_seed(0)
assert graph.graph_module()(*graph.example_inputs()).item() == expected.item()
assert not torch.is_autocast_enabled("cpu") and torch.is_grad_enabled()
print(torch.float32, expected.item())
"""
    status, printed, err = python("-c", code, cwd=tmp_path)
    assert (status, printed) == (0, told), err
    status, printed, err = python("-m", "pytest", "-q", "calls_test.py", cwd=tmp_path)
    assert status == 0, printed + err


MEMORY = """
import torch
import torchtrace

weight = torch.nn.Parameter(torch.ones(3))
whole, rows = torch.arange(8.0), torch.arange(3.0).expand(2, 3)

def forward(a, b, even, odd):
    x = a * 2
    a.add_(1)
    y = (x + b + rows.sum(0)) * weight
    weight.data.mul_(3)
    z = torch.Tensor.apply_(x.detach().clone(), lambda value: value * 2)
    return y + z + weight.data + (weight * 2).data.T + (even + odd)[:3]

more = whole.clone()
parts = whole[0:3], whole[4:7], more[0:7:2], more[1:8:2]
torchtrace.resume()
with torch.profiler.record_function("mark"):
    result = forward(*parts)
torchtrace.pause()
print(result.tolist())
"""


@pytest.mark.torch
def test_memory_that_tensors_share(tmp_path):
    printed_by_program = recorded(tmp_path, "torchtrace.pause()\n" + MEMORY, "[1]")
    told = export(tmp_path, "python", "out", "-o", "exported.py").err
    assert "profiler" not in told and "left out" in told
    export(tmp_path, "fx", "out", "-o", "module.py")
    code = """
import torch, exported, module
for result in exported.program(*exported.inputs()), module.graph_module()(*module.example_inputs()):
    print(result.tolist())
    assert result.requires_grad
"""
    status, printed, err = python("-c", code, cwd=tmp_path)
    assert (status, printed) == (0, printed_by_program * 2), err


@pytest.mark.torch
def test_tensors_of_a_script(tmp_path):
    (tmp_path / "a.txt").write_text("torch.neg(1)\n")
    export(tmp_path, "python", "a.txt", "-o", "script.py")
    code = """
import base64, torch
from script import tensor

def text(made):
    return base64.b64encode(bytes(made.contiguous().view(-1).view(torch.uint8).tolist())).decode()

values = torch.arange(6.0)
rows = tensor((4, 3), torch.float32, stride=(0, 1), contents=text(values[:3].expand(4, 3)))
assert torch.equal(rows, values[:3].expand(4, 3)) and rows.stride() == (0, 1)
even = tensor((3,), torch.float32, stride=(2,), memory=text(values[:5]))
assert torch.equal(even.as_strided((5,), (1,)), values[:5]) and even.tolist() == [0, 2, 4]
assert tensor((0, 2), torch.float32, contents="").shape == (0, 2)
for made in even, tensor((2, 2), torch.float32), tensor((), torch.bool):
    assert not made._is_view()
    made.detach_()
tensor((2,), torch.float32).resize_(9)
high = 2**63 - 1
for dtype, low, high in (
    (torch.int64, high, high),
    (torch.int64, -high - 1, high),
    (torch.int64, high - 1, high),
    (torch.uint64, high + 5, high + 6),
    (torch.uint8, 250, 255),
    (torch.bool, 1, 1),
):
    drawn = tensor((99,), dtype, low=low, high=high).tolist()
    assert all(low <= number <= high for number in drawn), (dtype, drawn)
"""
    status, _, err = python("-c", code, cwd=tmp_path)
    assert status == 0, err


@pytest.mark.torch
def test_operators_are_a_script_too(traced):
    folder, printed = traced
    export(folder, "python", "out", "-l", "2", "--force", "-o", "operators.py")
    code = """
import torch, operators
with torch.no_grad():
    print(operators.program(*operators.inputs()).tolist())
"""
    status, out, err = python("-c", code, cwd=folder)
    assert (status, out) == (0, printed), err
    assert python("operators.py", cwd=folder)[0] == 0


@pytest.mark.torch
@pytest.mark.parametrize("level", [1, 2])
def test_a_file_makes_a_graph_module(traced, level):
    folder, printed = traced
    real = tool.PYTHON if level == 1 else None
    export(folder, "fx", "out", "-l", level, "--force", "-o", f"graph_{level}.py", python=real)
    code = f"""
import torch, graph_{level} as g
module = g.graph_module()
module.graph.lint()
with torch.no_grad():
    print(module(*g.example_inputs()).tolist())
module = g.graph_module({{k: torch.zeros_like(v) for k, v in g.state().items()}})
assert len(module.state_dict()) == 3
assert all(tensor.count_nonzero() == 0 for tensor in module.state_dict().values())
"""
    status, out, err = python("-c", code, cwd=folder)
    assert (status, out) == (0, printed), err


@pytest.mark.torch
def test_a_test_file_passes_where_the_program_ran(traced):
    folder, _ = traced
    export(folder, "pytest", "out", "--force", "-o", "test_configs.py", python=tool.PYTHON)
    status, out, err = pytest_run(folder)
    assert status == 0 and " passed" in out, out + err
    code = (folder / "test_configs.py").read_text()
    assert '"RuntimeError"' in code and "((3, 3), torch.float32)" in code
    # The test fails for other dtypes than recorded.
    (folder / "test_configs.py").write_text(code.replace("torch.float32)]", "torch.float16)]"))
    assert pytest_run(folder)[0] == 1


@pytest.mark.torch
def test_no_case_of_a_call_that_means_nothing_alone(tmp_path):
    (tmp_path / "a.txt").write_text(
        'torch.Tensor.backward(Tensor([], "float32"))\ntorch.manual_seed(7)\ntorch.neg(1)\n'
    )
    done = export(tmp_path, "pytest", "a.txt")
    assert done.out.count("pytest.param(") == 1 and "torch.neg(1)" in done.out
    for why in (
        "it goes through the graph that earlier calls made",
        "it changes the state of the process",
    ):
        assert f"torchtrace: pytest leaves out 1 config (1 call): {why}\n" in done.err


@pytest.mark.torch
def test_cases_of_calls(tmp_path):
    tensor = {"type": "torch.Tensor", "shape": [2], "dtype": "torch.float32", "requires_grad": True}
    calls = [
        {"api": "torch.Tensor.__iadd__", "args": [tensor, 1]},
        {"api": "torch.Tensor.add_", "args": [tensor, 1]},
        {"api": "torch.Tensor.__add__", "args": [tensor, 1]},
        {"api": "torch.Tensor.__invert__", "args": [tensor]},
        {"level": 2, "api": "aten::add_.Tensor", "args": [tensor, 1]},
        {"api": "torch.neg", "args": ["ä" * 200]},
    ]
    with open(tmp_path / "a.jsonl", "w") as file:
        for call in calls:
            file.write(json.dumps({"level": 1, "kwargs": {}, **call}) + "\n")
    code = export(tmp_path, "pytest", "a.jsonl").out
    cases = [part.split("\n")[1].strip() for part in code.split("pytest.param(")[1:]]
    assert ["requires_grad_()" in case for case in cases] == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    # Cut between characters.
    assert "\\U000000e4..." in code


@pytest.mark.torch
def test_windows(traced):
    folder, _ = traced
    calls = export(folder, "csv", "out", "--calls", "--include", "torch.max").out.splitlines()
    number = calls[1].split(",")[0]
    code = export(folder, "python", "out", "--calls", number).out
    assert f"t0 = torch.max(x0, dim=0)  # call {number}" in code and code.count("# call ") == 1


@pytest.mark.torch
@pytest.mark.parametrize("format", ["python", "pytest", "fx"])
def test_no_text_of_a_trace_becomes_code(tmp_path, format):
    with open(tmp_path / "evil.jsonl", "w") as file:
        for api, args, kwargs in HOSTILE:
            call = {"level": 1, "api": api, "args": args, "kwargs": kwargs}
            file.write(json.dumps(call) + "\n")
    done = export(tmp_path, format, "evil.jsonl")
    compile(done.out, "code", "exec")
    lines = [line for line in done.out.splitlines() if not line.lstrip().startswith("#")]
    for line in lines:
        assert "evil" not in line.replace('\\"', "").split('"')[0] and "import os" not in line
    assert "os.system" not in "\n".join(lines) and "torch.load" not in "\n".join(lines)


@pytest.mark.torch
@pytest.mark.parametrize("format", ["python", "pytest", "fx"])
def test_calls_that_reach_beyond_torch_are_left_out(tmp_path, format):
    with open(tmp_path / "evil.jsonl", "w") as file:
        for api, args, kwargs, _ in REACHING:
            call = {"level": 1, "api": api, "args": args, "kwargs": kwargs}
            file.write(json.dumps(call) + "\n")
    code = export(tmp_path, format, "evil.jsonl").out
    compile(code, "code", "exec")
    code = "\n".join(line for line in code.splitlines() if not line.lstrip().startswith("#"))
    assert [word for *_, word in REACHING if word in code] == []


@pytest.mark.torch
def test_an_argument_that_is_given_twice(tmp_path):
    (tmp_path / "a.txt").write_text("torch.add(1, 2, alpha=1, alpha=2)\n")
    done = export(tmp_path, "python", "a.txt")
    assert "an argument that is given twice" in done.err
    compile(done.out, "code", "exec")


@pytest.mark.torch
def test_a_python_without_torch(tmp_path):
    (tmp_path / "a.txt").write_text("torch.neg(1)\n")
    shim = tmp_path / "python"
    shim.write_text(f'#!/bin/sh\nexec {tool.PYTHON} -S -E "$@"\n')
    shim.chmod(0o755)
    for format in ("python", "pytest", "fx"):
        for chosen in (shim, tmp_path / "none"):
            done = tool.torchtrace("export", format, "a.txt", "--python", chosen, cwd=tmp_path)
            (line,) = done.err.splitlines()
            assert done.status == 2 and done.out == "" and str(chosen) in line, done
    assert (
        "has no torch ("
        in tool.torchtrace("export", "fx", "a.txt", "--python", shim, cwd=tmp_path).err
    )


def test_what_is_wrong(tmp_path):
    (tmp_path / "a.txt").write_text("torch.neg(1)\n")
    for args, words in (
        (["python", "a.txt", "a.txt"], "a program is made from one trace"),
        (["fx", "a.txt", "-l", "1,2"], "a program has calls of one level"),
        (["python", "a.txt", "-l", "2"], "no calls of level 2"),
        (["csv", "a.txt", "--calls=9-3"], "--calls"),
        (["python", "a.txt", "--calls", ""], "--calls"),
        (["python", "a.txt", "--calls="], "--calls"),
    ):
        done = tool.torchtrace("export", *args, cwd=tmp_path)
        assert done.status == 2 and words in done.err, done.err


def test_configs_of_chosen_calls(tmp_path):
    (tmp_path / "a.txt").write_text("torch.neg(1)\ntorch.neg(2)\ntorch.neg(2)\n")
    for how in ("export", "dedup"):
        args = (how, "text", "a.txt") if how == "export" else (how, "a.txt")
        done = tool.torchtrace(*args, "--where", "arg(0) = 2", cwd=tmp_path)
        assert done.status == 0 and done.out == "torch.neg(2)\n"
    done = tool.torchtrace("export", "paddle", "a.txt", "--where", "arg(0) = 2", cwd=tmp_path)
    assert done.status == 0 and "(1)" not in done.out


def test_calls_are_chosen_by_their_numbers(tmp_path):
    (tmp_path / "a.txt").write_text("torch.neg(1)\ntorch.neg(2)\ntorch.neg(3)\n")
    (tmp_path / "1").write_text("torch.abs(1)\n")
    for args in (["--calls", "0,2", "a.txt"], ["a.txt", "--calls=0,2"]):
        assert [line.split(",")[0] for line in export(tmp_path, "csv", *args).out.splitlines()] == [
            "call", "0", "2",
        ]  # fmt: skip
    # A file of that name is a trace.
    assert "torch.abs" in export(tmp_path, "csv", "--calls", "1").out
    some = export(tmp_path, "csv", "--calls", "--where", "arg(0) = 2", "a.txt").out
    assert "torch.neg(2)" in some and "torch.neg(1)" not in some
