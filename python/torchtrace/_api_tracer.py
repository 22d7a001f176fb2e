"""APITracer: the interface of PaddleAPITest's api_tracer, on torchtrace.

The same names, defaults and files; also writes the log and run.json, which the verbs of torchtrace
need. Prints nothing while it works.
"""

import os
import tempfile

from torchtrace import _trace
from torchtrace._load import native


class APITracer:
    """Records the calls between start() and stop(), or within `with`."""

    def __init__(
        self,
        dialect="torch",
        output_path="trace_output",
        levels=0,
        *,
        merge_output=False,
        record_stack=False,
        stack_format="short",
        disable_torch_api_list=False,
    ):
        self._trace = _trace.Trace(
            # Like api_tracer, without placeholders.
            os.fspath(output_path).replace("%", "%%"),
            dialect=dialect,
            levels=levels,
            merge_output=merge_output,
            stacks="all" if record_stack else None,
            stack_format=stack_format,
            # It applies to level 0; api_tracer accepts it for other levels, without effect.
            disable_torch_api_list=disable_torch_api_list
            and dialect == "torch"
            and _has_level_0(levels),
            # An earlier trace in the folder is overwritten, as in api_tracer.
            force=True,
        )

    def start(self):
        # As in api_tracer, an extra start or stop does nothing.
        if not self._trace.is_open:
            self._trace.start()

    def stop(self):
        if self._trace.is_open:
            self._trace.stop()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exception):
        return self._trace.__exit__(*exception) if self._trace.is_open else False

    @staticmethod
    def parse_configs_from_trace(input_path, output_path, output_suffix=""):
        """Writes api_apis, api_configs and api_statistics (.txt) of a trace into a folder.

        `input_path` is an api_trace.txt, or any other input of torchtrace: a trace's folder, a
        log, an api_trace.yaml."""
        _render(input_path, output_path, output_suffix, "apis.txt,configs.txt,statistics.txt")

    @staticmethod
    def parse_stacks_from_trace(input_path, output_path, output_suffix=""):
        """Writes api_stacks.yaml of a trace that was recorded with stacks into a folder.

        `input_path` is the trace's folder or log.
        """
        _render(input_path, output_path, output_suffix, "stacks.yaml")


def _has_level_0(levels):
    return 0 in _trace.level_numbers(levels)


def _render(input_path, output_path, output_suffix, formats):
    os.makedirs(output_path, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output_path, prefix=".torchtrace-") as folder:
        native.render(os.fspath(input_path), folder, formats)
        for name in sorted(os.listdir(folder)):
            stem, suffix = os.path.splitext(name)
            target = os.path.join(output_path, f"{stem}{output_suffix}{suffix}")
            os.replace(os.path.join(folder, name), target)
