"""The committed table has what read_function_protocol.py finds in the local torch."""

import subprocess
from pathlib import Path

import pytest

from dialects.torch.versions.version_spans import expand, minor_text
from tools.testing import whole_tool as tool

HERE = Path(__file__).parent


def rows_of(version):
    known, *lines = (HERE / "function_protocol.tsv").read_text("utf-8").splitlines()
    known = known.split("\t")
    if version not in known:
        pytest.skip(f"the table has no torch {version}")
    cells = (line.split("\t", 1) for line in lines)
    return sorted(row for versions, row in cells if version in expand(versions, known))


@pytest.mark.torch
@pytest.mark.slow
def test_rows_of_the_local_torch():
    code = "import torch; print(torch.__version__)"
    version = subprocess.check_output([tool.PYTHON, "-c", code], text=True)
    rows = rows_of(minor_text(version))
    reader = [tool.PYTHON, HERE / "read_function_protocol.py"]
    found = subprocess.run(reader, capture_output=True, text=True, check=True, timeout=600)
    assert sorted(found.stdout.splitlines()) == rows
