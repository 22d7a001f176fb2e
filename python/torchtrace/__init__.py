"""torchtrace inside a Python program: records the PyTorch calls of a part of it.

    import torchtrace

    with torchtrace.trace(output="out", levels=[1, 2]):
        model(batch)

leaves in out/ what `torchtrace run` would, and

    torchtrace.read("out").stats()

is a table of it. docs/PYTHON.md has the rest.
"""

from torchtrace._api_tracer import APITracer
from torchtrace._extension import FrameworkDialect, TracingHook
from torchtrace._load import native as _native
from torchtrace._names import api_aliases, api_name
from torchtrace._read import TraceReader, read
from torchtrace._tables import Table
from torchtrace._torch_wrapper import TorchWrapper
from torchtrace._trace import (
    Trace,
    annotate,
    is_tracing,
    pause,
    paused,
    resume,
    start,
    stop,
    trace,
    traced,
)


def __getattr__(name):
    # Imported on first use, since they import torch.
    if name == "ExecutionTraceObserver":
        from torchtrace._execution_trace import ExecutionTraceObserver

        return ExecutionTraceObserver
    if name == "graph":
        from torchtrace._graph import graph

        return graph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(ipython):
    """%load_ext torchtrace: the magic %%torchtrace, which records a cell."""
    from torchtrace._magic import load

    load(ipython)


def __dir__():
    return sorted({*globals(), *__all__})


getAPIName = api_name  # TorchWrapper's name for it

__version__ = _native.__version__

__all__ = [
    "APITracer",
    "ExecutionTraceObserver",
    "FrameworkDialect",
    "Table",
    "TorchWrapper",
    "Trace",
    "TraceReader",
    "TracingHook",
    "annotate",
    "api_aliases",
    "api_name",
    "getAPIName",
    "graph",
    "is_tracing",
    "pause",
    "paused",
    "read",
    "resume",
    "start",
    "stop",
    "trace",
    "traced",
]
