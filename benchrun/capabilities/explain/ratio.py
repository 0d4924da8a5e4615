"""The ratio of two runs' step times, with an interval that holds for few steps too."""

import math

import numpy as np

from benchrun.measure.ratio import distances, of_steps
from benchrun.measure.statistics import Floats, Interval, confidence_interval, spread


def ratio_interval(a: Floats, b: Floats) -> tuple[Interval | None, str]:
    """95 % interval of the median of ``b`` over that of ``a``, and how it was computed; None for fewer than two steps.

    From six independent steps on it takes the intervals of both medians, which assume no distribution; of fewer it is
    Welch's, on the logarithms.
    """
    one, other = confidence_interval(a), confidence_interval(b)
    if one is None or other is None:
        return None, f"no interval: {len(a)} and {len(b)} steps"
    first, second = of_steps(spread(a), one), of_steps(spread(b), other)
    down, up = distances(first, second)
    ratio = float(np.median(b) / np.median(a))
    independent = one.effective_rows, other.effective_rows
    interval = Interval(low=ratio * math.exp(-down), high=ratio * math.exp(up), effective_rows=min(independent))
    by_order = first.bounds and second.bounds
    way = "order of the steps, which assumes no distribution" if by_order else "Student's t"
    steps = (
        f"{len(a)} and {len(b)} steps that tell as much as {independent[0]:.3g} and {independent[1]:.3g} independent"
    )
    return interval, f"{steps}; {way}"
