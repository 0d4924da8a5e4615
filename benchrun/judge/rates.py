"""How often a verdict on speed errs: a run as fast as its reference is called slow, or one
that is 5 % slower passes.

The step times of a run say how well its own speed is known; repeats of kept runs
(repeats.csv), by how much runs of one point differ beyond that. Each set of repeats has
its own deviation, so that the noise is a mixture of normal distributions.
"""

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist

from typing_extensions import TypedDict

from benchrun import paths
from benchrun.measure.model import Metrics
from benchrun.measure.statistics import MIN_INTERVAL_ROWS, NORMAL_95

from .checks import Check
from .uneven import too_uneven

KEPT_RUNS = "all kept runs"
SLOWER = 0.95
"""Speed of the run that should not pass."""
GRID = 15
"""Values that stand for the normal distribution of a reference that is a run itself."""

ErrorRates = TypedDict(
    "ErrorRates",
    {
        "false_alarm": float | None,
        "miss_at_5_percent": float | None,
        "from": str | None,
        "reason": str | None,
    },
)
"""``false_alarm``: the chance that a run as fast as the reference is called slow.
``miss_at_5_percent``: the chance that one 5 % slower passes. Null with the ``reason``
where they are not known."""


def unknown(reason: str) -> ErrorRates:
    """Rates that cannot be stated."""
    return {"false_alarm": None, "miss_at_5_percent": None, "from": None, "reason": reason}


def rates_of(check: Check, metrics: Sequence[Metrics]) -> ErrorRates:
    """The error rates of the verdict on a speed."""
    if too_uneven(metrics):
        return unknown("slow steps take so much of the time that no run of this kind passes")
    if any(run.only_average for run in metrics):
        return unknown("only the mean step time is known")
    independent = []
    for run in metrics:
        if run.step_time_interval_s:
            independent.append(run.step_time_interval_s.effective_rows)
    fewest = min(independent, default=0)
    if len(independent) < len(metrics) or (len(metrics) == 1 and fewest < MIN_INTERVAL_ROWS):
        return unknown(
            f"the steps tell as much as {fewest:.3g} independent ones: "
            f"it takes {MIN_INTERVAL_ROWS}, or repeats"
        )
    steps = max(map(standard_error, metrics))
    below, above = _margins(check, len(metrics))
    limit = math.log(check.band[0])
    is_run = bool({"measured", "baseline"} & set(check.reference.flags))
    alarm, miss = 0.0, 0.0
    for deviation in deviations():
        noise = max(math.hypot(steps, deviation), 1e-9)
        alarm += _all(len(metrics), (limit - above) / noise, is_run=is_run)
        miss += _all(len(metrics), (math.log(SLOWER) - below - limit) / noise, is_run=is_run)
    count = len(deviations())
    return {
        "false_alarm": round(alarm / count, 4),
        "miss_at_5_percent": round(miss / count, 4),
        "from": KEPT_RUNS,
        "reason": None,
    }


def rates_of_prediction(median: float, high: float) -> ErrorRates:
    """The error rates of a verdict that calls a step slow beyond ``high``, the upper end
    of a 90 % interval around ``median``."""
    reach = math.log(high / median)
    shift = math.log(1 / SLOWER)
    level = NormalDist().inv_cdf(0.95)
    miss = NormalDist().cdf(level - level * shift / reach) if reach > 0 else 0.0
    return {
        "false_alarm": 0.05,
        "miss_at_5_percent": round(miss, 4),
        "from": KEPT_RUNS,
        "reason": None,
    }


@functools.cache
def deviations() -> tuple[float, ...]:
    """The standard deviation of log speed between repeats of each kept point, without
    what their steps explain."""
    return tuple(float(row["deviation"]) for row in paths.table(__file__, "repeats.csv"))


def standard_error(run: Metrics) -> float:
    """Standard error of the log of a run's median step. The ends of its interval are
    whole ranks, so that it is somewhat wider than it says."""
    interval = run.step_time_interval_s
    if interval is None or run.window is None or interval.low <= 0:
        return 0.0
    rows = run.window.rows
    half = NORMAL_95 * rows / (2 * math.sqrt(interval.effective_rows))
    ranks = math.ceil(rows / 2 + half) - math.floor(rows / 2 - half) + 1
    widths = NORMAL_95 * min(ranks, rows - 1) / half  # of one standard error
    return math.log(interval.high / interval.low) / widths


def _margins(check: Check, runs: int) -> tuple[float, float]:
    """How far the ends of the interval lie from its middle, in logarithms; repeats are
    judged by their range, so that each counts by its own value."""
    if runs > 1 or check.high is None:
        return 0.0, 0.0
    return math.log(check.ratio / check.low), math.log(check.high / check.ratio)


def _all(runs: int, reach: float, *, is_run: bool) -> float:
    """The chance that the noise of each of ``runs`` is below ``reach``, in standard
    deviations; ``is_run``: the reference has the same noise, which they share."""
    normal = NormalDist()
    if not is_run:
        return normal.cdf(reach) ** runs
    total = 0.0
    for index in range(GRID):
        total += normal.cdf(reach + normal.inv_cdf((index + 0.5) / GRID)) ** runs
    return total / GRID
