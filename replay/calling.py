"""Makes a call: binds its arguments, guards against side effects, reports how it ended."""

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


# A folder of the kernel, in which even root can't create a file.
NO_FILES = "/proc/self/task"


NO_MEMORY = "it needs more memory than --max-memory"


class Refused(BaseException):
    """A replayed call accessed files, processes or the network."""

    def __str__(self):
        return f"it reached for {self.args[0]}, which a replay must not"


class Guard:
    """Watches Python's audit events during a call for what it accesses."""

    def __init__(self):
        self.on = False
        self.events = frozenset(_UNSAFE_EVENTS)
        # torch imports some of its code on first use.
        folders = filter(os.path.isabs, (*sys.path, sys.prefix, sys.base_prefix))
        self.readable = tuple({os.path.realpath(path) + os.sep for path in folders})
        sys.addaudithook(self._hear)

    def _hear(self, event, args):
        if not self.on:
            return
        if event == "import" and str(args[0]).startswith("torch."):
            self._import(args[0])
            return
        if event in self.events:
            raise Refused(event)
        if event in ("os.listdir", "os.scandir") and not self._may_read(args[0] or "."):
            raise Refused("a folder")
        if event == "open":
            path, mode, flags = args
            writes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if isinstance(path, int) or (
                isinstance(path, (str, bytes)) and not writes and self._may_read(path)
            ):
                return
            raise Refused("a file")

    # Some of torch is imported on first use; operators written in Python import its compiler. Such
    # an import must be allowed completely: after an interrupted one, the next import registers the
    # module twice. The compiler creates a folder for its files: it gets one that already exists.
    def _import(self, name):
        self.on = False
        try:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.tempdir = NO_FILES
            importlib.import_module(name)
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
        # Restores the state for the next call.
        torch._C._set_grad_enabled(self.gradients)


def as_declared(target, args, kwargs):
    """A profile has all arguments of an operator by position, also the keyword-only ones. Raises
    Skip."""
    if target.schema is None:
        return args, kwargs
    declared = target.schema.arguments
    by_position = sum(not argument.kwarg_only for argument in declared)
    if len(args) <= by_position:
        return args, kwargs
    named = {a.name: value for a, value in zip(declared[by_position:], args[by_position:])}
    if len(args) > len(declared) or named.keys() & kwargs.keys():
        raise names.Skip("which overload of it was called isn't known")
    return args[:by_position], {**named, **kwargs}


def bind(target, args, kwargs):
    """Arguments by name; by number if names are unknown."""
    if target.signature is not None:
        try:
            bound = target.signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return dict(bound.arguments)
        except TypeError:
            pass
    for schema in target.schemas:
        if schema is target.schema or fits(schema, args, kwargs):
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


_TENSORS = ("Tensor", "Optional[Tensor]")


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
        if isinstance(value, arguments.TensorSpec) and kind not in _TENSORS:
            return False
        if isinstance(value, (list, tuple)) and kind in ("Tensor", "bool", "int", "float"):
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


def wrapped(number):
    """A wrapped number: a tensor that doesn't affect the dtype of a result."""
    with torch.enable_grad():
        product = torch.ones((), device="cpu", requires_grad=True) * number
    return product.grad_fn._saved_other


def wrap_numbers(schema, args, kwargs):
    """Level 4 records a number passed for a tensor as that number."""

    def wrap(argument, value):
        is_number = isinstance(value, (bool, int, float, complex))
        return wrapped(value) if is_number and str(argument.type) in _TENSORS else value

    by_name = {argument.name: argument for argument in schema.arguments}
    args[:] = [*map(wrap, schema.arguments, args), *args[len(schema.arguments) :]]
    kwargs.update((n, wrap(by_name[n], value)) for n, value in kwargs.items() if n in by_name)


def as_numbers(args, kwargs):
    """The same call with numbers in place of tensors that may have been numbers: ExecutionTrace
    files record `x + 1` as a sum of two tensors."""

    def read(value):
        may_be_number = (
            type(value) is torch.Tensor
            and value.dim() == 0
            and value.dtype in _NUMBERS
            and value.device.type == "cpu"
        )
        return wrapped(value.item()) if may_be_number else value

    return [read(value) for value in args], {n: read(value) for n, value in kwargs.items()}


def out_of_memory(error):
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in text or "bad_alloc" in text
    )


def said(error):
    """The first line of the message, with the type."""
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
