"""The public package, for type checkers."""

import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, ParamSpec, TypeAlias, TypedDict, TypeVar, overload

import pandas
import polars
import pyarrow
import torch
import torch.fx
from torch.profiler import ExecutionTraceObserver as _TorchObserver
from typing_extensions import Self, Unpack

__version__: str

_P = ParamSpec("_P")
_R = TypeVar("_R")
_F = TypeVar("_F", bound=Callable[..., Any])
_Path: TypeAlias = str | os.PathLike[str]
_AnyPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Level: TypeAlias = int | str
_Levels: TypeAlias = _Level | Sequence[_Level]
_Names: TypeAlias = str | Iterable[str]
_Numbers: TypeAlias = int | str | tuple[int, int] | Sequence[int] | range

# Recording.

class _Options(TypedDict, total=False):
    levels: _Levels | None
    dialect: Any
    untested_torch: bool
    include: _Names
    exclude: _Names
    groups: _Path | None
    include_getters: bool
    api_list: _Path | Iterable[str] | None
    library: _Names
    disable_torch_api_list: bool
    outermost: bool
    frames: Literal["modules", "python", "all"]
    frame_include: _Names
    frame_exclude: _Names
    frame_depth: int
    formats: _Names
    render_limit: int | None
    merge_output: bool
    force: bool
    readable: bool
    quiet: bool
    skip: int
    duration: float | None
    first: int | None
    sample: float
    max_calls: int | None
    step_on: str
    steps: str | int | None
    max_steps: int | None
    max_size: int | str
    stacks: Literal["all", "first"] | bool | None
    stack_format: Literal["short", "full", "api"]
    outputs: bool
    ids: bool
    int_ranges: Literal["all", "first"] | bool | None
    values: int | str
    numbers: Literal["all", "results"] | bool | None
    stop_on_nan: bool
    memory: bool
    device_times: bool

class Trace:
    path: str | None
    joined: bool
    def __init__(
        self,
        output: _AnyPath | None = None,
        *,
        levels: _Levels | None = None,
        dialect: Any = "torch",
        untested_torch: bool = False,
        include: _Names = (),
        exclude: _Names = (),
        groups: _Path | None = None,
        include_getters: bool = False,
        api_list: _Path | Iterable[str] | None = None,
        library: _Names = (),
        disable_torch_api_list: bool = False,
        outermost: bool = False,
        frames: Literal["modules", "python", "all"] = "python",
        frame_include: _Names = (),
        frame_exclude: _Names = (),
        frame_depth: int = 0,
        formats: _Names = "all",
        render_limit: int | None = ...,
        merge_output: bool = True,
        force: bool = False,
        readable: bool = False,
        quiet: bool = True,
        skip: int = 0,
        duration: float | None = None,
        first: int | None = None,
        sample: float = 1.0,
        max_calls: int | None = None,
        step_on: str = "auto",
        steps: str | int | None = None,
        max_steps: int | None = None,
        max_size: int | str = 0,
        stacks: Literal["all", "first"] | bool | None = None,
        stack_format: Literal["short", "full", "api"] = "short",
        outputs: bool = False,
        ids: bool = False,
        int_ranges: Literal["all", "first"] | bool | None = "first",
        values: int | str = 0,
        numbers: Literal["all", "results"] | bool | None = None,
        stop_on_nan: bool = False,
        memory: bool = False,
        device_times: bool = False,
    ) -> None: ...
    def start(self) -> Self: ...
    def stop(self) -> None: ...
    @property
    def is_open(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> Literal[False]: ...
    def __call__(self, function: _F) -> _F: ...
    def read(
        self,
        *,
        include: _Names | None = None,
        exclude: _Names | None = None,
        groups: _Path | None = None,
        level: _Levels | None = None,
        levels: _Levels | None = None,
        calls: _Numbers | None = None,
        thread: int | str | Sequence[int | str] | None = None,
        rank: _Numbers | None = None,
        skip_steps: int | None = None,
        where: str | None = None,
    ) -> TraceReader: ...

trace = Trace

def start(output: _AnyPath | None = None, **options: Unpack[_Options]) -> Trace: ...
def stop() -> Trace: ...
@overload
def traced(function: _F) -> _F: ...
@overload
def traced(
    function: None = None, *, output: _AnyPath | None = None, **options: Unpack[_Options]
) -> Trace: ...
def pause() -> None: ...
def resume() -> None: ...
def paused() -> AbstractContextManager[None]: ...
def is_tracing() -> bool: ...
def annotate(**tags: str | int | float | bool | None) -> AbstractContextManager[None]: ...

class ExecutionTraceObserver(_TorchObserver):
    def __init__(self) -> None: ...
    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None: ...
    def register_callback(self, output_file_path: str | os.PathLike[str]) -> Self: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def unregister_callback(self) -> None: ...

class APITracer:
    def __init__(
        self,
        dialect: Any = "torch",
        output_path: _Path = "trace_output",
        levels: _Levels = 0,
        *,
        merge_output: bool = False,
        record_stack: bool = False,
        stack_format: Literal["short", "full", "api"] = "short",
        disable_torch_api_list: bool = False,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> bool: ...
    @staticmethod
    def parse_configs_from_trace(
        input_path: _Path, output_path: _Path, output_suffix: str = ""
    ) -> None: ...
    @staticmethod
    def parse_stacks_from_trace(
        input_path: _Path, output_path: _Path, output_suffix: str = ""
    ) -> None: ...

class TorchWrapper:
    def __init__(self, config: Mapping[str, Any] | None = None) -> None: ...
    def getConfig(self) -> dict[str, Any]: ...
    def start(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @property
    def callRecords(self) -> dict[str, dict[str, Any]]: ...
    def to_dataframe(self) -> pandas.DataFrame: ...
    def getDFFormattedCallRecords(self) -> pandas.DataFrame: ...

# Extending.

class TracingHook:
    level: int
    name: str | None
    def install(self) -> None: ...
    def uninstall(self) -> None: ...
    def record(
        self, api: str, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> AbstractContextManager[Any]: ...

class FrameworkDialect:
    package: str | None
    levels: Sequence[int]
    def get_hooks(self, levels: Sequence[int]) -> Sequence[TracingHook]: ...
    def discover_apis(self) -> Iterable[str]: ...
    def serialize_special_type(self, value: Any) -> Mapping[str, Any] | str | None: ...
    def format_special_type(self, properties: Mapping[str, Any]) -> str | None: ...

# Names.

def api_name(api: object) -> str: ...
def api_aliases(api: object) -> list[str]: ...

getAPIName = api_name

# Reading.

class Table:
    remarks: list[str]
    totals: dict[str, Any]
    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def kinds(self) -> dict[str, Literal["int", "float", "bool", "str", "json"]]: ...
    def batches(self) -> Iterator[_Batch]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: int) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> list[Any]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def to_arrow(self) -> pyarrow.Table: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def to_polars(self) -> polars.DataFrame: ...
    def _repr_html_(self) -> str: ...

class _Batch:
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Diff(Table):
    @property
    def different(self) -> bool: ...
    @property
    def apis(self) -> Table: ...
    @property
    def changes(self) -> Table: ...

class TraceReader:
    @property
    def path(self) -> str: ...
    @property
    def paths(self) -> list[str]: ...
    @property
    def info(self) -> dict[str, Any]: ...
    @property
    def complete(self) -> bool: ...
    @property
    def incomplete_because(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> Literal[True]: ...
    def select(
        self,
        *,
        include: _Names | None = None,
        exclude: _Names | None = None,
        groups: _Path | None = None,
        level: _Levels | None = None,
        levels: _Levels | None = None,
        calls: _Numbers | None = None,
        thread: int | str | Sequence[int | str] | None = None,
        rank: _Numbers | None = None,
        skip_steps: int | None = None,
        where: str | None = None,
    ) -> TraceReader: ...
    def calls(self) -> Table: ...
    def configs(self) -> Table: ...
    def stats(
        self,
        by: str = "api",
        *,
        sort: str | None = None,
        top: int | None = None,
        flops: _Path | None = None,
        times: bool | Literal["all"] = True,
        numbers: bool = False,
        ignore: _Names | None = None,
    ) -> Table: ...
    def steps(self) -> Table: ...
    def tree(
        self,
        by: Literal["api", "module", "line"] = "api",
        *,
        depth: int | None = None,
        min_time: str | None = None,
        weight: Literal["time", "device", "memory", "flops"] | None = None,
        sort: Literal["time", "first"] | None = None,
        backward_at_forward: bool = False,
    ) -> Table: ...
    def diff(
        self,
        other: TraceReader | Trace | _AnyPath,
        *,
        ignore: _Names | None = None,
        top: int | None = None,
        **options: Any,
    ) -> Diff: ...
    def open_calls(self) -> Table: ...

_Readable: TypeAlias = Trace | _AnyPath

def read(
    trace: _Readable | Sequence[_Readable],
    /,
    *,
    include: _Names | None = None,
    exclude: _Names | None = None,
    groups: _Path | None = None,
    level: _Levels | None = None,
    levels: _Levels | None = None,
    calls: _Numbers | None = None,
    thread: int | str | Sequence[int | str] | None = None,
    rank: _Numbers | None = None,
    skip_steps: int | None = None,
    where: str | None = None,
) -> TraceReader: ...
def load_ipython_extension(ipython: Any) -> None: ...
def graph(
    trace: _Readable,
    calls: _Numbers | None = None,
    *,
    level: int = 1,
    thread: int | str | None = None,
    state: torch.nn.Module | Mapping[str, torch.Tensor] | None = None,
    modules: torch.nn.Module | None = None,
    outputs: int | Sequence[int] | None = None,
) -> torch.fx.GraphModule: ...
