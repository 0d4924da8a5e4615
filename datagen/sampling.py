"""Random draws that are fast, and the same everywhere: integer tables made once, then raw bits of SFC64.

A stream of bits is named by numbers (seed, shard, purpose, block), so any block can be made by itself, in any order, by
any process. Floating point only makes the tables; what is drawn from them are integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple, cast

import numpy
from numpy.typing import NDArray

Ints = NDArray[Any]

QUANTILES = 1 << 16
LOGNORMAL_SIGMA = 1.0
"""Of the logarithm of a length: most documents are short, one in fifty is eight times the median."""
ZIPF_LENGTHS_EXPONENT = 1.5
"""The chance of a document longer than x falls as x to the power of minus this."""


def stream(seed: int, *name: int) -> Callable[[int], Ints]:
    """A function that gives the next ``n`` raw 64-bit words of the stream of this name."""
    # A published algorithm, kept stable by numpy; SFC64 is its fastest generator.
    raw = numpy.random.SFC64(numpy.random.SeedSequence(seed, spawn_key=name)).random_raw
    return cast("Callable[[int], Ints]", raw)


def row_pairs(seed: int, *name: int, rows: int, words: int) -> tuple[Ints, Ints]:
    """Two tables of raw words [rows, words]: a row of one XOR a row of the other, in all pairs, are rows * rows rows.

    Simple tabulation (Zobrist 1970; Patrascu and Thorup, "The Power of Simple Tabulation Hashing", 2012), because an
    XOR takes a tenth of the time of a raw word. Words at different places in their rows are independent, so all of one
    row are. At one place any three are, but not four at the crossings of two rows of each table: their XOR is 0.
    """
    both = stream(seed, *name)(2 * rows * words).reshape(2, rows, words)
    return both[0], both[1]


@lru_cache(maxsize=4)
def length_table(kind: str, mean: int, least: int = 1, most: int | None = None) -> Ints:
    """65536 equally likely lengths, int64, from ``least`` to ``most``, whose mean is ``mean`` (to its rounding).

    What the distribution has beyond a bound is put there. ``most``, if given, is at least twice the mean, or ``fixed``.
    """
    if kind == "fixed":
        return numpy.full(QUANTILES, mean, dtype=numpy.int64)
    middles = (numpy.arange(QUANTILES) + 0.5) / QUANTILES
    if kind == "lognormal":
        normal = NormalDist()
        shape = numpy.array([math.exp(LOGNORMAL_SIGMA * normal.inv_cdf(float(u))) for u in middles])
    else:
        shape = numpy.array([math.pow(1 - u, -1 / ZIPF_LENGTHS_EXPONENT) for u in middles.tolist()])

    def lengths(scale: float) -> Ints:
        return numpy.clip(numpy.rint(shape * scale), least, most).astype(numpy.int64)

    low, high = 0.0, 2.0 * mean
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if lengths(middle).mean() < mean else (low, middle)
    return lengths(high)


def draw_lengths(table: Ints, raw: Callable[[int], Ints], count: int) -> Ints:
    """``count`` lengths (a multiple of four)."""
    lengths: Ints = table[raw(count // 4).view(numpy.uint16)]
    return lengths


class TokenTable(NamedTuple):
    """Walker's alias method: a bucket each, and in each bucket two tokens, of which a threshold decides.

    A token takes 32 random bits: the low ones choose the bucket, whose own token has its number; where the high ones
    reach the threshold, the bucket's other token is taken.
    """

    bits: int
    """That choose a bucket."""
    packed: NDArray[numpy.uint32]
    """[buckets]: threshold in the high bits, other token in the low ones. One small table stays in the cache."""
    probabilities: NDArray[numpy.float64]
    """[tokens]: what is really drawn, in steps of 2^-32."""


@lru_cache(maxsize=2)
def token_table(kind: str, exponent: float, count: int) -> TokenTable:
    """For tokens 0 to ``count`` - 1; in ``zipf``, token t is drawn as often as (t + 1) ** -exponent says."""
    bits = max(1, (count - 1).bit_length())
    buckets, capacity = 1 << bits, 1 << (32 - bits)
    weights = [1.0] * count if kind == "uniform" else [math.pow(rank, -exponent) for rank in range(1, count + 1)]
    left = numpy.zeros(buckets, numpy.int64)
    left[:count] = _integer_weights(numpy.array(weights))
    probabilities = left[:count] / 2.0**32
    # Buckets with too little, from the last to the first, each take what they lack from the donor whose turn it is: the
    # last of those with too much, until it has given that away, then the one before. A donor that has given more than
    # that takes the difference from the next donor. Sums of all that is lacking and of all that is given say who meets.
    own, other = numpy.full(buckets, capacity), numpy.arange(buckets)
    small, large = numpy.flatnonzero(left < capacity)[::-1], numpy.flatnonzero(left > capacity)[::-1]
    lacking, given = (capacity - left[small]).cumsum(), (left[large] - capacity).cumsum()
    own[small] = left[small]
    other[small] = large[numpy.searchsorted(given, lacking - (capacity - left[small]), side="right")]
    too_much = lacking[numpy.searchsorted(lacking, given)] - given
    own[large] -= too_much
    next_donor = numpy.append(large[1:], large[-1:])
    other[large] = numpy.where(too_much, next_donor, large)
    # A full bucket needs a threshold of ``capacity``, one too many: its other token is its own, and any will do. Random
    # bits (high, b) are compared with (threshold, other) as one number: b < other wins a tie, and so gets one less.
    threshold = own % capacity - (numpy.arange(buckets) < other)
    return TokenTable(bits, (threshold << bits | other).astype(numpy.uint32), probabilities)


def _integer_weights(weights: NDArray[numpy.float64]) -> NDArray[numpy.int64]:
    """Whole numbers in proportion to ``weights``, at least 1, whose sum is 2^32."""
    exact = weights / weights.sum() * 2.0**32
    whole: NDArray[numpy.int64] = numpy.floor(exact).astype(numpy.int64)
    missing = (1 << 32) - int(whole.sum())
    whole[numpy.argsort(whole - exact, kind="stable")[:missing]] += 1
    whole[0] -= numpy.count_nonzero(whole == 0)
    whole[whole == 0] = 1
    return whole


class TokenDrawer:
    """Draws tokens from a table. Its buffers stay: fresh memory costs a page fault every 4 KB, as long as the draws."""

    def __init__(self, table: TokenTable, most: int) -> None:
        """``most`` tokens at a time."""
        self._table = table.packed
        self._mask = numpy.uint32(len(table.packed) - 1)
        self._buckets = numpy.empty(most, numpy.intp)
        self._other = numpy.empty(most, numpy.uint32)

    def draw(self, bits: NDArray[numpy.uint32], out: Ints) -> None:
        """A token for each of ``bits`` [n] into ``out`` [n], integers of any size that the tokens fit."""
        buckets, target = self._buckets[: len(bits)], out.view(f"u{out.itemsize}")
        other = target if out.itemsize == 4 else self._other[: len(bits)]
        numpy.bitwise_and(bits, self._mask, out=buckets)
        # Every index is in range; of the ways to say so, "wrap" is checked the fastest.
        self._table.take(buckets, mode="wrap", out=other)
        # Whichever is smaller has the token in its low bits: no branch, which would be mispredicted half of the time.
        numpy.minimum(bits, other, out=other)
        numpy.bitwise_and(other, self._mask, out=target, casting="unsafe")
