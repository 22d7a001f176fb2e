"""Programs that tools/gpu_check runs plain, under torch.profiler, and traced: one per section.

Usage: program.py SECTION [--device D] [--steps N] [--profile] [--small]. The last line of the
output is a JSON object.
"""

import argparse
import collections
import contextlib
import json
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def training_step(options, width, batch, length, blocks=4):
    if options.small:
        width, batch, length, blocks = 16, 2, 4, 1
    torch.manual_seed(0)
    model = nn.Sequential(*[Block(width, max(width // 64, 1)) for _ in range(blocks)])
    model.to(options.device)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(batch, length, width, device=options.device)

    def step():
        with torch.autocast(options.device, torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def timed(step, options):
    """Milliseconds of the median step; each waits for the device."""
    times = []
    for _ in range(options.steps):
        began = time.perf_counter()
        step()
        wait(options.device)
        times.append((time.perf_counter() - began) * 1e3)
    return sorted(times)[len(times) // 2]


def host_bound(options):
    step = training_step(options, width=256, batch=2, length=32)
    return {"ms": timed(step, options)}


def compute_bound(options):
    step = training_step(options, width=2048, batch=16, length=1024, blocks=8)
    return {"ms": timed(step, options)}


def train(options):
    step = training_step(options, width=768, batch=4, length=128)
    losses = [step().item() for _ in range(options.steps)]
    peak = torch.cuda.max_memory_allocated() if options.device == "cuda" else 0
    return {"losses": [loss.hex() for loss in losses], "peak": peak}


def graph(options):
    x = torch.randn(256, 256, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.relu(x @ x)  # cuBLAS makes its handle
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = torch.relu(x @ x)
    for _ in range(options.steps):
        captured.replay()
    return {"sum": y.sum().item()}


def triton(options):
    @torch.compile
    def fused(x):
        return torch.sin(x) * torch.cos(x) + 1

    x = torch.randn(1 << 20, device="cuda")
    for _ in range(options.steps):
        y = fused(x)
    return {"sum": y.sum().item()}


def nccl(options):
    import torch.distributed as dist

    store = dist.HashStore()
    dist.init_process_group("nccl", store=store, rank=0, world_size=1)
    x = torch.ones(1 << 20, device="cuda")
    y = torch.empty_like(x)
    for _ in range(options.steps):
        dist.all_reduce(x)
        dist.all_gather_into_tensor(y, x)
    torch.cuda.synchronize()
    result = {"sum": y.sum().item()}
    dist.destroy_process_group()
    return result


SECTIONS = {
    function.__name__: function
    for function in (host_bound, compute_bound, train, graph, triton, nccl)
}


def kernels_of(profile):
    """Kernels by name: how many, and their microseconds."""
    kernels = collections.defaultdict(lambda: [0, 0.0])
    for event in profile.events():
        is_range = event.name.startswith("ProfilerStep") or getattr(event, "is_user_annotation", 0)
        if str(event.device_type).endswith("CUDA") and not is_range:
            kernels[event.name][0] += 1
            kernels[event.name][1] += event.time_range.elapsed_us()
    return kernels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("section", choices=SECTIONS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if options.device == "cuda":
        torch.ones(1, device="cuda")
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    watch = (
        torch.profiler.profile(activities=kinds) if options.profile else contextlib.nullcontext()
    )
    with watch as profile:
        result = SECTIONS[options.section](options)
        wait(options.device)
    if options.profile:
        result["kernels"] = kernels_of(profile)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
