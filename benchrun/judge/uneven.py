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
    """The share of the time by which the median step differs from the mean one, or from
    both speeds of a run that has two; 0 without step times.
    """
    step, found = run.step_time_s, run.steadiness
    if step is None or step.mean <= 0:
        return 0.0
    recurring = 0.0
    if found and found.period and found.periodic_excess_s:
        recurring = found.periodic_excess_s / found.period / step.mean
    between = 0.0
    if found and found.speeds_s:
        between = min(abs(step.median / speed - 1) for speed in found.speeds_s)
    return max(abs(step.mean - step.median) / max(step.mean, step.median), recurring, between)


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
    """The code and the text of slow steps that recur or stall, or of two speeds; None
    of others.
    """
    if found is None:
        return None
    if found.period:
        text = f"one of every {found.period} steps is {found.periodic_excess_s or 0:.3g} s slower"
        if found.outliers:
            text += f", {found.outliers} others stalled"
        return "periodic", text
    if found.speeds_s:
        fast, slow = found.speeds_s
        return "two_speeds", f"two speeds, {fast:.4g} s and {slow:.4g} s a step"
    if found.outliers:
        return "stalls", f"{found.outliers} steps stalled"
    return None


def too_uneven(runs: Sequence[Measurement]) -> bool:
    """Whether slow steps take so much of a run's time that its median is no verdict."""
    return any(share(run) > MOST for run in runs)
