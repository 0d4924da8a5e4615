"""Step times of a log whose clock shows whole seconds: the median of such rows is
rounded, their mean is not.
"""

import numpy as np
from numpy.typing import NDArray

from benchrun.measure.statistics import NORMAL_95, Floats, spread

JOINED_S = 10.0
"""Rows are joined to blocks of this length, which such a clock times to a tenth."""
NEAR_S, NEAR = 2.0, 0.05
"""A row or a block counts if it is so near to the median one, in s and in parts of it;
others hold a slow step.
"""
STRETCH = 5
"""Rows that may be slow together: each alone is late by less than its rounding."""


def middle(times: Floats, intervals: NDArray[np.integer], *, coarse: bool) -> float:
    """The usual step time, in s, of rows that are the means over ``intervals`` steps.

    Rows of one duration show two neighbouring numbers, and only their mean tells where
    between them it lies. So the mean counts if rows are too short (``coarse``), if they
    differ by their rounding alone, and if it shows, beyond chance, that the median is
    rounded.
    """
    spans = times * intervals
    usual = _steady(spans, intervals)
    spans, steps = spans[usual], intervals[usual]
    blocks = np.array_split(
        np.arange(len(spans)), min(max(int(spans.sum() / JOINED_S), 1), len(spans))
    )
    spans, steps = (
        np.array([values[block].sum() for block in blocks]) for values in (spans, steps)
    )
    usual = _near(spans, steps)
    spans, steps = spans[usual], steps[usual]
    median, mean = spread(spans / steps, steps).median, float(spans.sum() / steps.sum())
    rounded = bool(np.all(np.abs(spans - mean * steps) < 1))
    error = NORMAL_95 * float(np.std(spans / steps)) / float(np.sqrt(len(spans)))
    return mean if coarse or rounded or abs(mean - median) > error else median


def _near(spans: Floats, steps: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Flags of the spans, in s over so many ``steps``, that are near to the median; all
    if none is.
    """
    median = spread(spans / steps, steps).median * steps
    near: NDArray[np.bool_] = np.abs(spans - median) <= NEAR_S + NEAR * median
    return near if near.any() else ~near


def _steady(spans: Floats, steps: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Flags of the rows that are in no slow stretch of up to `STRETCH` rows; all if
    every row is in one.
    """
    near = _near(spans, steps)
    usual = steps * (spans[near].sum() / steps[near].sum())
    steady = near.copy()
    for length in range(2, min(STRETCH, len(spans)) + 1):
        # A row that is slow already makes none beside it slow.
        took, due = (
            np.convolve(values * steady, np.ones(length), "valid") for values in (spans, usual)
        )
        for start in np.flatnonzero(took - due > NEAR_S + NEAR * due):
            steady[start : start + length] = False
    return steady if steady.any() else near
