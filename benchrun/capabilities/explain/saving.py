"""Seconds of a step that a cure saves, with an interval: from the run's own steps, or
from what the cause takes of a step.
"""

from collections.abc import Callable

import numpy as np

from benchrun.measure.statistics import Floats, effective_rows

from .model import Saving

INTERVAL = 0.05, 0.95
"""Quantiles at which an interval begins and ends."""
DRAWS = 1000
MOST = 1000
"""The most steps of one draw."""
FILLED = 0.4
"""Share of the time without a kernel that a cure gives back in a step full of kernels.

A GPU at its power limit has a higher clock beside gaps: kept runs lost 0.36 to 0.48.
"""
ESTIMATED = 0.8, 1.1
"""Shares of a time that a cure saves if the work, and no clock, says how long it is."""
Statistic = Callable[..., Floats]
"""Seconds a step that the steps of each draw (a row each) lose; called with ``axis``."""


def saving(seconds: float, steps: Floats, statistic: Statistic = np.mean) -> Saving | None:
    """The interval of ``seconds``, the statistic of what is lost in each of ``steps``.

    A bootstrap: as many steps as are independent of each other are drawn from them
    again and again. None if one step alone is known.
    """
    if len(steps) < 2:
        return None
    size = min(max(round(effective_rows(steps)), 2), MOST)
    drawn = np.random.default_rng(0).choice(steps, (DRAWS, size))
    low, high = np.quantile(statistic(drawn, axis=1), INTERVAL)
    return Saving(
        median=seconds, low=max(min(float(low), seconds), 0.0), high=max(float(high), seconds)
    )


def of_late(seconds: float, times: Floats, row: int, since: int = 0) -> Saving | None:
    """Saving if a rank that is late by ``seconds`` were as fast as the others.

    ``times``: what each rank computes in each step, in s, a row a rank; it is late from
    column ``since`` on. A step waits for the slowest of the others then: that is the
    least that a cure saves.
    """
    others = np.delete(times, row, axis=0)
    late = 1 - since / times.shape[1]
    savings = []
    for limit in (np.max(others, axis=0), np.median(others, axis=0)):
        behind = times[row] - limit
        if since:
            behind = behind[since:] - np.median(behind[:since])
        savings.append(saving(seconds, late * behind, np.median))
    least, usual = savings
    if least is None or usual is None:
        return None
    return usual.model_copy(update={"low": min(least.low, usual.low)})


def filled(seconds: float, busy: float) -> Saving:
    """Saving if kernels ran in ``seconds`` that have none: all of it at most.

    ``busy``: share of the step in which kernels compute; they become slower.
    """
    return between(seconds * (1 - FILLED * busy), seconds)


def estimated(seconds: float) -> Saving:
    """Saving of work that takes about ``seconds``."""
    least, most = ESTIMATED
    return between(least * seconds, most * seconds)


def between(low: float, high: float) -> Saving:
    """Saving of which only the ends are known."""
    return Saving(median=(low + high) / 2, low=low, high=high)


def of_share(whole: Saving, least: float, most: float, limit: float) -> Saving:
    """Saving of a cure for ``least`` to ``most`` of the cause, or of ``limit`` seconds if
    the cause has more.
    """
    if least == most == 1:
        return whole
    return between(least * min(whole.low, limit), most * min(whole.high, limit))
