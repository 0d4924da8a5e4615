"""What the steps of two logs say of each other: the same steps of one run, a run that goes on, or two runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchrun.parse.columns import NO_COUNT, NO_VALUE, Column
from benchrun.parse.records import Log

SAMPLE = 1 << 12
"""Rows at each end of a log that are compared."""
SAME_LOSS = 5e-4
"""Relative; some programs print four digits of a loss in one place and seven in another."""
SAME_TIME = 1e-3
"""Relative. Two runs differ by more, unless their steps vary by less."""
SAME_DIGITS = 1e-9
"""Relative. By so much two floats of one printed number may differ."""
SAME_DATE_S = 60.0
"""The ranks of a run print a step within this time."""


class Track(NamedTuple):
    """The steps of one log in the order of their numbers: at most SAMPLE rows at either end."""

    first: int
    last: int
    distance: int
    """Steps from one row to the next."""
    step: Column
    loss: Column
    time: Column
    rate: Column
    batch: Column
    began: float | None
    """Date of the first step line, in s."""
    whole_seconds: bool
    """The times are differences of a clock that shows whole seconds."""
    one_rank_prints: bool
    """Two logs of the run have the very same times."""


def track_of(log: Log) -> Track:
    """The steps of a log that has some."""
    names = "step", "loss", "step_time_s", "tokens_per_s_per_gpu", "global_batch_size"
    rows = np.array(log.distinct.columns.columns(*names), np.float64)
    if rows.shape[1] > 2 * SAMPLE:
        rows = np.concatenate([rows[:, :SAMPLE], rows[:, -SAMPLE:]], axis=1)
    step = rows[0]
    distance = int(np.median(np.diff(step))) if len(step) > 1 else 1
    _, loss, time, rate, batch = rows
    ends = int(step[0]), int(step[-1]), distance
    return Track(*ends, step, loss, time, rate, batch, log.began, log.whole_seconds, log.one_rank_prints)


def in_touch(one: Track, other: Track) -> bool:
    """Whether some steps are in both, or one begins where the other ends."""
    earlier, later = sorted((one, other), key=lambda track: track.first)
    return later.first <= earlier.last + max(earlier.distance, later.distance)


def compatible(one: Track, other: Track) -> bool:
    """Whether nothing that both print shows two runs.

    A run that was resumed repeats steps with other values, but later. Otherwise the same steps have the same loss and
    the same time: the very same where one rank prints it; else ranks time one step, and differ by far less than the
    steps of a run vary.
    """
    earlier, later = sorted((one, other), key=lambda track: track.first)
    batches = [np.unique(track.batch[track.batch != NO_COUNT]) for track in (earlier, later)]
    if all(len(sizes) == 1 for sizes in batches) and batches[0] != batches[1]:
        return False
    dated = earlier.began is not None and later.began is not None
    waited = (later.began or 0.0) - (earlier.began or 0.0)
    if earlier.first < later.first and earlier.last < later.last:
        return not dated or waited >= 0
    if dated and earlier.first == later.first and abs(waited) > SAME_DATE_S:
        return False
    _, ours, theirs = np.intersect1d(earlier.step, later.step, return_indices=True)
    if not _near(earlier.loss[ours], later.loss[theirs], SAME_LOSS):
        return False
    times, rates = (earlier.time[ours], later.time[theirs]), (earlier.rate[ours], later.rate[theirs])
    if earlier.whole_seconds or later.whole_seconds:
        return _as_long(*times)
    if earlier.one_rank_prints and later.one_rank_prints:
        return _near(*times, SAME_DIGITS)
    return all(_near(a, b, max(SAME_TIME, _variation(a) / 2)) for a, b in (times, rates))


def _as_long(one: Column, other: Column) -> bool:
    """Whether the same steps took as long in all, by two clocks of whole seconds."""
    both = np.isfinite(one) & np.isfinite(other)
    return bool(abs(one[both].sum() - other[both].sum()) <= 2 + SAME_TIME * one[both].sum())


def _near(one: Column, other: Column, tolerance: float) -> bool:
    """Whether the values that both have differ, relative, by at most ``tolerance`` in half of the rows."""
    both = np.isfinite(one) & np.isfinite(other)
    one, other = one[both], other[both]
    size = np.maximum(np.abs(one), np.abs(other))
    return not len(one) or bool(np.median(np.abs(one - other) / np.where(size > 0, size, 1.0)) <= tolerance)


def _variation(values: Column) -> float:
    """Median deviation from the median, relative; 0 without a value."""
    values = values[values != NO_VALUE]
    middle = float(np.median(values)) if len(values) else 0.0
    return float(np.median(np.abs(values - middle))) / middle if middle > 0 else 0.0
