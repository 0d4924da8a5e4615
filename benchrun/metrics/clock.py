"""Step times of a log whose clock shows whole seconds: the median of such rows is rounded, their mean is not."""

import numpy as np
from numpy.typing import NDArray

from benchrun.metrics.statistics import NORMAL_95, Floats, spread

JOINED_S = 10.0
"""Rows are joined to blocks of this length, which such a clock times to a tenth."""
NEAR_S, NEAR = 2.0, 0.05
"""A block counts where it is so near to the median block, in s and in parts of it; others hold a slow step."""


def middle(times: Floats, intervals: NDArray[np.integer], *, coarse: bool) -> float:
    """The usual step time, in s, of rows that are the means over ``intervals`` steps.

    Rows of one duration show two neighbouring numbers, and only their mean tells where between them it lies. So the
    mean counts where rows are too short (``coarse``), where they differ by their rounding alone, and where it shows,
    beyond chance, that the median is rounded.
    """
    spans = times * intervals
    blocks = np.array_split(np.arange(len(spans)), min(max(int(spans.sum() / JOINED_S), 1), len(spans)))
    joined = np.array([spans[block].sum() for block in blocks])
    steps = np.array([intervals[block].sum() for block in blocks])
    each = joined / steps
    median = spread(each, steps).median
    near = np.abs(joined - median * steps) <= NEAR_S + NEAR * median * steps
    if not near.any():
        return median
    mean = float(joined[near].sum() / steps[near].sum())
    rounded = np.ptp(joined[near]) <= 1 and np.ptp(steps[near]) == 0
    error = NORMAL_95 * float(np.std(each[near])) / float(np.sqrt(near.sum()))
    return mean if coarse or rounded or abs(mean - median) > error else median
