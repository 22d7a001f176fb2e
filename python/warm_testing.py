"""Runs programs that use the module torchtrace, in a Python that has imported torch already."""

import textwrap

from python import module_testing
from tools.testing import warm_python


def python(code, folder, *args, env=None):
    """As that of module_testing.py, see tools/testing/warm_python.py for what differs."""
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    environment = {"PYTHONPATH": str(module_testing.PACKAGE), **(env or {})}
    return module_testing._execute([warm_python.path(), script, *args], folder, environment)


def traced(program, folder, options):
    """Traces the program into `out`, with these arguments of torchtrace.trace()."""
    window = f"with torchtrace.trace('out', force=True, quiet=True, {options}):\n"
    code = "import torchtrace\n" + window + textwrap.indent(program, "    ")
    return python(code, folder).check()
