"""Whole programs to run traced and untraced: programs.py NAME [COUNT].

At the end, each prints one line of JSON about itself.
"""

import json
import multiprocessing
import os
import statistics
import sys
import threading
import time


def memory_kb(field):
    """A field of /proc/self/status: VmRSS, or VmHWM, the most that VmRSS has been."""
    with open("/proc/self/status", encoding="utf-8") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    return 0


def steps(name, count):
    """`count` steps of a workload."""
    import workloads

    step = workloads.make(name)
    wall, cpu = [], []
    for _ in range(count):
        wall_start, cpu_start = time.perf_counter(), time.thread_time()
        step()
        cpu.append(time.thread_time() - cpu_start)
        wall.append(time.perf_counter() - wall_start)
    return {"wall": statistics.median(wall), "cpu": statistics.median(cpu)}


def loop(calls):
    """A long loop of small calls, four in turn; memory after a tenth, a half and all of it."""
    import torch

    torch.set_num_threads(1)
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    marks = {calls // 10, calls // 2, calls}
    rss = {}
    start = time.thread_time()
    done = 0
    for mark in sorted(marks):
        for _ in range((mark - done) // 4):
            torch.add(a, b)
            torch.mul(a, 2.0)
            a.relu()
            torch.sum(a, dim=1, keepdim=True)
        done = mark
        rss[mark] = memory_kb("VmRSS")
    return {"cpu": (time.thread_time() - start) / calls, "rss_kb": rss}


def known_calls(count):
    """Calls whose number is known: {API: calls} for functions in Python and in C++, and for
    their operators."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    x = torch.ones(4, 4)
    functions = {
        "torch.nn.functional.relu": (F.relu, (x,), "aten::relu"),
        "torch.nn.functional.gelu": (F.gelu, (x,), "aten::gelu"),
        "torch.nn.functional.silu": (F.silu, (x,), "aten::silu"),
        "torch.nn.functional.mse_loss": (F.mse_loss, (x, x), "aten::mse_loss"),
        "torch.nn.functional.layer_norm": (F.layer_norm, (x, (4,)), "aten::native_layer_norm"),
        "torch.add": (torch.add, (x, x), "aten::add.Tensor"),
        "torch.mul": (torch.mul, (x, x), "aten::mul.Tensor"),
        "torch.mm": (torch.mm, (x, x), "aten::mm"),
        "torch.Tensor.exp": (torch.Tensor.exp, (x,), "aten::exp"),
        "torch.Tensor.tanh": (torch.Tensor.tanh, (x,), "aten::tanh"),
    }
    made = {}
    for _ in range(count):
        for api, (function, args, operator) in functions.items():
            function(*args)
            made[api] = made.get(api, 0) + 1
            made[operator] = made.get(operator, 0) + 1
    return {"made": made}


def steps_between(name, count, ready, done):
    """`count` steps between two barriers."""
    import torch
    import workloads

    torch.set_num_threads(1)
    step = workloads.make(name)
    step()
    ready.wait()
    for _ in range(count):
        step()
    done.wait()


def rank_of_two(rank, count, store, ready, done):
    """`count` steps of DDP between two barriers, as one of two ranks."""
    import torch
    import torch.distributed as dist
    from torch import nn

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.ones(64, 256)
    for number in range(count + 3):
        if number == 3:
            ready.wait()
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    done.wait()
    dist.barrier()
    os._exit(0)  # Gloo's own end aborts at random


def together(how, count):
    """Steps of two threads, of two spawned workers or of two ranks: wall time of one of each."""
    os.sched_setaffinity(0, range(os.cpu_count()))
    if how == "threads":
        ready, done = threading.Barrier(3), threading.Barrier(3)
        both = [
            threading.Thread(target=steps_between, args=("transformer", count, ready, done))
            for _ in range(2)
        ]
    else:
        context = multiprocessing.get_context("spawn")
        ready, done = context.Barrier(3), context.Barrier(3)
        store = os.path.join(os.getcwd(), f"store-{os.getpid()}")
        count *= 10 if how == "ranks" else 1  # shorter steps
        both = [
            context.Process(target=steps_between, args=("transformer", count, ready, done))
            if how == "workers"
            else context.Process(target=rank_of_two, args=(rank, count, store, ready, done))
            for rank in range(2)
        ]
    for each in both:
        each.start()
    ready.wait()
    start = time.perf_counter()
    done.wait()
    wall = (time.perf_counter() - start) / count
    for each in both:
        each.join()
    return {"wall": wall}


def main():
    """Entry point."""
    name = sys.argv[1]
    count = int(sys.argv[2])
    if name == "loop":
        result = loop(count)
    elif name == "known":
        result = known_calls(count)
    elif name in ("threads", "workers", "ranks"):
        result = together(name, count)
    else:
        result = steps(name, count)
    result["hwm_kb"] = memory_kb("VmHWM")
    result["end"] = time.time()
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
