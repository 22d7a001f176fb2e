"""Reads the data of a report page: the inverse of report_data.py."""

import base64
import json
import re
import zlib

import numpy

SIZES = {"u8": "u1", "u16": "u2", "u32": "u4", "f32": "f4", "f64": "f8"}


class PageData:
    def __init__(self, page):
        text = re.search('<script type="application/json" id="head">(.*?)</script>', page, re.S)[1]
        self.head = json.loads(text)
        self.packed = dict(
            re.findall('<script type="text/plain" id="block-([^"]*)">([^<]*)</script>', page)
        )

    def block(self, name):
        """Its columns by name: arrays, or lists of texts."""
        data = zlib.decompress(base64.b64decode(self.packed[name]), -15)
        columns, at = {}, 0
        for column in self.head["blocks"][name]:
            count, kind = column["count"], SIZES.get(column["type"])
            if kind is None:
                alike, lengths = data[at : at + count], numbers(data, at + count, count, "u4")
                at += 5 * count
                texts, before = [], b""
                for many, length in zip(alike, lengths):
                    before = before[:many] + data[at : at + length]
                    at += length
                    texts.append(before.decode())
                columns[column["name"]] = texts
                continue
            values = numbers(data, at, count, kind)
            at += values.nbytes
            if "xor" in column:
                bits = f"u{values.itemsize}"
                values = (values.view(bits) ^ columns[column["xor"]].view(bits)).view(values.dtype)
            if column.get("delta"):
                values = numpy.cumsum(values, dtype=values.dtype)
            columns[column["name"]] = values
        assert at == len(data), name
        return columns

    def table(self, name):
        """Rows with the values of their facets."""
        spec = self.head["tables"][name]
        columns = self.block(spec["block"])
        rows = [dict(zip(columns, values)) for values in zip(*columns.values())]
        for row in rows:
            for facet in spec["facets"]:
                known = self.head["facets"][facet]
                at = int(row[facet])
                sets = known.get("sets")
                values = [known["values"][value] for value in (sets[at] if sets else [at])]
                row[facet] = set(values) if sets else values[0]
        assert len(rows) == spec["rows"]
        return rows

    def tree(self, by):
        """Each node's path, with its own amounts."""
        (spec,) = [tree for tree in self.head["trees"] if tree["by"] == by]
        columns, labels = self.block(spec["block"]), self.block("labels")["text"]
        paths, nodes = [], {}
        for i, parent in enumerate(columns["parent"]):
            label = labels[int(columns["label"][i])]
            paths.append((*paths[int(parent) - 1], label) if parent else ())
            amounts = {name: float(column[i]) for name, column in columns.items()}
            nodes.setdefault(paths[-1], []).append(amounts)
        return nodes


def numbers(data, at, count, kind):
    size = numpy.dtype(kind).itemsize
    planes = numpy.frombuffer(data, "u1", count * size, at).reshape(size, count)
    return numpy.ascontiguousarray(planes.T).view(f"<{kind}").reshape(count)
