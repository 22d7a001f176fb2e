"""Writes data into the report page, as docs/internals/REPORT_DATA.md describes them.

report = Report(name="out", calls=3)
report.table("apis", ["torch.abs", "torch.add"], {"calls": [1, 2]}, facets={"level": ["1", "1"]})
report.write("report.html")
"""

import base64
import json
import os
import pathlib
import zlib

import numpy

PAGE = pathlib.Path(__file__).parents[1] / "report.html"
MARK = "<!--@DATA@-->"
TYPES = {"u1": "u8", "u2": "u16", "u4": "u32", "f4": "f32", "f8": "f64"}
# Bytes of planes beyond which doubles become floats: the page shows three digits.
MANY = 50_000


# Calls with nothing inside have the same of both.
XORED = {"self_ns": "time_ns", "b_self_ns": "b_time_ns"}


def common(a, b):
    """How many bytes two texts begin with alike, at most 255."""
    return min(255, len(os.path.commonprefix([a, b])))


def smallest(numbers):
    """The numbers as the smallest type that holds them."""
    array = numpy.asarray(numbers)
    if array.dtype.kind == "f" or (len(array) and array.max() >= 2**32):
        return array.astype("f8" if len(array) < MANY else "f4")
    most = int(array.max()) if len(array) else 0
    return array.astype("u1" if most < 2**8 else "u2" if most < 2**16 else "u4")


def planes(array):
    """The lowest byte of each number, then the next byte of each."""
    array = numpy.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
    return array.view(numpy.uint8).reshape(len(array), -1).T.tobytes()


def escaped(value):
    """JSON that ends no element, and has no line separator."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    # Lone surrogates have no UTF-8.
    return text.encode("utf-8", "replace").decode()


class Report:
    def __init__(self, *traces, **trace):
        self.head = {
            "format": "torchtrace-report",
            "version": 1,
            "torchtrace": "0.2.0",
            "traces": list(traces) or [trace],
            "left_out": [],
            "facets": {},
            "tables": {},
            "blocks": {},
        }
        self.blocks = {}
        self.labels = {}

    def block(self, name, columns):
        """Columns are (name, numbers or texts) or (name, numbers, "delta")."""
        specs, parts, arrays = [], [], {}
        for column, values, *how in columns:
            delta = how == ["delta"]
            if isinstance(values, list) and values and isinstance(values[0], str):
                texts = [text.encode("utf-8", "surrogatepass") for text in values]
                shared = [0] + [common(a, b) for a, b in zip(texts, texts[1:])]
                rest = [text[many:] for text, many in zip(texts, shared)]
                parts.append(bytes(shared))
                parts.append(planes(numpy.array([len(text) for text in rest], dtype="u4")))
                parts.append(b"".join(rest))
                size = len(parts[-1])
                specs.append({"name": column, "type": "text", "count": len(values), "bytes": size})
                continue
            array = numpy.asarray(values)
            if delta:
                array = numpy.diff(array.astype("u4"), prepend=numpy.uint32(0))
            else:
                array = smallest(array)
            spec = {"name": column, "type": TYPES[array.dtype.str[1:]], "count": len(array)}
            arrays[column] = array
            like = arrays.get(XORED.get(column))
            if delta:
                spec["delta"] = True
            elif like is not None and like.dtype == array.dtype:
                spec["xor"] = XORED[column]
                bits = f"u{array.dtype.itemsize}"
                array = array.view(bits) ^ like.view(bits)
            specs.append(spec)
            parts.append(planes(array))
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = packer.compress(b"".join(parts)) + packer.flush()
        self.head["blocks"][name] = specs
        self.blocks[name] = base64.b64encode(packed).decode()
        return name

    def facet(self, name, title, rows):
        """A facet's column: a string for each row, or a list of strings."""
        known = self.head["facets"].setdefault(name, {"title": title, "values": []})
        places = {value: i for i, value in enumerate(known["values"])}

        def place(value):
            if value not in places:
                places[value] = len(places)
                known["values"].append(value)
            return places[value]

        if not rows or isinstance(rows[0], str):
            assert "sets" not in known
            return [place(value) for value in rows]
        sets = {tuple(each): i for i, each in enumerate(known.setdefault("sets", []))}
        column = []
        for row in rows:
            each = tuple(sorted(place(value) for value in row))
            if each not in sets:
                sets[each] = len(sets)
                known["sets"].append(list(each))
            column.append(sets[each])
        return column

    def table(self, name, texts, measures, facets=(), columns=(), **more):
        """Measures and columns are lists by name; facets, (name, title, rows) or (name, column)."""
        block = [("text", texts)]
        names = []
        for facet, *rest in facets:
            names.append(facet)
            block.append((facet, self.facet(facet, *rest) if len(rest) == 2 else rest[0]))
        block += dict(measures).items()
        block += dict(columns).items()
        self.head["tables"][name] = {
            "block": self.block(name, block),
            "rows": len(texts),
            "facets": names,
        } | more

    def label(self, text, level=255):
        return self.labels.setdefault((text, level), len(self.labels))

    def tree(self, by, nodes, weights, **more):
        """Nodes are (parent or -1, label); node 0 is all. Weights are lists, without children."""
        name = f"tree_{len(self.head.setdefault('trees', []))}"
        columns = [("parent", [parent + 1 for parent, _ in nodes])]
        columns.append(("label", [label for _, label in nodes]))
        self.block(name, columns + list(weights.items()))
        self.head["trees"].append({"by": by, "block": name} | more)

    def timeline(self, tracks, tick_ns, ticks, budget=400_000):
        """Tracks are dicts with name, kind and arrays start, duration, depth, label (and call)."""
        levels = pyramid(tracks, ticks, budget)
        parts, heads, place, merged_calls = [], [], 0, 0
        for track, its_levels in zip(tracks, levels):
            head = {key: track[key] for key in ("name", "kind", "process") if key in track}
            head |= {"depth": int(track["depth"].max()) if len(track["depth"]) else 0, "levels": []}
            for bin_ticks, calls, merged in its_levels:
                spec = {"bin_ticks": bin_ticks}
                for key, items in (("calls", calls), ("merged", merged)):
                    many = len(items["start"])
                    spec[key] = [place, many]
                    place += many
                    parts.append(items)
                head["levels"].append(spec)
            if its_levels:
                merged_calls += int(its_levels[0][2]["count"].sum())
            heads.append(head)
        columns = [
            (key, numpy.concatenate([part[key] for part in parts] or [[]]).astype("u4"))
            for key in ("start", "duration", "depth", "label", "count", "busy", "call")
        ]
        columns[0] = (*columns[0], "delta")
        self.head["timeline"] = {
            "block": self.block("timeline", columns),
            "tick_ns": tick_ns,
            "ticks": int(ticks),
            "tracks": heads,
            "merged_calls": merged_calls,
        }

    def page(self):
        if self.labels:
            names = [text for text, _ in self.labels]
            self.block("labels", [("text", names), ("level", [level for _, level in self.labels])])
        data = [f'<script type="application/json" id="head">{escaped(self.head)}</script>']
        for name, packed in self.blocks.items():
            data.append(f'<script type="text/plain" id="block-{name}">{packed}</script>')
        before, after = PAGE.read_text(encoding="utf-8").split(MARK)
        return before + "\n".join(data) + after

    def write(self, path):
        pathlib.Path(path).write_text(self.page(), encoding="utf-8")


def pyramid(tracks, ticks, budget):
    """Of each track a list of (bin_ticks, calls, merged), the finest level first."""
    bins = [max(1, -(-int(ticks) // 2048))]
    while bins[0] > 1:
        bins.insert(0, max(1, bins[0] // 4))
    tracks = [prepared(track) for track in tracks]
    levels = [[] for _ in tracks]
    used = 0
    # From the coarsest on, as long as there is room.
    for i in reversed(range(len(bins))):
        longest = bins[i + 1] if i + 1 < len(bins) else 2**62
        made = [level(track, bins[i], longest) for track in tracks]
        used += sum(len(part["start"]) for _, calls, merged in made for part in (calls, merged))
        if used > budget and i + 1 < len(bins):
            break
        for its_levels, each in zip(levels, made):
            its_levels.insert(0, each)
        if all(len(merged["start"]) == 0 for _, _, merged in made):
            break
    return levels


def prepared(track):
    order = numpy.argsort(track["start"], kind="stable")
    keys = ("start", "duration", "depth", "label")
    track = {key: numpy.asarray(track[key])[order] for key in keys} | {
        "call": numpy.asarray(track.get("call", numpy.arange(len(order))))[order]
    }
    return {key: values.astype("i8") for key, values in track.items()}


def level(track, bin_ticks, longest):
    """The calls of one level, and what is shorter merged: by bin and depth."""
    duration = track["duration"]
    chosen = (duration >= bin_ticks) & (duration < longest)
    calls = {key: values[chosen] for key, values in track.items()}
    calls["count"] = numpy.ones(chosen.sum(), dtype="i8")
    calls["busy"] = numpy.full(chosen.sum(), 255)
    short = duration < bin_ticks
    start, duration, depth = track["start"][short], duration[short], track["depth"][short]
    key = start // bin_ticks * 65536 + depth
    # The longest call of each bin names it.
    order = numpy.lexsort((-duration, key))
    firsts = numpy.flatnonzero(numpy.diff(key[order], prepend=-1)) if len(order) else order
    busy = numpy.add.reduceat(duration[order], firsts) if len(order) else duration
    counts = numpy.diff(firsts, append=len(order))
    first = order[firsts]
    merged = {
        "start": start[first] // bin_ticks * bin_ticks,
        "duration": numpy.full(len(first), bin_ticks),
        "depth": depth[first],
        "label": track["label"][short][first],
        "count": counts,
        "busy": numpy.clip(busy * 255 // bin_ticks, 1, 255),
        "call": track["call"][short][first],
    }
    return bin_ticks, calls, merged
