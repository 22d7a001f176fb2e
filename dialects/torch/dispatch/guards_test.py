"""Level 2's key on threads whose key sets are put back by guards of PyTorch's."""

import pytest

from dialects.torch.testing.trace_testing import SCRIPTS
from python import module_testing as testing

pytestmark = pytest.mark.torch


def test_traces_that_begin_and_end_within_guards(tmp_path):
    ended = testing.python((SCRIPTS / "guards.py").read_text(), tmp_path).check()
    assert ended.out.splitlines() == ["done 27"]
    assert ended.err == ""
