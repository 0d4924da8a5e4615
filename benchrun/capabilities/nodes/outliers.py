"""Outliers among several units, by how much they differ and by how much each differs
from itself.

No threshold is fixed. A unit is compared with the median of the others. Their spread
(median absolute deviation) says how much healthy units differ. Of a few units it is
uncertain, so it is combined with what is expected of them, as moderated t-statistics do
(Smyth, Linear models and empirical Bayes methods, 2004): the noise of the repeats and
the usual differences of hardware of one kind, which count as PRIOR degrees of freedom.
With three units that expectation decides almost alone, with 64 the fleet itself.
"""

import functools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from benchrun.measure.statistics import Floats, robust_deviation

GAP = 5.0
"""Deviations within two groups by which they lie apart, if a fleet is two fleets: no
healthy one has such a gap.
"""
LEAST_PART = 0.25
"""Least share of the units in each of two groups; a smaller group is a matter of single
outliers.
"""
FEWEST_OF_TWO = 4
MIN_UNITS = 3
"""Fewest units: of two nobody can tell which is wrong."""
PRIOR = 4.0
"""Degrees of freedom of what is expected."""
USUAL = 0.01
"""Standard deviation of healthy units of one kind, as a share: sorting of chips,
temperature, power supply.
"""
EFFICIENCY = 0.37
"""Information of a median absolute deviation, relative to a standard deviation of as
many normal values.
"""
SMALL = {2: 1.196, 3: 1.495, 4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
"""Corrects a median absolute deviation of so few values (Croux and Rousseeuw 1992)."""
OF_MEDIAN = math.pi / 2
"""Variance of a median, relative to that of a mean."""


@dataclass(frozen=True)
class Beside:
    """One unit beside the others."""

    value: float
    """Median of its repeats."""
    others: float
    """Median of the others' values."""
    behind: float
    """Share of the others' median by which it is slower; negative if it is faster."""
    limit: float
    """Difference from which it would be an outlier."""
    chance: float
    """Probability that a healthy unit is this far behind: below the level only
    outliers.
    """


def beside_each_other(
    rates: Sequence[Sequence[float]], level: float, sources: Sequence[Hashable] | None = None
) -> list[Beside]:
    """Every unit beside the others, from the repeats of its rate; empty with fewer than
    MIN_UNITS units.

    ``level``: the chance that a single healthy unit is called an outlier. ``sources``:
    units of one source have one measurement, which counts once, as that of a pair of
    nodes; by default each unit has its own.
    """
    if len(rates) < MIN_UNITS:
        return []
    logs, middles = _in_logs(rates)
    noise = repeat_noise(logs)
    sources = range(len(middles)) if sources is None else sources
    others = [_others(index, middles, sources) for index in range(len(middles))]
    found = []
    for index in range(len(middles)):
        found.append(_beside(float(middles[index]), others[index], noise, level))
    return found


def _in_logs(rates: Sequence[Sequence[float]]) -> tuple[list[Floats], Floats]:
    """The logarithms of each unit's rates, and their medians."""
    logs = [np.log(np.asarray(values, dtype=np.float64)) for values in rates]
    return logs, np.array(list(map(np.median, logs)))


def _others(index: int, middles: Floats, sources: Sequence[Hashable]) -> Floats:
    """One value of each source among the other units."""
    values = {}
    for other, source in enumerate(sources):
        if other != index:
            values[source] = middles[other]
    return np.array([*values.values()])


def _beside(own: float, others: Floats, noise: float, level: float) -> Beside:
    count = others.size
    centre = float(np.median(others))
    spread = robust_deviation(others) * SMALL.get(count, count / (count - 0.8))
    weight = EFFICIENCY * (count - 1)
    freedom = PRIOR + weight
    pooled = math.sqrt((PRIOR * (noise**2 + USUAL**2) + weight * spread**2) / freedom)
    # The median of two is their mean.
    unit = pooled * math.sqrt(1 + (OF_MEDIAN if count > 2 else 1) / count)
    distance = centre - own
    return Beside(
        value=math.exp(own),
        others=math.exp(centre),
        behind=1 - math.exp(-distance),
        limit=1 - math.exp(-unit * t_at(level, freedom)),
        chance=t_above(distance / unit, freedom),
    )


def slower_group(rates: Sequence[Sequence[float]]) -> list[int]:
    """Return the indices of the slower units if the fleet falls into two groups; empty
    if it is one.

    Beside the median of the others half of a fleet looks healthy, however slow it is.
    """
    if len(rates) < FEWEST_OF_TWO:
        return []
    logs, middles = _in_logs(rates)
    order = np.argsort(middles)
    sorted_middles = middles[order]
    least = max(math.ceil(LEAST_PART * len(middles)), 2)
    cut = least + int(np.argmax(np.diff(sorted_middles)[least - 1 : len(middles) - least]))
    low = sorted_middles[:cut]
    high = sorted_middles[cut:]
    within = math.sqrt((low.var() * low.size + high.var() * high.size) / max(len(middles) - 2, 1))
    expected = math.hypot(repeat_noise(logs), USUAL)
    return order[:cut].tolist() if high[0] - low[-1] > GAP * max(within, expected) else []


def repeat_noise(logs: Sequence[Floats]) -> float:
    """Uncertainty of the median of a unit's repeats, from their standard deviation.

    The median over the units, which outliers do not change.
    """
    repeats = min(values.size for values in logs)
    freedom = repeats - 1
    if freedom < 1:
        return 0.0
    typical = float(np.median([np.std(values, ddof=1) for values in logs]))
    below: float = (1 - 2 / (9 * freedom)) ** 1.5
    # The median of a chi-square is below its mean.
    return typical / below * math.sqrt(OF_MEDIAN / repeats)


def t_above(value: float, freedom: float) -> float:
    """The chance of more than ``value`` under Student's t distribution."""
    if value < 0:
        return 1 - t_above(-value, freedom)
    # With value = sqrt(freedom) / tan(angle) the tail is the integral of sin^(freedom -
    # 1) from 0 to that angle.
    angles = np.linspace(0, math.atan2(math.sqrt(freedom), value), 2001)
    heights = np.sin(angles) ** (freedom - 1)
    area = float(np.sum(heights[1:] + heights[:-1]) / 2) * float(angles[1])
    whole = math.exp(
        0.5 * math.log(math.pi) + math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2)
    )
    return area / whole


@functools.cache
def t_at(level: float, freedom: float) -> float:
    """The value that Student's t distribution exceeds with the chance ``level``, below
    1/2.
    """
    low = 0.0
    high = 1.0
    while t_above(high, freedom) > level:
        low = high
        high = 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if t_above(middle, freedom) > level else (low, middle)
    return high
