"""Step times of a log whose clock shows whole seconds: the median of such rows is
rounded, their mean is not.
"""

import numpy as np
from numpy.typing import NDArray

from .statistics import NORMAL_95, Floats, spread

JOINED_S = 10.0
"""Rows are joined to blocks of this length, which such a clock times to a tenth."""
NEAR_S, NEAR = 1.0, 0.05
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
    steady = np.flatnonzero(_steady(spans, intervals))
    count = min(max(int(spans[steady].sum() / JOINED_S), 1), len(steady))
    blocks = np.array_split(steady, count)
    joined = np.array([spans[block].sum() for block in blocks])
    steps = np.array([intervals[block].sum() for block in blocks])
    usual = _near(joined, steps)
    kept = [block for block, near in zip(blocks, usual, strict=True) if near]
    mean = _slope(spans, intervals, np.concatenate(kept))
    spans, steps = joined[usual], steps[usual]
    median = spread(spans / steps, steps).median
    rounded = bool(np.all(np.abs(spans - mean * steps) < 1))
    error = NORMAL_95 * float(np.std(spans / steps)) / float(np.sqrt(len(spans)))
    if coarse or rounded or abs(mean - median) > error:
        return mean
    return median


def _slope(spans: Floats, steps: NDArray[np.integer], kept: NDArray[np.integer]) -> float:
    """Seconds a step by the line through clock and steps of the rows ``kept``; each
    stretch without a gap has a start of its own.

    The ends of a stretch, which alone decide a mean, are a second too early or late.
    """
    product = square = 0.0
    for stretch in np.split(kept, np.flatnonzero(np.diff(kept) > 1) + 1):
        made = np.append(0.0, np.cumsum(steps[stretch]))
        made -= made.mean()
        product += float(made @ np.append(0.0, np.cumsum(spans[stretch])))
        square += float(made @ made)
    return product / square


def _near(spans: Floats, steps: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Flags of the spans, in s over so many ``steps``, that are near to the median; all
    if none is.
    """
    median = spread(spans / steps, steps).median * steps
    near: NDArray[np.bool_] = np.abs(spans - median) <= NEAR_S + NEAR * median
    if near.any():
        return near
    return ~near


def _steady(spans: Floats, steps: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Flags of the rows that are in no slow stretch of up to `STRETCH` rows; all if
    every row is in one.
    """
    near = _near(spans, steps)
    usual = steps * (spans[near].sum() / steps[near].sum())
    steady = near.copy()
    for length in range(2, min(STRETCH, len(spans)) + 1):
        # A row that is slow already makes none beside it slow.
        took = np.convolve(spans * steady, np.ones(length), "valid")
        due = np.convolve(usual * steady, np.ones(length), "valid")
        for start in np.flatnonzero(took - due > NEAR_S + NEAR * due):
            steady[start : start + length] = False
    return steady if steady.any() else near
