"""Two jobs that write into one file at the same time, recognised by their step numbers,
losses and clocks.

A restart goes back and then goes on. Where the lines of two jobs are mixed, the numbers
of each go on if that job was interrupted: the log takes turns. Ranks of one job that
print late do so too, but their losses and times agree.
"""

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

import numpy as np

from .columns import Column

if TYPE_CHECKING:
    from .rows import Rows

REACH = 1.5
"""Two rows that are apart by up to so many usual distances follow each other."""
MOST_LEFT = 1024
"""Interrupted sequences that are remembered."""
FEW = 3
"""Turns that are no chance: a restart may go on once where an earlier one had stopped.
"""
SAME_LOSS = 0.01
"""Relative tolerance of the loss of a step that is made again after a restart."""
SAME_AGAIN = 5e-4
"""Relative tolerance of the loss of a step that is made again after the last one."""
SAME_CLOCK = 0.1
"""Relative tolerance of a time: two ranks see times of one step that differ by less in
most steps.
"""
BACKWARDS = 0.75
"""Share of the lines from one to the next of which steps or dates fall in a log that has
its newest line first.
"""
STEADILY = 0.04
"""Relative distance of two clocks that is no noise if it is alike in all steps."""
ENOUGH = 5
"""Steps with one loss and two times that tell a second job from a rank with another
clock.
"""


class Turns:
    """Follows the step numbers of a log, without rows that are printed again."""

    def __init__(self) -> None:
        self.count = 0
        """Number of times that a sequence of steps went on after an interruption."""
        self._left: list[int] = []
        """Numbers at which a sequence was interrupted, sorted."""
        self._last = -1
        self._least = 0
        """Smallest distance of two rows; 0 until it is known."""

    def take(self, number: int) -> None:
        """Take the number of the next row."""
        gap = number - self._last
        if self._last < 0:
            self._last = number
            return
        if 0 < gap <= (REACH * self._least or gap):
            self._least = min(self._least or gap, gap)
        else:
            at = bisect_left(self._left, number) - 1
            if at >= 0 and number - self._left[at] <= REACH * (self._least or 1):
                del self._left[at]
                self.count += 1
            insort(self._left, self._last)
            del self._left[:-MOST_LEFT]
        self._last = number

    def take_rising(self, numbers: Column) -> None:
        """Take the numbers of many rows, each above the one before it and above the
        last one taken.
        """
        gaps = np.diff(numbers, prepend=self._last)
        least = np.minimum.accumulate(np.append(self._least or gaps[0], gaps))
        for at in np.flatnonzero(gaps > REACH * least[:-1]):
            self._last = int(numbers[at - 1]) if at else self._last
            self._least = int(least[at])
            self.take(int(numbers[at]))
        self._last, self._least = int(numbers[-1]), int(least[-1])


def backwards(rises: int, falls: int) -> bool:
    """Whether steps or dates fall from nearly every line to the next one."""
    return falls > max(BACKWARDS * (rises + falls), 1)


def falling(numbers: Column) -> bool:
    """Whether these numbers, of one line each, go `backwards`."""
    differences = np.diff(numbers)
    return backwards(int((differences > 0).sum()), int((differences < 0).sum()))


def two_jobs(rows: "Rows") -> bool:
    """Whether ``rows`` are those of two jobs that ran at the same time."""
    numbers = len(np.unique(rows.column("step")))
    if rows.mixed or numbers < FEW:
        return (
            rows.mixed
        )  # the last lines of several jobs, as a document quotes them, are no mixture
    if rows.turns.count:
        return _taking_turns(rows)
    if len(rows.conflicts) >= FEW:
        return 2 * len(rows.conflicts) > numbers
    if len(rows.other_clocks) < ENOUGH:
        return False
    # Ranks of one job wait for each other: what one measures more in a step it measures
    # less in another.
    least, middle = np.quantile(rows.other_clocks, [0.1, 0.5])
    steadily = middle > STEADILY and least > middle / 2 and rows.repeats <= numbers
    return bool(middle > SAME_CLOCK or steadily)


def another_training(rows: "Rows", end: int | None) -> int:
    """The index of the first row of another training that follows step ``end``, the
    last one; 0 if there is none.

    A job that died while it saved makes its last steps again, with the same losses.
    """
    step, segment, loss = rows.columns("step", "segment", "loss")
    ended = np.maximum.accumulate(step)[:-1] >= (np.inf if end is None else end)
    for at in map(int, np.flatnonzero((np.diff(segment) > 0) & ended) + 1):
        _, one, other = np.intersect1d(step[:at], step[at:], return_indices=True)
        earlier, later = loss[:at][one], loss[at:][other]
        stated = np.isfinite(earlier) & np.isfinite(later)
        earlier, later = earlier[stated], later[stated]
        apart = np.abs(earlier - later) > SAME_AGAIN * np.abs(later)
        if len(apart) >= FEW and 2 * apart.sum() > len(apart):
            return at
    return 0


def _taking_turns(rows: "Rows") -> bool:
    """Whether the sequences that go on by turns have other losses, or other times, at
    equal steps.
    """
    earlier, later = _made_twice(rows)
    twice = len(earlier) + rows.repeats
    if not twice:
        return rows.turns.count > 1 and not _only_late(rows.column("step"))
    other_loss = _other_loss(rows, earlier, later, exact=rows.turns.count >= FEW)
    clocks = _clock_ratios(rows, earlier, later)
    others = len(rows.conflicts) + int(other_loss.sum())
    return 2 * others > twice or (len(clocks) > 0 and float(np.median(clocks)) > SAME_CLOCK)


def _only_late(step: Column) -> bool:
    """Whether no number is more than one place from its own: neighbouring lines of one
    job changed places.
    """
    places = np.argsort(step, kind="stable")
    return bool(np.abs(places - np.arange(len(step))).max() <= 1)


def _made_twice(rows: "Rows") -> tuple[Column, Column]:
    """Indices of rows with one step number: each, and the next one of it."""
    step = rows.column("step")
    order = np.argsort(step, kind="stable")
    again = np.diff(step[order]) == 0
    return order[:-1][again], order[1:][again]


def _other_loss(rows: "Rows", earlier: Column, later: Column, *, exact: bool) -> Column:
    """Whether each pair of rows has different losses; ``exact``: whether every printed
    digit counts.
    """
    loss = rows.column("loss")
    one, other = loss[earlier], loss[later]
    stated = np.isfinite(one) & np.isfinite(other)
    tolerance = 0.0 if exact else SAME_LOSS
    apart = np.zeros(len(one), bool)
    apart[stated] = np.abs(one[stated] - other[stated]) > tolerance * np.abs(other[stated])
    return apart


def _clock_ratios(rows: "Rows", earlier: Column, later: Column) -> Column:
    """Relative distances of the times of pairs of rows; without pairs that have no
    time.
    """
    time, *rates = rows.columns("step_time_s", "tokens_per_s_per_gpu", "samples_per_s")
    time = np.where(time > 0, time, np.nan)
    for rate in rates:
        time = np.where(np.isnan(time) & (rate > 0), 1 / np.abs(rate), time)
    one, other = time[earlier], time[later]
    apart: Column = np.maximum(one, other) / np.minimum(one, other) - 1
    return np.append(apart[~np.isnan(apart)], rows.other_clocks)
