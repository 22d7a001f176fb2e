"""Makes a report page of a trace, or of two, from what the verbs print: to see it with real data.

    python3 -m serialize.report.page.testing.from_verbs report.html TRACE [TRACE_B] [--sources]

It reads whole traces into memory. Memory over time, steps on the timeline and what the call tree
weighs beside time are in no verb's JSON.
"""

import argparse
import collections
import csv
import io
import json
import os
import re
import subprocess

import numpy

from serialize.report.page.testing.report_data import Report

TORCHTRACE = os.environ.get("TORCHTRACE", ".build/bin/torchtrace")
AMOUNTS = {
    "calls": "calls",
    "configs": "configs",
    "apis": "apis",
    "time_ns": "time_ns",
    "self_time_ns": "self_ns",
    "forward_ns": "forward_ns",
    "backward_ns": "backward_ns",
    "device_ns": "device_ns",
    "flops": "flops",
    "bytes": "bytes",
    "allocated_bytes": "allocated_bytes",
    "peak_bytes": "peak_bytes",
    "held_bytes": "held_bytes",
    "raised": "raised",
    "wall_ns": "wall_ns",
    "calls_with_nan": "calls_with_nan",
    "calls_with_inf": "calls_with_inf",
}


def verb(*arguments):
    done = subprocess.run([TORCHTRACE, *arguments], capture_output=True, text=True)
    return done.stdout if done.returncode in (0, 1) else ""


def data(*arguments):
    text = verb(*arguments, "--format", "json")
    return json.loads(text) if text else None


class Trace:
    def __init__(self, path):
        self.path = path
        self.info = data("info", path)
        self.root = self.info["cwd"] + "/"
        self.calls = self.read_calls()
        self.facets = self.gather()

    def relative(self, file):
        file = file.removeprefix(self.root)
        return re.sub(r"^.*/(site|dist)-packages/", "", file)

    def read_calls(self):
        csv.field_size_limit(2**31 - 1)
        rows = csv.DictReader(io.StringIO(verb("export", "csv", "--calls", self.path)))
        calls, modules = [], {}
        for row in rows:
            number, level, around = int(row["call"]), row["level"], row["parent"]
            module = modules.get(int(around), "") if around else ""
            if level == "3" and '"path"' in row["kwargs"]:
                module = json.loads(row["kwargs"])["path"]
            modules[number] = module
            calls.append(
                {
                    "call": number,
                    "depth": int(row["depth"]),
                    "level": level,
                    "api": row["api"],
                    "config": row["config"],
                    "module": module,
                    "start": int(row["start_ns"] or 0),
                    "duration": int(row["duration_ns"] or 0),
                    "thread": f"{row['process']} thread {row['thread']}",
                    "rank": row["rank"],
                    "line": f"{self.relative(row['file'])}:{row['line']}" if row["file"] else "",
                    "dtypes": row["dtypes"],
                    "shapes": row["shapes"],
                    "args": row["args"],
                }
            )
        return calls

    def gather(self):
        """Of each row of each table, and each facet, the values of its calls."""
        names = ("level", "dtype", "dims", "device", "rank", "module", "line")
        found = collections.defaultdict(lambda: {name: set() for name in names})
        known = {}
        for call in self.calls:
            key = (call["level"], call["config"])
            if key not in known:
                dtypes = [dtype for dtype in json.loads(call["dtypes"] or "[]") if dtype]
                dims = [
                    str(len(shape))
                    for shape in json.loads(call["shapes"] or "[]")
                    if shape is not None
                ]
                devices = re.findall(r'"device":"([^"]*)"', call["args"])
                known[key] = set(dtypes), set(dims), set(devices)
            dtypes, dims, devices = known[key]
            for row in (
                ("api", call["level"], call["api"]),
                ("config", *key),
                ("module", call["module"]),
                ("line", call["line"]),
            ):
                facets = found[row]
                facets["level"].add(call["level"])
                facets["dtype"] |= dtypes
                facets["dims"] |= dims
                facets["device"] |= devices
                facets["module"].add(call["module"])
                facets["line"].add(call["line"])
                if call["rank"]:
                    facets["rank"].add(call["rank"])
        return found

    def stats(self, by):
        """Rows by key: (text, amounts, more)."""
        answer = data("stats", self.path, "--by", by, "--sort", "flops") if by != "step" else None
        answer = answer or data("stats", self.path, "--by", by)
        lists = [
            value
            for key, value in (answer or {}).items()
            if isinstance(value, list) and key != "by_level"
        ]
        made = {}
        for row in lists[0] if lists else []:
            key, text = self.key(by, row)
            made[key] = text, {to: row[name] for name, to in AMOUNTS.items() if name in row}, row
        return made

    def key(self, by, row):
        if by == "shapes":
            sizes = (
                " ".join(f"{name}={size}" for name, size in row["sizes"].items())
                if row["sizes"]
                else ""
            )
            text = " ".join(part for part in (row["api"], sizes, row["dtype"]) if part)
            return ("shapes", str(row["level"]), text), text
        if by in ("api", "config"):
            return (by, str(row["level"]), row[by]), row[by]
        if by == "module":
            text = row["module"] or "(no module)"
            return (by, row["module"] or ""), text + (
                f" ({row['class'].rpartition('.')[2]})" if row["class"] else ""
            )
        if by == "line":
            place = f"{self.relative(row['file'])}:{row['line']}" if row["file"] else ""
            return (by, place), f"{place} {row['function']}" if place else "(no stack)"
        return (by, row["step"]), row["step"]

    def summary(self):
        info, totals = self.info, data("stats", self.path, "--by", "shapes") or {}
        counts, damage = info["counts"], info["damage"]
        notes = [
            {"kind": "unseen", "text": text if isinstance(text, str) else json.dumps(text)}
            for text in info["not_seen"]
        ]
        if damage["lost_calls"] or info["open_calls"]:
            lost = f"{damage['lost_calls']} calls lost, {info['open_calls']} never returned"
            notes.append({"kind": "loss", "text": lost})
        if info["excluded_getters"]:
            getters = f"{info['excluded_getters']} calls of property getters are left out"
            notes.append({"kind": "note", "text": getters + " (--include-getters keeps them)"})
        versions = [["Python", info["python"]["version"]]]
        versions += [[name, package["version"]] for name, package in info["packages"].items()]
        memory = data("memory", self.path)
        return {
            "name": os.path.basename(self.path.rstrip("/")),
            "program": info["program"],
            "command": info["command"],
            "cwd": info["cwd"],
            "host": info["host"],
            "started": info["started"],
            "ended": info["ended"],
            "versions": versions,
            "calls": counts["calls"],
            "apis": counts["apis"],
            "configs": counts["configs"],
            "processes": len(info["processes"]),
            "threads": len({call["thread"] for call in self.calls}),
            "wall_ns": info["duration_ns"],
            "self_ns": totals.get("total_self_time_ns"),
            "device_ns": totals.get("total_device_ns"),
            "flops": totals.get("total_flops"),
            "bytes": totals.get("total_bytes"),
            "peak_bytes": max((each["peak_bytes"] for each in memory["devices"]), default=None)
            if memory
            else None,
            "complete": not damage["damaged"] and not damage["lost_calls"],
            "notes": notes,
            "by_level": [
                {
                    "level": level["level"],
                    "calls": level["total_calls"],
                    "apis": level["total_apis"],
                    "configs": level["total_configs"],
                    "self_ns": level["total_self_time_ns"],
                    "flops": level.get("total_flops"),
                }
                for level in totals.get("by_level", [])
            ],
        }


def table(report, name, by, traces, title, **more):
    stats = [trace.stats(by) for trace in traces]
    keys = {key: each[key][0] for each in stats for key in each}
    if not keys:
        return
    ordered = list(keys) if by == "step" else sorted(keys, key=lambda key: keys[key].encode())
    measures = {}
    for prefix, each in zip(("", "b_"), stats):
        for amount in {amount: 0 for _, amounts, _ in each.values() for amount in amounts}:
            values = [each[key][1].get(amount) if key in each else 0 for key in ordered]
            known = all(value is not None for value in values)
            measures[prefix + amount] = (
                values if known else [numpy.nan if value is None else value for value in values]
            )
    facets, columns = [], {}
    if by not in ("step", "shapes"):
        titles = {
            "level": "Level",
            "dtype": "dtype",
            "dims": "Dimensions",
            "device": "Device",
            "rank": "Rank",
            "module": "Module",
            "line": "Line",
        }
        for facet, title in titles.items():
            if facet == by:
                continue
            rows = [
                sorted(
                    set().union(
                        *(trace.facets[key][facet] for trace in traces if key in trace.facets)
                    )
                )
                for key in ordered
            ]
            if any(rows):
                facets.append((facet, title, rows))
    if by == "shapes":
        rows = [
            row for key in ordered for row in [next(each[key][2] for each in stats if key in each)]
        ]
        facets.append(("level", "Level", [[str(row["level"])] for row in rows]))
        facets.append(("dtype", "dtype", [[row["dtype"]] if row["dtype"] else [] for row in rows]))
        facets.append(("api", "API", [row["api"] for row in rows]))
    if by == "config":
        facets.append(
            (
                "api",
                "API",
                [next(each[key][2] for each in stats if key in each)["api"] for key in ordered],
            )
        )
    if by == "line":
        places = [key[1].rpartition(":") for key in ordered]
        facets.append(("file", "File", [file for file, _, _ in places]))
        columns["number"] = [int(line or 0) for _, _, line in places]
    if by == "step":
        answer = data("stats", traces[0].path, "--by", "step")
        long = {each["step"] for each in answer["step_times"]["long"]}
        columns["odd"] = [keys[key] in long for key in ordered]
        first = verb("stats", traces[0].path, "--by", "step", "--top", "1").split("\n")[1:2]
        more["about"] = "".join(line for line in first if " steps: " in line)
    report.table(name, [keys[key] for key in ordered], measures, facets, columns, **more)


def tree(report, by, traces):
    nodes, places, weights = (
        [(-1, report.label("all"))],
        {},
        collections.defaultdict(lambda: collections.defaultdict(int)),
    )
    for prefix, trace in zip(("", "b_"), traces):
        listed = data("tree", trace.path, "--by", by) or []
        if not listed:
            return
        ours = {}
        for node in listed:
            if "parent" in node:
                up = ours[node["parent"]]
            else:
                # Threads of two runs differ in their process's number.
                thread = re.sub(r"-\d+$", "", node["process"]) + f" thread {node['thread']}"
                up = places.setdefault((0, thread), len(nodes))
                if up == len(nodes):
                    nodes.append((0, report.label(thread)))
            place = places.setdefault((up, node["name"], node["level"]), len(nodes))
            if place == len(nodes):
                nodes.append((up, report.label(node["name"], node["level"])))
            ours[node["node"]] = place
            weights[prefix + "calls"][place] += node["calls"]
            weights[prefix + "self_ns"][place] += max(0, node["self_ns"])
            if not prefix:
                weights["failed"][place] += node.get("raised", 0) + node.get("never_returned", 0)
    report.tree(
        by,
        nodes,
        {name: [values[i] for i in range(len(nodes))] for name, values in weights.items()},
    )


def timeline(report, trace):
    timed = [call for call in trace.calls if call["start"]]
    if not timed:
        return
    begin = min(call["start"] for call in timed)
    span = max(call["start"] + call["duration"] for call in timed) - begin
    tick = max(1, -(-span // (2**32 - 1)))
    threads = collections.defaultdict(list)
    for call in timed:
        threads[call["thread"]].append(call)
    tracks = []
    for name, calls in threads.items():
        labels = [
            report.label(
                call["module"] if call["level"] == "3" and call["module"] else call["api"],
                int(call["level"]),
            )
            for call in calls
        ]
        tracks.append(
            {
                "name": name,
                "kind": "thread",
                "start": [(call["start"] - begin) // tick for call in calls],
                "duration": [max(1, call["duration"] // tick) for call in calls],
                "depth": numpy.array([call["depth"] for call in calls]),
                "label": labels,
                "call": [call["call"] for call in calls],
            }
        )
    report.timeline(tracks, float(tick), span // tick + 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page")
    parser.add_argument("trace", nargs="+")
    parser.add_argument("--sources", action="store_true")
    options = parser.parse_args()
    traces = [Trace(path) for path in options.trace]
    report = Report(*[trace.summary() for trace in traces])
    for name, by in (
        ("apis", "api"),
        ("configs", "config"),
        ("shapes", "shapes"),
        ("modules", "module"),
        ("lines", "line"),
        ("steps", "step"),
    ):
        table(report, name, by, traces, name)
    for by in ("api", "module"):
        tree(report, by, traces)
    timeline(report, traces[0])
    devices = []
    for t, trace in enumerate(traces):
        for device in (data("memory", trace.path) or {"devices": []})["devices"]:
            process = trace.info["processes"][device["process"]]["name"]
            devices.append(
                {"trace": t, "process": process}
                | {
                    key: device[key]
                    for key in (
                        "device",
                        "peak_bytes",
                        "end_bytes",
                        "peak_step",
                        "when",
                        "rows",
                        "leaks",
                    )
                }
            )
    if devices:
        report.head["memory"] = {"tick_ns": 1.0, "devices": devices}
    coverage = data("apis", "coverage", traces[0].path)
    if coverage:
        rows = sorted(coverage["apis"], key=lambda row: row["api"].encode())
        namespaces = sorted(
            (each["namespace"] for each in coverage["namespaces"]), key=len, reverse=True
        )
        report.table(
            "coverage",
            [row["api"] for row in rows],
            {"calls": [row.get("calls") or 0 for row in rows]},
            [
                (
                    "status",
                    "Called",
                    ["called" if row["called"] else "never called" for row in rows],
                ),
                (
                    "namespace",
                    "Namespace",
                    [
                        next((n for n in namespaces if row["api"].startswith(n + ".")), "")
                        for row in rows
                    ],
                ),
            ],
            sort=None,
        )
        report.head["coverage"] = {
            key: coverage[key] for key in ("list", "total", "called", "namespaces")
        }
    if options.sources:
        files = sorted(
            {call["line"].rpartition(":")[0] for call in traces[0].calls if call["line"]}
        )
        there = [(file, os.path.join(traces[0].root, file)) for file in files]
        there = [(file, path) for file, path in there if os.path.isfile(path)]
        texts = [open(path, encoding="utf-8", errors="replace").read() for _, path in there]
        if there:
            report.head["sources"] = {
                "block": report.block(
                    "sources", [("file", [file for file, _ in there]), ("text", texts)]
                )
            }
    report.write(options.page)


if __name__ == "__main__":
    main()
