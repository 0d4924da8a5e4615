"""Slow steps that the median does not show: a label beside it, and past a share of the
time no verdict.
"""

from collections.abc import Sequence

from benchrun.measure.model import Measurement
from benchrun.measure.steadiness import Steadiness
from benchrun.model import Frozen

NAMED = 0.02
"""Share of the time beyond that of equal steps from which it is named."""
MOST = 0.1
"""Share of the time above which the median says too little of the run for a verdict."""


class Label(Frozen):
    """One limit of a verdict or of a median."""

    code: str
    text: str


def share(run: Measurement) -> float:
    """The share of the time by which the mean step and the median one differ; 0 without
    step times.
    """
    step, found = run.step_time_s, run.steadiness
    if step is None or step.mean <= 0:
        return 0.0
    recurring = 0.0
    if found and found.period and found.periodic_excess_s:
        recurring = found.periodic_excess_s / found.period / step.mean
    return max(abs(step.mean - step.median) / max(step.mean, step.median), recurring)


def slow_steps(runs: Sequence[Measurement]) -> Label | None:
    """The label of the run with the most uneven steps; None if all are even enough."""
    worst = max(runs, key=share, default=None)
    if worst is None or worst.step_time_s is None or share(worst) < NAMED:
        return None
    pattern = _pattern(worst.steadiness)
    if pattern is not None:
        code, text = pattern
    else:
        code = "uneven_steps"
        text = f"mean step {worst.step_time_s.mean:.4g} s, median {worst.step_time_s.median:.4g} s"
    return Label(code=code, text=f"{text}: {100 * share(worst):.0f} % of the time")


def _pattern(found: Steadiness | None) -> tuple[str, str] | None:
    """The code and the text of slow steps that recur or stall; None of others."""
    if found is None or not (found.period or found.outliers):
        return None
    if found.period:
        return (
            "periodic",
            f"one of every {found.period} steps is {found.periodic_excess_s or 0:.3g} s slower",
        )
    return "stalls", f"{found.outliers} steps stalled"


def too_uneven(runs: Sequence[Measurement]) -> bool:
    """Whether slow steps take so much of a run's time that its median is no verdict."""
    return any(share(run) > MOST for run in runs)
