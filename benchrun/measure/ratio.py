"""The 95 % interval of a ratio of two medians, which holds for few values too. All of
it in logarithms.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .statistics import MIN_INTERVAL_ROWS, Interval, Spread, student_95

OF_MEDIAN = math.sqrt(math.pi / 2)
"""Standard error of the median over that of the mean, in many values of a normal
distribution; in few it is less.
"""


class Sample(NamedTuple):
    """Sample whose middle is known with an uncertainty."""

    variance: float
    """Square of the standard error."""
    freedom: float
    """Degrees of freedom of that variance."""
    bounds: tuple[float, float] | None
    """Bounds of the middle, whatever the distribution is; None for too few values."""

    @property
    def inverse(self) -> "Sample":
        """Return one over the values: of a rate that of a time."""
        return self._replace(bounds=self.bounds and (self.bounds[1], self.bounds[0]))


def of_steps(times: Spread, interval: Interval) -> Sample:
    """The steps of one run; ``interval`` is that of their median, which says how many
    independent steps they are.
    """
    independent, middle = interval.effective_rows, times.median
    variance = math.log1p((times.stdev / times.mean) ** 2) / independent
    bounds = math.log(middle / interval.low), math.log(interval.high / middle)
    many = independent >= MIN_INTERVAL_ROWS
    return Sample(OF_MEDIAN**2 * variance, max(independent - 1, 1), bounds if many else None)


def of_repeats(values: Sequence[float]) -> Sample:
    """Several runs, of which each is one value: runs may differ by more than the steps
    of one run do.
    """
    return Sample(float(np.var(np.log(values), ddof=1)) / len(values), len(values) - 1, None)


def distances(a: Sample, b: Sample) -> tuple[float, float]:
    """Distances by which the logarithm of b over a may be lower and higher.

    From the bounds of both; if one has none, by Welch's t, for which the logarithms are
    normally distributed.
    """
    if a.bounds and b.bounds:
        return math.hypot(b.bounds[0], a.bounds[1]), math.hypot(b.bounds[1], a.bounds[0])
    total = a.variance + b.variance
    if total == 0:
        return 0.0, 0.0
    half = student_95(
        total**2 / sum(each.variance**2 / each.freedom for each in (a, b))
    ) * math.sqrt(total)
    return half, half
