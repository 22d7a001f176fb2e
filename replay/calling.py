"""How a call is made: its arguments by name, what it must not reach for, how it ended."""

import importlib
import os
import sys
import tempfile

import torch

from replay import arguments, names

_UNSAFE_EVENTS = (
    "os.system os.exec os.posix_spawn os.spawn os.fork os.forkpty os.kill os.putenv "
    "os.remove os.rename os.rmdir os.mkdir os.link os.symlink os.truncate os.chmod os.chown "
    "subprocess.Popen pty.spawn shutil.rmtree shutil.copyfile shutil.move ctypes.dlopen "
    "socket.__new__ socket.connect socket.bind socket.getaddrinfo socket.sendto "
    "urllib.Request ftplib.connect smtplib.connect"
).split()


_COMPILER = "torch._dynamo"

# A folder of the kernel's: nobody can make a file in it, root neither.
NO_FILES = "/proc/self/task"


NO_MEMORY = "it needs more memory than --max-memory"


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
        if event == "import" and args[0] == _COMPILER:
            self._import_compiler()
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

    # Operators that are written in Python import torch's compiler, in order not to be compiled.
    # That looks for a place for its files and makes a folder there: it is given one that stands.
    def _import_compiler(self):
        self.on = False
        try:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.tempdir = NO_FILES
            importlib.import_module(_COMPILER)
        finally:
            self.on = True

    def _may_read(self, path):
        path = os.path.realpath(os.fsdecode(path))
        return (path + os.sep).startswith(
            (*self.readable, "/proc/", "/sys/devices/", "/dev/urandom")
        )

    def __enter__(self):
        self.gradients = torch.is_grad_enabled()
        self.on = True

    def __exit__(self, *_):
        self.on = False
        # The next call finds what this one found.
        torch._C._set_grad_enabled(self.gradients)


def check_level(config):
    """Raises Skip: of some levels a trace hasn't got what was called."""
    if config["level"] == 3:
        raise names.Skip("level 3 records functions of the program, which only the program has")
    if config["level"] == 4 and not names.is_operator(config["api"]):
        raise names.Skip("a scope or a node of the backward pass is no operator")


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


_NUMBERS = (torch.float64, torch.int64, torch.complex128, torch.bool)


def as_numbers(args, kwargs):
    """The same with tensors that may have been numbers as numbers, or None: ExecutionTrace files
    and level 4 show `x + 1` as a sum of two tensors, and only dtypes of results tell."""

    def may_be_number(value):
        return (
            type(value) is torch.Tensor
            and value.dim() == 0
            and value.dtype in _NUMBERS
            and value.device.type == "cpu"
        )

    if not any(may_be_number(value) for value in (*args, *kwargs.values())):
        return None
    return (
        [value.item() if may_be_number(value) else value for value in args],
        {name: value.item() if may_be_number(value) else value for name, value in kwargs.items()},
    )


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
