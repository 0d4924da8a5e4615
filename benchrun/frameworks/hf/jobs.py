"""Two jobs in one log of a Hugging Face Trainer, by the clocks of its bars and by the
epochs of its dictionaries.
"""

import numpy as np

from benchrun.logs.columns import NO_VALUE, Column, Columns
from benchrun.logs.rows import Rows, Step
from benchrun.logs.turns import FEW, SAME_CLOCK, two_jobs

from .rows import CLOCKS_S


def mixed(bars: Columns, dictionaries: Columns) -> bool:
    """Whether the lines of two jobs take turns, in the bars of one total or in the
    dictionaries.
    """
    step, total, clock = bars.columns("step", "total", "clock_s")
    if any(_bars_mixed(step[total == each], clock[total == each]) for each in np.unique(total)):
        return True
    return len(dictionaries) > 0 and _dictionaries_mixed(
        *dictionaries.columns("epoch", "learning_rate", "loss")
    )


def _bars_mixed(step: Column, clock: Column) -> bool:
    """Whether a clock goes back while the steps go on, or the steps take turns and
    their clocks differ.
    """
    back = (np.diff(step) >= 0) & (clock[1:] < (1 - SAME_CLOCK) * clock[:-1] - CLOCKS_S)
    if back.sum() >= FEW:
        return True
    if not (np.diff(step) < 0).any():
        return False
    drawn = zip(step.tolist(), clock.tolist(), strict=True)
    rows = Rows(Step(number, seconds or None, 0) for number, seconds in drawn)
    return rows.turns.count > 0 and two_jobs(rows)


def _dictionaries_mixed(epoch: Column, learning_rate: Column, loss: Column) -> bool:
    """Whether dictionaries with one epoch and one learning rate have different losses,
    and take turns.

    Where an epoch is rounded, or the learning rate stands still, one epoch may be that
    of several steps.
    """
    epochs, places = np.unique(epoch, return_inverse=True)
    rates = np.unique(learning_rate)
    pairs = len(np.unique(np.stack([epoch, learning_rate]), axis=1).T)
    if NO_VALUE in epochs or pairs > len(epochs) or 2 * len(rates) < len(epochs):
        return False
    numbered = zip(places.tolist(), loss.tolist(), strict=True)
    return two_jobs(Rows(Step(place + 1, None, 0, loss=each) for place, each in numbered))
