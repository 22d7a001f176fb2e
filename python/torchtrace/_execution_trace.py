"""ExecutionTraceObserver: torch.profiler's class of that name, on torchtrace.

The same methods and files. The file is made of a trace of level 4 with outputs and identities, and
written when it is closed. This module imports torch.
"""

import contextlib
import gzip
import json
import os
import shutil
import sys
import tempfile
import warnings
import weakref

import torch
from torch.profiler import ExecutionTraceObserver as _TorchObserver

from torchtrace import _trace
from torchtrace._load import native


def _write(folder, path):
    """Writes the execution trace of a trace's folder; if that fails, the file stays unchanged."""
    plain = path if not path.endswith(".gz") else os.path.join(folder, "et.json")
    try:
        native.export_calls("et", os.path.join(folder, "trace"), plain)
    except RuntimeError as error:
        raise OSError(str(error)) from None
    if plain == path:
        return
    packed = f"{path}.{os.getpid()}.tmp"
    try:
        with open(plain, "rb") as source, gzip.open(packed, "wb") as target:
            shutil.copyfileobj(source, target)
        os.replace(packed, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(packed)
        raise OSError(error.errno, f"cannot write {path}: {error.strerror}") from None


def _close_at_exit(recording):
    try:
        recording.close()
    except OSError as error:
        sys.stderr.write(f"torchtrace: {error.strerror or error}\n")


class _Recording:
    """The trace of one observer, from register_callback() to unregister_callback()."""

    def __init__(self, path):
        self.path = path
        self.pid = os.getpid()
        self.folder = tempfile.mkdtemp(prefix="torchtrace-")
        self.running = False
        ranges = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_INTEGRAL_TENSOR_RANGE", "0")
        self.trace = _trace.Trace(
            os.path.join(self.folder, "trace").replace("%", "%%"),
            levels=[4],
            formats="none",
            outputs=True,
            ids=True,
            int_ranges=ranges == "1",
        )
        with _trace._state.lock:
            _trace._state.pauses += 1
            try:
                self.trace.start()
            except BaseException:
                _trace._state.pauses -= 1
                shutil.rmtree(self.folder, ignore_errors=True)
                raise

    def run(self, running):
        if running == self.running or os.getpid() != self.pid:
            return
        with _trace._state.lock:
            self.running = running
            _trace._state.pauses += -1 if running else 1
            _trace._state.apply()

    def close(self):
        if os.getpid() != self.pid:
            return
        try:
            self.run(False)
            with _trace._state.lock:
                _trace._state.pauses -= 1
                self.trace.stop()
            _write(self.folder, self.path)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class ExecutionTraceObserver(_TorchObserver):
    """Writes an execution trace of what runs between start() and stop().

    It replaces torch.profiler.ExecutionTraceObserver; docs/PYTHON.md lists the differences."""

    def __init__(self):
        super().__init__()
        self._recording = None
        self._at_exit = None
        self._torch_observer = None  # used within a trace that is already open

    @staticmethod
    def build_execution_trace_obs_from_env():
        """An observer with a temporary file if ENABLE_PYTORCH_EXECUTION_TRACE is 1, else None."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        handle, path = tempfile.mkstemp(suffix=".et.json")
        os.close(handle)
        observer = ExecutionTraceObserver().register_callback(path)
        extras = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS", "0")
        observer.set_extra_resource_collection(extras == "1")
        return observer

    def register_callback(self, output_file_path):
        """Opens the trace that becomes this file, compressed if its name ends in .gz."""
        if self._registered:
            return self
        path = os.fspath(output_file_path)
        with _trace._state.lock:
            if native.state() is None:
                # Check that the file can be written before anything runs.
                with open(path, "ab"):
                    pass
                self._recording = _Recording(path)
                self._at_exit = weakref.finalize(self, _close_at_exit, self._recording)
            else:
                warnings.warn(
                    "a trace is open already, of `torchtrace run`, torchtrace.trace() or another "
                    "observer: PyTorch's own ExecutionTraceObserver writes this file",
                    RuntimeWarning,
                    stacklevel=2,
                )
                self._torch_observer = _TorchObserver().register_callback(path)
        self.output_file_path = path
        self._registered = True
        return self

    def start(self):
        """Starts recording."""
        if not self._registered or self._execution_trace_running:
            return
        self._execution_trace_running = True
        if self._torch_observer is not None:
            self._torch_observer.start()
            return
        self._recording.run(True)
        self._record_process_groups()

    def stop(self):
        """Stops recording."""
        if not self._execution_trace_running:
            return
        self._execution_trace_running = False
        if self._torch_observer is not None:
            self._torch_observer.stop()
        else:
            self._recording.run(False)

    def unregister_callback(self):
        """Closes the trace and writes the file."""
        if not self._registered:
            return
        self.stop()
        self._registered = False
        if self._torch_observer is not None:
            self._torch_observer.unregister_callback()
            self._torch_observer = None
        else:
            recording, self._recording = self._recording, None
            self._at_exit.detach()
            recording.close()
        self._copy_kernels()

    def __del__(self):
        # Overrides the base class's cleanup, which weakref.finalize does here.
        pass

    def _copy_kernels(self):
        folder = self.get_resources_dir()
        if not folder:
            return
        from torch._inductor.codecache import PyCodeCache

        for module in PyCodeCache.modules:
            file = getattr(module, "__file__", None)
            if file is not None:
                shutil.copyfile(file, os.path.join(folder, os.path.basename(file)))

    def _record_process_groups(self):
        distributed = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            return
        groups = distributed.distributed_c10d._world.pg_config_info
        scope = torch.autograd._record_function_with_args_enter(
            "## process_group:init ##", json.dumps(groups, default=str)
        )
        torch.autograd._record_function_with_args_exit(scope)
