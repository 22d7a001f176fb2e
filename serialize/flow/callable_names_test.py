"""callable_names.txt is the output of put_callable_names.py with the torch that it is made of."""

import subprocess
from pathlib import Path

import pytest

from tools.testing import whole_tool as tool

HERE = Path(__file__).parent
MADE_OF = "2.13."


@pytest.mark.torch
def test_the_list_has_what_torch_has():
    code = "import torch; print(torch.__version__)"
    version = subprocess.check_output([tool.PYTHON, "-c", code], text=True)
    if not version.startswith(MADE_OF):
        pytest.skip(f"the list is made of torch {MADE_OF}*, here is {version}")
    script = HERE / "put_callable_names.py"
    made = subprocess.check_output([tool.PYTHON, script, "--print"], text=True)
    assert made == (HERE / "callable_names.txt").read_text()
