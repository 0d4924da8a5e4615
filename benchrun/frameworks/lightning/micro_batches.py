"""Lightning's bars if gradients are accumulated: a bar is one micro-batch,
``global_step`` counts the steps.

Epoch 0:  0%| | 9/9000 [00:18<..., global_step=1.000, train_step_timing in s=2.000, ...]
(8 bars a step)
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from benchrun.logs.columns import NO_VALUE
from benchrun.logs.rows import Rows

EXACT = 1000
"""A bar prints a ``global_step`` below this with all its digits."""
LEAST = 1.5
"""Bars per step from which on they are micro-batches; redrawn bars show some numbers
late.
"""
MOST = 4096
"""The most micro-batches of a step that are looked for."""


class Accumulation(NamedTuple):
    """How bars make steps: step = (bar - offset) // bars_per_step."""

    bars_per_step: int
    offset: int


def accumulation(steps: Mapping[int, int]) -> Accumulation | None:
    """Return how many bars make a step; None if each bar is one, or if too few steps
    passed.

    ``steps``: number of a bar -> the ``global_step`` on it. ``bars_per_step`` is 0 if
    no regular number fits.
    """
    if not steps:
        return None
    first, last = min(steps), max(steps)
    span, passed = last - first, steps[last] - steps[first]
    if passed < 1 or span < LEAST * passed:
        return None
    bars = np.array(list(steps))
    numbers = np.array(list(steps.values()))
    fewest, most = span // (passed + 1), span // max(passed - 1, 1) + 1
    mixed = None
    for each in range(max(fewest, 2), min(most, MOST) + 1):
        for offset in range(each + 1):
            shown, before = (bars - offset) // each, (bars - 1 - offset) // each
            if (numbers == shown).all():
                return Accumulation(each, offset)
            # A bar that is drawn before the step's number changes shows that of the bar
            # before it.
            if mixed is None and ((numbers == shown) | (numbers == before)).all():
                mixed = Accumulation(each, offset)
    return mixed or Accumulation(0, 0)


def steps_of_bars(rows: Rows, how: Accumulation) -> Rows:
    """Return one row per step, whose time is that of its micro-batches; a step that is
    not over is left out.

    Where a bar was not drawn, the others of its step stand for it.
    """
    if not how.bars_per_step:
        return rows.chosen(slice(None), step_time_s=np.full(len(rows), NO_VALUE))
    bars, times, segments = rows.columns("step", "step_time_s", "segment")
    number = (bars - how.offset) // how.bars_per_step
    begins = np.flatnonzero(np.diff(number, prepend=-1) | np.diff(segments, prepend=-1))
    counts = np.diff(np.append(begins, len(number)))
    mean = np.add.reduceat(times, begins) / counts if len(begins) else times
    ends = begins + counts - 1
    over = (bars[ends] - how.offset) % how.bars_per_step == how.bars_per_step - 1
    goes_on = np.append(np.diff(segments[ends]) == 0, False)
    per_row = np.repeat(mean * how.bars_per_step, counts)
    return rows.chosen(ends[over | goes_on], step=number, step_time_s=per_row)
