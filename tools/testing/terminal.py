"""A terminal for a program under test."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import termios

END = b"\0the program has ended\0"


class Terminal:
    """A terminal of that size; the descriptor `its` is for the program.

    It stays open here until what the program wrote has been read: where nobody holds a
    terminal, Linux may drop what it was sent last.
    """

    def __init__(self, columns=100, rows=50):
        self.ours, self.its = pty.openpty()
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.its, termios.TIOCSWINSZ, size)

    def read_until_exit(self, process, timeout=120):
        """All that it shows until that process has ended, as text; closes it."""
        shown = b""
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, self.ours)
            closing.callback(os.close, self.its)
            ended = False
            while not shown.endswith(END):
                if select.select([self.ours], [], [], 0.02)[0]:
                    shown += os.read(self.ours, 65536)
                elif not ended and process.poll() is not None:
                    os.write(self.its, END)
                    ended = True
                elif (timeout := timeout - 0.02) < 0:
                    process.kill()
                    raise TimeoutError(shown.decode(errors="replace"))
        return shown.removesuffix(END).decode().replace("\r\n", "\n")
