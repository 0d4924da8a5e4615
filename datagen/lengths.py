"""How long samples are: distributions over whole numbers between two bounds, with exactly the mean that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from benchrun.errors import UserError
from datagen.draws import Floats

Lengths = Literal["fixed", "lognormal", "zipf"]
SIGMA = 1.0
"""Of the lognormal's logarithm: its mean is 1.65 times its median."""


def probabilities(kind: Lengths, mean: float, least: int, most: int) -> Floats:
    """The probability of each length from ``least`` to ``most``.

    ``fixed``: all of them ``mean``. ``lognormal``: the density of exp(Normal(mu, SIGMA)) at each length. ``zipf``: as
    length ** -s. mu and s are those that give the mean within the bounds. UserError if none does.
    """
    sizes = np.arange(least, most + 1, dtype=np.float64)
    if not least <= mean <= most:
        raise _unreachable(kind, mean, least, most)
    if kind == "fixed":
        return (sizes == round(mean)).astype(np.float64)
    logs = np.log(sizes)

    def lognormal(mu: float) -> Floats:
        return _normalised(-((logs - mu) ** 2) / (2 * SIGMA**2) - logs)

    def zipf(exponent: float) -> Floats:
        return _normalised(-exponent * logs)

    # A zipf of exponent 0 is flat: a greater mean would need rare short samples.
    family, low, high = (lognormal, -40.0, float(logs[-1])) if kind == "lognormal" else (zipf, 40.0, 0.0)
    smallest, greatest = float(family(low) @ sizes), float(family(high) @ sizes)
    if not smallest <= mean <= greatest:
        raise _unreachable(kind, mean, smallest, greatest)
    return family(_bisect(lambda parameter: float(family(parameter) @ sizes), mean, low, high))


def cumulative(weights: Floats) -> Floats:
    """What ``draws.pick`` takes: the sums of the weights, ending in exactly 1."""
    sums = np.cumsum(weights)
    return sums / sums[-1]


def _normalised(log_weights: Floats) -> Floats:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def _bisect(mean_of: Callable[[float], float], mean: float, low: float, high: float) -> float:
    """Where ``mean_of``, which grows from ``low`` to ``high``, is ``mean``."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_of(middle) < mean else (low, middle)
    return (low + high) / 2


def _unreachable(kind: str, mean: float, smallest: float, greatest: float) -> UserError:
    return UserError(
        f"no {kind} distribution of lengths has the mean {mean:g} here",
        hint=f"--mean-length between {smallest:.4g} and {greatest:.4g}",
    )
