"""Fast, reproducible random draws: raw bits of SFC64 select from integer tables.

The name of a stream of bits is a tuple of numbers (seed, shard, purpose, block), so any
process can make any block in any order. Floating point is used for the tables only; the
draws are integers.
"""

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
"""Standard deviation of the logarithm of a length: most documents are short, one in
fifty exceeds 8 medians."""
ZIPF_LENGTHS_EXPONENT = 1.5
"""Exponent a of P(length > x) ~ x^-a."""


def stream(seed: int, *name: int) -> Callable[[int], Ints]:
    """A function that returns the next ``n`` raw 64-bit words of the stream of this
    name."""
    # numpy guarantees the output of SeedSequence and SFC64; SFC64 is its fastest
    # generator.
    raw = numpy.random.SFC64(numpy.random.SeedSequence(seed, spawn_key=name)).random_raw
    return cast("Callable[[int], Ints]", raw)


@lru_cache(maxsize=2)
def row_pairs(seed: int, *name: int, rows: int, words: int) -> tuple[Ints, Ints]:
    """Two tables of raw words [rows, words]; the XOR of a row of each gives rows * rows
    random rows.

    This is simple tabulation (Zobrist 1970; Patrascu and Thorup, "The Power of Simple
    Tabulation Hashing", 2012), ten times as fast as raw words. Words at different
    places in their rows are independent, so all words of a row are. At one place any
    three words are independent; four that combine two rows of each table have XOR 0.
    """
    both = stream(seed, *name)(2 * rows * words).reshape(2, rows, words)
    return both[0], both[1]


@lru_cache(maxsize=4)
def length_table(kind: str, mean: int, least: int = 1, most: int | None = None) -> Ints:
    """65536 equally likely lengths, int64, clipped to ``least`` and ``most``, with the
    mean ``mean`` (up to rounding).

    ``most``, if given, is at least twice the mean, unless ``kind`` is ``fixed``.
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

    low = 0.0
    high = 2.0 * mean
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if lengths(middle).mean() < mean else (low, middle)
    return lengths(high)


def draw_lengths(table: Ints, raw: Callable[[int], Ints], count: int) -> Ints:
    """``count`` random lengths from ``table``; ``count`` is a multiple of four."""
    lengths: Ints = table[raw(count // 4).view(numpy.uint16)]
    return lengths


class TokenTable(NamedTuple):
    """Table of Walker's alias method: a bucket holds its own token, another token and a
    threshold.

    A draw takes 32 random bits. The low bits choose the bucket, whose number is its own
    token. If the high bits reach the threshold, the draw is the bucket's other token.
    """

    packed: NDArray[numpy.uint32]
    """[buckets]: threshold in the high bits, other token in the low bits; one small
    table stays in the cache."""
    probabilities: NDArray[numpy.float64]
    """[tokens]: exact probabilities of the draws, multiples of 2^-32."""


@lru_cache(maxsize=2)
def token_table(kind: str, exponent: float, count: int) -> TokenTable:
    """The table for tokens 0 to ``count`` - 1, ``uniform`` or ``zipf``: P(t) ~ (t + 1)
    ** -exponent."""
    bits = max(1, (count - 1).bit_length())
    buckets = 1 << bits
    capacity = 1 << (32 - bits)
    weights = [1.0] * count
    if kind != "uniform":
        weights = [math.pow(rank, -exponent) for rank in range(1, count + 1)]
    share = numpy.zeros(buckets, numpy.int64)
    share[:count] = _integer_weights(numpy.array(weights))
    # Each bucket below capacity, from the last to the first, takes what it lacks from
    # the current donor: the last bucket above capacity, until its excess is used up,
    # then the one before it. A donor that gave more than its excess takes the
    # difference from the next donor. The cumulative sums of lacks and excesses match
    # takers with donors.
    own = numpy.full(buckets, capacity)
    other = numpy.arange(buckets)
    small = numpy.flatnonzero(share < capacity)[::-1]
    large = numpy.flatnonzero(share > capacity)[::-1]
    lack = (capacity - share[small]).cumsum()
    excess = (share[large] - capacity).cumsum()
    own[small] = share[small]
    other[small] = large[numpy.searchsorted(excess, lack - (capacity - share[small]), side="right")]
    overdrawn = lack[numpy.searchsorted(lack, excess)] - excess
    own[large] -= overdrawn
    next_donor = numpy.append(large[1:], large[-1:])
    other[large] = numpy.where(overdrawn, next_donor, large)
    # A full bucket would need the threshold ``capacity``, which has one bit too many;
    # its other token is its own, so any threshold works. draw_tokens compares (high
    # bits, bucket) with (threshold, other) as one number, so a tie goes to the bucket
    # if it is below other: its threshold is then one lower.
    threshold = own % capacity - (numpy.arange(buckets) < other)
    return TokenTable((threshold << bits | other).astype(numpy.uint32), share[:count] / 2.0**32)


def _integer_weights(weights: NDArray[numpy.float64]) -> NDArray[numpy.int64]:
    """Whole numbers proportional to ``weights``, each at least 1, with the sum 2^32."""
    exact = weights / weights.sum() * 2.0**32
    whole: NDArray[numpy.int64] = numpy.floor(exact).astype(numpy.int64)
    missing = (1 << 32) - int(whole.sum())
    whole[numpy.argsort(whole - exact, kind="stable")[:missing]] += 1
    whole[0] -= numpy.count_nonzero(whole == 0)
    whole[whole == 0] = 1
    return whole


def draw_tokens(table: TokenTable, bits: NDArray[numpy.uint32], out: Ints) -> None:
    """Put a token for each of ``bits`` [n] into ``out`` [n], integers of any size that
    holds the tokens."""
    mask = numpy.uint32(len(table.packed) - 1)
    # Every index is in range; "wrap" is the fastest mode.
    packed = table.packed.take(bits & mask, mode="wrap")
    # The smaller number has the token in its low bits. A branch would be mispredicted
    # half of the time.
    numpy.bitwise_and(numpy.minimum(bits, packed, out=packed), mask, out=out, casting="unsafe")
