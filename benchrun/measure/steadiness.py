"""Whether every step took the same time, and otherwise the pattern: every k-th step, a
drift, or noise.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.model import Frozen

from .statistics import (
    Floats,
    Ints,
    Values,
    effective_rows,
    log_chance,
    median_bounds,
    ranks,
    robust_deviation,
)

MIN_ROWS = 20
MIN_EFFECT = 0.01
"""Share of the median step below which an effect is ignored."""

MIN_OCCURRENCES, MAX_PERIOD_ROWS = 3, 100
FINEST = 10
"""Parts into which a row of several steps is divided, to find a period that is not a
whole number of rows.
"""
SLOW_PART = 0.75
"""Share of the rows of a period that must be slow; noise may hide the others."""
LEVELS = ((0.0, 0.01), (1.5, 0.01), (3.0, 0.01), (6.0, 0.05))
"""(deviations above the median from which a row is slow, chance of a false alarm
allowed).

The lowest finds every second step, the next small excesses in many rows, the highest
three big ones in a short run: no row of a steady run is above it, so a larger chance is
allowed.
"""

DRIFT_DEVIATIONS = 3.0
JUMP_FIT = 2.0
"""A jump must scatter less than a line by this / sqrt(rows): in few rows it fits any
noise better.
"""
FAR_APART = 6.0
"""Deviations between early and late steps that need no counting of rows."""
MIN_TREND = 0.03
"""Share of the median step that fewer than MIN_ROWS rows must drift."""
TREND_DEVIATIONS = 1.65
"""Deviations of Kendall's count without a trend: 9 of 10 series lie within; four rows
that only rise lie outside.
"""
MIN_DRIFT_ROWS = 6.0
"""Effective pairs of an early and a late step; six that agree come by chance once in
32.
"""

OUTLIER_DEVIATIONS = 6.0
OUTLIER_EFFECT = 0.05
"""Share of the median step below which no row is an outlier: in a very quiet run six
deviations are still nothing.
"""
CLOCK_DEVIATION = 0.41
"""Deviation of the difference of two times that a clock cut off, in its resolution: the
root of 1/6.
"""
MIN_APART, MIN_SHARE = 0.05, 0.25
"""Share of the faster of two speeds by which they differ, and share of the rows that each has."""
NOISY_DEVIATION = 0.05
NOISY_OUTLIERS = 0.05


class Steadiness(Frozen):
    """Evenness of the steps of the window.

    If a row averages several steps, each count is of rows.
    """

    verdict: Literal["steady", "periodic", "drifting", "noisy", "too_short"]
    """The first that holds of periodic, drifting, noisy, steady; of few rows drifting
    or too_short.
    """
    detail: str
    """Finding, in a sentence."""
    period: int | None = None
    """Every so many steps one is slow."""
    periodic_excess_s: float | None = None
    """Median of those, less the median of the others."""
    drift_pct: float = 0.0
    """Median change from the first third to the last, in percent of the median step;
    above 0 is slower.
    """
    outliers: int = 0
    """Rows far above the median, without those that the period explains."""

    speeds_s: tuple[float, float] | None = None
    """Times of a fast and of a slow step, if hardly any step takes a time between them."""

    @property
    def drifted(self) -> bool:
        """Whether the step time drifted so far that its median describes none of the
        steps.
        """
        return self.verdict == "drifting" and abs(self.drift_pct) >= 100 * MIN_TREND


class _Comb(NamedTuple):
    """The rows that come back every ``period`` steps."""

    period: int
    rows: NDArray[np.bool_]
    excess_s: float


def steadiness(
    values: Values, *, steps: Sequence[int] | Ints, resolution_s: float = 0.0
) -> Steadiness:
    """Measure how even ``values`` (s, in the order of the steps) are; ``steps`` are the
    numbers of their steps.

    A clock that counts in ``resolution_s`` makes even steps jump by as much, now and
    then or each second one.
    """
    times = np.asarray(values, dtype=np.float64)
    if times.size < MIN_ROWS:
        return _of_few(times)
    numbers = np.asarray(steps, dtype=np.int64)
    # A drift would lift the late rows above the median and hide a comb among them: look
    # again without it.
    comb = _comb(times, numbers, resolution_s) or _comb(_level(times), numbers, resolution_s)
    rest = times[~comb.rows] if comb else times
    median = float(np.median(rest))
    drift, clear = _drift(rest)
    flat = _level(rest)
    deviation = max(robust_deviation(flat), CLOCK_DEVIATION * resolution_s)
    stalled = flat - median > max(OUTLIER_DEVIATIONS * deviation, OUTLIER_EFFECT * median)
    outliers = int(stalled.sum())
    varying = f"steps vary by {'at most ' if deviation < resolution_s else ''}{100 * deviation / median:.1f} %"
    stalls = f"{outliers} of {rest.size} stalled, the longest took {rest.max():.3g} s"

    verdict: Literal["steady", "periodic", "drifting", "noisy"] = "steady"
    detail = f"{varying}; {stalls}" if outliers else varying
    if comb:
        verdict = "periodic"
        detail = _recurs(comb, median, alone=bool(np.median(np.diff(numbers)) < 2))
        if outliers:
            detail = f"{detail}; of the others {stalls}"
    elif clear and abs(drift) > max(MIN_EFFECT * median, resolution_s):
        verdict, detail = "drifting", _drifts(drift / median)
    elif deviation > max(NOISY_DEVIATION * median, resolution_s) or outliers > max(
        2, NOISY_OUTLIERS * times.size
    ):
        verdict, detail = "noisy", f"{detail}: the network, storage or another job on the node?"
    return Steadiness(
        verdict=verdict,
        detail=detail,
        period=comb.period if comb else None,
        periodic_excess_s=comb.excess_s if comb else None,
        drift_pct=100 * drift / median,
        outliers=outliers,
        speeds_s=_two_speeds(times, resolution_s),
    )


def _two_speeds(times: Floats, resolution_s: float) -> tuple[float, float] | None:
    """The medians on both sides of the widest gap between times, if they differ clearly
    and the gap is most of the difference.
    """
    ordered = np.sort(times)
    gaps, fewest = np.diff(ordered), round(MIN_SHARE * times.size)
    at = fewest + int(np.argmax(gaps[fewest - 1 : -fewest + 1]))
    fast, slow = float(np.median(ordered[:at])), float(np.median(ordered[at:]))
    clear = slow - fast > max(MIN_APART * fast, 2 * resolution_s)
    if clear and gaps[at - 1] > (slow - fast) / 2:
        return fast, slow
    return None


def _recurs(comb: _Comb, median: float, *, alone: bool) -> str:
    last = comb.period % 10 if not 10 <= comb.period % 100 <= 20 else 0
    nth = f"{comb.period}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"
    which = f"every {nth} step is" if alone else f"rows with every {nth} step are"
    cost = f"{comb.excess_s:.3g} s ({100 * comb.excess_s / median:.1f} %)"
    return f"{which} {cost} slower: garbage collection, logging or checkpoints?"


def _of_few(times: Floats) -> Steadiness:
    """A drift shows in fewer rows than anything else: nearly every later step is slower
    than every earlier one.
    """
    rows = times.size
    trend = sum(float(np.sign(times[later:] - times[:-later]).sum()) for later in range(1, rows))
    deviation = math.sqrt(rows * (rows - 1) * (2 * rows + 5) / 18)
    if rows >= 3 and abs(trend) - 1 > TREND_DEVIATIONS * deviation:
        drift = float(np.median(_pairs(times))) / float(np.median(times))
        if abs(drift) > MIN_TREND:
            return Steadiness(verdict="drifting", detail=_drifts(drift), drift_pct=100 * drift)
    return Steadiness(
        verdict="too_short", detail=f"{rows} rows; {MIN_ROWS} are needed to judge steadiness"
    )


def _drifts(drift: float) -> str:
    change, cause = (
        ("slower", "clocks or temperature?") if drift > 0 else ("faster", "still warming up?")
    )
    return f"steps got {100 * abs(drift):.1f} % {change} from first to last third: {cause}"


def _drift(times: Floats) -> tuple[float, bool]:
    """Median of late less early step over the pairs two thirds of the run apart, and
    whether it is clearly not 0.

    A pair has the same distance everywhere, so a steady drift adds the same to each,
    and a stall spoils two of them. The distance is even, so that a slow step every
    second one cannot pass for a drift.
    """
    pairs = _pairs(times)
    # Counted in all rows: a third of a short run is too little to see how they hang
    # together.
    effective = effective_rows(_level(times)) * pairs.size / times.size
    low, high = median_bounds(pairs, effective, DRIFT_DEVIATIONS)
    drift = float(np.median(pairs))
    clear = effective >= MIN_DRIFT_ROWS and (low > 0 or high < 0)
    return drift, clear or abs(drift) > FAR_APART * robust_deviation(pairs)


def _pairs(times: Floats) -> Floats:
    distance = times.size // 3 * 2
    return times[distance:] - times[:-distance]


def _level(times: Floats) -> Floats:
    """The times without their trend: a line, or a jump (clocks fell, a neighbour came)
    if that fits clearly better.

    Left in, a trend looks like rows that resemble their neighbours, so nothing could be
    said about it.
    """
    slope = float(np.median(_pairs(times))) / (times.size // 3 * 2)
    line = times - slope * (np.arange(times.size) - (times.size - 1) / 2)
    # The place where two parts differ most, each at least a sixth of the run; in ranks,
    # so that a stall is no jump.
    before = np.arange(1, times.size)
    between = np.cumsum(ranks(times))[:-1] ** 2 / (before * (times.size - before))
    edge = times.size // 6
    at = edge + int(np.argmax(between[edge - 1 : times.size - edge]))
    jump = (
        times
        - np.repeat([np.median(times[:at]), np.median(times[at:])], [at, times.size - at])
        + np.median(times)
    )
    scatter = float(np.abs(jump - np.median(jump)).mean())
    of_line = float(np.abs(line - np.median(line)).mean())
    return jump if scatter < (1 - JUMP_FIT / math.sqrt(times.size)) * of_line else line


def _comb(times: Floats, numbers: Ints, resolution_s: float) -> _Comb | None:
    """The comb that explains most slow rows, among those that chance does not explain;
    None if it explains them all.

    Given how many rows are slow, the number of them on a comb's teeth is hypergeometric
    if they fell at random: this holds for any distribution of the times. The chance
    counts once for every comb that was tried.
    """
    unit = max(int(np.median(np.diff(numbers))), 1)
    grain = max(unit // FINEST, 1)
    width = unit // grain
    places = np.rint((numbers - numbers[0]) / grain).astype(np.int32)
    best: list[_Comb] = []
    most = 0.0
    for period, offset in _combs(places, times, width):
        rows = (places - offset) % period < width
        base = float(np.median(times[~rows]))
        excess = float(np.median(times[rows])) - base
        explained = excess**2 * rows.sum()
        if excess > max(MIN_EFFECT * base, resolution_s) and explained >= most:
            best = [*(best if explained == most else []), _Comb(period * grain, rows, excess)]
            most = explained
    # The middle one of the periods that hit the same rows is nearest.
    if best:
        return best[len(best) // 2]
    return None


def _combs(places: NDArray[np.int32], times: Floats, width: int) -> list[tuple[int, int]]:
    """(period, offset) of the combs with more slow rows than chance puts there.

    A row covers its place and the ``width`` - 1 before it, so a comb's tooth needs no
    row of its own to fall on.
    """
    longest = min(MAX_PERIOD_ROWS * width, (int(places[-1]) + width) // MIN_OCCURRENCES)
    periods = range(2 * width, longest + 1)
    above, deviation = times - np.median(times), robust_deviation(times)
    levels = [
        (above > level * deviation, math.log(allowed / max(sum(periods), 1)))
        for level, allowed in LEVELS
    ]
    combs = set()
    for period in periods:
        phases = places % period
        rows = _covering(phases, period, width)
        for slow, allowed in levels:
            hits = _covering(phases[slow], period, width)
            for offset in np.flatnonzero((hits >= MIN_OCCURRENCES) & (hits >= SLOW_PART * rows)):
                if (
                    log_chance(times.size, int(slow.sum()), int(rows[offset]), int(hits[offset]))
                    < allowed
                ):
                    combs.add((period, int(offset)))
    return sorted(combs)


def _covering(phases: NDArray[np.int32], period: int, width: int) -> Ints:
    """Number of rows that cover each offset."""
    upto = np.cumsum(np.resize(np.bincount(phases, minlength=period), period + width - 1))
    covering: Ints = upto[width - 1 :] - np.concatenate([[0], upto[: period - 1]])
    return covering
