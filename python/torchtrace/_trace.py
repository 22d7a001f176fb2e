"""Traces of parts of a program: opens, pauses and closes them.

One trace is open at a time, for all threads: opening another one joins it. All functions here may
be called from any thread.
"""

import contextlib
import functools
import inspect
import json
import operator
import os
import re
import sys
import threading
import warnings

from torchtrace import _extension
from torchtrace._load import native, package_version

LEVELS = native.LEVELS  # numbers by name
MAX_TAGS_BYTES = 4096
STACK_FORMATS = ("short", "full", "api")
FRAMES = ("modules", "python", "all")


_LEVEL_0_OPTIONS = {
    "api_list": "api_list",
    "apis": "api_list",
    "libraries": "library",
    "disable_torch_api_list": "disable_torch_api_list",
    "outermost": "outermost",
}


class _State:
    """State shared by all threads."""

    def __init__(self):
        self.lock = threading.RLock()
        self.trace = None  # the Trace whose folder is written
        self.windows = 0  # open traces, including those that joined
        self.pauses = 0
        self.traces = 0  # number of traces begun so far
        self.started = []  # by start(), not stopped yet
        self.tags = {}
        # A program under `torchtrace run` is in the run's own window, unless that has
        # --start-paused.
        self.in_run = native.state() == "run"
        self.run_is_open = self.in_run and not native.paused()
        if self.run_is_open:
            self.windows = 1

    @property
    def recording(self):
        return self.windows > 0 and self.pauses == 0

    def apply(self):
        if native.state() is not None:
            native.set_paused(not self.recording)


_state = _State()


def _after_fork_in_child():
    # Another thread may have held the lock.
    _state.lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def level_numbers(levels):
    if isinstance(levels, (int, str)):
        levels = [levels]
    numbers = []
    for level in levels:
        number = LEVELS.get(level, level) if isinstance(level, str) else level
        if isinstance(number, str) and number.isdigit():
            number = int(number)
        if isinstance(number, bool) or not isinstance(number, int) or number not in LEVELS.values():
            names = ", ".join(f"{number} ({name})" for name, number in LEVELS.items())
            raise ValueError(f"unknown level {level!r}: there are {names}")
        if number not in numbers:
            numbers.append(number)
    if not numbers:
        raise ValueError("levels is empty: give one level or more, as levels=[1, 2]")
    return sorted(numbers)


def _render_limit(limit):
    if limit is None:
        return 2**64 - 1
    limit = operator.index(limit)
    if not 0 <= limit < 2**64:
        raise ValueError(f"render_limit is {limit}: a number of calls is expected, or None")
    return limit


def _not_negative(number, name, what):
    number = operator.index(number)
    if not 0 <= number < 2**64:
        raise ValueError(f"{name} is {number}: a number of {what} is expected")
    return number


def _limit(number, name, what="calls"):
    """A number of them; 0: no limit."""
    if number is None:
        return 0
    number = _not_negative(number, name, what)
    if number == 0:
        raise ValueError(f"{name} is 0: at least 1 is expected, or None")
    return number


def _duration(seconds):
    """Nanoseconds; 0: no limit."""
    if seconds is None:
        return 0
    if not 1e-9 <= seconds < 1e9:
        raise ValueError(f"duration is {seconds}: a number of seconds above 0 is expected, or None")
    return int(seconds * 1e9)


def _part(number, name):
    number = float(number)
    if not 0 < number <= 1:
        raise ValueError(f"{name} is {number}: a number above 0, up to 1, is expected")
    return number


def _size(size, name):
    """A number of bytes, or one with a unit, as on the command line: "64KB", "1 MiB"."""
    if not isinstance(size, str):
        return _not_negative(size, name, "bytes")
    found = re.fullmatch(r"(\d+)\s*(?:B|([KMGT])(?:I?B)?)?\s*", size.upper(), re.ASCII)
    if found is None:
        raise ValueError(
            f"{name}: {size!r} is not a size: expected a number of bytes, or text like '64KB'"
        )
    return _not_negative(int(found[1]) << 10 * " KMGT".index(found[2] or " "), name, "bytes")


def _strings(value, name):
    strings = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(each, str) for each in strings):
        raise TypeError(f"{name} must be a str or a list of them")
    names = [each for string in strings for each in string.split(",") if each]
    if strings and not names:
        raise ValueError(f"{name} is an empty list: {value!r}")
    return names


_EVERY_API = "all"


def _api_list(api_list):
    """The APIs for level 0: a file, or names; "all" is disable_torch_api_list."""
    if api_list is None or api_list == _EVERY_API:
        return {"api_list": "", "apis": []}
    if isinstance(api_list, (str, os.PathLike)):
        return {"api_list": os.fspath(api_list), "apis": []}
    apis = list(api_list)
    if not all(isinstance(api, str) for api in apis):
        raise TypeError("api_list must be a file's name or a list of dotted names")
    if not apis:
        raise ValueError("api_list is empty: give the names of what level 0 is to trace")
    return {"api_list": "", "apis": apis}


def _which(value, name, some):
    """The text of an option that is none, `some` or all."""
    if value in (None, False):
        return ""
    if value is True:
        return "all"
    if value not in (some, "all"):
        raise ValueError(f'{name} is {value!r}; it may be "all", "{some}", True or None')
    return value


def _script_stem():
    name = os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    return os.path.splitext(name)[0].lstrip("-") or "python"


class Trace:
    """A trace of a part of the program: a context manager, and a decorator.

    `path` is the folder of the trace, set when it begins. `joined` is True if another trace was
    open, which then has the calls."""

    def __init__(
        self,
        output=None,
        *,
        levels=None,
        dialect="torch",
        untested_torch=False,
        include=(),
        exclude=(),
        groups=None,
        include_getters=False,
        api_list=None,
        library=(),
        disable_torch_api_list=False,
        outermost=False,
        frames="python",
        frame_include=(),
        frame_exclude=(),
        frame_depth=0,
        formats="all",
        render_limit=native.DEFAULT_RENDER_LIMIT,
        merge_output=True,
        force=False,
        readable=False,
        quiet=True,
        skip=0,
        duration=None,
        first=None,
        sample=1.0,
        max_calls=None,
        step_on="auto",
        steps=None,
        max_steps=None,
        max_size=0,
        stacks=None,
        stack_format="short",
        outputs=False,
        ids=False,
        int_ranges="first",
        values=0,
        numbers=None,
        stop_on_nan=False,
        memory=False,
        device_times=False,
    ):
        if stack_format not in STACK_FORMATS:
            formats = ", ".join(STACK_FORMATS)
            raise ValueError(f"unknown stack_format {stack_format!r}: there are {formats}")
        if frames not in FRAMES:
            raise ValueError(f"unknown frames {frames!r}: there are {', '.join(FRAMES)}")
        self._output = None if output is None else os.fsdecode(output)
        if self._output is not None and "\0" in self._output:
            raise ValueError("the output folder's name has a null character in it")
        # The members of RecordingOptions (tracer/record/recording_options.h) that a trace sets.
        self._options = {
            "levels": None if levels is None else level_numbers(levels),
            "dialect": dialect,
            "untested_torch": bool(untested_torch),
            "include": _strings(include, "include"),
            "exclude": _strings(exclude, "exclude"),
            "groups": "" if groups is None else os.fspath(groups),
            "include_getters": bool(include_getters),
            **_api_list(api_list),
            "libraries": _strings(library, "library"),
            "disable_torch_api_list": bool(disable_torch_api_list) or api_list == _EVERY_API,
            "outermost": bool(outermost),
            "frames": frames,
            "frame_include": _strings(frame_include, "frame_include"),
            "frame_exclude": _strings(frame_exclude, "frame_exclude"),
            "frame_depth": _not_negative(frame_depth, "frame_depth", "functions, or 0 for all,"),
            "formats": formats if isinstance(formats, str) else ",".join(formats),
            "render_limit": _render_limit(render_limit),
            "merge_output": bool(merge_output),
            "force": bool(force),
            "readable": bool(readable),
            "quiet": bool(quiet),
            "skip": _not_negative(skip, "skip", "calls"),
            "duration_ns": _duration(duration),
            "first": _limit(first, "first"),
            "sample": _part(sample, "sample"),
            "max_calls": _limit(max_calls, "max_calls"),
            "step_on": step_on,
            "steps": "" if steps is None else str(steps),
            "max_steps": _limit(max_steps, "max_steps", "steps"),
            "max_size": _size(max_size, "max_size"),
            "stacks": _which(stacks, "stacks", "first"),
            "stack_format": stack_format,
            "outputs": bool(outputs),
            "ids": bool(ids),
            "int_ranges": _which(int_ranges, "int_ranges", "first"),
            "values": _size(values, "values"),
            "numbers": _which(numbers, "numbers", "results"),
            "stop_on_nan": bool(stop_on_nan),
            "memory": bool(memory),
            "device_times": bool(device_times),
        }
        self.path = None
        self.joined = False
        self._open = False

    def start(self):
        """Opens the trace, or joins the one that is open. Returns itself."""
        with _state.lock:
            if self._open:
                raise RuntimeError("this trace is open already; make another torchtrace.trace()")
            if native.state() is None:
                self._begin()
            else:
                self._join()
            self._open = True
            _state.windows += 1
            _state.apply()
        return self

    def stop(self):
        """Closes the trace; the files are written when the last one that joined is closed."""
        with _state.lock:
            if not self._open:
                raise RuntimeError("this trace is not open")
            self._open = False
            if self in _state.started:
                _state.started.remove(self)
            _state.windows -= 1
            if _state.windows > 0 or _state.in_run:
                _state.apply()
            else:
                _state.trace = None
                native.end()

    @property
    def is_open(self):
        """True between start() and stop()."""
        return self._open

    def __enter__(self):
        return self.start()

    def __exit__(self, exception_type, exception, traceback):
        try:
            self.stop()
        except (OSError, RuntimeError, FloatingPointError) as error:
            if exception_type is None:
                raise
            # The program's own exception is more important.
            warnings.warn(f"at the end of the trace: {error}", RuntimeWarning, stacklevel=2)
        return False

    def __call__(self, function):
        """As a decorator: traces each outermost call of the function."""
        if not callable(function) or inspect.isclass(function):
            raise TypeError("torchtrace.trace() decorates functions; `with` opens a trace")
        again = self._again

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def traced_function(*args, **kwargs):
                with again():
                    return await function(*args, **kwargs)

        elif inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def traced_function(*args, **kwargs):
                with again():
                    async with contextlib.aclosing(function(*args, **kwargs)) as generator:
                        step, value = generator.asend, None
                        while True:
                            try:
                                item = await step(value)
                            except StopAsyncIteration:
                                return
                            try:
                                step, value = generator.asend, (yield item)
                            except GeneratorExit:
                                raise
                            except BaseException as error:
                                step, value = generator.athrow, error

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def traced_function(*args, **kwargs):
                with again():
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def traced_function(*args, **kwargs):
                with again():
                    return function(*args, **kwargs)

        return traced_function

    def read(self, **filters):
        """The closed trace for Python: torchtrace.read() of it."""
        from torchtrace._read import read

        return read(self, **filters)

    def __repr__(self):
        state = "open" if self._open else "closed"
        return f"<torchtrace.Trace {self.path or self._output or ''!r}, {state}>"

    def _again(self):
        """A trace with the same options that is not open yet."""
        trace = Trace.__new__(Trace)
        trace.__dict__.update(self.__dict__, path=None, joined=False, _open=False)
        # A recursive call, or one on another thread, must join.
        trace._decorates = True
        return trace

    _decorates = False
    # Of the torchtrace that has attached to the program, which then has this trace opened.
    _attacher = {"task": "", "locks": True, "deadline_ns": 0, "run": ""}

    def _join(self):
        self.joined = True
        self.path = None if _state.trace is None else _state.trace.path
        if self._output is not None and not _state.in_run and not self._decorates:
            warnings.warn(
                f"a trace is open already, in {self.path}: the calls will be there, "
                f"and not in {self._output}",
                RuntimeWarning,
                stacklevel=4,
            )

    def _begin(self):
        shown = self._folder()
        folder = os.path.abspath(shown)
        options = dict(self._options)
        version = ""
        extension = _extension.is_extension(options["dialect"])
        if extension:
            options["dialect"], levels = _extension.load(options["dialect"])
        else:
            distributions, levels = native.DIALECTS.get(options["dialect"], ((), [1]))
            version = next(filter(None, map(package_version, distributions)), "")
        if options["levels"] is None:
            options["levels"] = levels
        for option, name in _LEVEL_0_OPTIONS.items():
            if options[option] and extension:
                raise ValueError(f"{name} is not for dialects that are written in Python")
            if options[option] and 0 not in options["levels"]:
                raise ValueError(f"{name} is for level 0, which isn't traced: add it to levels")
        if options["disable_torch_api_list"] and (options["api_list"] or options["apis"]):
            raise ValueError(
                "disable_torch_api_list traces everything that is found, and api_list what it "
                "names: give one of them"
            )
        if options["apis"] and options["libraries"]:
            raise ValueError("api_list names all that is traced, and library adds to it: give one")
        options["start_paused"] = _state.pauses > 0
        native.begin(
            options=json.dumps(options, ensure_ascii=False),
            folder=folder,
            shown=shown,
            package_version=version,
            command=list(sys.orig_argv),
            program=list(sys.orig_argv[1:]),
            python="%d.%d.%d" % sys.version_info[:3],
            executable=sys.executable or "",
            package_folders=[path for path in sys.path if path.endswith("-packages")],
            script_folder=sys.path[0] if sys.path and os.path.isdir(sys.path[0]) else "",
            extension=extension,
            tags=json.dumps(_state.tags),
            **self._attacher,
        )
        _state.traces += 1
        _state.trace = self
        self.path = shown
        self.joined = False

    def _folder(self):
        number = _state.traces + 1
        if self._output is not None:
            return native.expand_output(_number(self._output, number))
        name = f"torchtrace-{_script_stem()}-{os.getpid()}"
        return name if number == 1 else f"{name}-{number}"


def _number(name, number):
    """Replaces %n."""
    return re.sub("%(.)", lambda found: str(number) if found[1] == "n" else found[0], name)


trace = Trace


def traced(function=None, **options):
    """Decorates a function: each outermost call of it is a trace.

    As `@torchtrace.traced`, or with trace()'s options, as `@torchtrace.traced(levels=2)`.
    """
    if function is None:
        return Trace(**options)
    return Trace(**options)(function)


def start(output=None, **options):
    """Opens a trace, as trace() does, until stop(). Returns it."""
    opened = Trace(output, **options).start()
    with _state.lock:
        _state.started.append(opened)
    return opened


def stop():
    """Closes the trace that start() opened last, and returns it."""
    with _state.lock:
        if not _state.started:
            raise RuntimeError("there is no trace to stop: torchtrace.start() was not called")
        opened = _state.started[-1]
        opened.stop()
    return opened


def pause():
    """Stops recording calls, on all threads, until resume() is called as often as this."""
    with _state.lock:
        _state.pauses += 1
        _state.apply()


def resume():
    """Reverts one pause(). Under `torchtrace run --start-paused` the first one starts recording."""
    with _state.lock:
        if _state.pauses > 0:
            _state.pauses -= 1
        elif _state.in_run and not _state.run_is_open:
            _state.run_is_open = True
            _state.windows += 1
        _state.apply()


@contextlib.contextmanager
def paused():
    """Stops recording calls, on all threads, within the block."""
    pause()
    try:
        yield
    finally:
        resume()


def is_tracing():
    """True when calls are recorded now."""
    with _state.lock:
        return native.state() is not None and _state.recording


class _Annotation:
    """The result of annotate(), whose tags already apply; as a context manager it restores the
    earlier ones."""

    def __init__(self, before):
        self._before = before

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        _set_tags(self._before)
        return False


def annotate(**tags):
    """Tags the calls from here on, on all threads: step=3, phase="eval".

    A tag keeps its value until it gets another one; None removes it. Within `with` the tags
    apply until the end of the block."""
    with _state.lock:
        changed = {**_state.tags, **tags}
        changed = {name: value for name, value in changed.items() if value is not None}
        before = {name: _state.tags.get(name) for name in tags}
        _use_tags(changed)
    return _Annotation(before)


def _set_tags(tags):
    with _state.lock:
        changed = {**_state.tags, **tags}
        _use_tags({name: value for name, value in changed.items() if value is not None})


def _escaped(value):
    """A text without lone surrogates, which JSON can't contain: `\\udcff` is written as these
    six characters (os.fsdecode makes such texts from file names that are not UTF-8)."""
    return (
        str.encode(value, "utf-8", "backslashreplace").decode() if isinstance(value, str) else value
    )


def _use_tags(tags):
    for name, value in tags.items():
        if not isinstance(value, (str, int, float, bool)):
            raise TypeError(
                f"the tag {name} is a {type(value).__name__}; "
                "tags are str, int, float or bool, or None"
            )
    try:
        text = json.dumps(
            {_escaped(name): _escaped(value) for name, value in tags.items()}, allow_nan=False
        )
    except ValueError:
        raise ValueError("tags that are floats must be finite") from None
    if len(text.encode()) > MAX_TAGS_BYTES:
        raise ValueError(f"the tags take more than {MAX_TAGS_BYTES} bytes")
    native.set_tags(text)
    _state.tags = tags
