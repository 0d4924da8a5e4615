"""Estimates of the covariance of similar rows and of the intervals' width, from the
rows of a fit alone.

The standard deviations of `kinship` are those under which the misses of the rows are
most probable (maximum likelihood of variance components by the multiplicative steps of
Zhou, Hu, Lange and Zhou 2019, doi:10.1080/10618600.2018.1529601). The intervals are
widened until nine of ten rows, each left out alone or with its series, lie inside.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kinship import (
    MOE,
    Array,
    Kinship,
    covariance,
    noise,
    noises,
    scales,
    shared,
)
from .residuals import LEVEL, NORMAL

STEPS, LEAST = 30, 0.003
"""Steps of the search; no standard deviation falls below the second."""
MORE = 0.03
"""Share of the rows beyond the level that intervals hold: new rows differ more than
those left out."""
Names = NDArray[Any]
PRIOR = 0.5
"""Rows for which the standard deviation at the start counts: rows of one source cannot
tell how sources differ."""


def tuned(start: Mapping[str, float], rows: Kinship, slopes: Array) -> dict[str, float]:
    """Standard deviations from the misses of ``rows``. ``slopes``: derivatives by
    constants, times their spread."""
    spread = dict(start)
    shares = shared(rows)
    own = np.array(noises(spread, rows))
    uncertain = slopes @ slopes.T
    for _ in range(STEPS):
        scale = scales(spread, rows)
        whole = covariance(spread, rows, rows) + np.diag(noise(spread, rows)) + uncertain
        inverse = np.linalg.inv(whole)
        misses = inverse @ rows.residuals
        both = inverse * scale[:, None] * scale[None, :]
        pulls = misses * scale
        for name, share in shares.items():
            seen = float(pulls @ share @ pulls)
            expected = float((both * share).sum())
            spread[name] *= _step(seen, expected, spread[name], start[name])
        for name in set(own):
            at = np.flatnonzero(own == name)
            doubt = rows.doubt[at]
            seen = float((doubt * pulls[at] ** 2).sum())
            expected = float((doubt * np.diag(both)[at]).sum())
            spread[name] *= _step(seen, expected, spread[name], start[name])
        if rows.moe.any():
            ratio = float((misses * rows.residuals)[rows.moe].sum()) / float(rows.moe.sum())
            spread[MOE] *= max(ratio, 0.1) ** 0.25
        for name in (*shares, *set(own)):
            spread[name] = max(spread[name], LEAST)
    return spread


def _step(seen: float, expected: float, now: float, start: float) -> float:
    """The factor on the standard deviation ``now``. ``start`` counts as much as `PRIOR`
    independent rows."""
    seen = max(seen, 0.0) + PRIOR * start**2 / now**4
    expected = expected + PRIOR / now**2
    return float(np.clip((seen / expected) ** 0.25, 0.5, 2.0))


def widened(
    spread: Mapping[str, float], rows: Kinship, slopes: Array, series: Names, kinds: Names
) -> dict[str, float]:
    """``spread`` with the factors on intervals under which nine of ten rows of each
    kind are inside.

    The rows are left out with all that follows, the constants too; the interval is the
    one that a prediction states, which takes the constants for known.
    """
    plain = covariance(spread, rows, rows) + np.diag(noise(spread, rows))
    stated = np.linalg.inv(plain)
    inverse = np.linalg.inv(plain + slopes @ slopes.T)
    misses = inverse @ rows.residuals
    alone = np.abs(misses / np.diag(inverse)) * np.sqrt(np.diag(stated))
    together = np.zeros(len(alone))
    for name in set(series):
        at = np.flatnonzero(series == name)
        block = np.ix_(at, at)
        off = np.linalg.solve(inverse[block], misses[at])
        together[at] = np.abs(off) / np.sqrt(np.diag(np.linalg.inv(stated[block])))
    result = dict(spread)
    for each in set(kinds):
        deviations = np.concatenate([alone[kinds == each], together[kinds == each]])
        result[f"interval.{each}"] = max(0.7, float(np.quantile(deviations, LEVEL + MORE)) / NORMAL)
    return result
