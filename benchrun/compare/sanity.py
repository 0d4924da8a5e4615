"""What makes a run invalid, however fast it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchrun.metrics.model import Metrics


FATAL_PROBLEMS = frozenset({"missing_loss", "missing_steps", "other_conditions", "unexplained_tflops"})
"""Fatal to a verdict, beside what is fatal in any log."""
BEYOND_PEAK = "impossible_rate"


def broken(metrics: Sequence[Metrics], ending: str | None) -> str | None:
    """Why these runs give no number; None where they do."""
    if ending not in (None, "completed"):
        return f"the job ended as {ending}"
    for run in metrics:
        fatal = run.fatal or next((problem for problem in run.problems if problem.kind in FATAL_PROBLEMS), None)
        if run.num_steps == 0:
            return "the log holds no step"
        if run.complete is False:
            # A row may stand for several steps, and a log may begin after a checkpoint.
            made = max(run.num_steps, run.window.last_step if run.window else 0)
            return f"only {made} steps of {run.planned_steps} were made"
        if fatal:
            return f"{fatal.kind}: {fatal.detail}"
        if run.warmup_rows_dropped == run.num_steps:
            return f"all {run.num_steps} rows were dropped as warm-up"
        if run.step_time_s is None and not beyond_peak(run):
            return "the log holds no step time, and not what a rate needs to become one"
    return None if metrics else "nothing was measured"


def beyond_peak(run: Metrics) -> str | None:
    """The problem of a run that was faster than its GPU can be, in words; such a run has no step time."""
    return next((problem.detail for problem in run.problems if problem.kind == BEYOND_PEAK), None)
