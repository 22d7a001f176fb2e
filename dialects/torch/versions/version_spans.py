"""Writes and reads spans of versions, in the form of serialize/base/version_spans.h."""

import itertools


def minor(version):
    """(2, 13) of "2.13.0+cpu"."""
    return tuple(int(part) for part in version.split(".")[:2])


def minor_text(version):
    return ".".join(map(str, minor(version)))


def expand(spans, known):
    """The versions in the spans; all of `known` if there are no spans."""
    found = set()
    for span in spans.split(",") if spans else ("-",):
        first, dash, last = span.partition("-")
        first, last = first or known[0], last or (known[-1] if dash else first)
        found |= {v for v in known if minor(first) <= minor(v) <= minor(last)}
    return found


def compress(versions, known):
    """The spans of these versions; at the ends of `known`, in order, they are open."""
    if set(versions) == set(known):
        return ""
    spans = []
    for inside, run in itertools.groupby(known, lambda version: version in versions):
        first, *_, last = [*run] * 2
        if inside and first == last and known[-1] != last:
            spans.append(first)
        elif inside:
            spans.append(
                f"{'' if first == known[0] else first}-{'' if last == known[-1] else last}"
            )
    return ",".join(spans)
