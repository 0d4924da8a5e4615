"""Change points of a series: where its level changes, by a rank test and binary
segmentation.

A series without a change is exchangeable: any order of its values is as likely as this
one. The statistic is the largest standardised rank sum over all places where the series
can be cut (Wilcoxon's, maximised as by Pettitt, A non-parametric approach to the
change-point problem, 1979). Its chance is the share of random orders with as large a
value, so the test is exact for every distribution and length, and one slow run is no
change. Where it is at most `ALPHA` the series is cut, where two constant levels fit it
best, and each part is tested like a series of its own. A series without a change
therefore gets one in at most `ALPHA` of the cases.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .statistics import Floats, Values, ranks

ALPHA = 0.05
"""Largest share of series without a change that are taken for ones with a change."""
ORDERS = 1999
"""Random orders beside the series' own one."""
FEWEST = 2
"""Values on each side of a change."""
SHORTEST = 8
"""Values in which a change can be seen: fewer give every cut a chance above `ALPHA`."""
SEED = 20240917
"""Seed of the shuffles: the same series always gives the same changes."""


class Cut(NamedTuple):
    """One change of level."""

    place: int
    """Index of the first value after it."""
    chance: float
    """Probability that a series without a change looks like this one here."""


def changes(values: Values) -> list[Cut]:
    """The changes of level in ``values``, in their order; none in fewer than 8 values,
    which prove nothing.
    """
    return sorted(_cuts(np.asarray(values, dtype=np.float64), 0))


def chance_of_change(values: Values) -> float:
    """Probability that a series without a change looks as changed as ``values``."""
    cut = _strongest(np.asarray(values, dtype=np.float64))
    if cut is None:
        return 1.0
    return cut.chance


def bunched(values: Values) -> list[Cut]:
    """The ends of rows of high values, if the high ones stand together: a short rise
    inside a long series, which the rank test of one change does not see.

    Two levels that fit best divide high from low. The chance is that of as few rows if
    every order were as likely (Wald and Wolfowitz, On a test whether two samples are from
    the same population, 1940).
    """
    series = np.asarray(values, dtype=np.float64)
    if series.size < SHORTEST:
        return []
    ordered = np.sort(series)
    high = series >= ordered[_place(ordered)]
    edges = np.flatnonzero(np.diff(high)) + 1
    rows, many, all_of = (
        int((np.diff(high, prepend=False) & high).sum()),
        int(high.sum()),
        high.size,
    )
    ways = 0
    for number in range(1, rows + 1):
        ways += math.comb(many - 1, number - 1) * math.comb(all_of - many + 1, number)
    chance = ways / math.comb(all_of, many)
    if chance > ALPHA:
        return []
    return [Cut(int(place), chance) for place in edges]


def _cuts(values: Floats, offset: int) -> Iterator[Cut]:
    cut = _strongest(values)
    if cut is not None and cut.chance <= ALPHA:
        yield Cut(offset + cut.place, cut.chance)
        yield from _cuts(values[: cut.place], offset)
        yield from _cuts(values[cut.place :], offset + cut.place)


def _strongest(values: Floats) -> Cut | None:
    """Best cut of the series, whether or not it changes; None if it is too short or
    constant.
    """
    if values.size < 2 * FEWEST:
        return None
    centred = ranks(values)
    if not centred.any():
        return None
    score = _scores(centred[None, :]).max()
    orders = np.random.default_rng(SEED).permuted(np.tile(centred, (ORDERS, 1)), axis=1)
    # Sums of ranks in another order differ in the last digit.
    as_large = int((_scores(orders).max(axis=1) >= score - 1e-9).sum())
    return Cut(_place(values), (1 + as_large) / (1 + ORDERS))


def _place(values: Floats) -> int:
    """Place at which two constant levels fit the series best: the sum of distances from
    the medians of both sides is least.
    """
    places = range(FEWEST, values.size - FEWEST + 1)
    return min(places, key=lambda place: _distance(values[:place]) + _distance(values[place:]))


def _distance(values: Floats) -> float:
    return float(np.abs(values - np.median(values)).sum())


def _scores(orders: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rank sum before each possible cut, as a multiple of its standard deviation
    apart from a constant factor.
    """
    size = orders.shape[1]
    before = np.arange(FEWEST, size - FEWEST + 1)
    scores: NDArray[np.float64] = np.abs(orders.cumsum(axis=1)[:, before - 1]) / np.sqrt(
        before * (size - before)
    )
    return scores
