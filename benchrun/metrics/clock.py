"""Step times of a log whose clock shows whole seconds: the median of such rows is rounded, their mean is not."""

import numpy as np
from numpy.typing import NDArray

from benchrun.metrics.statistics import NORMAL_95, Floats, spread

NEAR = 2
"""Rows so many units of the clock from the median count; those beyond are slow, not rounded."""


def middle(times: Floats, intervals: NDArray[np.integer]) -> float:
    """The usual step time, in s, of rows that are the means over ``intervals`` steps.

    Rows of one duration show two neighbouring numbers, and only their mean tells where between them it lies. Rows that
    vary by more than that have a median, unless their mean shows, beyond chance, that it is rounded.
    """
    median = spread(times, intervals).median
    near = np.abs(times - median) * intervals <= NEAR
    close, weights = times[near], intervals[near]
    mean = float(np.average(close, weights=weights))
    spans = close * weights
    if np.ptp(spans) <= 1 and np.ptp(weights) == 0:
        return mean
    error = float(np.std(close)) / float(np.sqrt(len(close)))
    return mean if abs(mean - median) > NORMAL_95 * error else median
