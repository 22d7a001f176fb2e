"""Spans of versions, written and read."""

import itertools

import pytest

from dialects.torch.versions import version_spans

KNOWN = ["2.8", "2.9", "2.10", "2.11"]


@pytest.mark.parametrize(
    ("versions", "spans"),
    [
        (KNOWN, ""),
        (["2.8"], "2.8"),
        (["2.9"], "2.9"),
        (["2.11"], "2.11-"),
        (["2.8", "2.9"], "-2.9"),
        (["2.9", "2.10"], "2.9-2.10"),
        (["2.8", "2.10", "2.11"], "2.8,2.10-"),
    ],
)
def test_spans(versions, spans):
    assert version_spans.compress(versions, KNOWN) == spans


def test_what_is_written_is_read():
    for count in range(1, len(KNOWN) + 1):
        for versions in itertools.combinations(KNOWN, count):
            spans = version_spans.compress(versions, KNOWN)
            assert version_spans.expand(spans, KNOWN) == set(versions), spans


def test_minor():
    assert version_spans.minor("2.13.0+cpu") == (2, 13)
    assert version_spans.minor_text("2.10.1") == "2.10"
