"""torchtrace.graph(): each function of graph_checks.py is a test; all run in one process."""

import json
import re
from pathlib import Path

import pytest

from python.module_testing import python

pytestmark = pytest.mark.torch

CHECKS = Path(__file__).with_name("graph_checks.py")
NAMES = re.findall(r"^def check_(\w+)", CHECKS.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph")
    code = f"import runpy\nrunpy.run_path({str(CHECKS)!r}, run_name='__main__')\n"
    return json.loads(python(code, folder, env={"TMPDIR": str(folder)}).check().out)


@pytest.mark.parametrize("name", NAMES)
def test_graph(name, results):
    failed, skipped = results["check_" + name]
    assert failed is None, failed
    if skipped:
        pytest.skip(skipped)


def test_graph_waits_for_torch(tmp_path):
    code = "import sys, torchtrace\nprint('graph' in torchtrace.__all__, 'torch' in sys.modules)\n"
    assert python(code, tmp_path).check().out == "True False\n"
