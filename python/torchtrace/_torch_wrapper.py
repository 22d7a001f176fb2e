"""TorchWrapper: the interface of the tool of that name, on torchtrace.

The names, config and records are the same. They come from a trace of levels 0 and 1, so no object
of torch is replaced and nothing is printed.
"""

import difflib
import json
import os
import shutil
import tempfile
import warnings
import weakref

from torchtrace import _trace
from torchtrace._load import native

DEFAULTS = {
    "out_dir": "./output",
    "format": "json",
    "file_max_size": "128MB",
    "file_name_spec": "timestamp",
}
# TorchWrapper's file names; other specs are patterns of `export timing`.
_NAME_SPECS = {
    "timestamp": "TorchWrapper_Result_{timestamp}",
    "datetime": "TorchWrapper_Result_%Y-%m-%d_%H-%M-%S",
    "serial": "TorchWrapper_Result_{index}",
}
COLUMNS = (
    "API Name",
    "Total Time (ms)",
    "Call Number",
    "Start Timestamp",
    "Cost Time (ms)",
    "Arguments",
)
_TOTAL = "TotalTime(ms)"


def _checked(config):
    config = {} if config is None else config
    if not isinstance(config, dict):
        raise TypeError(f"config is a {type(config).__name__}; a dict is expected")
    for key in config:
        if key not in DEFAULTS:
            near = difflib.get_close_matches(str(key), DEFAULTS, 1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            raise ValueError(
                f"unknown key {key!r} in config{meant}; there are {', '.join(DEFAULTS)}"
            )
    config = {**DEFAULTS, **config}
    if isinstance(config["out_dir"], os.PathLike):
        config["out_dir"] = os.fspath(config["out_dir"])
    for key, value in config.items():
        if not isinstance(value, str) or not value:
            raise ValueError(f"config[{key!r}] is {value!r}; a str that isn't empty is expected")
    if config["format"] not in ("json", "csv"):
        raise ValueError(f"config['format'] is {config['format']!r}; there are json and csv")
    native.check_timing_files(config["file_max_size"], _pattern(config))
    return config


def _pattern(config):
    return _NAME_SPECS.get(config["file_name_spec"], config["file_name_spec"])


def _remove(folder, pid):
    # A forked process may also run Python's exit handlers.
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


class TorchWrapper:
    """Runs functions, and records how long each call of PyTorch's API in them took.

    Each start() adds to the records, and writes all of them into files in config["out_dir"].
    """

    def __init__(self, config=None):
        self._config = _checked(config)
        self._traces = []  # folders of traces, one for each start()
        self._folder = None  # contains them; deleted with this object
        self._records = {}  # None: not read from the traces yet

    def getConfig(self):
        """The config, with the defaults filled in."""
        return dict(self._config)

    def start(self, function, *args, **kwargs):
        """Calls the function and returns its result. If it raises, the records are written
        before the exception propagates."""
        if not callable(function):
            raise TypeError(f"start() takes a function, and {function!r} is not one")
        # Fail before the function has run for an hour.
        os.makedirs(self._config["out_dir"], exist_ok=True)
        pid = os.getpid()
        trace = self._open()
        try:
            result = function(*args, **kwargs)
        except BaseException:
            try:
                self._close(trace, pid)
            except (OSError, RuntimeError, ValueError) as error:
                # The program's own exception is more important.
                text = f"the records could not be written: {error}"
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            raise
        self._close(trace, pid)
        return result

    @property
    def callRecords(self):
        """{API: {"TotalTime(ms)": 1.5, "1": {"detailedAPIName": ..., "StartTimestamp": ...,
        "CostTime(ms)": ..., "Arguments": ...}, ...}}, for all calls of start() so far."""
        if self._records is None:
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                self._export(folder, "json", "", "records")
                with open(os.path.join(folder, "records.json"), encoding="utf-8") as file:
                    self._records = json.load(file)
        return self._records

    def to_dataframe(self):
        """callRecords as a pandas.DataFrame, a row for each call."""
        try:
            import pandas
        except ImportError:
            raise ImportError(
                "a DataFrame needs pandas: python3 -m pip install pandas; callRecords and the "
                "files have the same without it"
            ) from None
        rows = [
            (
                api,
                calls[_TOTAL],
                int(number),
                call["StartTimestamp"],
                call["CostTime(ms)"],
                call["Arguments"],
            )
            for api, calls in self.callRecords.items()
            for number, call in calls.items()
            if number != _TOTAL
        ]
        return pandas.DataFrame(rows, columns=list(COLUMNS))

    getDFFormattedCallRecords = to_dataframe  # TorchWrapper's name for it

    def _open(self):
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="torchtrace-")
            weakref.finalize(self, _remove, self._folder, os.getpid())
        folder = os.path.join(self._folder, str(len(self._traces)))
        trace = _trace.Trace(folder.replace("%", "%%"), levels=[0, 1], formats="none", force=True)
        with _trace._state.lock:
            if native.state() is not None:
                raise RuntimeError(
                    "a trace is open already, of `torchtrace run`, torchtrace.trace() or another "
                    "TorchWrapper, which makes one of its own; `torchtrace export timing` makes "
                    "its files of any trace"
                )
            return trace.start()

    def _close(self, trace, pid):
        trace.stop()
        # The calls of a process that was forked within the function are in its parent's records.
        if os.getpid() != pid:
            return
        self._traces.append(trace.path)
        self._records = None
        config = self._config
        self._export(config["out_dir"], config["format"], config["file_max_size"], _pattern(config))

    def _export(self, folder, format, max_size, names):
        native.export_timing(self._traces, folder, format, max_size, names)
