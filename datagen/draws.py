"""Random numbers that depend only on what they are for: the same on every machine, whoever draws them, in any order.

Philox counts instead of stepping, so block 7 is drawn without drawing 0 to 6. Only its raw 64-bit words are used: numpy
promises that they stay the same from release to release, which it does not of the methods of its Generator.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# What numbers are drawn for, so that no two purposes share them.
LANGUAGE, SAMPLES, ORDER = 1, 2, 3


def stream(seed: int, purpose: int, block: int = 0) -> np.random.Philox:
    """The raw numbers of one block; seed and block are below 2**64."""
    key = np.array([seed, purpose], dtype=np.uint64)
    return np.random.Philox(key=key, counter=np.array([0, 0, 0, block], dtype=np.uint64))


def uniforms(bits: np.random.Philox, count: int) -> Floats:
    """The next ``count`` numbers in [0, 1), 53 bits each."""
    raw: NDArray[np.uint64] = bits.random_raw(count)
    return (raw >> np.uint64(11)) * 2.0**-53


def pick(cumulative: Floats, numbers: Floats) -> NDArray[np.int64]:
    """One index a number: i as often as ``cumulative[i] - cumulative[i - 1]`` says. The last entry must be 1."""
    return np.searchsorted(cumulative, numbers, side="right")


def permutation(seed: int, purpose: int, count: int) -> NDArray[np.int64]:
    """The numbers below ``count`` in an order of the seed."""
    return np.argsort(stream(seed, purpose).random_raw(count), kind="stable")
