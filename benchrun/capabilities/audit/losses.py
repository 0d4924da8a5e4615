"""GPU-hours that jobs lost: to nodes and days, as fitted, with intervals; to failures, job
by job.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from benchrun.measure.statistics import Floats

from .effects import CLIP, Z90, Effects
from .model import Range
from .windows import Jobs

HEALTHY = 0.006
"""Standard deviation of healthy nodes that is assumed, before their jobs tell."""


@dataclass(frozen=True)
class Slowed:
    """What slow nodes and days cost."""

    fault: Floats
    """GPU-hours of each job."""
    day: Floats
    total_fault: Range
    total_day: Range


def slowed(jobs: Jobs, effects: Effects, hours: Floats) -> Slowed:
    """The part of ``hours``, each job's GPU-hours in steps that count, that slow nodes
    and days took.
    """
    days = jobs.days @ effects.day
    size, slope, variance = _by_size(jobs, effects)
    slow_by = np.maximum(effects.slow_by + slope * size, 0.0)
    both = np.maximum(slow_by + days, 1e-12)
    lost = -hours * np.expm1(-both)
    fault, day = lost * slow_by / both, lost * days / both
    known = len(effects.known_days)
    kept = hours * np.exp(-both)
    is_slow = effects.day[effects.known_days] > 0
    by_day = kept @ jobs.days[:, effects.known_days] * is_slow
    by_spell = np.zeros(len(effects.spells))
    shifted = 0.0
    for place, spell in enumerate(effects.spells):
        by_spell[place] = kept[effects.blamed == place].sum()
        shifted += _shift(jobs, effects, place, hours) * float(np.expm1(-spell.effect)) ** 2
    covariance = effects.covariance
    of_days = float(by_day @ covariance[:known, :known] @ by_day)
    of_days += effects.day_spread**2 * float(by_day @ by_day)
    of_spells = float(by_spell @ covariance[known:, known:] @ by_spell) + shifted
    of_spells += effects.node_spread**2 * float(by_spell @ by_spell)
    of_spells += variance * float(kept @ size) ** 2
    return Slowed(fault, day, _range(fault.sum(), of_spells), _range(day.sum(), of_days))


def _by_size(jobs: Jobs, effects: Effects) -> tuple[Floats, float, float]:
    """Part of a slowness that the size of a job adds: of many healthy nodes the slowest is
    slower, so that a slow one adds less. Returns the size of each job on a slow node, as
    the expected slowest of as many normal values, what one unit adds, and its variance.
    """
    slowest = NormalDist().inv_cdf
    count = [max(len(each), 1) for each in jobs.nodes]
    size = np.array([slowest((each - 0.375) / (each + 0.25)) for each in count])
    size[effects.blamed < 0] = 0.0
    for place in np.unique(effects.blamed[effects.blamed >= 0]):
        mine = effects.blamed == place
        size[mine] -= size[mine].mean()
    off = jobs.log_time - effects.level - jobs.days @ effects.day - effects.slow_by
    off = np.clip(off, -CLIP * effects.level_error, CLIP * effects.level_error)
    weight = size * np.nan_to_num(effects.level_error**-2.0)
    known = float(weight @ size) + HEALTHY**-2
    return size, min(float(weight @ np.nan_to_num(off)) / known, 0.0), 1 / known


def _shift(jobs: Jobs, effects: Effects, place: int, hours: Floats) -> float:
    """Variance of the hours of a spell, because its first job is not sure."""
    spell = effects.spells[place]
    mine = effects.jobs_of[spell.node]
    own = np.isin(effects.blamed[mine], (-1, place))
    after = np.cumsum((hours[mine] * own)[: spell.last][::-1])[::-1]
    chances = np.exp(spell.odds[: len(after)])
    chances = chances / chances.sum()
    middle = float(chances @ after)
    return float(chances @ (after - middle) ** 2)


def _range(value: float, variance: float) -> Range:
    half = Z90 * float(np.sqrt(max(variance, 0.0)))
    return Range(median=value, low=max(value - half, 0.0), high=value + half)
