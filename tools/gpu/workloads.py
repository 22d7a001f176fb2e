"""Programs for tools/gpu_check. `workloads.py NAME [ARGUMENT...]` prints what the program knows of
itself as JSON.

Each is run plain and traced. Whatever says `digest` must be the same.
"""

import hashlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "testdata/scripts"))
from gpt2 import GPT2

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
SIZES = {
    # A step that waits for the host, and one that waits for the device.
    "small": {"vocabulary": 256, "length": 64, "width": 256, "layers": 4, "heads": 4},
    "large": {"vocabulary": 4096, "length": 512, "width": 1024, "layers": 8, "heads": 16},
}
BATCH = {"small": 4, "large": 16}


def digest(tensors):
    sha = hashlib.sha256()
    for tensor in tensors:
        sha.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()


class Training:
    def __init__(self, size):
        sizes = SIZES[size]
        torch.manual_seed(0)
        self.model = GPT2(**sizes)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.tokens = torch.randint(sizes["vocabulary"], (BATCH[size], sizes["length"]))

    def step(self):
        scores = self.model(self.tokens)
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), self.tokens.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def digest(self):
        return digest(self.model.parameters())


def work_of(profiled):
    """{name: [count, microseconds]} of what the profiler saw the device do."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiled.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    work = {}
    for event in events:
        if event.get("cat") in WORK:
            of_name = work.setdefault(event["name"], [0, 0.0])
            of_name[0] += 1
            of_name[1] += event["dur"]
    return work


def run_profiled(function):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        function()
        torch.cuda.synchronize()
    return work_of(profiled)


def five_steps(profiled="no"):
    """`profiled`: no; all: PyTorch's profiler sees all that the device does; third: of one step."""
    work = {}

    def train():
        training = Training("small")
        for number in range(5):
            if profiled == "third" and number == 2:
                work.update(run_profiled(training.step))
            else:
                training.step()
        torch.cuda.synchronize()
        work["digest"] = training.digest()

    if profiled == "all":
        torch.ones(1).cuda()
        seen = run_profiled(train)
        return {"digest": work["digest"], "work": seen}
    train()
    return {"digest": work.pop("digest"), "work": work}


def timed_steps(size, steps, profiled="no"):
    """Milliseconds of a step, the median, after some to warm up."""
    training = Training(size)
    times = []

    def train():
        for _ in range(int(steps)):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            training.step()
            torch.cuda.synchronize()
            times.append((time.perf_counter() - begin) * 1000)

    if profiled == "all":
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
            train()
    else:
        train()
    return {"ms": statistics.median(times[len(times) // 4 :]), "digest": training.digest()}


def graph():
    """A captured graph, replayed ten times."""
    x = torch.ones(256, 256)
    layer = torch.nn.Linear(256, 256)
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        layer(x).relu()
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        y = layer(x).relu()
    for _ in range(10):
        captured.replay()
    torch.cuda.synchronize()
    return {"digest": digest([y])}


def compiled():
    """A kernel of Triton, made by Inductor, ten times."""

    @torch.compile
    def f(x):
        return torch.sin(x) * torch.cos(x) + 1

    x = torch.linspace(0, 1, 1 << 20)
    for _ in range(10):
        y = f(x)
    torch.cuda.synchronize()
    return {"digest": digest([y])}


def collective():
    """Collectives of one rank."""
    torch.distributed.init_process_group(
        "nccl", init_method="tcp://127.0.0.1:29517", rank=0, world_size=1
    )
    x = torch.arange(1 << 16, dtype=torch.float32)
    for _ in range(3):
        torch.distributed.all_reduce(x)
        torch.distributed.all_gather_into_tensor(torch.empty_like(x), x)
    torch.cuda.synchronize()
    found = {"digest": digest([x])}
    torch.distributed.destroy_process_group()
    return found


def memory():
    """The caching allocator's own peaks, of a training, and what its snapshot shows at the end."""
    global training  # alive then
    training = Training("small")
    for _ in range(3):
        training.step()
    torch.cuda.synchronize()
    known = torch.cuda.memory_stats()
    peaks = {key: known[f"{key}_bytes.all.peak"] for key in ("requested", "allocated")}
    digest = training.digest()
    blocks = (block for segment in torch.cuda.memory_snapshot() for block in segment["blocks"])
    alive = sum(each["requested_size"] for each in blocks if each["state"] == "active_allocated")
    return {"digest": digest, "alive": alive, **peaks}


PROGRAMS = {
    program.__name__: program
    for program in (five_steps, timed_steps, graph, compiled, collective, memory)
}

if __name__ == "__main__":
    torch.set_default_device("cuda")
    print(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])))
