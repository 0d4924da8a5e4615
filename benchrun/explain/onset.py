"""A rank that falls behind the others during the run: which one, from which step on."""

from typing import NamedTuple

import numpy as np

from benchrun.metrics.changes import SHORTEST, changes
from benchrun.metrics.statistics import Floats, robust_deviation

ONSET = 0.05
"""Share of the typical step: ranks that differ by less are healthy."""
FEWEST = 4
"""Steps behind, and steps before, that are no accident."""
STEADY = 0.9
"""Share of the steps after the change in which the rank must be behind."""
NOISE = 3.0
"""Robust deviations by which it must be behind."""
MOST_CHANCE = 0.005
"""How often a series without a change looks like the rank's, at most: every rank of every run is a test."""
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
    """Return the rank that is behind from some step on; None where none is, or one is from the start.

    ``times``: what each rank computes in each step, in s, one row a rank. ``least_s``: what counts, in s of a step.
    """
    skipped = max(times.shape[1] - LONGEST, 0)
    times = times[:, skipped:]
    if times.shape[0] < 2 or times.shape[1] < SHORTEST:
        return None
    behind = times - np.array([_others(times, row) for row in range(len(times))])
    row = int(np.median(behind[:, -FEWEST:], axis=1).argmax())
    series = behind[row]
    cuts = [cut for cut in changes(series) if cut.chance <= MOST_CHANCE]
    if not cuts:
        return None
    place = cuts[-1].place
    before, after = series[:place], series[place:]
    seconds = float(np.median(after) - np.median(before))
    noise = NOISE * max(robust_deviation(before), robust_deviation(after))
    sure = min(len(before), len(after)) >= FEWEST and float(np.mean(after > np.median(before))) >= STEADY
    if not sure or seconds <= max(least_s, noise) or np.median(after) <= 0:
        return None
    return Onset(row, skipped + place, seconds)


def _others(times: Floats, row: int) -> Floats:
    return np.asarray(np.median(np.delete(times, row, axis=0), axis=0))
