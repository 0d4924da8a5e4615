"""Runs that are copies of each other: their steps took the same times, to the last
digit.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

from benchrun.logs import Log

T = TypeVar("T")
FEWEST = 3
"""Equal times that make a copy."""
BY_CHANCE = 0.25
"""Share of the steps that may agree in any order: times of few digits tell nothing."""


def times_of(log: Log) -> dict[int, float]:
    """Number of a step -> its time in s, or the rate that the log has in its place."""
    names = ("step", "step_time_s", "tokens_per_s_per_gpu")
    rows = zip(*(column.tolist() for column in log.distinct.columns(*names)), strict=True)
    found = {}
    for step, time_s, rate in rows:
        if max(time_s, rate) > 0:
            found[step] = time_s if time_s > 0 else rate
    return found


def is_copy(one: Mapping[int, float], other: Mapping[int, float]) -> bool:
    """Whether more than half of the steps of two runs took the same time, and not by
    chance.

    One changed digit, another name, or a log that was cut make no run of a copy.
    """
    common = one.keys() & other.keys()
    shorter = min(len(one), len(other))
    equal = sum(one[step] == other[step] for step in common)
    if equal < FEWEST or 2 * equal <= shorter:
        return False
    counts = Counter(one[step] for step in common), Counter(other[step] for step in common)
    in_any_order = sum(times * counts[1][value] for value, times in counts[0].items()) / len(common)
    return in_any_order <= max(BY_CHANCE * len(common), 1)


def without_copies(runs: Sequence[T], times: Sequence[Mapping[int, float]]) -> list[T]:
    """The runs, of which each copy is left out, in their order; ``times``: those of
    each run.
    """
    firsts: list[int] = []
    for number, own in enumerate(times):
        if not any(is_copy(times[earlier], own) for earlier in firsts):
            firsts.append(number)
    return [runs[number] for number in firsts]
