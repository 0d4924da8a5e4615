"""Arithmetic of time intervals. Sums of kernel durations are not time, because streams
overlap; unions are.

Intervals are two arrays of equal length, starts and ends, in whole nanoseconds, so
lengths are exact.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]


class Intervals(NamedTuple):
    """Starts and ends; they may overlap and come in any order, unless a function
    returns them merged.
    """

    start: Times
    end: Times

    def where(self, chosen: NDArray[np.bool_]) -> "Intervals":
        """The intervals that ``chosen`` marks."""
        return Intervals(self.start[chosen], self.end[chosen])

    def clip(self, first: int, last: int) -> "Intervals":
        """The parts between ``first`` and ``last``."""
        start = np.maximum(self.start, first)
        end = np.minimum(self.end, last)
        return Intervals(start, end).where(end > start)

    def merged(self) -> "Intervals":
        """The union as disjoint intervals in ascending order; touching intervals become
        one.
        """
        if not len(self.start):
            return self
        order = np.argsort(self.start, kind="stable")
        start = self.start[order]
        latest = np.maximum.accumulate(self.end[order])
        first = np.concatenate(([True], start[1:] > latest[:-1]))
        last = np.concatenate((first[1:], [True]))
        return Intervals(start[first], latest[last])

    def length(self) -> int:
        """Nanoseconds of the union."""
        union = self.merged()
        return int((union.end - union.start).sum())

    def gaps(self) -> "Intervals":
        """Gaps between the intervals of the union."""
        union = self.merged()
        return Intervals(union.end[:-1], union.start[1:])

    def overlap_with(self, others: "Intervals") -> Times:
        """Nanoseconds of each interval that the union of ``others`` covers."""
        return others.covered_before(self.end) - others.covered_before(self.start)

    def covered_before(self, moments: Times) -> Times:
        """Nanoseconds of the union before each moment."""
        union = self.merged()
        if not len(union.start):
            return np.zeros(len(moments), np.int64)
        total = np.concatenate(([0], np.cumsum(union.end - union.start)))
        index = np.searchsorted(union.start, moments, side="right")
        inside = np.where(index > 0, moments - union.start[index - 1], 0)
        whole = union.end[index - 1] - union.start[index - 1]
        return total[np.maximum(index - 1, 0)] + np.where(index > 0, np.minimum(inside, whole), 0)


def union_of(*parts: Intervals) -> Intervals:
    """All intervals of ``parts``, merged."""
    return Intervals(
        np.concatenate([part.start for part in parts]), np.concatenate([part.end for part in parts])
    ).merged()


NONE = Intervals(np.zeros(0, np.int64), np.zeros(0, np.int64))
