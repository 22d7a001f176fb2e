"""`stats --by module`: whose time it is, backward passes and optimizers included."""

import functools
import json
import os
import subprocess
import sys

import pytest

TORCHTRACE = os.environ["TORCHTRACE"]

PROGRAM = """
import threading
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = Block()
        self.again = Block()

    def forward(self, x):
        x = self.plain(x)
        return checkpoint(self.again, x, use_reentrant=False)


one = nn.Sequential(nn.Linear(16, 16))
two = nn.Sequential(nn.Linear(16, 16))
net = Net()
parameters = [*net.parameters(), *one.parameters(), *two.parameters()]
optimizer = torch.optim.AdamW(parameters, foreach=True)
for _ in range(2):
    optimizer.zero_grad()
    loss = two(one(net(torch.randn(4, 16)))).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()
    optimizer.step()


def run():
    torch.manual_seed(0)
    one(torch.randn(4, 16)).sum().backward()


threads = [threading.Thread(target=run) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@functools.cache
def modules(folder, levels):
    program = folder / "program.py"
    program.write_text(PROGRAM)
    trace = folder / levels
    command = [TORCHTRACE, "run", "-q", "-l", levels, "--frames", "modules", "-o", trace]
    subprocess.run([*command, "--python", sys.executable, program], check=True)
    stats = [TORCHTRACE, "stats", trace, "--by", "module", "--format", "json"]
    done = subprocess.run(stats, check=True, capture_output=True, text=True)
    return {row["module"]: row for row in json.loads(done.stdout)["modules"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("modules")


@pytest.mark.torch
@pytest.mark.parametrize("levels", ["2,3", "1,2,3", "3,4"])
def test_backward_belongs_to_the_modules(folder, levels):
    rows = modules(folder, levels)
    for block in ("plain", "again"):
        for part in ("attention", "mlp.0", "mlp.1", "mlp.2"):
            row = rows[f"Net_0.{block}.{part}"]
            assert row["forward_ns"] > 0
            assert row["backward_ns"] > 0, row
            assert row["forward_ns"] + row["backward_ns"] == row["self_time_ns"]
    assert rows["optimizer"]["forward_ns"] is None
    assert rows["optimizer"]["class"] is None


@pytest.mark.torch
def test_children_of_different_models_are_different_rows(folder):
    rows = modules(folder, "2,3")
    assert rows["Sequential_0.0"]["backward_ns"] > 0
    assert rows["Sequential_1.0"]["backward_ns"] > 0
    # `one` has been run by two threads more.
    assert rows["Sequential_0.0"]["calls"] > rows["Sequential_1.0"]["calls"]


@pytest.mark.torch
def test_operators_of_backward_are_where_their_forward_ones_are(folder):
    modules(folder, "2,3")
    trace = folder / "2,3"
    command = [TORCHTRACE, "tree", trace, "--by", "module", "--backward-at-forward"]
    done = subprocess.run(
        [*command, "--format", "json"], check=True, capture_output=True, text=True
    )
    nodes = json.loads(done.stdout)
    names = {node["node"]: node["name"] for node in nodes}
    owners = {names[node["parent"]] for node in nodes if node["name"] == "(backward)"}
    assert "Net_0.plain.attention (Linear)" in owners


@pytest.mark.torch
def test_arrows_of_a_chrome_trace_lead_to_backward_calls(folder):
    modules(folder, "2,3")
    command = [TORCHTRACE, "export", "chrome", folder / "2,3", "-o", folder / "chrome.json"]
    subprocess.run(command, check=True, capture_output=True)
    events = json.loads((folder / "chrome.json").read_text())["traceEvents"]
    calls = {(event["tid"], event["ts"]): event for event in events if event["ph"] == "X"}
    arrows = {}
    for event in events:
        if event.get("cat") == "fwdbwd":
            call = calls[event["tid"], event["ts"]]
            arrows.setdefault(event["id"], {})[event["ph"]] = call["name"]
    arrows = {(arrow["s"], arrow["f"]) for arrow in arrows.values()}
    # A product's node first transposes what it keeps.
    assert arrows >= {("aten::gelu", "aten::gelu_backward"), ("aten::addmm", "aten::t")}
    assert not {a for a in arrows if a[1] == "aten::gelu_backward" and a[0] != "aten::gelu"}
