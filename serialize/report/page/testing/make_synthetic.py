"""Makes report pages without a trace: small, hostile or large ones, of one or two traces.

python3 make_synthetic.py small report.html
"""

import sys

import numpy

from serialize.report.page.testing.report_data import Report

HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "<!--<script>",
    "]]>&amp;&lt;\"'`${document.title='owned'}",
    "line\u2028separator\u2029paragraph",
    "\u202egnitset\u202c bidi \u2066isolate\u2069",
    "control \x00\x01\x1b[31m red \x7f\x85 \t tab \r\n line",
    "zero\u200bwidth\ufeff \u00ad soft",
    "e" + "\u0301" * 60 + " stacked accents",
    "lone \ud800 surrogate",
    "long " + "x" * 100_000,
    "شروع עברית 中文 😀 mixed",
    "javascript:alert(1)",
    "__proto__",
    "constructor",
    "$& $1 $` %s {0}",
    "",
    "*.*+?^${}()|[]\\",
]
APIS = [
    ("torch.nn.functional.linear", 1),
    ("torch.Tensor.add", 1),
    ("torch.nn.functional.layer_norm", 1),
    ("torch.Tensor.view", 1),
    ("torch.nn.functional.scaled_dot_product_attention", 1),
    ("aten::addmm", 2),
    ("aten::mm", 2),
    ("aten::add.Tensor", 2),
    ("aten::native_layer_norm", 2),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", 2),
    ("aten::view", 2),
    ("aten::copy_", 2),
    ("torch.nn.Linear", 3),
    ("torch.nn.LayerNorm", 3),
    ("Optimizer.step#AdamW.step", 4),
    ("autograd::engine::evaluate_function: AddmmBackward0", 4),
]
WIDTHS = [(64 * (1 + i % 13), 48 * (1 + i % 7)) for i in range(80)]
DTYPES = ["float32", "bfloat16", "int64", "float16", "bool"]


def trace(name, scale=1.0, calls=10_000, configs=120, apis=16):
    return {
        "name": name,
        "program": ["train.py", "--lr", "0.1"],
        "command": ["torchtrace", "run", "-l", "1-4", "-o", name, "train.py", "--lr", "0.1"],
        "cwd": "/home/user/project",
        "host": "node1",
        "started": "2026-11-29T14:57:07Z",
        "ended": "exit code 0",
        "versions": [["Python", "3.11.7"], ["torch", "2.13.0"]],
        "calls": int(calls * scale),
        "apis": apis,
        "configs": configs,
        "processes": 2,
        "threads": 5,
        "wall_ns": int(4.2e9 * scale),
        "self_ns": int(3.1e9 * scale),
        "device_ns": int(1.9e9 * scale),
        "peak_bytes": 3_236_040,
        "flops": int(3.7e12 * scale),
        "bytes": int(8e9 * scale),
        "by_level": [
            {
                "level": level,
                "calls": int(calls * scale / 4),
                "apis": 4,
                "configs": configs // 4,
                "self_ns": int(3.1e9 * scale / 4),
                "flops": 10**12 if level == 2 else None,
            }
            for level in (1, 2, 3, 4)
        ],
        "complete": True,
        "notes": [
            {"kind": "unseen", "text": "level 2 saw no operator of 3 threads that C++ made"},
            {"kind": "note", "text": "left out: 11558 calls of property getters"},
        ],
    }


def config(api, i):
    # Sequences of many lengths, and layers of some widths.
    m, (n, k), dtype = 1 + i % 700, WIDTHS[i // 700 % len(WIDTHS)], DTYPES[i // 700 % 5]
    last = ", eps=1e-05" if "norm" in api else ""
    return f'{api}(Tensor([{m}, {n}, {k}], "{dtype}"), Tensor([{n}, {k}], "{dtype}"){last})'


def measures(random, many, two=False):
    made = {
        "calls": random.zipf(1.6, many).clip(1, 10**6),
        "time_ns": numpy.exp(random.normal(11, 2, many)).astype("i8"),
    }
    # Most calls have nothing inside.
    inside = numpy.where(random.random(many) < 0.7, 1, random.uniform(0.2, 1, many))
    made["self_ns"] = (made["time_ns"] * inside).astype("i8")
    made["device_ns"] = (made["self_ns"] * random.choice([0, 0.5, 2], many)).astype("i8")
    made["allocated_bytes"] = 1024 * random.integers(0, 4096, many)
    made["flops"] = numpy.where(
        random.random(many) < 0.4, numpy.nan, 1e6 * random.integers(1, 99, many)
    )
    if two:
        for name in list(made):
            change = random.choice([0, 1, 1, 1, 1.3, 0.6], many)
            other = made[name] * change
            if name in ("calls", "allocated_bytes"):
                other = other.astype("i8")
            made["b_" + name] = other
        gone = random.random(many) < 0.1
        for name in ("calls", "time_ns", "self_ns", "device_ns", "allocated_bytes"):
            made[name] = numpy.where(gone, 0, made[name])
    return made


def small(texts=None, two=False, seed=1):
    """All views. `texts` replaces the names that a trace holds."""
    random = numpy.random.default_rng(seed)
    hostile = texts is not None
    texts = texts or []
    names = texts + [name for name, _ in APIS]
    api_levels = ["1"] * len(texts) + [str(level) for _, level in APIS]
    first = trace(texts[0] if hostile else "runs/first", apis=len(names))
    if hostile:
        first |= {"program": texts, "host": texts[1], "complete": False, "ended": texts[4]}
        first["versions"] = [["torch", text] for text in texts[:4]]
        first["notes"] = [{"kind": "loss", "text": text} for text in texts]
    report = Report(first, trace("runs/second", 1.3)) if two else Report(first)
    order = sorted(range(len(names)), key=lambda i: names[i].encode("utf-8", "surrogatepass"))
    names, api_levels = [names[i] for i in order], [api_levels[i] for i in order]
    modules = [
        "encoder",
        "encoder.layers.0",
        "encoder.layers.0.fc1",
        "encoder.layers.1.fc1",
    ] + texts
    lines = [
        "train.py:12 main",
        "train.py:31 Model.forward",
        "site-packages/torch/nn/x.py:9 f",
    ] + texts

    def several(values):
        return [values[i % len(values) : i % len(values) + 2] for i in range(len(names))]

    report.table(
        "apis",
        names,
        measures(random, len(names), two) | {"configs": random.integers(1, 99, len(names))},
        [
            ("level", "Level", [[level] for level in api_levels]),
            ("dtype", "dtype", several(DTYPES)),
            ("rank", "Rank", several(["0", "1"])),
            ("device", "Device", several(["cpu", "cuda:0"])),
            ("module", "Module", several(modules)),
            ("line", "Line", several(lines)),
        ],
    )
    made = sorted(
        ((config(name, i * 701), name, i) for i, name in enumerate(names) for i in range(i, i + 7)),
        key=lambda row: row[0].encode("utf-8", "surrogatepass"),
    )
    many = len(made)
    report.table(
        "configs",
        [text for text, _, _ in made],
        measures(random, many, two),
        [
            ("level", "Level", [[api_levels[names.index(name)]] for _, name, _ in made]),
            ("dtype", "dtype", [[DTYPES[i % 5]] for _, _, i in made]),
            ("rank", "Rank", [["0"]] * many),
            ("dims", "Dimensions", [["2", "3"]] * many),
            ("module", "Module", [[modules[i % len(modules)]] for _, _, i in made]),
            ("api", "API", [name for _, name, _ in made]),
        ],
        left_out={"rows": 12, "calls": 30, "self_ns": 12345, "why": "the smallest"},
    )
    shapes = [f"aten::mm M={16 * i} N=48 K={i} float32" for i in range(1, 40)] + texts
    shapes.sort(key=lambda text: text.encode("utf-8", "surrogatepass"))
    report.table(
        "shapes",
        shapes,
        measures(random, len(shapes), two),
        [("level", "Level", [["2"]] * len(shapes))],
    )
    report.table(
        "modules",
        modules,
        measures(random, len(modules), two),
        [("level", "Level", [["1", "2"]] * len(modules))],
    )
    report.table(
        "lines",
        lines,
        measures(random, len(lines), two),
        [("file", "File", [line.split(":")[0] for line in lines])],
        columns={"number": [12, 31, 9] + [1] * len(texts)},
    )
    steps = 60
    wall = (5e7 * random.uniform(0.9, 1.1, steps)).astype("i8")
    wall[[9, 40]] *= 3
    step = {
        "wall_ns": wall,
        "calls": random.integers(600, 700, steps),
        "self_ns": wall * 0.9,
        "device_ns": wall * 0.4,
        "peak_bytes": random.integers(3e6, 4e6, steps),
    }
    if two:
        step |= {"b_" + name: values * 1.2 for name, values in step.items()}
    odd = [1 if i in (9, 40) else 0 for i in range(steps)]
    report.table(
        "steps",
        (texts + [str(i + 1) for i in range(steps)])[:steps],
        step,
        columns={"odd": odd},
        about="60 steps: mean 53.3 ms, p50 50.1 ms, p99 150 ms; long: step 10 (150 ms, x2.9)",
    )
    random_tree(report, random, names, api_levels, two)
    random_timeline(report, random, 3000)
    memory = numpy.abs(numpy.cumsum(random.normal(0, 1e5, (4, 400)), axis=1)).astype("i8")
    total = memory.sum(axis=0)
    kinds = ["parameter", "activation", "gradient", "other"]
    at = numpy.arange(400) * 1000
    block = report.block("memory_0", [("at", at)] + [(f"kind_{k}", memory[k]) for k in range(4)])
    row = {"bytes": 1_090_000, "blocks": 8, "kind": "gradient", "steps": 3}
    made_by = ["aten::mm", "aten::empty_strided"] + texts
    report.head["memory"] = {
        "tick_ns": 1000.0,
        "devices": [
            {
                "process": texts[2] if hostile else "main-1",
                "device": "cpu",
                "block": block,
                "kinds": kinds,
                "ticks": 400_000,
                "peak_bytes": int(total.max()),
                "peak_at": int(at[total.argmax()]),
                "end_bytes": int(total[-1]),
                "peak_step": "3",
                "when": "step 3, torch.Tensor.div > aten::div.Tensor (call 1089)" + "".join(texts),
                "rows": [row | {"made_by": text} for text in made_by],
                "leaks": [row | {"made_by": text} for text in made_by[:2]],
            }
        ],
    }
    called = [i % 3 == 0 for i in range(len(names))]
    report.table(
        "coverage",
        names,
        {"calls": [7 * on for on in called]},
        [
            ("status", "Called", ["called" if on else "never called" for on in called]),
            ("namespace", "Namespace", [name.rpartition(".")[0][:50] for name in names]),
        ],
        sort=None,
    )
    report.head["coverage"] = {
        "list": "PyTorch 2.13",
        "total": len(names),
        "called": sum(called),
        "namespaces": [
            {"namespace": "torch", "called": 3, "known": 610},
            {"namespace": "torch.Tensor", "called": 25, "known": 593},
        ],
    }
    report.table(
        "numbers",
        names,
        {
            "calls": [5] * len(names),
            "calls_with_nan": [i % 5 == 0 for i in range(len(names))],
            "calls_with_inf": [0] * len(names),
            "least": random.normal(0, 1, len(names)),
            "most": random.normal(9, 1, len(names)),
            "largest_norm": random.normal(50, 9, len(names)),
        },
        [("level", "Level", [[level] for level in api_levels])],
    )
    report.head["numbers"] = {
        "first": [
            {
                "title": "Call 37 aten::log in Gate_0 made the first NaN",
                "facts": [
                    ["when", "forward"],
                    ["line", "gate.py:5 in Gate.forward"],
                    ["argument 0", 'Tensor([4], "float32")  {mean 1, min -0.5, max 2.5}'],
                    ["returned", 'Tensor([4], "float32")  {nan 1, mean 0.2}'],
                ]
                + [["hostile", text] for text in texts],
            }
        ]
    }
    source = "".join(f"line = {i}\n" for i in range(40)) + "\n".join(texts)
    report.head["sources"] = {
        "block": report.block("sources", [("file", ["train.py"]), ("text", [source])])
    }
    report.head["left_out"] = [
        {"what": "config", "rows": 12, "calls": 30, "self_ns": 12345, "why": "the smallest"}
    ]
    return report


def random_tree(report, random, names, levels, two, many=600):
    nodes = [(-1, report.label("all")), (0, report.label("main-1 thread 0 MainThread"))]
    modules = [
        report.label(text, 3)
        for text in (
            "encoder (Encoder)",
            "encoder.layers (ModuleList)",
            "encoder.layers.0 (Layer)",
            "encoder.layers.0.fc1 (Linear)",
        )
    ]
    for i, label in enumerate(modules):
        nodes.append((i + 1, label))
    for i in range(len(nodes), many):
        name = i % len(names)
        nodes.append(
            (
                int(random.integers(1 if i % 9 else 1, i)),
                report.label(names[name], int(levels[name])),
            )
        )
    own = numpy.exp(random.normal(9, 2, len(nodes))).astype("i8")
    own[:2] = 0
    weights = {
        "calls": random.integers(1, 500, len(nodes)),
        "failed": (random.random(len(nodes)) < 0.02).astype("u1"),
        "self_ns": own,
        "device_ns": (own * random.choice([0, 2], len(own))).astype("i8"),
        "allocated_bytes": random.integers(0, 9999, len(own)),
    }
    weights["calls"][:2] = 0
    if two:
        for name in list(weights):
            if name != "failed":
                weights["b_" + name] = (
                    weights[name] * random.choice([0, 1, 1, 1, 1.4, 0.7], len(own))
                ).astype("i8")
    report.tree("api", nodes, weights, left_out={"nodes": 3})
    report.tree(
        "module",
        nodes[:6],
        {"calls": weights["calls"][:6], "self_ns": weights["self_ns"][:6] + 1000}
        | (
            {"b_self_ns": weights["b_self_ns"][:6], "b_calls": weights["b_calls"][:6]}
            if two
            else {}
        ),
    )


def random_timeline(
    report,
    random,
    calls,
    tracks=("main-1 thread 0 MainThread", "main-1 thread 1 autograd", "cuda:0 stream 7"),
    budget=400_000,
):
    """Calls of three depths; a track takes its part of them."""
    made, each = [], calls // len(tracks)
    labels = numpy.array([report.label(name, level) for name, level in APIS])
    full = 0
    for name in tracks:
        outer = max(1, each // 13)
        duration = numpy.exp(random.normal(9, 1.5, outer)).astype("i8") + 60
        gap = numpy.exp(random.normal(7, 1, outer)).astype("i8")
        start = numpy.cumsum(duration + gap) - duration
        parts = [(start, duration, 0)]
        for depth, many in ((1, 3), (2, 3)):
            start, duration, _ = parts[-1]
            inner = duration // (many + 1)
            parts.append(
                (
                    numpy.concatenate([start + inner // 2 + i * inner for i in range(many)]),
                    numpy.tile(inner - 2, many).clip(1),
                    depth,
                )
            )
        track = {"name": name, "kind": "stream" if "stream" in name else "thread"}
        track["start"] = numpy.concatenate([part[0] for part in parts])
        track["duration"] = numpy.concatenate([part[1] for part in parts])
        track["depth"] = numpy.concatenate([numpy.full(len(part[0]), part[2]) for part in parts])
        track["label"] = labels[random.integers(0, len(labels), len(track["start"]))]
        full = max(full, int((track["start"] + track["duration"]).max()))
        made.append(track)
    # Ticks are such that all of the time has 32 bits.
    tick = max(1, -(-full // (2**32 - 1)))
    for track in made:
        track["start"], track["duration"] = (
            track["start"] // tick,
            (track["duration"] // tick).clip(1),
        )
    steps = 40
    made.insert(
        0,
        {
            "name": "steps",
            "kind": "steps",
            "start": numpy.arange(steps) * (full // tick // steps),
            "duration": numpy.full(steps, full // tick // steps),
            "depth": numpy.zeros(steps, dtype="i8"),
            "label": numpy.array([report.label(str(i + 1)) for i in range(steps)]),
        },
    )
    report.timeline(made, float(tick), full // tick + 1, budget)


def large(configs=1_000_000, calls=10_000_000, seed=1):
    """What must open in three seconds and be at most 20 MB."""
    random = numpy.random.default_rng(seed)
    report = Report(trace("large", calls=calls, configs=configs))
    apis = [(f"{name}_{i}", level) for i in range(150) for name, level in APIS]
    names = sorted(name for name, _ in apis)
    level_of = dict(apis)
    modules = [
        f"model.layers.{i}.{part}"
        for i in range(48)
        for part in ("attn", "attn.q", "attn.o", "mlp", "mlp.up", "norm")
    ]
    lines = [f"src/model/part{i}.py:{9 * i + 3} Part{i}.forward" for i in range(120)]

    def few(values, many):
        places = random.integers(0, len(values), (many, 3))
        return [[values[i] for i in sorted(set(each))] for each in places]

    count = len(names)
    report.table(
        "apis",
        names,
        measures(random, count),
        [
            ("level", "Level", [[str(level_of[name])] for name in names]),
            ("dtype", "dtype", few(DTYPES, count)),
            ("module", "Module", few(modules, count)),
            ("line", "Line", few(lines, count)),
        ],
    )
    report.head["facets"]["api"] = {"title": "API", "values": names}
    texts, api = [], []
    each = -(-configs // count)
    for n, name in enumerate(names):
        part = sorted(
            config(name, int(i))
            for i in random.choice(700 * 80, min(each, configs - len(texts)), replace=False)
        )
        texts += part
        api += [n] * len(part)
        if len(texts) >= configs:
            break
    sets = {
        name: len(report.head["facets"][name]["sets"])
        for name in ("level", "dtype", "module", "line")
    }
    api = numpy.array(api)
    level = numpy.array(
        [
            report.head["facets"]["level"]["sets"].index(
                [report.head["facets"]["level"]["values"].index(str(level_of[name]))]
            )
            for name in names
        ]
    )
    dtypes = report.head["facets"]["dtype"]
    single = []
    for dtype in DTYPES:
        value = [dtypes["values"].index(dtype)]
        if value not in dtypes["sets"]:
            dtypes["sets"].append(value)
        single.append(dtypes["sets"].index(value))
    dtype_of = numpy.array(
        [single[next(i for i, d in enumerate(DTYPES) if f'"{d}"' in text)] for text in texts]
    )
    made = measures(random, configs)
    # Three digits are shown: ten bits of a float's 23 are enough, and pack well.
    for name in ("time_ns", "self_ns", "device_ns", "flops"):
        bits = (made[name].astype("f4").view("u4") + numpy.uint32(0x1000)) & numpy.uint32(
            0xFFFFE000
        )
        made[name] = bits.view("f4")
    # A config comes from a few places, and places of configs near each other are alike.
    place = numpy.repeat(random.integers(0, min(sets["module"], 250), -(-configs // 8)), 8)[
        :configs
    ]
    report.table(
        "configs",
        texts,
        made,
        [
            ("level", level[api]),
            ("dtype", dtype_of),
            ("module", place),
            ("line", place % sets["line"]),
            ("api", api),
        ],
    )
    shapes = [
        f"aten::mm M={16 * i} N={j} K=32 float32" for i in range(1, 300) for j in range(100, 200)
    ]
    shapes.sort()
    report.table(
        "shapes", shapes, measures(random, len(shapes)), [("level", "Level", [["2"]] * len(shapes))]
    )
    steps = 20_000
    report.table(
        "steps",
        [str(i + 1) for i in range(steps)],
        {
            "wall_ns": (5e7 * random.uniform(0.9, 1.1, steps)).astype("i8"),
            "calls": random.integers(600, 700, steps),
        },
    )
    random_tree(report, random, names, [str(level_of[name]) for name in names], False, 100_000)
    random_timeline(
        report,
        random,
        calls,
        ("rank 0 thread 0", "rank 0 autograd", "rank 0 cuda:0 stream 7", "rank 1 thread 0"),
    )
    return report


MAKERS = {
    "small": small,
    "two": lambda: small(two=True),
    "hostile": lambda: small(HOSTILE),
    "hostile_two": lambda: small(HOSTILE, two=True),
    "large": large,
}

if __name__ == "__main__":
    MAKERS[sys.argv[1]]().write(sys.argv[2])
