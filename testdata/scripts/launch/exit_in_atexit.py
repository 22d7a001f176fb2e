"""os._exit in an exit function decides the exit code."""

import atexit
import os

atexit.register(os._exit, 42)
print("body", flush=True)
