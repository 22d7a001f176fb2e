"""What is compared with the untraced program: each subject is a context in which steps run.

A subject's name is used in tables and by --only. `slow` ones run fewer steps.
"""

import contextlib
import ctypes
import importlib.machinery
import importlib.util
import os
import sys

import torch
from python_tracer import DispatchTracer, FunctionTracer
from torch.utils._python_dispatch import TorchDispatchMode

LEVELS = {"1": [1], "2": [2], "1,2": [1, 2]}
OTHER_LEVELS = {
    "0": [0],
    "0,1": [0, 1],
    "0,1,2": [0, 1, 2],
    "3 (modules)": [3],
    "3": [3],
    "3 (all)": [3],
    "4": [4],
    "all levels": [0, 1, 2, 3, 4],
}


def load_bench_module(runtime, bench_module):
    """Loads the runtime library as `torchtrace run` does, then the module that needs it."""
    ctypes.CDLL(f"{runtime}/libtorchtrace_runtime.so", os.RTLD_GLOBAL | os.RTLD_NOW)
    loader = importlib.machinery.ExtensionFileLoader("torchtrace_bench", bench_module)
    spec = importlib.util.spec_from_file_location("torchtrace_bench", bench_module, loader=loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class NeverReached(TorchDispatchMode):
    """A mode on the stack; the bench module's dispatch() handles its calls."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} reached the empty dispatch mode")


class Untraced:
    """Nothing."""

    slow = False

    @contextlib.contextmanager
    def on(self):
        yield


class EmptyModes:
    """PyTorch's own protocols with a handler in C that only makes the call."""

    slow = False

    def __init__(self, bench, levels):
        self.bench = bench
        self.levels = levels
        self.mode = NeverReached()

    @contextlib.contextmanager
    def on(self):
        if 1 in self.levels:
            self.bench.push_function_mode()
        if 2 in self.levels:
            self.bench.push_dispatch_mode(self.mode)
        try:
            yield
        finally:
            if 2 in self.levels:
                self.bench.pop_dispatch_mode()
            if 1 in self.levels:
                self.bench.pop_function_mode()


class Torchtrace:
    """torchtrace's hooks, recording; with `idle`, without recording."""

    slow = False

    def __init__(self, bench, levels, idle=False, frames="python"):
        self.bench = bench
        self.levels = levels
        self.idle = idle
        self.frames = frames

    @contextlib.contextmanager
    def on(self):
        self.bench.install(self.frames, *self.levels)
        try:
            with self.paused():
                yield
        finally:
            self.bench.uninstall()

    @contextlib.contextmanager
    def paused(self):
        """If idle, reports a compilation through PyTorch's callbacks, which stops recording."""
        if not self.idle:
            yield
            return
        from torch._dynamo.callback import CallbackTrigger, callback_handler

        with callback_handler.install_callbacks(CallbackTrigger.DYNAMO, "0/0"):
            yield


class PythonTracer:
    """python_tracer.py."""

    slow = True

    def __init__(self, levels):
        self.calls = []
        self.modes = []
        if 1 in levels:
            self.modes.append(FunctionTracer(self.calls))
        if 2 in levels:
            self.modes.append(DispatchTracer(self.calls))

    @contextlib.contextmanager
    def on(self):
        with contextlib.ExitStack() as stack:
            for mode in self.modes:
                stack.enter_context(mode)
            yield
        self.calls.clear()


class VizTracer:
    """viztracer: functions written in Python, into memory; or those in C too."""

    slow = False

    def __init__(self, c_functions=False):
        self.c_functions = c_functions

    @contextlib.contextmanager
    def on(self):
        from viztracer import VizTracer

        tracer = VizTracer(
            verbose=0, ignore_c_function=not self.c_functions, tracer_entries=1_000_000
        )
        tracer.start()
        try:
            yield
        finally:
            tracer.stop()
            tracer.clear()


class Profiler:
    """torch.profiler, CPU activity, with shapes; or with stacks too."""

    slow = False

    def __init__(self, with_stack=False):
        self.with_stack = with_stack

    @contextlib.contextmanager
    def on(self):
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(
            activities=activities, record_shapes=True, with_stack=self.with_stack
        ):
            yield


class ExecutionTrace:
    """torch.profiler.ExecutionTraceObserver."""

    slow = True

    def __init__(self, folder):
        self.path = f"{folder}/execution_trace.json"

    @contextlib.contextmanager
    def on(self):
        observer = torch.profiler.ExecutionTraceObserver().register_callback(self.path)
        observer.start()
        try:
            yield
        finally:
            observer.stop()
            observer.unregister_callback()
            os.remove(self.path)


class Debug:
    """torch.utils._debug_mode.DebugMode, functions and operators."""

    slow = True

    @contextlib.contextmanager
    def on(self):
        from torch.utils._debug_mode import DebugMode

        with DebugMode(record_torchfunction=True):
            yield


def make_subjects(bench, folder):
    """{name: subject} in the order of the tables."""
    subjects = {"untraced": Untraced()}
    for text, levels in LEVELS.items():
        subjects[f"empty modes, {text}"] = EmptyModes(bench, levels)
    for text, levels in LEVELS.items():
        subjects[f"hooks, recording off, {text}"] = Torchtrace(bench, levels, idle=True)
    for text, levels in (LEVELS | OTHER_LEVELS).items():
        frames = next((each for each in ("modules", "all") if each in text), "python")
        subjects[f"torchtrace, {text}"] = Torchtrace(bench, levels, frames=frames)
    for text, levels in LEVELS.items():
        subjects[f"Python tracer, {text}"] = PythonTracer(levels)
    subjects["viztracer"] = VizTracer()
    subjects["viztracer, C functions too"] = VizTracer(c_functions=True)
    subjects["torch.profiler"] = Profiler()
    subjects["torch.profiler, stacks"] = Profiler(with_stack=True)
    subjects["ExecutionTraceObserver"] = ExecutionTrace(folder)
    subjects["DebugMode"] = Debug()
    return subjects


def check_empty():
    """Exits if a debugger or profiler would be timed as well."""
    if sys.gettrace() is not None or sys.getprofile() is not None:
        raise SystemExit("bench: a trace function is set in this Python")
