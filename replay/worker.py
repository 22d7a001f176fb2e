"""The worker of `torchtrace replay`: reads configs, a JSON object a line, answers each with a line.

The process that torchtrace starts imports torch once and then only watches: a child of it does the
work. When that dies, it says of what, and the next child, which has torch already, goes on.
"""

import contextlib
import ctypes
import fcntl
import gc
import json
import mmap
import os
import resource
import signal
import time
import warnings

import torch

from replay import arguments, calling, fills, names, results, sequence
from replay.names import Skip


class Replay:
    def __init__(self, options):
        self.options = options
        self.names = names.Names(options["rules"])
        self.fills = fills.Fills(options["rules"])
        self.device = device_of(options["device"]) if options["device"] else None
        self.results = results.Results(options["rules"], self.device)
        self.guard = calling.Guard()

    def run(self, config):
        """What became of a config: a dict with result, reason, seconds."""
        self.allow(1)
        try:
            return self._run(config)
        finally:
            self.allow(0)

    def _run(self, config):
        try:
            if config["level"] == 3:
                raise Skip("level 3 records functions of the program, which only the program has")
            if config["level"] == 4 and not names.is_operator(config["api"]):
                raise Skip("a scope or a node of the backward pass is no operator")
            target = self.names.resolve(config["api"])
            parser = arguments.Parser(self.names, self.device)
            args = [parser.parse(arg) for arg in config["args"]]
            kwargs = {name: parser.parse(value) for name, value in config["kwargs"].items()}
            parser.read_texts(target.key, args, kwargs, returned=not config.get("raised"))
            arguments.attach(parser.specs, config.get("notes", ()))
            self.fills.assign(target.key, calling.bind(target, args, kwargs))
            nbytes = arguments.measure(parser.specs, self.options["max_bytes"])
        except Skip as skip:
            return {"result": "skipped", "reason": str(skip)}
        except (RecursionError, OverflowError, KeyError, TypeError, ValueError) as error:
            return {"result": "skipped", "reason": f"its arguments can't be made: {error}"[:300]}
        self.allow(1 + nbytes / (64 << 20))
        known = all(getattr(spec, "is_known", False) for spec in parser.specs)
        return self._call(config, target, args, kwargs, known)

    # By default the signal ends the process, whatever it is doing.
    def allow(self, times):
        signal.setitimer(signal.ITIMER_REAL, self.options["timeout"] * times)

    def _call(self, config, target, args, kwargs, values_known):
        seed = (int(config["seed"], 16) ^ self.options["seed"]) & (2**62 - 1)
        expected = config.get("raised", "")
        builder = arguments.Builder(
            self.fills, torch.Generator().manual_seed(seed), seed, leaf=not target.in_place
        )
        began = time.perf_counter()
        try:
            try:
                args = builder.build(args)
                kwargs = builder.build(kwargs)
            except Skip as skip:
                return {"result": "skipped", "reason": str(skip)}
            except Exception as error:
                if calling.out_of_memory(error):
                    raise
                return {
                    "result": "skipped",
                    "reason": f"its arguments can't be made: {calling.said(error)}",
                }
            torch.manual_seed(seed)
            began = time.perf_counter()
            with self.guard, self._surroundings(config, target, args, kwargs, expected):
                result = target.function(*args, **kwargs)
            calling.synchronize(result)
        except calling.Refused as refused:
            return {"result": "skipped", "reason": f"{refused}, which a replay must not"}
        except Exception as error:
            seconds = time.perf_counter() - began
            if calling.out_of_memory(error):
                return {"result": "skipped", "reason": "it needs more memory than --max-memory"}
            return {
                "result": "raised",
                "raised": calling.kinds(error),
                "reason": calling.said(error),
                "seconds": seconds,
            }
        answer = {"result": "ok", "seconds": time.perf_counter() - began}
        if "outputs" in config:
            self.results.strides = config.get("strides", True)
            with self.guard, self._surroundings(config, target, args, kwargs, expected):
                _, answer["difference"] = self.results.compare_call(
                    target, args, kwargs, config["outputs"], result, values_known
                )
        return answer

    # Operators of level 2 were seen below autograd. Where it looks on, nothing may be written in
    # place of a leaf's values: what returned did so without it.
    def _surroundings(self, config, target, args, kwargs, expected):
        if config["level"] == 2:
            return torch._C._AutoDispatchBelowAutograd()
        if not expected and (target.in_place or "out" in kwargs):
            return torch.no_grad()
        return contextlib.nullcontext()


def device_of(name):
    """Raises ValueError: what torch here has no device for."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(
            f"--device {name}: torch knows no such device ({calling.said(error)})"
        ) from None
    if not arguments.device_is_here(device):
        raise ValueError(f"--device {name}: torch {torch.__version__} has no such device here")
    return device


def limit_memory(nbytes):
    """Of what is written to, RLIMIT_DATA: libraries and reserved addresses don't count."""
    with open("/proc/self/statm") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (data + nbytes, data + nbytes))


def die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def work(options, reader, answers, errors, threads, first, ready):
    """The child. Ends with its input. `ready` is set when it can be asked."""
    die_with_parent()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # What follows needs memory, and what wants it may wait for ever.
    signal.setitimer(signal.ITIMER_REAL, options["timeout"] + 10)
    limit_memory(options["max_memory"])
    torch.set_num_threads(options["threads"] or threads)
    warnings.simplefilter("ignore")
    try:
        replay = Replay(options)
    except ValueError as error:
        answer(answers, problem=str(error))
        return
    if options["sequence"]:
        replay = sequence.Sequence(replay)
    gc.disable()
    signal.setitimer(signal.ITIMER_REAL, 0)
    if first:
        answer(answers, torch=torch.__version__)
    ready[0] = 1
    count = 0
    for request, behind in requests(reader):
        os.ftruncate(errors, 0)
        if options["sequence"]:
            sequence.take_contents(request, reader, behind)
        answer(answers, **replay.run(request))
        count += 1
        if count % 256 == 0:
            gc.collect()


def requests(reader):
    """Each with what was read behind its line. One is sent at a time: nothing is read ahead that
    is for the next child."""
    blocks = []
    while True:
        block = os.read(reader, 1 << 20)
        if not block:
            return
        end = block.find(b"\n") + 1
        blocks.append(block[:end] if end else block)
        if end:
            yield json.loads(b"".join(blocks)), block[end:]
            blocks = []


def answer(answers, **what):
    os.write(answers, json.dumps(what).encode() + b"\n")


def last_line(errors):
    text = (
        os.pread(errors, 4096, max(0, os.fstat(errors).st_size - 4096))
        .decode(errors="replace")
        .strip()
    )
    return text.splitlines()[-1][:200] if text else ""


def main(options):
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers, reader, errors = os.dup(1), os.dup(0), os.memfd_create("stderr")
    # So that it can be emptied while others write to it.
    fcntl.fcntl(errors, fcntl.F_SETFL, os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor, becomes in ((nothing, 0), (nothing, 1), (errors, 2)):
        os.dup2(descriptor, becomes)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    os.chdir(calling.NO_FILES)
    # What is there stays: children needn't look through it, nor copy the pages that it is in.
    gc.freeze()
    ready = mmap.mmap(-1, 1)  # shared with children
    first = True
    while True:
        ready[0] = 0
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(options, reader, answers, errors, threads, first, ready)
                status = 0
            except BaseException as error:
                os.write(errors, f"{type(error).__name__}: {error}".encode())
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return
        died = f"exit code {status >> 8}"
        if os.WIFSIGNALED(status):
            died = signal.Signals(os.WTERMSIG(status)).name
        if not ready[0]:
            # Nor would the next one get further.
            answer(
                answers,
                problem=f"a worker dies before it can call anything ({last_line(errors) or died})",
            )
            return
        answer(answers, died=died, said=last_line(errors))
        first = False
