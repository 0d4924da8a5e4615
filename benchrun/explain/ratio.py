"""The ratio of two runs' step times, with an interval that holds for few steps too."""

import math

import numpy as np

from benchrun.metrics.statistics import (
    MIN_INTERVAL_ROWS,
    Floats,
    Interval,
    confidence_interval,
    effective_rows,
    student_95,
)

OF_MEDIAN = math.sqrt(math.pi / 2)
"""Standard error of the median over that of the mean, in many values of a normal distribution; in few it is less."""


def ratio_interval(a: Floats, b: Floats) -> tuple[Interval | None, str]:
    """95 % interval of the median of ``b`` over that of ``a``, and how it was computed; None for fewer than two steps.

    From six independent steps on it takes the intervals of both medians, which assume no distribution; of fewer it is
    Welch's, on the logarithms.
    """
    if min(len(a), len(b)) < 2:
        return None, f"no interval: {len(a)} and {len(b)} steps"
    independent = _independent(a), _independent(b)
    few = min(independent) < MIN_INTERVAL_ROWS
    ratio = float(np.median(b) / np.median(a))
    down, up = _of_means(a, b, independent) if few else _of_medians(a, b)
    interval = Interval(low=ratio * math.exp(-down), high=ratio * math.exp(up), effective_rows=min(independent))
    way = "Student's t" if few else "order of the steps, which assumes no distribution"
    steps = (
        f"{len(a)} and {len(b)} steps that tell as much as {independent[0]:.3g} and {independent[1]:.3g} independent"
    )
    return interval, f"{steps}; {way}"


def _independent(times: Floats) -> float:
    """Independent steps that tell as much; of too few to see how they hang together all of them count."""
    return effective_rows(times) if len(times) >= MIN_INTERVAL_ROWS else float(len(times))


def _of_medians(a: Floats, b: Floats) -> tuple[float, float]:
    """How far the logarithm of the ratio may be lower and higher."""
    one, other = confidence_interval(a), confidence_interval(b)
    assert one is not None
    assert other is not None
    first, second = float(np.median(a)), float(np.median(b))
    down = math.hypot(math.log(second / other.low), math.log(one.high / first))
    up = math.hypot(math.log(other.high / second), math.log(first / one.low))
    return down, up


def _of_means(a: Floats, b: Floats, independent: tuple[float, float]) -> tuple[float, float]:
    """The same by Welch's t of the logarithms, for medians, which scatter more than means."""
    squares = [float(np.var(np.log(each), ddof=1)) / count for each, count in zip((a, b), independent, strict=True)]
    total = sum(squares)
    if total == 0:
        return 0.0, 0.0
    parts = (square**2 / max(count - 1, 1) for square, count in zip(squares, independent, strict=True))
    half = OF_MEDIAN * student_95(total**2 / sum(parts)) * math.sqrt(total)
    return half, half
