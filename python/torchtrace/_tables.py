"""Tables: rows of a trace, for Python's loops, pandas, Arrow and Polars.

The native half has the columns. Here they become rows, and what other libraries make of them.
"""

import atexit
import importlib
import json
import keyword
from collections import namedtuple
from itertools import chain, islice
from types import MappingProxyType

from torchtrace._load import native

# So many rows become Python's objects at a time.
_CHUNK = 4096
_SHOWN_ROWS = 20
_SHOWN_CHARACTERS = 160  # of a cell, in a notebook
_CELL_CHARACTERS = 60  # in text


def _read_only(value):
    """Lists as tuples and dicts as read-only mappings: equal texts share their values."""
    if isinstance(value, list):
        return tuple(map(_read_only, value))
    if isinstance(value, dict):
        return MappingProxyType({key: _read_only(item) for key, item in value.items()})
    return value


def _of_json(text):
    return _read_only(json.loads(text))


def _module(name, method):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{method}() needs {name}: pip install {name} ({error})") from None


def _printable(value):
    text = (
        json.dumps(value, default=dict) if isinstance(value, (tuple, MappingProxyType)) else value
    )
    text = "" if text is None else str(text)
    if not text.isprintable():
        # Nothing that moves the text around it.
        text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    if len(text) > _SHOWN_CHARACTERS:
        text = text[: _SHOWN_CHARACTERS - 3] + "..."
    return text


class Table:
    """Rows of a trace.

    A loop gets named tuples; `to_pandas()`, `to_arrow()`, `to_polars()` and everything that takes
    Arrow's PyCapsule interface (`pyarrow.table(table)`, `polars.DataFrame(table)`, DuckDB) get
    columns, without a copy. Tables of calls and configs are read anew each time, a part at a time:
    they may be larger than memory. The others are in memory.

    >>> table = torchtrace.read("out").stats()
    >>> row = next(iter(table))
    >>> row.api, row.calls
    ('torch.add', 3)
    >>> table[0] == row, table["calls"][0], len(table) == len(list(table))
    (True, 3, True)

    `remarks` are sentences about what the trace lacks. `totals` is a dict of what the report says
    beside its rows.
    """

    def __init__(self, rows, remarks=(), totals=None):
        self._rows = rows
        self._made = None
        self.remarks = list(remarks)
        self.totals = {} if totals is None else totals

    def _first(self):
        """The native rows that have the schema: all of them, or the first of many."""
        return self._rows

    def batches(self):
        """Iterates over parts of the rows, each of which has `__arrow_c_array__`."""
        yield self._rows

    @property
    def columns(self):
        """The names of the columns, in order."""
        return self._first().names

    @property
    def kinds(self):
        """What each column has, by name: "int", "float", "bool", "str", or "json", which loops get
        parsed and other libraries as text."""
        rows = self._first()
        return dict(zip(rows.names, rows.kinds))

    def _row_type(self):
        if self._made is None:
            names = [name + "_" if keyword.iskeyword(name) else name for name in self.columns]
            self._made = namedtuple("Row", names, rename=True, module="torchtrace")
        return self._made

    def _rows_of(self, batch, start=0, stop=None):
        stop = len(batch) if stop is None else stop
        make = self._row_type()._make
        if not batch.names:
            return
        for at in range(start, stop, _CHUNK):
            columns = batch.columns(at, min(at + _CHUNK, stop), _of_json)
            yield from map(make, zip(*columns))

    def __iter__(self):
        return chain.from_iterable(map(self._rows_of, self.batches()))

    def __len__(self):
        return len(self._rows)

    def __bool__(self):
        return next(iter(self), None) is not None

    def __getitem__(self, key):
        """Row `key`, a list of rows for a slice, or the list of a column's values for its name."""
        if isinstance(key, str):
            if not self.columns:
                return []  # a report without rows names none
            if key not in self.columns:
                raise KeyError(f"no column {key!r}: there are {', '.join(self.columns)}")
            at = self.columns.index(key)
            values = []
            for batch in self.batches():
                for start in range(0, len(batch), _CHUNK):
                    stop = min(start + _CHUNK, len(batch))
                    values += batch.columns(start, stop, _of_json)[at]
            return values
        if isinstance(key, slice):
            return (
                list(islice(self, *key.indices(len(self)))) if (key.step or 1) > 0 else [*self][key]
            )
        at = range(len(self))[key]
        for row in islice(self, at, None):
            return row
        raise IndexError(f"no row {key}: calls that a trace only counts have none")

    def __arrow_c_schema__(self):
        return self._first().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema=None):
        return self._rows.__arrow_c_stream__(requested_schema)

    def to_arrow(self):
        """A `pyarrow.Table` of the same memory."""
        pyarrow = _module("pyarrow", "to_arrow")
        return pyarrow.Table.from_batches(
            map(pyarrow.record_batch, self.batches()), pyarrow.schema(self)
        )

    def to_pandas(self):
        """A `pandas.DataFrame`: Int64 and boolean, which have nulls, float64, and texts as object,
        or as categories in tables of calls and configs."""
        pandas = _module("pandas", "to_pandas")
        try:
            pyarrow = _module("pyarrow", "to_pandas")
        except ImportError:
            return self._to_pandas_alone(pandas)
        types = {pyarrow.int64(): pandas.Int64Dtype(), pyarrow.bool_(): pandas.BooleanDtype()}
        return self.to_arrow().to_pandas(types_mapper=types.get)

    def _to_pandas_alone(self, pandas):
        types = {"int": "Int64", "bool": "boolean", "float": "float64"}
        columns = [[] for _ in self.columns]
        for batch in self.batches():
            for values, more in zip(columns, batch.columns(0, len(batch), None)):
                values += more
        return pandas.DataFrame(
            {
                name: pandas.array(values, dtype=types.get(kind, "object"))
                for (name, kind), values in zip(self.kinds.items(), columns)
            }
        )

    def to_polars(self):
        """A `polars.DataFrame`."""
        return _module("polars", "to_polars").DataFrame(self)

    def _shown(self):
        """The first rows as texts, and what is not shown."""
        rows = list(islice(self, _SHOWN_ROWS + 1))
        more = self._more(rows)
        return [[_printable(value) for value in row] for row in rows[:_SHOWN_ROWS]], more

    def _more(self, rows):
        if not rows:
            return "no rows"
        return f"... {len(self) - _SHOWN_ROWS} more rows" if len(rows) > _SHOWN_ROWS else ""

    def __repr__(self):
        rows, more = self._shown()
        lines = [list(self.columns), *rows]
        widths = [min(max(map(len, cells)), _CELL_CHARACTERS) for cells in zip(*lines)]
        numbers = [kind in ("int", "float") for kind in self.kinds.values()]
        text = [
            "  ".join(
                cell[:width].rjust(width) if number else cell[:width].ljust(width)
                for cell, width, number in zip(line, widths, numbers)
            ).rstrip()
            for line in lines
        ]
        return "\n".join(line for line in [*text, more, *map(_printable, self.remarks)] if line)

    def _repr_html_(self):
        import html

        rows, more = self._shown()
        numbers = [kind in ("int", "float") for kind in self.kinds.values()]

        def line(tag, cells):
            styles = ("right" if number else "left" for number in numbers)
            return "".join(
                f'<{tag} style="text-align: {style}">{html.escape(cell)}</{tag}>'
                for style, cell in zip(styles, cells)
            )

        head = line("th", map(_printable, self.columns))
        body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
        notes = [_printable(text) for text in [more, *self.remarks] if text]
        notes = "".join(f"<p>{html.escape(text)}</p>" for text in notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


class StreamedTable(Table):
    """A table that is read anew each time, a part at a time: it may be larger than memory."""

    def __init__(self, open_stream, check, count):
        super().__init__(None)
        self._open_stream = open_stream  # a native stream
        self._check = check  # raises the error of one that has ended; its remarks
        self._count = count  # how many rows there are
        self._length = None
        self._schema = None

    def _begin(self):
        """A stream, and the rows that it begins with."""
        stream = self._open_stream()
        rows = stream.next()
        if rows is None:
            self.remarks = self._check(stream)
            raise RuntimeError("a table without columns")
        self._schema = rows
        return stream, rows

    def _first(self):
        if self._schema is None:
            stream, _ = self._begin()
            stream.close()
        return self._schema

    def batches(self):
        stream, rows = self._begin()
        try:
            while rows is not None:
                if len(rows) > 0:
                    yield rows
                rows = stream.next()
            self.remarks = self._check(stream)
        finally:
            stream.close()

    def __arrow_c_stream__(self, requested_schema=None):
        stream, _ = self._begin()
        return stream.__arrow_c_stream__(requested_schema)

    def __len__(self):
        if self._length is None:
            self._length = self._count()
        return self._length

    def _more(self, rows):
        return "... more rows" if len(rows) > _SHOWN_ROWS else "" if rows else "no rows"


atexit.register(native.close_streams)
