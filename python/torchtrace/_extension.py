"""Extensions: dialects and hooks that are written in Python (docs/EXTENDING.md).

An exception in an extension disables it, is reported once with its name, and never reaches the
traced program.
"""

import contextlib
import functools
import importlib
import json
import sys
import threading

from torchtrace._load import native, package_version

_NOTHING = contextlib.nullcontext()


class _Describing(threading.local):
    now = False


_describing = _Describing()


class TracingHook:
    """One way of intercepting calls. A subclass installs itself in install() and removes itself
    in uninstall(). It makes each call that it intercepts within `with self.record(api, args,
    kwargs):`."""

    level = 0
    name = None  # else the class's

    _extension = None

    def install(self):
        raise NotImplementedError(f"{type(self).__qualname__} has no install()")

    def uninstall(self):
        raise NotImplementedError(f"{type(self).__qualname__} has no uninstall()")

    def record(self, api, args=(), kwargs=None):
        """Records the begin of a call. The call ends with the `with` block, or immediately
        without one."""
        extension = self._extension
        # Calls that an extension makes to describe a value don't belong to the program.
        if extension is None or extension.failed or _describing.now:
            return _NOTHING
        _describing.now = True
        try:
            call = native.record(
                self.level, api, tuple(args), {} if kwargs is None else kwargs, extension.describe
            )
            return _NOTHING if call is None else call
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            extension.fail("record", error)
            return _NOTHING
        finally:
            _describing.now = False


class FrameworkDialect:
    """Describes a framework. A subclass only needs discover_apis()."""

    package = None  # the package whose import the hooks wait for; None: they don't wait
    levels = (0,)

    def get_hooks(self, levels):
        """The TracingHooks of these levels."""
        return [PatchHook(self)] if 0 in levels else []

    def discover_apis(self):
        """The dotted names of the functions that PatchHook wraps."""
        return []

    def serialize_special_type(self, value):
        """Describes a value whose type isn't one of Python's builtin types: a dict of its
        properties, a str, or None. A dict with "shape" and "dtype" is an array, with "device" a
        tensor."""
        return None

    def format_special_type(self, properties):
        """The text for a dict from serialize_special_type; None: the dict itself."""
        return None


class PatchHook(TracingHook):
    """Level 0 in its simplest form: wraps the functions that the dialect discovers."""

    def __init__(self, dialect):
        self.dialect = dialect
        self._originals = []  # (owner, attribute, original, wrapper)

    def install(self):
        for api in self.dialect.discover_apis():
            owner, attribute = _find_owner(api)
            function = vars(owner).get(attribute) if owner is not None else None
            if not callable(function) or isinstance(function, type):
                continue
            wrapped = self._wrap(api, function)
            setattr(owner, attribute, wrapped)
            self._originals.append((owner, attribute, function, wrapped))

    def uninstall(self):
        while self._originals:
            owner, attribute, function, wrapped = self._originals.pop()
            if vars(owner).get(attribute) is wrapped:
                setattr(owner, attribute, function)

    def _wrap(self, api, function):
        @functools.wraps(function)
        def traced(*args, **kwargs):
            with self.record(api, args, kwargs):
                return function(*args, **kwargs)

        return traced


class _HookDialect(FrameworkDialect):
    """A dialect that consists of a single hook."""

    def __init__(self, hook):
        self._hook = hook
        self.levels = (hook.level,)

    def get_hooks(self, levels):
        return [self._hook]


class Extension:
    """A dialect written in Python that is in use. Guards the calls of user code."""

    def __init__(self, dialect, name):
        self.dialect = dialect
        self.name = name
        self.failed = False

    def fail(self, where, error):
        if self.failed:
            return
        self.failed = True
        text = str(error).strip().split("\n", 1)[0]
        what = f"{type(error).__name__}: {text}" if text else type(error).__name__
        native.note(f"the extension {self.name} failed in {where} and is disabled: {what}")

    @contextlib.contextmanager
    def guarded(self, where):
        """Context of a call from native code."""
        try:
            yield
        except KeyboardInterrupt:
            # The user's Ctrl-C, for the program: native code passes it on.
            raise
        except BaseException as error:
            self.fail(where, error)

    def make_hooks(self, levels):
        made = []
        with self.guarded("get_hooks"):
            if self.dialect.package:
                version = package_version(self.dialect.package)
                metadata = {"packages": {self.dialect.package: {"version": version}}}
                native.add_metadata(json.dumps(metadata))
            hooks = list(self.dialect.get_hooks(list(levels)))
            for hook in hooks:
                if not isinstance(hook, TracingHook):
                    raise TypeError(f"get_hooks gave a {type(hook).__name__}, not a TracingHook")
                hook._extension = self
            made = [(int(hook.level), hook.name or type(hook).__name__, hook) for hook in hooks]
        return made

    def install(self, hook):
        done = False
        try:
            with self.guarded(f"{type(hook).__name__}.install"):
                hook.install()
                done = True
        finally:
            if not done:
                self.uninstall(hook)

    def uninstall(self, hook):
        with self.guarded(f"{type(hook).__name__}.uninstall"):
            hook.uninstall()

    def describe(self, value):
        found = self.dialect.serialize_special_type(value)
        if found is None:
            return _describe_array(value)
        if isinstance(found, dict) and not ("shape" in found and "dtype" in found):
            text = self.dialect.format_special_type(found)
            return found if text is None else text
        return found


def _describe_array(value):
    """Arrays and tensors of common libraries."""
    for module, kind in (("torch", "Tensor"), ("numpy", "ndarray")):
        kind = getattr(sys.modules.get(module), kind, None)
        if kind is None or not isinstance(value, kind):
            continue
        properties = {"shape": list(value.shape), "dtype": str(value.dtype).rpartition(".")[2]}
        if module == "torch":
            properties["device"] = str(value.device)
        return properties
    return None


def _find_owner(api):
    """(module or class, attribute) of a dotted name; (None, "") if there is none."""
    parts = api.split(".")
    for split in range(len(parts) - 1, 0, -1):
        owner = sys.modules.get(".".join(parts[:split]))
        if owner is None:
            continue
        for part in parts[split:-1]:
            owner = getattr(owner, part, None)
        return (owner, parts[-1]) if owner is not None else (None, "")
    return (None, "")


def is_extension(dialect):
    return not isinstance(dialect, str) or ":" in dialect


def load(dialect):
    """Registers an extension for the next session and returns (name, its levels).

    `dialect` is "module:Class", or a subclass of FrameworkDialect or TracingHook, or an instance
    of one."""
    name = dialect if isinstance(dialect, str) else None
    if name is not None:
        dialect = _import(name)
    kind = dialect if isinstance(dialect, type) else type(dialect)
    name = name or f"{kind.__module__}:{kind.__qualname__}"
    if not issubclass(kind, (FrameworkDialect, TracingHook)):
        raise ValueError(
            f"{name} is not a dialect: a subclass of torchtrace.FrameworkDialect or "
            "torchtrace.TracingHook is expected"
        )
    if isinstance(dialect, type):
        try:
            dialect = dialect()
        except Exception as error:
            raise ValueError(f"{name} cannot be made: {type(error).__name__}: {error}") from error
    if isinstance(dialect, TracingHook):
        dialect = _HookDialect(dialect)
    levels = sorted({int(level) for level in dialect.levels})
    native.register_dialect(name, dialect.package or "sys", levels, Extension(dialect, name))
    return name, levels


def _import(name):
    module, _, attribute = name.partition(":")
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise ValueError(
            f"the dialect {name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    for part in attribute.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise ValueError(f"there is no dialect {name}: {module} has no {attribute}")
    return found
