"""The trace that `torchtrace attach` opens and closes in a program that knows nothing of it.

Called by the text that the program is made to run (tracer/attach/attached_text.py).
"""

import json
import os
import sys

from torchtrace import _trace
from torchtrace._load import native

_DISPATCH = native.LEVELS["dispatch"]

_attached = None


class _AttachedTrace(_trace.Trace):
    def __init__(self, attacher, options):
        super().__init__(**options)
        self._attacher = attacher

    def _folder(self):
        return self._output


def begin(task):
    """Opens the trace that a file in its folder describes. Errors are sentences for the user of
    attach."""
    global _attached
    task = os.fsdecode(task)
    with open(task, encoding="utf-8", errors="surrogateescape") as file:
        told = json.load(file)
    if _attached is not None and _attached._attacher["task"] == task:
        return  # a signal's handler has raised after it
    if _attached is not None and not native.attacher_waits():
        end()
    if _attached is not None:
        raise RuntimeError("another torchtrace attach traces it; wait until that ends")
    if native.state() == "run":
        raise RuntimeError("torchtrace run traces it already")
    if native.state() is not None:
        raise RuntimeError("it has opened a torchtrace.trace() itself; wait until that ends")
    options = {"output": os.path.dirname(os.path.dirname(task)), **told["options"]}
    if _DISPATCH in options["levels"] and not told["recompile"] and (count := _compiled()):
        functions = "1 compiled function" if count == 1 else f"{count} compiled functions"
        raise RuntimeError(
            f"it has {functions}, and under level 2 each compiles once more when it is called: "
            "--recompile lets them, --levels 1 leaves them as they are"
        )
    attacher = {"task": task, **{name: told[name] for name in ("locks", "deadline_ns", "run")}}
    opened = _AttachedTrace(attacher, options)
    opened.start()
    _attached = opened


def end(task=None):
    """Closes it. What the program itself has opened meanwhile, which joined it, records nothing
    more."""
    global _attached
    opened, _attached = _attached, None
    if opened is None:
        return
    with _trace._state.lock:
        opened._open = False
        _trace._state.windows -= 1
        _trace._state.trace = None
        native.end()


def _compiled():
    """How many functions torch.compile has compiled, as far as Dynamo tells."""
    dynamo = sys.modules.get("torch._dynamo.convert_frame")
    if dynamo is None:
        return 0
    entries = sys.modules["torch._C._dynamo.eval_frame"]._debug_get_cache_entry_list
    codes = (reference() for reference in dynamo.input_codes.seen)
    return sum(1 for code in codes if code is not None and entries(code))
