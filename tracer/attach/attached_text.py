"""Runs in the main thread of a program that torchtrace attaches to, between two instructions.

VERB, PACKAGE (the folder of the package torchtrace), VERSION (runtime_api.h), TASK, ANSWER (files,
as bytes), PATIENT and RAISED (what the program's signal handlers raised in an earlier try of this
text) are given. Leaves no name behind, and calls nothing of Python's library that a program may
replace.
"""

# ruff: noqa: F821

import _signal
import posix
import sys


def answer(state, text=""):
    new = ANSWER + b".new"
    flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC
    try:
        file = posix.open(new, flags, 0o600)
        posix.write(file, f"{state} {text}".encode("utf-8", "replace"))
        posix.close(file)
        posix.rename(new, ANSWER)
    except (FileNotFoundError, PermissionError):
        pass  # nobody waits for it


def is_new(module):
    """Whether Python has just made this `__main__`, as the program has taken out its own."""
    names = vars(module).items() if module is not None else ()
    return all(value is None for name, value in names if name not in ("__name__", "__builtins__"))


def is_importing():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def is_of_a_handler(error):
    """Whether the handler of a signal raised it: then it is the program's."""
    handlers = set()
    for number in _signal.valid_signals():
        handler = _signal.getsignal(number)
        handlers.add(getattr(handler, "__code__", None))
        handlers.add(getattr(type(handler).__call__, "__code__", None))
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in handlers:
            return True
        trace = trace.tb_next
    return isinstance(error, KeyboardInterrupt)


def load(name):
    if name in sys.modules:
        return sys.modules[name]
    from importlib.util import module_from_spec, spec_from_file_location
    from os import fsdecode

    path = fsdecode(PACKAGE) + "/" + (name.partition(".")[2] or "__init__") + ".py"
    spec = spec_from_file_location(name, path)
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def sentence(error):
    if isinstance(error, (ImportError, OSError, RuntimeError, ValueError)):
        return str(error)
    return f"{type(error).__name__}: {error}"


def call():
    try:
        load("torchtrace")
        from torchtrace import _attach

        getattr(_attach, VERB)(TASK)
        return "done", ""
    except BaseException as error:
        return "failed", sentence(error)


def begin():
    """Returns the native module, which holds signals; None: it has answered."""
    try:
        posix.unlink(ANSWER + b".py")  # where this text is, from Python 3.14 on
    except FileNotFoundError:
        pass
    if VERB == "begin":
        try:
            posix.stat(TASK)
        except FileNotFoundError:
            return None  # whoever attached has given up
    if is_importing() and not PATIENT and not RAISED:
        return answer("importing")
    try:
        package = load("torchtrace._load")
        native = package.native
        if getattr(native, "API_VERSION", 0) != VERSION:
            raise RuntimeError(f"the torchtrace in it, {package.__file__}, is of another build")
        native.hold_signals()
        return native
    except Exception as error:
        if is_of_a_handler(error):
            raise
        return answer("failed", sentence(error))


def attached():
    for _ in range(10):
        try:
            native = begin()
            break
        except BaseException as error:
            if not is_of_a_handler(error):
                return answer("failed", sentence(error))
            RAISED.append(error)
    else:
        return answer("failed", "its signal handlers raise again and again")
    if native is None:
        return
    try:
        answer(*call())
    finally:
        native.release_signals(RAISED, sys._getframe(2))


# The program may be about to call a function that Dynamo compiles: it would compile ours.
dynamo = sys.modules.get("torch._C._dynamo.eval_frame")
callback = dynamo.set_eval_frame(None) if dynamo is not None else None
try:
    if is_new(sys.modules.get("__main__")):
        sys.modules.pop("__main__", None)
    attached()
finally:
    if dynamo is not None:
        dynamo.set_eval_frame(callback)
