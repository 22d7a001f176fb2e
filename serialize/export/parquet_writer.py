"""Python's half of an export to Parquet (parquet_table.h): PYTHON -c THIS LIBRARY VERB ARGS...

pyarrow is imported only when the verb writes rows, so that errors in its arguments come first.
"""

import sys

if sys.path[:1] == [""]:
    del sys.path[0]  # don't import modules from the working folder

import ctypes
import os

NEEDED = 18  # the first pyarrow that works without numpy
# What pyarrow imports if it is installed, at a cost in time and memory.
UNUSED = ["numpy", "pyarrow._azurefs", "pyarrow._gcsfs", "pyarrow._hdfs", "pyarrow._s3fs"]
CAPSULE = b"arrow_array_stream"

try:
    library = ctypes.CDLL(sys.argv[1])
except OSError as error:
    sys.stderr.write(f"torchtrace: {sys.executable} cannot load what exports: {error}\n")
    sys.stderr.flush()
    os._exit(2)
library.torchtrace_export_write.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Trouble(Exception):
    """An error whose text is the message for the user."""


class Output:
    """The file that pyarrow writes to."""

    closed = False

    def write(self, data):
        data = bytes(data)
        if library.torchtrace_export_write(data, len(data)) != 0:
            raise OSError("cannot write")
        return len(data)

    def flush(self):
        pass


class Rows:
    """The library's stream of rows, through Arrow's PyCapsule interface."""

    def __init__(self, address):
        self.address = address

    def __arrow_c_stream__(self, requested_schema=None):
        return new_capsule(self.address, CAPSULE, None)


def import_pyarrow():
    sys.modules.update(dict.fromkeys(UNUSED))
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # it retains the least memory
    stderr, sys.stderr = sys.stderr, None  # an old pyarrow complains of numpy
    try:
        import pyarrow.parquet

        version, why = pyarrow.__version__, None
    except ImportError as error:
        version, why = pyarrow_version(), error
    finally:
        sys.stderr = stderr
    if version is None or int(version.split(".")[0]) < NEEDED:
        import shlex

        there_is = "" if version is None else f" (there is {version})"
        raise Trouble(
            f"Parquet needs pyarrow {NEEDED} or newer{there_is}: install it: "
            f"{shlex.quote(sys.executable)} -m pip install 'pyarrow>={NEEDED}'"
        )
    if why is not None:
        raise Trouble(f"cannot import pyarrow {version}: {why}")
    return pyarrow


def pyarrow_version():
    """The installed version, without importing it; None if there is none."""
    from importlib import metadata

    try:
        return metadata.version("pyarrow")
    except metadata.PackageNotFoundError:
        return None


class Writer:
    pyarrow = None
    file = None

    def write(self, address, counters):
        if self.pyarrow is None:
            self.pyarrow = import_pyarrow()
        rows = self.pyarrow.RecordBatchReader.from_stream(Rows(address))
        if self.file is None:
            self.file = self.pyarrow.parquet.ParquetWriter(
                Output(),
                rows.schema,
                version="2.6",
                compression="zstd",
                compression_level=1,
                use_dictionary=[name for name in rows.schema.names if name not in counters],
                column_encoding=dict.fromkeys(counters, "DELTA_BINARY_PACKED"),
                dictionary_pagesize_limit=256 << 20,  # more than a row group has
            )
        for batch in rows:
            self.file.write_batch(batch)

    def close(self):
        self.file.close()


writer = Writer()


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
def write_rows(address, counters):
    try:
        if address:
            writer.write(address, counters.decode().split(","))
        else:
            writer.close()
    except Trouble as trouble:
        library.torchtrace_export_failed(os.fsencode(str(trouble)))
    except BaseException as error:
        text = f"pyarrow cannot write Parquet: {type(error).__name__}: {error}"
        library.torchtrace_export_failed(os.fsencode(text))
    else:
        return 0
    return 1


words = [os.fsencode(word) for word in sys.argv[2:]]
status = library.torchtrace_export((ctypes.c_char_p * len(words))(*words), len(words), write_rows)
os._exit(status)  # everything is written; skip Python's cleanup
