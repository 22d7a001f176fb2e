"""Runs other scripts of this folder in one process, each as the main program.
Arguments: a script's name and its arguments, then "," and the next ones."""

import pathlib
import runpy
import sys

words = " ".join(sys.argv[1:])
for command in words.split(" , "):
    name, *sys.argv[1:] = command.split()
    for stream in (sys.stdout, sys.stderr):
        print(f"---- {name}", file=stream, flush=True)
    runpy.run_path(str(pathlib.Path(__file__).parent / name), run_name="__main__")
