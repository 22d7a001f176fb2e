"""%%torchtrace: records a notebook's cell, and shows what it called."""

import argparse
import contextlib
import inspect
import shlex
import sys
import tempfile
from pathlib import Path

from torchtrace._load import native
from torchtrace._read import read
from torchtrace._trace import Trace, paused

_OF_STATS = ("by", "sort", "top")
_TRACES: list = []  # temporary folders, which last as long as the process


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        from IPython.core.error import UsageError

        raise UsageError(f"%%torchtrace: {message}")

    def exit(self, status=0, message=None):
        from IPython.core.error import UsageError

        raise UsageError(message or "%%torchtrace")


def _value(text):
    """A number where it is one: trace() takes numbers of calls and seconds."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def _parser():
    parser = _Parser(
        prog="%%torchtrace",
        add_help=False,
        allow_abbrev=False,
    )
    parser.add_argument("-l", "--levels", "--level", metavar="LEVELS")
    parser.add_argument("-o", "--output", metavar="DIR", help="default: a temporary folder")
    parser.add_argument("-f", "--force", action="store_true")
    for name, parameter in inspect.signature(Trace.__init__).parameters.items():
        option = "--" + name.replace("_", "-")
        if name in ("self", "levels", "output", "force"):
            continue
        if parameter.default is True:
            parser.add_argument("--no-" + option[2:], dest=name, action="store_false", default=None)
        elif parameter.default is False:
            parser.add_argument(option, action="store_true")
        else:
            parser.add_argument(option, type=_value)
    for name in _OF_STATS:
        parser.add_argument("--" + name, type=_value)
    return parser


@contextlib.contextmanager
def _unrecorded_display():
    """What shows the cell's last value calls torch, too."""
    hook = sys.displayhook

    def show(value):
        with paused():
            hook(value)

    sys.displayhook = show
    try:
        yield
    finally:
        sys.displayhook = hook


def trace_cell(shell, line, cell):
    """%%torchtrace [-l LEVELS] [OPTIONS]

    Records the cell, shows the rows of `torchtrace stats`, and leaves the trace in `_torchtrace`.
    The options are those of torchtrace.trace(), as `torchtrace run` spells them, and --by, --sort
    and --top of `torchtrace stats`.
    """
    from IPython.core.error import UsageError
    from IPython.display import display

    given = vars(_parser().parse_args(shlex.split(line)))
    options = {
        name: value for name, value in given.items() if value is not None and value is not False
    }
    options.update({name: False for name in ("merge_output", "quiet") if given.get(name) is False})
    of_stats = {name: options.pop(name) for name in _OF_STATS if name in options}
    if "levels" in options:
        options["levels"] = options["levels"].split(",")
    if native.state() is not None:
        raise UsageError("%%torchtrace: another trace is open: close it first")
    if "output" not in options:
        _TRACES.append(tempfile.TemporaryDirectory(prefix="torchtrace-"))
        options["output"] = str(Path(_TRACES[-1].name) / "cell").replace("%", "%%")
    try:
        trace = Trace(**options)
        trace.start()
    except (ValueError, TypeError, OSError) as error:
        raise UsageError(f"%%torchtrace: {error}") from None
    try:
        with _unrecorded_display():
            shell.run_cell(cell, store_history=False)
    finally:
        trace.stop()
    reader = read(trace)
    shell.user_ns["_torchtrace"] = reader
    try:
        display(reader.stats(**of_stats))
    except ValueError as error:
        raise UsageError(f"%%torchtrace: {error}") from None


def load(shell):
    """%load_ext torchtrace"""

    def torchtrace(line, cell):
        trace_cell(shell, line, cell)

    torchtrace.__doc__ = trace_cell.__doc__
    shell.register_magic_function(torchtrace, "cell", "torchtrace")
