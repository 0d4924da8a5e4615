"""Slow ranks: the rank that the others wait for is the one that waits least itself."""

from collections.abc import Sequence
from typing import NamedTuple

from benchrun.trace.collectives import POINT_TO_POINT, Collective

LEAST_SHARE = 0.01
"""Of the window: a rank that is less behind is no straggler."""
LEAST_NS = 50_000
"""Per collective: clocks and launches of healthy ranks differ as much."""
OWN_WAIT = 0.25
"""A straggler waits at most this share of what the others wait for it."""


class Straggler(NamedTuple):
    """A slow rank."""

    rank: int
    behind: int
    """How long all others waited for it, in ns: then the next slow rank would arrive."""


def stragglers(listed: Sequence[Collective], window_ns: int) -> list[Straggler]:
    """The ranks that others waited for, the slowest first.

    Point-to-point messages are left out: a stage of a pipeline waits for its neighbour by design.
    """
    behind: dict[int, int] = {}
    groups = [each for each in listed if each.name not in POINT_TO_POINT and len(each.waiting) > 1]
    for ranks in dict.fromkeys(each.ranks for each in groups):
        own = [each for each in groups if each.ranks == ranks]
        waiting = {rank: sum(each.waiting[rank] for each in own) for rank in ranks}
        count = sum(each.count for each in own)
        slow = min(waiting, key=lambda rank: waiting[rank])
        next_slow = min(value for rank, value in waiting.items() if rank != slow)
        late = next_slow - waiting[slow]
        enough = late >= LEAST_SHARE * window_ns and late >= LEAST_NS * count
        if enough and waiting[slow] <= OWN_WAIT * next_slow:
            behind[slow] = behind.get(slow, 0) + late
    return sorted((Straggler(*item) for item in behind.items()), key=lambda each: -each.behind)
