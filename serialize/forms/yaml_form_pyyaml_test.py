"""PyYAML, the YAML 1.1 reader that most users have, reads api_trace.yaml like the JSON form.

testdata/forms/values.* contain one value of every kind in both forms; yaml_form_test.cc keeps
them up to date.
"""

import json
import math
import pathlib

import pytest
import yaml

FORMS = pathlib.Path(__file__).resolve().parents[2] / "testdata" / "forms"
LOADERS = [yaml.SafeLoader] + ([yaml.CSafeLoader] if hasattr(yaml, "CSafeLoader") else [])


def untagged(value):
    """The value with the numbers that JSON has to tag turned into Python numbers."""
    if isinstance(value, dict):
        if value.get("type") == "float":
            return float(value["value"])
        if value.get("type") == "int" and value["value"].lstrip("-").isdigit():
            return int(value["value"])
        return {key: untagged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [untagged(item) for item in value]
    return value


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return (math.isnan(left) and math.isnan(right)) or (
            left == right and math.copysign(1, left) == math.copysign(1, right)
        )
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@pytest.mark.parametrize("loader", LOADERS)
def test_every_kind_of_value(loader):
    calls = yaml.load((FORMS / "values.yaml").read_text(encoding="utf-8"), Loader=loader)
    expected = untagged(json.loads((FORMS / "values.json").read_text(encoding="utf-8")))
    assert len(calls) == len(expected) > 100
    for call, wanted in zip(calls, expected):
        assert same(call, wanted), f"{call} is not {wanted}"
