"""The window of steps that counts, and the statistics over it."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.model import Frozen

MIN_WARMUP_ROWS = 5
WARMUP_FRACTION = 0.1

MIN_INTERVAL_ROWS = 6
"""The range of 5 values holds the median only 94 % of the time; that of 6 does so 97 %.
"""
NORMAL_95 = 1.96
"""Half width, in standard deviations, that holds 95 % of a normal distribution."""
NORMAL_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Values = Sequence[float] | Floats


class Spread(Frozen):
    """Statistics of one quantity over the window, in the unit of its values."""

    mean: float
    median: float
    stdev: float
    """Sample standard deviation; 0 for a single value."""
    p5: float
    p95: float


class Interval(Frozen):
    """Interval of the true median, in the unit of the values."""

    low: float
    high: float
    level: float = 0.95
    """Probability that such an interval holds it: 0.95, less for fewer than 6 rows, and
    if effective_rows is below 6.
    """
    effective_rows: float
    """Independent rows that would tell as much as these, which resemble their
    neighbours.
    """


def warmup_rows(rows: int) -> int:
    """Rows dropped at the start: 5 or a tenth, whichever is more, but never more than
    half of a short log.

    Compilation, memory pools and CUDA graphs make the first steps slow; five rows
    outlast them in every framework seen.
    """
    return min(max(MIN_WARMUP_ROWS, math.ceil(WARMUP_FRACTION * rows)), rows // 2)


def spread(values: Values, weights: Sequence[int] | NDArray[np.integer[Any]] = ()) -> Spread:
    """Statistics of ``values``; a value of weight w counts as w equal ones (a row that
    averages w steps).

    Equal weights count as 1.
    """
    array = np.asarray(values, dtype=np.float64)
    counts = np.asarray(weights, dtype=np.int64)
    if counts.size and counts.size != array.size:
        raise ValueError(f"{array.size} values but {counts.size} weights")
    if counts.size == 0 or counts.min() == counts.max():
        counts = np.ones(array.size, dtype=np.int64)
    order = np.argsort(array)
    ordered, counts = array[order], counts[order]
    p5 = _quantile(ordered, np.cumsum(counts), 0.05)
    median = _quantile(ordered, np.cumsum(counts), 0.5)
    p95 = _quantile(ordered, np.cumsum(counts), 0.95)
    # Moments about the median: equal values then give exactly their value and a
    # deviation of exactly 0.
    deviations = ordered - median
    total = int(counts.sum())
    # Rounded once: BLAS adds in another order on another CPU, and the last digits
    # differ.
    shift = math.fsum((counts * deviations).tolist()) / total
    squares = math.fsum((counts * (deviations - shift) ** 2).tolist())
    stdev = math.sqrt(squares / (total - 1)) if total > 1 else 0.0
    return Spread(mean=median + shift, median=median, stdev=stdev, p5=p5, p95=p95)


def _quantile(ordered: Floats, upto: Ints, fraction: float) -> float:
    """Linear interpolation between the two nearest values of the list in which value i
    ends at position upto[i].
    """
    position = fraction * (int(upto[-1]) - 1)
    share, place = math.modf(position)
    low, high = ordered[np.searchsorted(upto, [place, math.ceil(position)], side="right")].tolist()
    # numpy.quantile rounds in this way.
    return float(high - (high - low) * (1 - share) if share >= 0.5 else low + (high - low) * share)


def confidence_interval(values: Values) -> Interval | None:
    """95 % confidence interval of the median; below 6 values all that was seen, at its
    own level; None for one.

    It takes two of the sorted values, so it assumes no distribution. How far they lie
    from the middle follows from the effective number of rows: a slow step is often
    followed by a slow one, and n such rows tell less than n.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size < 2:
        return None
    if array.size < MIN_INTERVAL_ROWS:
        # All values lie on one side of the median with the probability that as many
        # coins fall alike.
        level = 1 - 2.0 ** (1 - array.size)
        return Interval(
            low=float(array.min()), high=float(array.max()), level=level, effective_rows=array.size
        )
    effective = effective_rows(array)
    low, high = median_bounds(array, effective, NORMAL_95)
    return Interval(low=low, high=high, effective_rows=effective)


def median_bounds(values: Floats, effective: float, deviations: float) -> tuple[float, float]:
    """The sorted values between which the median lies, so many standard deviations
    wide; at most the whole range.

    The number of values below the true median is binomial (n, 1/2), here by its normal
    approximation.
    """
    rows = values.size
    half = deviations * rows / (2 * math.sqrt(effective))
    first = max(math.floor(rows / 2 - half) - 1, 0)
    last = min(math.ceil(rows / 2 + half), rows - 1)
    ordered = np.partition(values, [first, last])
    return float(ordered[first]), float(ordered[last])


def effective_rows(values: Floats) -> float:
    """n / integrated autocorrelation time, at most n. Uses ranks, so that one outlier
    does not mask autocorrelation.

    The time is 1 + 2 * the sum of the autocorrelations, cut if the sum of two
    neighbours is no longer positive (Geyer, Practical Markov Chain Monte Carlo, 1992:
    initial monotone sequence).
    """
    rows, centred = values.size, ranks(values)
    if not centred.any():
        return float(rows)
    # An FFT, padded so that the end does not meet the beginning.
    spectrum = np.fft.rfft(centred, 1 << (2 * rows - 1).bit_length())
    covariance = np.fft.irfft(spectrum.real**2 + spectrum.imag**2)[:rows]
    correlation = covariance / covariance[0]
    pairs = correlation[: rows // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    positive = pairs[: ends[0]] if ends.size else pairs
    time = 2 * float(np.minimum.accumulate(positive).sum()) - 1
    # An estimate: the last digits of a Fourier transform are another CPU's.
    return float(f"{rows / min(max(time, 1.0), rows):.6g}")


def ranks(values: Floats) -> Floats:
    """Rank of each value, less the mean rank; equal values share one."""
    ordered = np.sort(values)
    twice = np.searchsorted(ordered, values, side="left") + np.searchsorted(
        ordered, values, side="right"
    )
    centred: Floats = twice / 2 - values.size / 2
    return centred


def robust_deviation(values: Floats) -> float:
    """Standard deviation as a normal distribution with this median absolute deviation
    has it; blind to outliers.
    """
    return NORMAL_MAD * float(np.median(np.abs(values - np.median(values))))


def log_chance(size: int, slow: int, rows: int, hits: int) -> float:
    """Log of the chance that of ``rows`` drawn from ``size``, ``slow`` of them slow,
    ``hits`` or more are slow.

    The first term of the hypergeometric tail times a geometric series that bounds the
    others: each term is at most this ratio of the one before it.
    """
    ratio = (rows - hits) * (slow - hits) / ((hits + 1) * (size - slow - rows + hits + 1))
    if ratio >= 1:
        return 0.0
    first = (
        _log_choose(slow, hits) + _log_choose(size - slow, rows - hits) - _log_choose(size, rows)
    )
    return first - math.log1p(-ratio)


def _log_choose(size: int, rows: int) -> float:
    return math.lgamma(size + 1) - math.lgamma(rows + 1) - math.lgamma(size - rows + 1)


def spread_percent(values: Sequence[float]) -> float | None:
    """The range of several values, in percent of their median; None of a single one."""
    if len(values) > 1:
        return 100 * (max(values) - min(values)) / median(values)
    return None


def student_95(freedom: float) -> float:
    """Half width, in standard errors, that holds 95 % of Student's t distribution;
    broken degrees count as the next lower.

    By bisection of the distribution for whole degrees (Abramowitz and Stegun, 26.7.3
    and 26.7.4).
    """
    degrees, low, high = max(math.floor(freedom), 1), 0.0, 100.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < 0.95 else (low, middle)
    return high


def _within(half: float, degrees: int) -> float:
    """The chance that the absolute value of t is at most ``half``."""
    angle = math.atan(half / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for number in range(2 + odd, degrees - 1, 2):
        term *= cosine**2 * (number - 1) / number
        total += term
    if odd:
        return 2 / math.pi * (angle + sine * total)
    return sine * total
