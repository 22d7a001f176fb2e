"""FLOPs of `stats`: equal to torch.utils.flop_counter's, at every level."""

import collections
import functools
import json
import subprocess

import pytest

from tools.testing import whole_tool as tool

PROGRAM = tool.ROOT / "testdata/scripts/torch/flop_models.py"
GROUPED = "grouped backward"
# addbmm, mv and dot; attention for CPUs.
UNCOUNTED = {
    "uncounted forward": 2 * 2 * 3 * 5 * 6 + 2 * 3 * 5 + 2 * 6,
    "flash forward": 2 * 2 * 4 * 16 * 12 * 2 * 8,
    "flash backward": 2 * 2 * 4 * 16 * 12 * 5 * 8,
}
# Level 1 shows a function without a formula, one example of several, or no gradient.
NOT_AT_LEVEL_1 = {"composed forward", "per_example forward", "twice_differentiated forward"}
# All gradients are asked for. FlopCounterMode takes hooks of tensors for the ends of modules, which
# gives other numbers.
DIFFERENTIATED = (
    *("linear", "convolutions", "grouped", "other_dimensions", "transposed", "unet", "language"),
    *("transformer", "vision_transformer", "grouped_queries", "encoder_decoder", "compiled"),
    *("lower_precision", "meta", "sharded", "products"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("flops")


@functools.cache
def results(folder):
    """What FlopCounterMode counts; traces are in the folder."""
    env = tool.environment()
    count = subprocess.Popen([tool.PYTHON, PROGRAM, "count"], env=env, stdout=subprocess.PIPE)
    for levels in ("2,3", "0,1,2,4"):
        options = ["-qo", levels, "-l", levels, "--formats=none"]
        options += ["--frames", "modules"] if "3" in levels else []
        run = tool.torchtrace("run", *options, "--python", tool.PYTHON, PROGRAM, cwd=folder)
        assert run.status == 0, run.err
    counted = json.loads(count.communicate()[0])
    assert count.returncode == 0
    return counted


def rows(folder, trace, *options):
    said = tool.torchtrace("stats", trace, "-q", "--format=json", *options, cwd=folder)
    assert said.status == 0, said.err
    return json.loads(said.out)


def parts(folder, trace, levels):
    selected = [f"--level={level}" for level in levels]
    tags = rows(folder, trace, "--by", "tag:part", "--sort", "flops", *selected)["tags"]
    return {row["value"]: row["flops"] or 0 for row in tags if row["value"] is not None}


def wanted(counted):
    parts = {part: flops for part, flops in counted["parts"].items() if not part.endswith("make")}
    assert len(parts) > 45
    assert parts[GROUPED] > 2 * parts["grouped forward"]
    parts[GROUPED] = 2 * parts["grouped forward"]
    return parts | UNCOUNTED


@pytest.mark.torch
@pytest.mark.parametrize(
    "trace, levels",
    [("2,3", "2"), ("0,1,2,4", "12"), ("0,1,2,4", "4"), ("0,1,2,4", "0124")],
)
def test_flops_are_those_of_flop_counter(folder, trace, levels):
    want = wanted(results(folder))
    have = parts(folder, trace, levels)
    assert {part: have.get(part, 0) for part in want} == want


@pytest.mark.torch
def test_level_1_has_those_of_forward_passes(folder):
    want = wanted(results(folder))
    have = parts(folder, "0,1,2,4", "1")
    forward = {part: flops for part, flops in want.items() if part.endswith("forward")}
    for part in NOT_AT_LEVEL_1:
        assert have.get(part, 0) < forward.pop(part)
    assert {part: have[part] for part in forward} == forward
    # What is computed again is a function's call.
    again = want["checkpointed backward"] - want["language backward"]
    assert have["checkpointed backward"] == again
    assert not have.get("language backward")


def modules(folder, kind):
    """With the FLOPs of inner modules."""
    flops = collections.Counter()
    where = f"tag(kind) = {kind}"
    for row in rows(folder, "2,3", "--by", "module", "--where", where)["modules"]:
        if row["module"] is None:
            assert not row["flops"]
            continue
        model, *path = row["module"].split(".")
        names = [model.rpartition("_")[0], *path]
        for last in range(len(names)):
            flops[".".join(names[: last + 1])] += row["flops"] or 0
    return flops


@pytest.mark.torch
def test_modules(folder):
    counted = results(folder)["modules"]
    forward = modules(folder, "forward")
    for part, want in counted.items():
        if part.endswith("forward"):
            # The modules that were compiled are not called.
            want = {name: flops for name, flops in want.items() if "_orig_mod" not in name}
            assert {name: forward[name] for name in want} == want
    backward = modules(folder, "backward")
    compared = [name for name in forward if name.partition(".")[0] in DIFFERENTIATED]
    assert len(compared) > 100
    for name in compared:
        assert backward[name] == 2 * forward[name], name
    again = "checkpointed.net.blocks.0.query"
    assert backward[again] == 3 * forward[again]


@pytest.mark.torch
def test_rules_of_ones_own_count_for_what_is_inside(folder):
    results(folder)
    own = folder / "own.yaml"
    own.write_text('- {names: [mm], flops: 7}\n- {names: ["aten::linear"], flops: 5}\n')
    options = ["--flops", own, "--include", "aten::linear", "--include", "aten::mm"]
    options += ["--include", "aten::addmm", "--where", 'tag(part) = "linear forward"']
    said = rows(folder, "0,1,2,4", *options, "--level", "2")
    products = {row["api"]: row["flops"] / row["calls"] for row in said["apis"]}
    assert products == {"aten::mm": 7, "aten::addmm": 2 * 21 * 6 * 12}
    # At level 4 the products are within two calls of linear.
    said = rows(folder, "0,1,2,4", *options, "--level", "4")
    assert said["total_flops"] == 10
