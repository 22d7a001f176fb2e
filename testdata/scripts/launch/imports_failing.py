"""Imports that fail, fail as they do untraced, and can be tried again."""

import importlib
import os
import sys
import tempfile
import traceback

with tempfile.TemporaryDirectory() as folder:
    sys.path.insert(0, folder)
    os.mkdir(folder + "/torch")
    file = folder + "/torch/__init__.py"
    for text in ("1 / 0\n", "a b\n", "import not_there_at_all\n", "raise ImportError('no')\n"):
        with open(file, "w") as out:
            out.write("def f():\n    " + text + "f()\n")
        importlib.invalidate_caches()
        try:
            import torch
        except BaseException:
            print(traceback.format_exc().replace(folder, "FOLDER"))
            print("torch" in sys.modules)
