"""A rank that falls behind the others during the run: which one, from which step on."""

from typing import NamedTuple

import numpy as np

from benchrun.measure.changes import SHORTEST, changes
from benchrun.measure.statistics import Floats, robust_deviation

FEWEST = 4
"""Steps behind, and steps before, that are no accident."""
STEADY = 0.9
"""Share of the steps before and after the change that lie on their side of the middle
between both levels.
"""
SURE = 3.0
"""Robust deviations by which the rank must be behind."""
LONGEST = 1000
"""Rows that are tested, at the end of a longer run."""


class Onset(NamedTuple):
    """A change of one rank."""

    row: int
    """Row of the rank in the times."""
    place: int
    """Index of the first step in which it is behind."""
    seconds: float
    """Seconds of a step by which it falls behind at the change."""


def late_since(times: Floats, least_s: float) -> Onset | None:
    """Return the rank that is behind from some step on; None if none is, or one is from
    the start.

    ``times``: what each rank computes in each step, in s, one row a rank. ``least_s``:
    what counts, in s of a step.
    """
    skipped = max(times.shape[1] - LONGEST, 0)
    times = times[:, skipped:]
    if times.shape[0] < 2 or times.shape[1] < SHORTEST:
        return None
    behind = times - np.array([_others(times, row) for row in range(len(times))])
    row = int(np.median(behind[:, -FEWEST:], axis=1).argmax())
    series = behind[row]
    found = [(rise(series, cut.place, least_s), cut.place) for cut in changes(series)]
    seconds, place = max(found, default=(0.0, 0))
    return Onset(row, skipped + place, seconds) if seconds > 0 else None


def rise(series: Floats, place: int, least_s: float) -> float:
    """Rise in s of ``series`` (s behind the others) from ``place`` to its end; 0 if it
    is not sure.
    """
    before, after = series[:place], series[place:]
    low, high = float(np.median(before)), float(np.median(after))
    noise = SURE * max(robust_deviation(before), robust_deviation(after))
    middle = (low + high) / 2
    apart = min(float(np.mean(before < middle)), float(np.mean(after > middle)))
    sure = min(len(before), len(after)) >= FEWEST and apart >= STEADY
    return high - low if sure and high > 0 and high - low > max(least_s, noise) else 0.0


def _others(times: Floats, row: int) -> Floats:
    return np.asarray(np.median(np.delete(times, row, axis=0), axis=0))
