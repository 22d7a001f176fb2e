"""A Python that has imported torch already: for tests that start many, not about that import.

`path()` names a program that takes the words of python3: code, a script or a module. What they name
runs in a fork of one process that imported torch and nothing of torchtrace; files, folder,
environment and exit status are the caller's own. It doesn't end as Python does: functions for the
end of the program are called, and objects are not deleted. Below the program's code, a stack has
frames of this file, so tests of stacks and of the end need a real Python.
"""

import atexit
import functools
import gc
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from pathlib import Path

# Takes 10 milliseconds: without `site`, and without modules in Python.
CLIENT = """#!{python} -ISB
import _socket, array, marshal, os, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
told = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ)))
server.sendmsg([len(told).to_bytes(8, "little")],
               [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
server.sendall(told)
status = int(server.recv(8) or b"1")
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
"""


@functools.cache
def _start():
    """The folder with the program, and the process of which all programs are forks."""
    folder = tempfile.TemporaryDirectory(prefix="torchtrace-test-")
    address = f"{folder.name}/socket"
    program = Path(folder.name, "python3")
    program.write_text(CLIENT.format(python=sys.executable, address=address))
    program.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["OPENBLAS_NUM_THREADS"] = "1"  # a process with threads had better not fork
    # It ends when this process ends or closes its standard input.
    server = subprocess.Popen(
        [sys.executable, "-B", __file__, address],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.communicate)
    return folder, server


def path():
    return str(Path(_start()[0].name, "python3"))


# ---- in the other process ----


def _run(words):
    """Runs what the words of a command line name, as Python does."""
    words = list(words)
    while words and words[0] in ("-B", "-I", "-S", "-q", "-u"):
        words.pop(0)
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    if words[0] == "-m":
        import runpy

        sys.argv[:] = words[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return
    if words[0] == "-c":
        code, name = words[1], "<string>"
        sys.argv[:] = ["-c", *words[2:]]
        sys.path.insert(0, "")
    else:
        code, name = Path(words[0]).read_bytes(), words[0]
        sys.argv[:] = words
        sys.path.insert(0, os.path.dirname(os.path.realpath(name)))
        main.__file__ = name
    exec(compile(code, name, "exec"), vars(main))


def _exit_status(call, *args):
    try:
        call(*args)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _become(words, folder, variables, files):
    """This process becomes that of the program, which never returns from here."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 1024)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.executable = words[0]
    sys.path[:0] = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    status = _exit_status(_run, words[1:])
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass
    os._exit(status)


def _receive(connection):
    length, files, _, _ = socket.recv_fds(connection, 8, 3)
    told = b""
    while len(told) < int.from_bytes(length, "little"):
        told += connection.recv(1 << 20)
    return *marshal.loads(told), files


def _serve(address):
    import torch  # noqa: F401

    # The path of this script is not that of a program.
    sys.path.pop(0)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    gc.collect()
    gc.freeze()
    os.write(1, b"ready\n")
    running = {}
    poll = select.poll()
    poll.register(0, 0)
    poll.register(listener, select.POLLIN)
    while True:
        for number, _ in poll.poll():
            if number == 0:
                for pid, _ in running.values():
                    os.kill(pid, signal.SIGKILL)
                os._exit(0)
            if number in running:
                pid, connection = running.pop(number)
                poll.unregister(number)
                os.close(number)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                try:
                    connection.sendall(b"%d" % status)
                except OSError:  # whoever asked was ended
                    pass
                connection.close()
                continue
            connection, _ = listener.accept()
            words, folder, variables, files = _receive(connection)
            if (pid := os.fork()) == 0:
                _become(words, folder, variables, files)
            for file in files:
                os.close(file)
            ended = os.pidfd_open(pid)
            running[ended] = pid, connection
            poll.register(ended, select.POLLIN)


if __name__ == "__main__":
    _serve(sys.argv[1])
