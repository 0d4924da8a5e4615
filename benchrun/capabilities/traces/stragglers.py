"""Slow ranks: the rank that the others wait for is the one that waits least itself."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import NamedTuple

from .collectives import POINT_TO_POINT, Collective

LEAST_SHARE = 0.01
"""Share of the window that a straggler must be behind."""
LEAST_NS = 50_000
"""Nanoseconds per collective by which clocks and launches of healthy ranks differ."""
OWN_WAIT = 0.25
"""A straggler waits at most this share of what the others wait for it."""


class Straggler(NamedTuple):
    """A slow rank."""

    rank: int
    behind: int
    """Time in ns for which all others had nothing but communication to do: then the
    next slow rank would arrive.
    """


def stragglers(
    listed: Sequence[Collective], window_ns: int, exposed_ns: Mapping[int, int]
) -> list[Straggler]:
    """The ranks that others waited for, the slowest first. ``exposed_ns``: exposed
    communication of each rank.

    Waiting that kernels hide costs the others nothing. Stages of a pipeline do
    different work, and wait for each other by design: their messages and the
    collectives over them are left out.
    """
    behind: dict[int, int] = {}
    groups = [each for each in listed if each.name not in POINT_TO_POINT and len(each.waiting) > 1]
    neighbours = list(_neighbours(listed))
    for ranks in dict.fromkeys(each.ranks for each in groups):
        if any(len(pair.intersection(ranks)) > 1 for pair in neighbours):
            continue
        count = 0
        waiting = dict.fromkeys(ranks, 0)
        for each in groups:
            if each.ranks != ranks:
                continue
            count += each.count
            for rank in ranks:
                waiting[rank] += each.waiting[rank]
        slow = min(ranks, key=waiting.__getitem__)
        others = [rank for rank in ranks if rank != slow]
        next_slow = min(waiting[rank] for rank in others)
        seen = min(exposed_ns[rank] for rank in others) - exposed_ns[slow]
        late = min(next_slow - waiting[slow], seen)
        enough = late >= LEAST_SHARE * window_ns and late >= LEAST_NS * count
        if enough and waiting[slow] <= OWN_WAIT * next_slow:
            behind[slow] = behind.get(slow, 0) + late
    return sorted(starmap(Straggler, behind.items()), key=lambda each: -each.behind)


def _neighbours(listed: Sequence[Collective]) -> Iterator[set[int]]:
    """The ranks between which a pipeline sends."""
    for each in listed:
        if each.name in POINT_TO_POINT and each.group != "cp":
            # A group of all ranks does not say who sends to whom.
            yield set(each.ranks if each.group == "world" else each.members)
