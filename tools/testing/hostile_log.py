"""A log in which every text tries to mislead: terminals, readers of lines, browsers."""

import json
import re
import struct

from tools.testing import whole_tool as tool

STACKS = tool.ROOT / "testdata/logs/v1/stacks.ttlog"
# Clears the screen, by ESC and by C1; reverses the direction; ends the line and imitates our
# messages.
EVIL = '\x1b[2J\x9b2J\x07\x7f\u202eab\u2066\u200f\r\nFAKE, "x"\ttorchtrace: FAKE\U000e0041'
BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\U000e0000-\U000e007f]"
)


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out) + bytes([number])


def text(value):
    data = value.encode("utf-8", "surrogateescape")
    return varint(len(data)) + data


def other(kind, body):
    return varint(kind << 2) + varint(len(body)) + body


def value(value):
    return b"\x07" + varint(len(value.encode())) + text(value)


def records():
    """One call of everything that contains text, three times: it returns, raises, never ends."""
    identity = (
        b"\x01"
        + text(f"torch.{EVIL}")
        + varint(1)
        + value(EVIL)
        + varint(1)
        + text(EVIL)
        + value(EVIL)
    )
    tensor = b"\x11\x02" + text(EVIL) + text(EVIL) + b"\x01\x05" + text(EVIL)
    tensors = b"\x02" + text(f"aten::{EVIL}") + varint(1) + tensor + b"\x00"
    facets = varint(1) + b"\x00\x02" + text(EVIL)
    out = other(2, varint(0) + varint(7) + varint(1000) + b"\x00\x00" + text(EVIL))
    out += other(1, varint(len(identity)) + identity + b"\x00")
    out += other(1, varint(len(tensors)) + tensors + varint(len(facets)) + facets)
    out += other(4, text(json.dumps({EVIL: EVIL, "step": 3})))
    out += other(5, b"\x00" + text(f"/{EVIL}.py") + text(EVIL) + text(EVIL))
    out += other(6, b"\x00\x05\x00") + other(7, b"\x00")
    out += b"\x01\x05" + b"\x05\x05" + b"\x06" + b"\x03\x05" + text(EVIL)  # f(g()) raises
    out += b"\x01\x05" + b"\x06"
    out += other(3, varint(3) + text(EVIL))
    return out + b"\x05\x05"


def write_log(path, broken=False, **metadata):
    """stacks.ttlog with other contents, in unclosed frames."""
    data = bytearray(STACKS.read_bytes())
    at, frames = 4096, []
    while at < len(data):
        kind, capacity = (
            struct.unpack_from("<H", data, at + 4)[0],
            struct.unpack_from("<I", data, at + 8)[0],
        )
        frames.append((at, kind, capacity))
        at += capacity
    meta = [f for f in frames if f[1] == 1]
    calls = [f for f in frames if f[1] == 2]
    clock = {
        "unit_ns": 1.0,
        "origin_units": 1000,
        "origin_monotonic_ns": 1000,
        "origin_realtime_ns": 17 * 10**17,
    }
    everything = {
        **{
            key: EVIL
            for key in (
                "torchtrace",
                "role",
                "host",
                "cwd",
                "program",
                "label",
                "rank",
                "source",
                "dialect",
            )
        },
        "command": ["python", EVIL],
        "environment": {EVIL: EVIL},
        "python": {"version": EVIL, "executable": EVIL},
        "packages": {EVIL: {"version": EVIL, "git": EVIL}},
        "levels": [EVIL],
        "include": [EVIL],
        "stacks": "all",
        "pid": 1,
        "clock": clock,
        EVIL: EVIL,
        "damage": {
            "sentences": [EVIL],
            "lost_calls": 1,
            "lost_calls_exact": False,
            "lost_bytes": 1,
        },
        **metadata,
    }
    end = {
        "not_seen": [EVIL],
        "cut": {EVIL: 3},
        "dropped": {EVIL: 4},
        "stopped": EVIL,
        "exit_code": 0,
    }
    contents = [json.dumps(everything).encode(), json.dumps({"end": end}).encode()]
    pieces = list(zip(meta, contents)) + [(calls[0], records())]
    for (at, _, capacity), content in pieces:
        assert len(content) <= capacity - 64, (len(content), capacity)
        data[at + 32 : at + 64] = struct.pack("<I", len(content)) + bytes(28)
        data[at + 64 : at + capacity] = content.ljust(capacity - 64, b"\0")
    for at, _, capacity in calls[1:]:
        data[at + 32 : at + capacity] = bytes(capacity - 32)
    if broken:
        data[calls[0][0] + 24] ^= 255
    path.write_bytes(data)
    return path
