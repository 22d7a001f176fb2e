"""The worker of `torchtrace replay`: reads configs, a JSON object a line, answers each with a line.

The process that torchtrace starts imports torch once and then only watches a child, which does the
work. If the child dies, it reports the cause and forks the next child, which already has torch.
"""

import contextlib
import ctypes
import fcntl
import functools
import gc
import json
import mmap
import os
import resource
import select
import signal
import struct
import warnings

import torch

from replay import arguments, attempts, calling, fills, names, program, results, sequence
from replay.names import Skip

# The current state of a child, and its request: shared with the process that watches.
STATE = struct.Struct("<QQ")
STARTING, WAITING, READING, CALLING = range(4)

# Precedes a request: its number, which the answer repeats, and the bytes of its line and of the
# contents that follow.
HEAD = struct.Struct("<QQQ")

NO_MEMORY = {"result": "skipped", "reason": calling.NO_MEMORY}


class Replay:
    def __init__(self, options):
        self.options = options
        self.names = names.Names(options["rules"])
        self.fills = fills.Fills(options["rules"])
        self.device = device_of(options["device"]) if options["device"] else None
        self.results = results.Results(options["rules"], self.device)
        self.guard = calling.Guard()

    def run(self, config):
        """The result of a config: a dict with result, reason, seconds."""
        self.allow(1)
        try:
            return self._run(config)
        except MemoryError:
            return NO_MEMORY
        finally:
            self.allow(0)

    def _run(self, config):
        try:
            names.check_level(config)
            target = self.names.resolve(config["api"])
            parser = arguments.Parser(self.names, self.device)
            args = [parser.parse(arg) for arg in config["args"]]
            kwargs = {name: parser.parse(value) for name, value in config["kwargs"].items()}
            args, kwargs = calling.as_declared(target, args, kwargs)
            parser.read_texts(target.key, args, kwargs, returned=not config.get("raised"))
            target, args, kwargs = parser.move(target, args, kwargs)
            arguments.attach(parser.specs, config.get("notes", ()))
            bound = calling.bind(target, args, kwargs)
            self.fills.assign(target.key, bound)
            nbytes = arguments.measure(parser.specs, self.options["max_bytes"])
        except Skip as skip:
            return {"result": "skipped", "reason": str(skip)}
        except (RecursionError, OverflowError, KeyError, TypeError, ValueError) as error:
            return {"result": "skipped", "reason": f"its arguments can't be made: {error}"[:300]}
        self.allow(1 + nbytes / (64 << 20))
        without_graph = not config.get("raised") and (
            target.in_place or "out" in kwargs or bound.get("inplace") is True
        )
        return self._call(config, target, args, kwargs, parser.specs, without_graph)

    # The signal's default action ends the process, whatever it is doing.
    def allow(self, times):
        self.times = times
        self.allow_again()

    def allow_again(self):
        signal.setitimer(signal.ITIMER_REAL, self.options["timeout"] * self.times)

    def _call(self, config, target, args, kwargs, specs, without_graph):
        seed = (int(config["seed"], 16) ^ self.options["seed"]) & (2**62 - 1)

        tensors = [spec for spec in specs if isinstance(spec, arguments.TensorSpec)]
        known = len(tensors) == len(specs) and all(spec.is_known for spec in tensors)
        sizes = self.results.sizes_are_told(target, known, tensors)

        def build(value=None):
            if value is not None:
                free = [spec for spec in tensors if spec.range is None]
                if not free:
                    raise attempts.NothingToChange
                for spec in free:
                    spec.fill = fills.constant(value)
            builder = arguments.Builder(self.fills, torch.Generator().manual_seed(seed), seed)
            made = builder.build(args), builder.build(kwargs)
            if names.is_operator(config["api"]):
                calling.wrap_numbers(target.schema, *made)
            return made

        try:
            made = [build()]
        except Skip as skip:
            return {"result": "skipped", "reason": str(skip)}
        except Exception as error:
            if calling.out_of_memory(error):
                raise
            return {
                "result": "skipped",
                "reason": f"its arguments can't be made: {calling.said(error)}",
            }
        tried = attempts.Attempts(self, config, target, config.get("outputs"), sizes, seed)
        try:
            around = functools.partial(self._surroundings, config, without_graph)
            done = tried.make(made, around, build)
        except (Skip, calling.Refused) as reason:
            return {"result": "skipped", "reason": str(reason)}
        return done.answer()

    # Operators of level 2 were recorded below autograd. With autograd enabled, nothing may write to
    # a leaf in place: calls that returned ran without it.
    def _surroundings(self, config, without_graph):
        if config["level"] == 2:
            return torch._C._AutoDispatchBelowAutograd()
        if without_graph:
            return torch.no_grad()
        return contextlib.nullcontext()


def device_of(name):
    """Raises ValueError if torch has no such device here."""
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
    """Limits the memory that is written to, RLIMIT_DATA: libraries and reserved addresses don't
    count. A lower limit of the user stays."""
    with open("/proc/self/statm") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    limits = [data + nbytes, *resource.getrlimit(resource.RLIMIT_DATA)]
    limit = min(each for each in limits if each != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def work(options, reader, answers, errors, threads, first, state):
    """The child process. Ends with its input."""
    die_with_parent()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The next steps need memory, and a thread that lacks it may wait for ever.
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
    count = 0
    for number, request in requests(reader, state):
        os.ftruncate(errors, 0)
        if request is None and options["sequence"]:
            replay.forget()
        result = NO_MEMORY if request is None else replay.run(request)
        answer(answers, request=number, **result)
        # Freed before the next request is read.
        del request
        count += 1
        if count % 256 == 0:
            gc.collect()


def requests(reader, state):
    """Yields (number, request); None for a request that does not fit into memory. Reads each to
    its end and nothing after it, which may be for the next child."""
    number = 0
    ready = select.poll()
    ready.register(reader, select.POLLIN)
    while True:
        STATE.pack_into(state, 0, WAITING, number)
        ready.poll()
        # Before the first byte is read: no child can use a truncated request.
        STATE.pack_into(state, 0, READING, number)
        head = os.read(reader, HEAD.size)
        if not head:
            return
        head += read(reader, HEAD.size - len(head))
        number, *lengths = HEAD.unpack(head)
        line, contents = (read(reader, nbytes) for nbytes in lengths)
        request = None
        if line is not None and contents is not None:
            try:
                request = json.loads(line)
                program.take_contents(request, contents)
            except MemoryError:
                request = None
        del line, contents
        STATE.pack_into(state, 0, CALLING, number)
        yield number, request


_SCRATCH = memoryview(bytearray(1 << 16))


def read(reader, nbytes):
    """Reads exactly that many bytes; returns None if there is no memory for them."""
    try:
        whole = bytearray(nbytes)
    except MemoryError:
        whole = None
    done = 0
    while done < nbytes:
        room = _SCRATCH[: nbytes - done] if whole is None else memoryview(whole)[done:]
        count = os.readv(reader, [room])
        if count == 0:
            raise EOFError
        done += count
    return whole


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
    # Descriptors other than the standard streams, some of which the user may have closed.
    answers, reader, errors = (
        fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
        for descriptor in (1, 0, os.memfd_create("stderr"))
    )
    # Append mode, so that it can be truncated while others write to it.
    fcntl.fcntl(errors, fcntl.F_SETFL, os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor, becomes in ((nothing, 0), (nothing, 1), (errors, 2)):
        os.dup2(descriptor, becomes)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    os.chdir(calling.NO_FILES)
    # Existing objects stay alive: this way children don't scan them, nor copy their pages.
    gc.freeze()
    state = mmap.mmap(-1, STATE.size)  # shared with children
    first = True
    while True:
        STATE.pack_into(state, 0, STARTING, 0)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(options, reader, answers, errors, threads, first, state)
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
            died = name_of_signal(os.WTERMSIG(status))
        at, number = STATE.unpack_from(state)
        # The next child would fail, too; and it must not read the rest of a request as a new one.
        problem = {
            STARTING: "a worker dies before it can call anything",
            READING: "a worker died while it read what to call",
        }.get(at)
        if problem:
            answer(answers, problem=f"{problem} ({last_line(errors) or died})")
            return
        if at == CALLING:
            answer(answers, request=number, died=died, said=last_line(errors))
        first = False


def name_of_signal(number):
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time signals
        return f"signal {number}"
