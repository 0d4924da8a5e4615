"""Statistics of more values than fit in memory: read again and again, a block at a time.

Up to IN_MEMORY values they are those of ``statistics``; beyond, they are as exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchrun.metrics.statistics import Floats, Ints, Spread, exact_sum, spread

IN_MEMORY = 1 << 19
"""Values."""
_BITS = 16
"""Of a value that one more reading settles."""

Stream = Callable[[], Iterable[tuple[Floats, NDArray[Any]]]]
"""Gives blocks of positive values and their weights, the same ones at every call."""


def spread_of(stream: Stream) -> Spread | None:
    """``statistics.spread`` of a stream; None of an empty one."""
    few = _in_memory(stream)
    if few is not None:
        return spread(*few) if len(few[0]) else None
    blocks = [(values.min(), values.max(), weights.min(), weights.max()) for values, weights in stream() if len(values)]
    even = min(low for _, _, low, _ in blocks) == max(high for _, _, _, high in blocks)

    def weighted() -> Iterable[tuple[Floats, NDArray[Any]]]:
        return ((values, np.ones_like(weights)) if even else (values, weights) for values, weights in stream())

    total = sum(int(weights.sum(dtype=np.int64)) for _, weights in weighted())
    p5, median, p95 = _quantiles(weighted, total, (0.05, 0.5, 0.95))
    # Moments about the median, then about the mean, as in memory.
    shift = exact_sum(weights * (values - median) for values, weights in weighted()) / total
    squares = exact_sum(weights * (values - median - shift) ** 2 for values, weights in weighted())
    return Spread(mean=median + shift, median=median, stdev=math.sqrt(squares / (total - 1)), p5=p5, p95=p95)


def median_of(stream: Stream) -> float | None:
    """The median of a stream, without weights; None of an empty one."""
    few = _in_memory(stream)
    if few is not None:
        return float(np.median(few[0])) if len(few[0]) else None

    def even() -> Iterable[tuple[Floats, Ints]]:
        return ((values, np.ones(len(values), np.int64)) for values, _ in stream())

    return _quantiles(even, sum(len(values) for values, _ in stream()), (0.5,))[0]


def _in_memory(stream: Stream) -> tuple[Floats, Ints] | None:
    """All values and weights, if they are few."""
    values, weights, count = [np.empty(0)], [np.empty(0, np.int32)], 0
    for block, weight in stream():
        count += len(block)
        if count > IN_MEMORY:
            return None
        values.append(block)
        weights.append(weight)
    return np.concatenate(values), np.concatenate(weights)


def _quantiles(stream: Stream, total: int, fractions: Sequence[float]) -> list[float]:
    """By linear interpolation between the two nearest values of the list in which each stands as often as it weighs."""
    positions = [fraction * (total - 1) for fraction in fractions]
    places = sorted({place for position in positions for place in (math.floor(position), math.ceil(position))})
    at = dict(zip(places, _selected(stream, places), strict=True))
    low, high = ([at[end(position)] for position in positions] for end in (math.floor, math.ceil))
    return [
        below + (above - below) * (position - math.floor(position))
        for below, above, position in zip(low, high, positions, strict=True)
    ]


def _selected(stream: Stream, places: Sequence[int]) -> list[float]:
    """The values at these places of the sorted list.

    The bits of positive numbers, taken as whole numbers, are in the numbers' order. Each reading counts how many values
    fall into each of 2^_BITS equal parts of the range in which a place is known to lie, and leaves one part of it.
    """
    ranges = dict.fromkeys(places, (0, (1 << 63) - 1, 0))
    """Place -> the lowest and the highest bits that it can have, and how many values are below these."""
    while open_ranges := {known for known in ranges.values() if known[0] < known[1]}:
        shifts = {known: max((known[1] - known[0]).bit_length() - _BITS, 0) for known in open_ranges}
        counts = {known: np.zeros((1 << _BITS) + 1, np.int64) for known in open_ranges}
        for values, weights in stream():
            bits = np.ascontiguousarray(values).view(np.int64)
            for known in open_ranges:
                inside = (bits >= known[0]) & (bits <= known[1])
                parts = (bits[inside] - known[0]) >> shifts[known]
                counts[known] += np.bincount(parts, weights[inside], len(counts[known])).astype(np.int64)
        for place, known in ranges.items():
            if known in open_ranges:
                low, high, below = known
                upto = below + np.cumsum(counts[known])
                part = int(np.searchsorted(upto, place, side="right"))
                first = low + (part << shifts[known])
                last = min(high, first + (1 << shifts[known]) - 1)
                ranges[place] = first, last, int(upto[part - 1]) if part else below
    return [float(np.int64(ranges[place][0]).view(np.float64)) for place in places]
