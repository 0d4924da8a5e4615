"""The speed of some runs relative to others, with an interval."""

import math
import statistics
from collections.abc import Sequence

from benchrun.metrics.model import Metrics
from benchrun.metrics.registry import METRICS, OURS
from benchrun.model import Frozen


class Ratio(Frozen):
    """Tokens/s/GPU of runs over those of others: above 1 is faster."""

    value: float
    """Of the medians over the repeats."""
    low: float | None
    high: float | None
    """The ratio lies between these; null where a run has no interval."""

    @property
    def clear(self) -> bool:
        """Whether the interval shows a difference."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def ratio(runs: Sequence[Metrics], others: Sequence[Metrics]) -> Ratio | None:
    """The ratio of the repeats ``runs`` to the repeats ``others``; None where one side has no speed."""
    own, baseline = _speed(runs), _speed(others)
    if own is None or baseline is None:
        return None
    value = own[0] / baseline[0]
    if own[1] is None or baseline[1] is None:
        return Ratio(value=value, low=None, high=None)
    down, up = (math.hypot(mine, other) for mine, other in zip(own[1], reversed(baseline[1]), strict=True))
    return Ratio(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def _speed(runs: Sequence[Metrics]) -> tuple[float, tuple[float, float] | None] | None:
    """Median rate of the repeats, and how far it may be lower and higher, as logarithms of a factor.

    Of repeats that is their range, of a single run the confidence interval of its median step time.
    """
    rates = [rate for run in runs if (rate := _rate(run))]
    if not rates:
        return None
    middle = statistics.median(rates)
    if len(rates) > 1:
        return middle, (math.log(middle / min(rates)), math.log(max(rates) / middle))
    run = next(run for run in runs if _rate(run))
    step, interval = run.step_time_s, run.step_time_interval_s
    if step is None or interval is None or run.only_average or interval.low <= 0:
        return middle, None
    slower, faster = math.log(interval.high / step.median), math.log(step.median / interval.low)
    return middle, (max(slower, 0.0), max(faster, 0.0))


def _rate(run: Metrics) -> float | None:
    """Trained tokens/s/GPU; of a server the generated ones."""
    return run.tokens_per_s_per_gpu.median or METRICS["output_tokens_per_s_per_gpu"].read(run, OURS)
