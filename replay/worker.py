"""The worker of `torchtrace replay`: reads configs, a JSON object a line, answers each with a line.

The process that torchtrace starts imports torch once and then only watches: a child of it does the
work. When that dies, it says of what, and the next child, which has torch already, goes on.
"""

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import resource
import signal
import sys
import time
import warnings

import torch

from replay import arguments, fills, names
from replay.names import Skip

_UNSAFE_EVENTS = (
    "os.system os.exec os.posix_spawn os.spawn os.fork os.forkpty os.kill os.putenv "
    "os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.truncate os.chmod os.chown "
    "subprocess.Popen pty.spawn shutil.rmtree shutil.copyfile shutil.move ctypes.dlopen "
    "socket.__new__ socket.connect socket.bind socket.getaddrinfo socket.sendto "
    "urllib.Request ftplib.connect smtplib.connect"
).split()


class Refused(BaseException):
    """A replayed call reached for files, processes or the network."""


class Guard:
    """While a call is under way, Python's audit events tell what it reaches for."""

    def __init__(self):
        self.on = False
        self.events = frozenset(_UNSAFE_EVENTS)
        # Code that torch imports when it is first needed.
        folders = filter(os.path.isabs, (*sys.path, sys.prefix, sys.base_prefix))
        self.readable = tuple({os.path.realpath(path) + os.sep for path in folders})
        sys.addaudithook(self._hear)

    def _hear(self, event, args):
        if not self.on:
            return
        if event in self.events:
            raise Refused(f"it reached for {event}")
        if event in ("os.listdir", "os.scandir") and not self._may_read(args[0] or "."):
            raise Refused("it reached for a folder")
        if event == "open":
            path, mode, flags = args
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if isinstance(path, int) or (
                isinstance(path, (str, bytes)) and not writes and self._may_read(path)
            ):
                return
            raise Refused("it reached for a file")

    def _may_read(self, path):
        path = os.path.realpath(os.fsdecode(path))
        return (path + os.sep).startswith(
            (*self.readable, "/proc/", "/sys/devices/", "/dev/urandom")
        )

    def __enter__(self):
        self.on = True

    def __exit__(self, *_):
        self.on = False


class Replay:
    def __init__(self, options):
        self.options = options
        self.names = names.Names(options["rules"])
        self.fills = fills.Fills(options["rules"])
        self.device = None
        if options["device"]:
            self.device = torch.device(options["device"])
            if not arguments.device_is_here(self.device):
                raise Skip(f"there is no {self.device} here")
        self.guard = Guard()

    def run(self, config):
        """What became of a config: a dict with result, reason, seconds."""
        self._allow(1)
        try:
            return self._run(config)
        finally:
            self._allow(0)

    def _run(self, config):
        try:
            target = self.names.resolve(config["api"])
            if config["level"] == 3:
                raise Skip("level 3 records functions of the program, which only the program has")
            parser = arguments.Parser(self.names, self.device)
            args = [parser.parse(arg) for arg in config["args"]]
            kwargs = {name: parser.parse(value) for name, value in config["kwargs"].items()}
            self.fills.assign(target.key, bind(target, args, kwargs))
            nbytes = arguments.measure(parser.specs, self.options["max_bytes"])
        except Skip as skip:
            return {"result": "skipped", "reason": str(skip)}
        except (RecursionError, OverflowError, KeyError, TypeError, ValueError) as error:
            return {"result": "skipped", "reason": f"its arguments can't be made: {error}"[:300]}
        self._allow(1 + nbytes / (64 << 20))
        return self._call(config, target, args, kwargs)

    # By default the signal ends the process, whatever it is doing.
    def _allow(self, times):
        signal.setitimer(signal.ITIMER_REAL, self.options["timeout"] * times)

    def _call(self, config, target, args, kwargs):
        seed = (int(config["key"][:12], 16) ^ self.options["seed"]) & (2**62 - 1)
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
                if out_of_memory(error):
                    raise
                return {
                    "result": "skipped",
                    "reason": f"its arguments can't be made: {said(error)}",
                }
            torch.manual_seed(seed)
            began = time.perf_counter()
            with self.guard, self._surroundings(config, target, args, kwargs, expected):
                result = target.function(*args, **kwargs)
            synchronize(result)
        except Refused as refused:
            return {"result": "skipped", "reason": f"{refused}, which a replay must not"}
        except Exception as error:
            seconds = time.perf_counter() - began
            if out_of_memory(error):
                return {"result": "skipped", "reason": "it needs more memory than --max-memory"}
            return {
                "result": "raised",
                "raised": kinds(error),
                "reason": said(error),
                "seconds": seconds,
            }
        return {"result": "ok", "seconds": time.perf_counter() - began}

    # Operators of level 2 were seen below autograd. Where it looks on, nothing may be written in
    # place of a leaf's values: what returned did so without it.
    def _surroundings(self, config, target, args, kwargs, expected):
        if config["level"] == 2:
            return torch._C._AutoDispatchBelowAutograd()
        if not expected and (target.in_place or "out" in kwargs):
            return torch.no_grad()
        return contextlib.nullcontext()


def bind(target, args, kwargs):
    """Arguments by name; by number where names aren't known."""
    if target.signature is not None:
        try:
            bound = target.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return dict(bound.arguments)
        except TypeError:
            pass
    for schema in target.schemas:
        if fits(schema, args, kwargs):
            defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
            return {
                **defaults,
                **{a.name: value for a, value in zip(schema.arguments, args)},
                **kwargs,
            }
    return {
        **{str(i): value for i, value in enumerate(args)},
        **({"self": args[0]} if args else {}),
        **kwargs,
    }


def fits(schema, args, kwargs):
    declared = schema.arguments
    names_of = {argument.name for argument in declared}
    aliases = {"input": "self"}
    if len(args) > len(declared) or any(
        name not in names_of and aliases.get(name) not in names_of for name in kwargs
    ):
        return False
    for argument, value in zip(declared, args):
        kind = str(argument.type)
        if isinstance(value, arguments.TensorSpec) and "Tensor" not in kind:
            return False
        if isinstance(value, (bool, int, float, str)) and kind in ("Tensor", "List[Tensor]"):
            return False
        if isinstance(value, str) and "str" not in kind:
            return False
        if isinstance(value, int) and kind.startswith("List["):
            return False
    required = {a.name for a in declared[len(args) :] if not a.has_default_value()}
    return not required - set(kwargs) - {aliases.get(name) for name in kwargs}


def out_of_memory(error):
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "bad_alloc" in text
    )


def said(error):
    """The first line, with the type."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text.strip().splitlines()[0] if text.strip() else ''}"[:300]


def kinds(error):
    return [kind.__name__ for kind in type(error).__mro__ if kind not in (BaseException, object)]


def synchronize(result):
    if isinstance(result, torch.Tensor) and result.device.type not in ("cpu", "meta"):
        backend = getattr(torch, result.device.type, None)
        if backend is not None:
            backend.synchronize(result.device)


def limit_memory(nbytes):
    """Of what is written to, RLIMIT_DATA: libraries and reserved addresses don't count."""
    with open("/proc/self/statm") as file:
        data = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (data + nbytes, data + nbytes))


def die_with_parent():
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


def work(options, reader, answers, errors):
    """The child. Ends with its input."""
    die_with_parent()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_memory(options["max_memory"])
    torch.set_num_threads(options["threads"])
    warnings.simplefilter("ignore")
    try:
        replay = Replay(options)
        problem = ""
    except Skip as skip:
        problem = str(skip)
    gc.disable()
    count = 0
    for line in lines(reader):
        os.ftruncate(errors, 0)
        result = (
            {"result": "skipped", "reason": problem} if problem else replay.run(json.loads(line))
        )
        os.write(answers, json.dumps(result).encode() + b"\n")
        count += 1
        if count % 256 == 0:
            gc.collect()


def lines(reader):
    """One config is sent at a time: nothing is read ahead that is for the next child."""
    rest = b""
    while True:
        block = os.read(reader, 1 << 20)
        if not block:
            return
        rest += block
        while b"\n" in rest:
            line, rest = rest.split(b"\n", 1)
            yield line


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
    torch.set_num_threads(1)
    # A folder of the kernel's: nobody can make a file in it, root neither.
    os.chdir("/proc/self/task")
    os.write(answers, json.dumps({"torch": torch.__version__}).encode() + b"\n")
    # What is there stays: children needn't look through it, nor copy the pages that it is in.
    gc.freeze()
    while True:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(options, reader, answers, errors)
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
        os.write(answers, json.dumps({"died": died, "said": last_line(errors)}).encode() + b"\n")
