"""%%torchtrace, in IPython's shell without a terminal."""

import pytest

from python import module_testing as testing

pytestmark = pytest.mark.torch

PROGRAM = """
import os, sys
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
import torch

shell = InteractiveShell.instance(
    history_length=0, ipython_dir=os.getcwd() + "/ipython", colors="nocolor"
)
shell.run_line_magic("load_ext", "torchtrace")
shell.run_cell("import torch")


def cell(line, code):
    result = shell.run_cell(f"%%torchtrace {line}\\n{code}")
    if result.error_in_exec is not None:
        print("ERROR", type(result.error_in_exec).__name__, result.error_in_exec)


print("1:")
cell("-l 1,2", "x = torch.ones(2, 3)\\nx.add(1)\\nx")
print("2:", shell.user_ns["x"].shape, len(shell.user_ns["_torchtrace"]))
options = "--levels function -o kept --by config --top 1 --values 1KB --ids"
cell(options, "torch.ones(4)\\ntorch.ones(4)")
reader = shell.user_ns["_torchtrace"]
print("3:", reader.path, reader.info["values"], reader.stats("config")[0].calls)
cell("-l 1", "torch.ones(1)\\nraise KeyError('mine')")
print("4:", [row.api for row in shell.user_ns["_torchtrace"].calls()])
for line in ("--nope", "-l 9", "-o kept", "--stacks no", "--by nope -o by"):
    cell(line, "torch.ones(1)")
import torchtrace
with torchtrace.trace("outer"):
    cell("-l 1", "torch.ones(1)")
    torch.zeros(1)
print("5:", torchtrace.is_tracing(), torchtrace.read("outer").calls()["api"])
print(shell.run_cell("%%torchtrace?").success, reader.stats()._repr_html_().startswith("<table>"))
"""


def test_a_cell_is_recorded_and_shown(tmp_path):
    pytest.importorskip("IPython")
    out = testing.python(PROGRAM, tmp_path).check().out
    shown, rest = out.split("2: ")
    assert shown.startswith("1:") and "tensor([[1., 1., 1.]" in shown
    rows = [line.split() for line in shown.splitlines() if line.startswith(("torch.", "aten::"))]
    assert [row[:4] for row in rows] == [
        ["torch.ones", "1", "1", "1"],
        ["torch.Tensor.add", "1", "1", "1"],
        ["aten::ones", "2", "1", "1"],
        ["aten::add.Tensor", "2", "1", "1"],
    ]
    lines = rest.splitlines()
    assert lines[0] == "torch.Size([2, 3]) 4"
    assert "torch.ones(4)" in rest and "3: kept 1024 2" in lines
    assert "KeyError: 'mine'" in lines and "4: ['torch.ones']" in lines
    errors = [line.split(" ", 2) for line in lines if line.startswith("ERROR")]
    assert {kind for _, kind, _ in errors} == {"UsageError"}
    for (_, _, text), part in zip(
        errors,
        [
            "unrecognized arguments: --nope",
            "unknown level '9'",
            "/kept is not empty",
            "stacks is 'no'",
            'cannot group by "nope"',
            "another trace is open",
        ],
        strict=True,
    ):
        assert text.startswith("%%torchtrace: ") and part in text
    assert lines[-1] == "True True" and "5: False ['torch.zeros']" in lines
    assert {path.name for path in tmp_path.iterdir()} >= {"kept", "outer"}
