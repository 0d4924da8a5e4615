"""Evaluations and checkpoints between the steps of a Hugging Face Trainer's log: they
are no step time.
"""

from typing import NamedTuple

import numpy as np

from benchrun.logs.columns import Column, Columns
from benchrun.logs.rows import Rows

from .rows import Drawn

EVALUATION, CHECKPOINT = 0, 1
WORK = ("an evaluation", "a checkpoint")
"""The names of the two kinds, as in `Traits.other_work`."""
PAUSE_TYPES = {"bars": "q", "dictionaries": "q", "seconds": "d", "kind": "i"}
"""Columns of the pauses. ``bars`` and ``dictionaries``: how many came before.
``seconds``: 0 if none are printed.
"""
ENOUGH = 50
"""Bars without a pause that say more than all bars, whose clock is cut off at each
pause.
"""
CLOCK_S = 1.0
"""Resolution of the bar's clock."""


class Pauses(NamedTuple):
    """Pauses by the row of a clock that follows them."""

    seconds: Column
    """Seconds of evaluation since the row before, one value per row."""
    kinds: tuple[Column, Column]
    """Rows after an evaluation, and after a checkpoint: indices, each once."""

    def without(self, clock: Column) -> Column:
        """The ``clock`` (s, one value per row) as it would stand had it stopped in the
        evaluations.
        """
        if not self.seconds.any():
            return clock
        passed = np.diff(clock, prepend=0.0)
        lost = np.where(passed + CLOCK_S > self.seconds, self.seconds, 0.0)
        begins = passed < 0
        run, total = np.cumsum(begins), np.cumsum(lost)
        first = np.searchsorted(run, run)
        stopped = clock - (total - total[first] + lost[first] * (first == 0))
        # An evaluation is timed more finely than whole seconds; no clock runs back.
        apart = run * (float(clock.max()) + CLOCK_S)
        forward: Column = np.maximum.accumulate(stopped + apart) - apart
        return forward

    def work(self, rows: Rows, step: Column) -> dict[int, str]:
        """Number of the row that holds a pause -> its kind. ``step``: the number at
        each row of the clock.
        """
        numbers = np.unique(rows.column("step"))
        by_step: dict[int, str] = {}
        for kind, after in zip(WORK, self.kinds, strict=True):
            at = np.searchsorted(numbers, step[after])
            by_step |= dict.fromkeys(numbers[at[at < len(numbers)]].tolist(), kind)
        return by_step


def before_bars(printed: Columns, bars: Columns, drawn: Drawn) -> Pauses:
    """The pauses between the training's bars: as they were ``printed``, or as bars of
    another total show them.

    A bar of an evaluation begins after its first batch, so that the printed seconds are
    better; lines of another stream may stand elsewhere, if the training's clock has no
    room for them.
    """
    at, seconds, kind = printed.columns("bars", "seconds", "kind")
    row, count = np.searchsorted(drawn.at, at), len(drawn.at)
    inside = (row > 0) & (row < count)
    stated = _sums(row, np.where(inside & (kind == EVALUATION), seconds, 0.0), count)
    room = np.diff(drawn.clock_s, prepend=0.0) + CLOCK_S
    shown = _drawn_evaluations(bars, drawn)
    timed = (stated > 0) & (stated < room)
    lost = np.where(timed, stated, shown)
    evaluated = np.union1d(
        np.flatnonzero(lost), row[inside & (kind == EVALUATION) & (seconds == 0)]
    )
    if count - len(evaluated) < ENOUGH:
        evaluated = evaluated[~timed[evaluated]]
    return Pauses(lost, (evaluated, np.unique(row[inside & (kind == CHECKPOINT)])))


def before_dictionaries(printed: Columns, count: int) -> Pauses:
    """The pauses between ``count`` dictionaries that have a clock of their own."""
    row, seconds, kind = printed.columns("dictionaries", "seconds", "kind")
    inside = (row > 0) & (row < count)
    lost = _sums(row, np.where(inside & (kind == EVALUATION), seconds, 0.0), count)
    evaluated = np.unique(row[inside & (kind == EVALUATION)])
    return Pauses(lost, (evaluated, np.unique(row[inside & (kind == CHECKPOINT)])))


def _sums(row: Column, seconds: Column, rows: int) -> Column:
    """The seconds of each row."""
    sums: Column = (
        np.bincount(row, seconds, minlength=rows)[:rows].astype(float)
        if len(row)
        else np.zeros(rows)
    )
    return sums


def _drawn_evaluations(bars: Columns, drawn: Drawn) -> Column:
    """Seconds by the clocks of other bars that were drawn between two of the
    training's, by the later one.
    """
    total, clock = bars.columns("total", "clock_s")
    count = len(drawn.at)
    if not count:
        return np.zeros(0)
    other = np.flatnonzero(total != total[drawn.at[0]])
    row, clock, total = np.searchsorted(drawn.at, other), clock[other], total[other]
    # The last clock of each bar counts: of several evaluations each begins at zero.
    ends = np.append((np.diff(row) != 0) | (np.diff(total) != 0) | (np.diff(clock) < 0), True)[
        : len(row)
    ]
    return _sums(row, np.where((row > 0) & (row < count) & ends, clock, 0.0), count)
