"""Reading traces: read() and what it returns.

Every question is one to a verb of the command line (`_native.call_verb`), so answers, filters and
errors are the verbs' own. The verbs' library is loaded when the first trace is read.
"""

import importlib.metadata
import json
import os
import sys

from torchtrace._load import native
from torchtrace._tables import StreamedTable, Table

_LIBRARY = "lib/torchtrace/libtorchtrace_verbs.so"
_HERE = os.path.dirname(os.path.abspath(__file__))
_library = None

# absl::StatusCode
_ERRORS = {
    3: ValueError,  # invalid argument
    5: FileNotFoundError,
    6: FileExistsError,
    7: PermissionError,
    9: ValueError,  # failed precondition: the trace lacks what is asked for
    13: RuntimeError,
}

_FILTERS = (
    "include",
    "exclude",
    "groups",
    "level",
    "levels",
    "calls",
    "thread",
    "rank",
    "skip_steps",
    "where",
)


def _find_library():
    """The verbs' library of the same build: beside a checkout's or an installation's runtimes, or
    where a wheel puts what isn't Python's."""
    places = [os.path.join(_HERE, "../../.."), sys.prefix, sys.base_prefix]
    above = _HERE
    for _ in range(4):  # PREFIX/lib/python3.11/site-packages/torchtrace
        above = os.path.dirname(above)
        places.append(above)
    for place in places:
        path = os.path.normpath(os.path.join(place, _LIBRARY))
        if os.path.isfile(path):
            return path
    try:
        files = importlib.metadata.files("torchtrace") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == os.path.basename(_LIBRARY):
            return os.fspath(file.locate())
    raise ImportError(
        f"{_LIBRARY}, which reads traces, is not where torchtrace is installed; in a checkout "
        "`tools/torchtrace version` builds it"
    )


def _verbs():
    global _library
    if _library is None:
        _library = _find_library()
    return _library


def _fail(error):
    code, text = error
    raise _ERRORS.get(code, OSError)(text)


def _text(value):
    """An option's value as a word of the command line."""
    if (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(each, int) for each in value)
    ):
        return f"{value[0]}-{value[1]}"
    if isinstance(value, range) and value.step == 1 and len(value) > 0:
        return f"{value[0]}-{value[-1]}"
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _words(options):
    """Options of a verb: True is a flag, False and None are left out, a list is several."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        if isinstance(value, (bytes, dict)) or callable(value):
            raise TypeError(f"{name}: {value!r} is not a str, a number or a list of them")
        one = isinstance(value, (str, int, float, os.PathLike, range))
        if name in ("calls", "rank"):
            # One value: a tuple is the first and the last number.
            of_several = not one and not (isinstance(value, tuple) and len(value) == 2)
            value, one = ",".join(map(_text, value)) if of_several else value, True
        # Names and globs of threads may have commas; an API's name has none.
        words += [f"{option}={_text(each)}" for each in ([value] if one else value)]
    return [os.fsencode(word) for word in words]


def _path_word(path):
    return b"." + os.sep.encode() + path if path.startswith(b"-") else path


def _call(verb, options, paths, kept=()):
    """A verb's tables by name, the rest of its report, and its remarks. `kept` are lists that stay
    in the rest; None: all."""
    words = [verb, *_words(options), *map(_path_word, paths)]
    _, report, remarks, error = native.call_verb(_verbs(), words, kept)
    if error is not None:
        _fail(error)
    tables, rest = report
    return tables, json.loads(rest), remarks


def read(trace, /, **filters):
    """A trace for Python: its calls, configs, statistics, tree and differences as tables.

    `trace` is the folder of a run, a log, another tool's file, a closed `Trace`, or a list of
    these, which are then read as one. The filters are those of the verbs (docs/FILTER.md), under
    the same names: include, exclude, groups, level or levels, calls, thread, rank, skip_steps and
    where.

    >>> trace = torchtrace.read("out", level=1)
    >>> len(trace), trace.complete
    (6, True)
    >>> [(row.api, row.calls) for row in trace.stats(top=2)]
    [('torch.add', 3), ('torch.ones', 2)]
    >>> [call.api for call in trace.select(where="numel > 100").calls()]
    ['torch.sum']
    """
    several = isinstance(trace, (list, tuple))
    paths = [_path_of(each) for each in (trace if several else [trace])]
    if not paths:
        raise ValueError("no trace: the list is empty")
    return TraceReader(paths, _checked(filters), [_read_info(path) for path in paths])


def _read_info(path):
    return _call(b"info", {"quiet": True, "format": "json"}, [path], None)[1]


def _path_of(trace):
    if getattr(trace, "is_open", False):
        raise ValueError(f"{trace!r} is still written: close it before it is read")
    path = getattr(trace, "path", trace)
    if path is None:
        raise ValueError(f"{trace!r} was never opened")
    return os.fsencode(path)


def _checked(filters):
    for name in filters:
        if name not in _FILTERS:
            raise TypeError(f"no filter {name!r}: there are {', '.join(_FILTERS)}")
    if filters.get("level") is not None and filters.get("levels") is not None:
        raise TypeError("level and levels are the same filter: give one of them")
    return filters


class TraceReader:
    """What `read()` returns. Each method reads the trace; `len()` is the number of its calls."""

    def __init__(self, paths, filters, infos):
        self._paths = paths
        self._filters = filters
        self._infos = infos
        self._calls = None

    @property
    def path(self):
        """The trace, as it was given; the first of several."""
        return os.fsdecode(self._paths[0])

    @property
    def paths(self):
        """All traces that are read as one."""
        return [os.fsdecode(path) for path in self._paths]

    def select(self, **filters):
        """The same trace with these filters in place of those of the same names; conditions
        (`where`) must both be true."""
        merged = {**self._filters, **_checked(filters)}
        if "level" in filters:
            merged.pop("levels", None)
        if "levels" in filters:
            merged.pop("level", None)
        if self._filters.get("where") and filters.get("where"):
            merged["where"] = f"({self._filters['where']}) and ({filters['where']})"
        return TraceReader(self._paths, merged, self._infos)

    @property
    def info(self):
        """What was run, how it ended, and what the trace lacks: a dict, as of `torchtrace info
        --format json` when it was opened. Of several traces, that of the first."""
        return self._infos[0]

    @property
    def complete(self):
        """Whether the trace has all calls of the program, as far as it knows."""
        return not self.incomplete_because

    @property
    def incomplete_because(self):
        """Why it isn't complete: a list of sentences."""
        why = []
        for info in self._infos:
            for sentence in info["complete"]:
                text = sentence.removeprefix("yes, but for ")
                # Getters are left out of every trace by default.
                if not text.startswith("yes") and "getters, left out by default" not in text:
                    why.append(text)
            for process in info["processes"]:
                why += process.get("damage", {}).get("sentences", [])
        return list(dict.fromkeys(why))

    def __len__(self):
        if self._calls is None:
            self._calls = self.stats("level", times=False).totals["total_calls"]
        return self._calls

    def __bool__(self):
        return True

    def __repr__(self):
        filters = "".join(f", {name}={value!r}" for name, value in self._filters.items())
        shown = self.path if len(self._paths) == 1 else self.paths
        return f"<torchtrace.TraceReader {shown!r}{filters}>"

    def _export(self, options, count):
        words = [b"export", b"parquet", *_words({**options, **self._filters})]
        words += map(_path_word, self._paths)

        def check(stream):
            if stream.error is not None:
                _fail(stream.error)
            if stream.exit_code < 0:
                raise MemoryError
            return stream.remarks

        table = StreamedTable(lambda: native.Stream(_verbs(), words), check, count)
        table._first()  # raises what is wrong with the arguments
        return table

    def calls(self):
        """A row for each call, in order: those of `torchtrace export parquet --calls`.

        >>> call = next(iter(torchtrace.read("out", include="torch.add").calls()))
        >>> call.api, call.shapes, call.outcome
        ('torch.add', ((2, 3),), 'returned')
        """
        # `calls` of the filters is the option's value.
        flag = {} if self._filters.get("calls") is not None else {"calls": True}
        return self._export(flag, self.__len__)

    def configs(self):
        """A row for each config and process: those of `torchtrace export parquet`.

        >>> [(row.api, row.calls) for row in torchtrace.read("out", level=1).configs()][:2]
        [('torch.ones', 1), ('torch.add', 3)]
        """
        if self._filters.get("calls") is not None:
            raise ValueError(
                "calls: configs() counts all calls of a config; stats('config') counts some"
            )
        table = self._export({}, lambda: sum(map(len, table.batches())))
        return table

    def stats(
        self, by="api", *, sort=None, top=None, flops=None, times=True, numbers=False, ignore=None
    ):
        """Counts and times: the rows of `torchtrace stats --by ...`, and in `totals` its sums.

        `by` is api, config, family, shapes, graph, kernel, level, thread, process, rank, label,
        line, module, step or "tag:NAME". `times`: False only counts, which is several times faster,
        and "all" has mean, least, most and percentiles. Several traces are added up.

        >>> trace = torchtrace.read("out")
        >>> trace.stats("level", times=False).to_pandas()[["level", "calls"]].values.tolist()
        [[1, 6], [2, 6]]
        """
        options = {
            "by": by,
            "sort": sort,
            "top": top,
            "flops": flops,
            "times": "all" if times == "all" else None,
            "no_times": not times,
            "numbers": numbers,
            "ignore": ignore,
            "sum": len(self._paths) > 1,
        }
        return self._report(b"stats", options)

    def steps(self):
        """The program's steps in order, and in `totals["step_times"]` their percentiles."""
        return self.stats("step")

    def tree(
        self,
        by="api",
        *,
        depth=None,
        min_time=None,
        weight=None,
        sort=None,
        backward_at_forward=False,
    ):
        """What called what: a row for each node of `torchtrace tree`, parents before children,
        with `node`, `parent` and `depth`.

        >>> for node in torchtrace.read("out", where="api = torch.add or api = aten::add").tree():
        ...     print("  " * node.depth + node.name, node.calls)
        torch.add 3
          aten::add.Tensor 3
        """
        options = {
            "by": by,
            "depth": depth,
            "min_time": min_time,
            "weight": weight,
            "sort": sort,
            "backward_at_forward": backward_at_forward,
        }
        return self._report(b"tree", options)

    def diff(self, other, *, ignore=None, top=None, **options):
        """How this trace, A, and another one, B, differ: the configs of `torchtrace diff`, and in
        `apis` and `changes` its other lists. Both are read with this trace's filters. Further
        options are those of `torchtrace diff`.

        >>> trace = torchtrace.read("out")
        >>> diff = trace.diff("out")
        >>> diff.different, len(diff)
        (False, 0)
        """
        others = other._paths if isinstance(other, TraceReader) else [_path_of(other)]
        if len(self._paths) > 1 or len(others) > 1:
            raise ValueError("diff compares one trace with one other")
        options = {"ignore": ignore, "top": top, **options, "format": "json", **self._filters}
        tables, rest, remarks = _call(b"diff", options, [*self._paths, *others])
        if options.get("fail_on"):
            raise ValueError("fail_on is of the command line: rows tell what a gate would")
        return Diff(tables, remarks, rest)

    def open_calls(self):
        """The calls that have not ended, innermost last on each thread; also of a program that
        still runs.

        >>> len(torchtrace.read("out").open_calls())
        0
        """
        if self._filters:
            raise ValueError(f"open_calls() takes no filters, and this trace has {self._filters}")
        _, report, remarks = _call(b"info", {"open": True, "format": "json"}, self._one(), None)
        rows = []
        for process in report["processes"]:
            about = {key: process.get(key) for key in ("process", "pid", "running")}
            for thread in process["threads"]:
                of_thread = {"thread": thread["thread"], "thread_name": thread["name"]}
                rows += [{**about, **of_thread, **call} for call in thread["open"]]
        return Table(native.rows_of(json.dumps(rows)), remarks, {"processes": report["processes"]})

    def _one(self):
        if len(self._paths) > 1:
            raise ValueError(f"of one trace, and there are {len(self._paths)}")
        return self._paths

    def _report(self, verb, options):
        paths = self._one() if verb == b"tree" else self._paths
        options = {**options, "format": "json", **self._filters}
        tables, rest, remarks = _call(verb, options, paths, ("by_level", "traces"))
        rows = next((tables[name] for name in tables if name), tables[""])
        totals = rest if isinstance(rest, dict) else {}
        return Table(rows, remarks, {key: value for key, value in totals.items() if value != []})


class Diff(Table):
    """How two traces differ. Its rows are configs; with `time` or `numbers` what these compare,
    with `sequence` the differing parts of the calls."""

    def __init__(self, tables, remarks, rest):
        empty = tables[""]
        name = next((name for name in ("configs", "rows", "sequences") if name in tables), None)
        super().__init__(tables.pop(name, empty), remarks, rest)
        self._others = tables
        self._empty = empty

    @property
    def different(self):
        """Whether anything differs; with `time` whether by more than noise."""
        return self.totals["different"]

    @property
    def apis(self):
        """The APIs that differ."""
        return Table(self._others.get("apis", self._empty))

    @property
    def changes(self):
        """What explains many configs at once, such as another size of the batch."""
        return Table(self._others.get("changes", self._empty))
