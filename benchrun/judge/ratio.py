"""The speed of some runs relative to others, with an interval."""

import math
import statistics
from collections.abc import Sequence

from benchrun.measure.metric import OURS
from benchrun.measure.model import Metrics
from benchrun.measure.ratio import Sample, distances, of_repeats, of_steps
from benchrun.measure.registry import METRICS
from benchrun.model import Frozen


class Ratio(Frozen):
    """Tokens/s/GPU of runs over those of others: above 1 is faster."""

    value: float
    """Ratio of the medians over the repeats."""
    low: float | None
    high: float | None
    """Upper end of the ratio; null if a run has no interval."""

    @property
    def clear(self) -> bool:
        """Whether the interval shows a difference."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def ratio(runs: Sequence[Metrics], others: Sequence[Metrics]) -> Ratio | None:
    """The ratio of the repeats ``runs`` to the repeats ``others``; None if one side has
    no speed.
    """
    own, baseline = _rates(runs), _rates(others)
    if not own or not baseline:
        return None
    value = statistics.median(own) / statistics.median(baseline)
    mine, other = _sample(runs, own), _sample(others, baseline)
    if mine is None or other is None:
        return Ratio(value=value, low=None, high=None)
    down, up = distances(other, mine)
    return Ratio(value=value, low=value * math.exp(-down), high=value * math.exp(up))


def _sample(runs: Sequence[Metrics], rates: Sequence[float]) -> Sample | None:
    """Sample of the speed: of repeats by their rates, of a single run by its steps;
    None without either.
    """
    if len(rates) > 1:
        return of_repeats(rates)
    run = next(filter(_rate, runs))
    step, interval = run.step_time_s, run.step_time_interval_s
    if step is None or interval is None or run.only_average or interval.low <= 0:
        return None
    return of_steps(step, interval).inverse


def _rates(runs: Sequence[Metrics]) -> list[float]:
    return [rate for run in runs if (rate := _rate(run))]


def _rate(run: Metrics) -> float | None:
    """Trained tokens/s/GPU; of a server the generated ones."""
    return run.tokens_per_s_per_gpu.median or METRICS["output_tokens_per_s_per_gpu"].read(run, OURS)
