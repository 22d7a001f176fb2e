"""--numbers of a device that is neither the CPU nor CUDA."""

import functools
import json

import pytest

from dialects.torch.testing.trace_testing import SCRIPTS, extension, tool, trace, untraced

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = "other_device.py"


@functools.cache
def library():
    return str(extension((SCRIPTS / "other_device.cpp").read_text()))


@functools.cache
def recorded(levels):
    return trace(PROGRAM, library(), levels=levels, options=("--numbers",)).check()


def numbers_of(api, levels="2"):
    """`(taken, returned)` of each call's first tensors: NaN, least and greatest."""

    def shown(notes):
        found = [note["numbers"] for note in notes if note["position"] == 0 and "numbers" in note]
        return tuple(found[0][key] for key in ("nan", "min", "max")) if found else None

    found = []
    for line in tool("dump", recorded(levels).folder, "--format", "jsonl").splitlines():
        record = json.loads(line)
        if record["api"].split(".")[0] == api:
            taken, returned = record.get("tensors", []), record.get("result_tensors", [])
            found.append((shown(taken), shown(returned)))
    return found


def test_numbers_are_those_of_the_elements():
    assert numbers_of("aten::add")[0] == ((1, 1, 6), (1, 2, 7))
    assert numbers_of("aten::mul")[0] == ((1, 1, 6), (1, 2, 12))
    # A part of the memory, with gaps.
    assert numbers_of("aten::neg")[0] == ((1, 2, 6), (1, -6, -2))
    assert numbers_of("aten::sum")[0] == ((0, 1, 1), (0, 2, 2))
    assert numbers_of("aten::view")[0] == (None, None)
    assert numbers_of("aten::sqrt")[0][0] is None


def test_a_copy_that_fails_ends_them():
    assert numbers_of("aten::exp")[0][1] is not None
    assert numbers_of("aten::log") == [(None, None)]
    wanted = (
        "numbers of tensors on privateuseone:0: they can't be copied to the CPU: "
        "this device keeps its doubles"
    )
    assert recorded("2").run["not_seen"] == [wanted]
    assert wanted in recorded("2").stderr


@pytest.mark.parametrize("levels", ["2", "1,2,4"])
def test_the_program_sees_nothing(levels):
    assert recorded(levels).stdout == untraced(PROGRAM, library()).stdout


def test_no_level_records_the_copies():
    plain = trace(PROGRAM, library(), levels="1,2,4").check()
    assert recorded("1,2,4").stdout == plain.stdout
    assert [call.api for call in recorded("1,2,4").calls] == [call.api for call in plain.calls]


def test_stops_at_a_nan():
    stopped = trace(PROGRAM, library(), "nan", levels="2", options=("--stop-on-nan",))
    assert stopped.exit_code == 1
    assert "FloatingPointError: aten::log (call " in stopped.stderr
    assert stopped.calls[-1].api == "aten::log"
