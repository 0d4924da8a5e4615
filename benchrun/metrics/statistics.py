"""The window of steps that counts, and the statistics over it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from benchrun.model import Frozen

MIN_WARMUP_ROWS = 5
WARMUP_FRACTION = 0.1


class Spread(Frozen):
    """Statistics of one quantity over the window."""

    mean: float
    median: float
    stdev: float
    """Sample standard deviation; 0 for a single value."""
    p5: float
    p95: float


def warmup_rows(rows: int) -> int:
    """Rows dropped at the start: 5 or a tenth, whichever is more, but never more than half of a short log.

    Compilation, memory pools and CUDA graphs make the first steps slow; five rows outlast them in every framework seen.
    """
    return min(max(MIN_WARMUP_ROWS, math.ceil(WARMUP_FRACTION * rows)), rows // 2)


def spread(values: Sequence[float], weights: Sequence[int] | None = None) -> Spread:
    """Statistics of ``values``; a value of weight w counts as w equal ones (a row that averages w steps)."""
    if weights and len(set(weights)) > 1:
        values = [value for value, weight in zip(values, weights, strict=True) for _ in range(weight)]
    ordered = sorted(values)
    return Spread(
        mean=statistics.fmean(ordered),
        median=statistics.median(ordered),
        stdev=statistics.stdev(ordered) if len(ordered) > 1 else 0.0,
        p5=percentile(ordered, 0.05),
        p95=percentile(ordered, 0.95),
    )


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Linear interpolation between the two nearest of ``ordered`` values."""
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
