"""Runs in the main thread of a program that torchtrace attaches to, between two of its instructions.

VERB, PACKAGE (the folder of the package torchtrace), TASK, ANSWER (files, as bytes) and PATIENT are
given. Leaves no name behind, and calls nothing of Python's library that a program may replace.
"""


def attached():
    import _signal
    import posix
    import sys

    def answer(state, text=""):
        new = ANSWER + b".new"
        flags = posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC | posix.O_NOFOLLOW | posix.O_CLOEXEC
        file = posix.open(new, flags, 0o600)
        posix.write(file, f"{state} {text}".encode("utf-8", "replace"))
        posix.close(file)
        posix.rename(new, ANSWER)

    def is_importing():
        frame = sys._getframe()
        while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
            frame = frame.f_back
        return frame is not None

    def signal_of(error):
        """The signal whose handler raised it: it is the program's. 0: no handler did."""
        number = int(isinstance(error, KeyboardInterrupt)) * _signal.SIGINT
        handlers = {}
        for each in _signal.valid_signals():
            handlers[getattr(_signal.getsignal(each), "__code__", None)] = int(each)
        trace = error.__traceback__
        while trace is not None:
            number = handlers.get(trace.tb_frame.f_code, number)
            trace = trace.tb_next
        return number

    def package():
        if "torchtrace" in sys.modules:
            return
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("torchtrace", PACKAGE + "/__init__.py")
        module = sys.modules["torchtrace"] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules["torchtrace"]
            raise

    try:
        posix.unlink(ANSWER + b".py")  # where this text is, from Python 3.14 on
    except OSError:
        pass
    if VERB == "begin":
        posix.stat(TASK)  # whoever attached may have given up
    if is_importing() and not PATIENT:
        return answer("importing")
    try:
        package()
        from torchtrace import _attach

        getattr(_attach, VERB)(TASK)
        answer("done")
    except BaseException as error:
        number = signal_of(error)
        if number:
            answer("interrupted", number)
        elif isinstance(error, (ImportError, OSError, RuntimeError, ValueError)):
            answer("failed", str(error))
        else:
            answer("failed", f"{type(error).__name__}: {error}")


try:
    attached()
except Exception:
    pass  # nobody waits for an answer
