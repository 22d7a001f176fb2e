"""The project's budgets, and the figures measured for each."""

from tables import Table

STEP_RATIO = 1.35
# Level 2 --numbers.
NUMBERS_STEP_RATIOS = {"transformer": 1.45, "mlp": 1.6}
# What --memory adds to a step.
MEMORY_RATIO = 1.05
# Of contiguous tensors, on one core.
NUMBERS_BYTES_PER_SECOND = {"float32": 5e9, "bfloat16": 2.5e9, "float8_e4m3fn": 1e9}
RECORDING_SHARE = 0.5
PYTHON_TRACER_TIMES = 30
# Of threads and processes that work at once.
TOGETHER_RATIO = 1.1
# Share of viztracer's cost.
FUNCTIONS_SHARE = 0.5
# Of Python's own calls. On 3.11 a frame evaluation function is needed.
PYTHON_RATIO = 1.05
PYTHON_RATIO_311 = 1.2
BYTES_PER_EVENT = 8
RENDERED_PER_SECOND = 1e6
EVENTS_READ_PER_SECOND = 10e6
SMALL_STATS_SECONDS = 0.020
LEVEL_0_CALL_SECONDS = 0.5e-6
LEVEL_0_START_SECONDS = 0.3
# Of the resident memory after a tenth of a long run; above this it is growth, not noise.
MEMORY_GROWTH = 0.02
# Relative change of a verb's peak memory at ten times the calls.
SAME_MEMORY = 0.1


class Budgets:
    """Collects verdicts while the tables are made."""

    def __init__(self, key="budgets", title="Budgets"):
        self.table = Table(key, title, ["budget", "wanted", "measured", "verdict"])

    def at_most(self, what, limit, value, show):
        """A figure that must be at most `limit`; `show` formats it."""
        self._add(what, f"at most {show(limit)}", show(value), value / limit)

    def at_least(self, what, limit, value, show):
        """A figure that must be at least `limit`."""
        self._add(what, f"at least {show(limit)}", show(value), limit / value)

    def _add(self, what, wanted, measured, excess):
        if excess <= 1:
            verdict = "met"
        elif excess < 2:
            verdict = f"missed by {100 * (excess - 1):.0f}%"
        else:
            verdict = f"missed: {excess:.1f} times"
        self.table.add(what, wanted, measured, verdict)
