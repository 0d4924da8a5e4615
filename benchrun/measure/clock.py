"""Step times of a log whose clock shows whole seconds: the median of such rows is
rounded, their mean is not.
"""

from collections.abc import Sequence

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


def middle(
    times: Floats, intervals: NDArray[np.integer], last: NDArray[np.integer], *, coarse: bool
) -> float:
    """The usual step time, in s, of rows that are the means over ``intervals`` steps, of
    which ``last`` has the number of the last.

    Rows of one duration show two neighbouring numbers, and only their mean tells where
    between them it lies. So the mean counts if rows are too short (``coarse``), if they
    differ by their rounding alone, and if it shows, beyond chance, that the median is
    rounded.
    """
    spans = times * intervals
    begins = after_gap(intervals, last)
    place = np.arange(len(spans)) + np.cumsum(begins)
    steady = np.flatnonzero(_steady(spans, intervals, begins))
    count = min(max(int(spans[steady].sum() / JOINED_S), 1), len(steady))
    blocks = np.array_split(steady, count)
    stretches = np.array([np.count_nonzero(np.diff(place[block]) > 1) + 1 for block in blocks])
    joined = np.array([spans[block].sum() for block in blocks])
    steps = np.array([intervals[block].sum() for block in blocks])
    usual = _near(joined, steps, stretches)
    kept = np.concatenate([block for block, near in zip(blocks, usual, strict=True) if near])
    mean = _slope(spans, intervals, np.split(kept, np.flatnonzero(np.diff(place[kept]) > 1) + 1))
    spans, steps = joined[usual], steps[usual]
    median = spread(spans / steps, steps).median
    rounded = bool(np.all(np.abs(spans - mean * steps) < stretches[usual]))
    error = NORMAL_95 * float(np.std(spans / steps)) / float(np.sqrt(len(spans)))
    if coarse or rounded or abs(mean - median) > error:
        return mean
    return median


def after_gap(intervals: NDArray[np.integer], last: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Flags of the rows that follow left-out steps; each begins a stretch, in which the
    clock may be a second off.
    """
    gaps: NDArray[np.bool_] = np.diff(last, prepend=last[0] - intervals[0]) != intervals
    return gaps


def _slope(
    spans: Floats, steps: NDArray[np.integer], stretches: Sequence[NDArray[np.integer]]
) -> float:
    """Seconds a step by the line through clock and steps of the rows in ``stretches``,
    each of which has a start of its own.

    The ends of a stretch, which alone decide a mean, are a second too early or late.
    """
    product = square = 0.0
    for stretch in stretches:
        made = np.append(0.0, np.cumsum(steps[stretch]))
        made -= made.mean()
        product += float(made @ np.append(0.0, np.cumsum(spans[stretch])))
        square += float(made @ made)
    return product / square


def _near(
    spans: Floats, steps: NDArray[np.integer], stretches: NDArray[np.integer] | int = 1
) -> NDArray[np.bool_]:
    """Flags of the spans, in s over so many ``steps`` in so many ``stretches``, that are
    near to the usual one; all if none is.

    The usual one is the mean of the middle half of the steps: a median is a second off,
    and so is each span, perhaps in opposite directions.
    """
    times = spans / steps
    order = np.argsort(times)
    ends = np.cumsum(steps[order])
    quarters = ends[-1] / 4, 3 * ends[-1] / 4
    middle_half = np.clip(ends, *quarters) - np.clip(ends - steps[order], *quarters)
    usual = float(times[order] @ middle_half) / float(middle_half.sum()) * steps
    near: NDArray[np.bool_] = np.abs(spans - usual) <= NEAR_S * stretches + NEAR * usual
    if near.any():
        return near
    return ~near


def _steady(
    spans: Floats, steps: NDArray[np.integer], begins: NDArray[np.bool_]
) -> NDArray[np.bool_]:
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
        stretches = 1 + np.convolve(begins[1:], np.ones(length - 1), "valid")
        for start in np.flatnonzero(took - due > NEAR_S * stretches + NEAR * due):
            steady[start : start + length] = False
    return steady if steady.any() else near
