"""Collectives across ranks: transfer against waiting, bus bandwidth.

A collective's kernel starts when its own rank arrives, and ends on all ranks together.
So the shortest duration over the ranks is the transfer, and what a rank's kernel takes
beyond that is waiting for the others. Durations alone are compared, so clocks of
different hosts do not matter.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.model.costs import bus_factor

from .events import DeviceKind, Events, Message, RankTrace
from .kernels import CLASSES, Classified
from .messages import collective_name
from .window import launching_calls

POINT_TO_POINT = frozenset({"send", "recv", "send_recv"})
GROUPS = (
    # The first that fits the description of a process group. Order matters: EXPERT_DATA
    # before DATA.
    (re.compile(r"expert.*(data|dp)", re.I), "expert_dp"),
    (re.compile(r"expert.*tensor.*pipeline", re.I), None),
    (re.compile(r"expert.*model|(^|_)ep($|_)", re.I), "ep"),
    (re.compile(r"expert.*tensor|etp", re.I), "etp"),
    (re.compile(r"tensor_and_|model_and_", re.I), None),
    (re.compile(r"tensor|(^|_)tp($|_)", re.I), "tp"),
    (re.compile(r"context|(^|_)cp($|_)", re.I), "cp"),
    (re.compile(r"pipeline|(^|_)pp($|_)", re.I), "pp"),
    (re.compile(r"fsdp|shard", re.I), "fsdp"),
    (re.compile(r"data_parallel|(^|_)dp($|_)", re.I), "dp"),
    (re.compile(r"default_pg", re.I), "world"),
)
LABELS = ("tp", "cp", "pp", "ep", "etp", "dp", "expert_dp", "fsdp", "world")
ALL_TO_ALL = re.compile(r"all_?-?to_?-?all", re.I)
"""Name of a range in which the sends and receives that are launched are an all-to-all.
"""
PAIR = 2
"""Point-to-point messages of a longer pipeline go to either neighbour, and cannot be
paired in order.
"""
TOGETHER_NS = 200_000
"""Ends of one collective on ranks of one host lie closer together than this, clock
errors included.
"""
FEWEST = 3
"""Kernels that show a constant difference."""
MOST_SKIPPED = 64
"""Collectives by which the beginnings of two ranks' traces may differ."""
TOGETHER_SHARE = 0.25
"""Share of its median duration within which they are together too."""


class Occurrences(NamedTuple):
    """Kernels of one kind of collective on one rank, in their order."""

    name: str
    group: str | None
    ranks: tuple[int, ...] | None
    """Ranks of the group as the trace states them."""
    ranks_of_group: int | None
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    bytes: NDArray[np.int64]
    """The whole tensor; -1 if the trace does not state it."""


@dataclass(frozen=True)
class Collective:
    """One kind of collective of one group; times in ns."""

    name: str
    group: str | None
    ranks: tuple[int, ...]
    """Ranks whose traces are here."""
    members: tuple[int, ...]
    """Ranks of the group, as the trace states them; else ``ranks``."""
    ranks_of_group: int | None
    count: int
    """Per rank."""
    bytes: int | None
    """Bytes of all occurrences on one rank."""
    duration: dict[int, int]
    """Sum by rank."""
    transfer: int | None
    """Sum; None if only one rank's trace is here."""
    waiting: dict[int, int]
    """Sum by rank; empty if the transfer is unknown."""

    @property
    def bus_gb_per_s(self) -> float | None:
        """Bus bandwidth of the transfers in GB/s."""
        ranks = self.ranks_of_group or len(self.ranks)
        if not self.bytes or not self.transfer:
            return None
        return self.bytes / self.transfer * bus_factor(self.name, ranks)


def collectives(parts: Sequence[tuple[RankTrace, Classified]]) -> list[Collective]:
    """Every kind of collective, by group; those that take longest first."""
    alike: dict[tuple[object, ...], list[tuple[int, Occurrences]]] = {}
    for trace, classes in parts:
        for key, kind in _occurrences(trace, classes):
            alike.setdefault(key, []).append((trace.rank or 0, kind))
    groups = _known_groups([trace for trace, _ in parts])
    listed = []
    for kinds in alike.values():
        while kinds:
            chosen = _group_of(kinds, groups, len(parts))
            taken = {id(kind) for kind in chosen.values()}
            kinds = [each for each in kinds if id(each[1]) not in taken]
            stated = next(iter(chosen.values())).group
            listed.append(_measured(chosen, stated or groups.get(tuple(sorted(chosen)))))
    return sorted(_joined(listed), key=lambda each: -sum(each.duration.values()))


def _known_groups(traces: Sequence[RankTrace]) -> dict[tuple[int, ...], str | None]:
    """Ranks of each process group and its label: of several groups with the same ranks
    the first in LABELS.
    """
    groups: dict[tuple[int, ...], str | None] = {}
    for trace in traces:
        for group in trace.groups:
            if len(group.ranks) < 2:
                continue
            names = filter(None, (groups.get(group.ranks), label(group.description)))
            groups[group.ranks] = min(names, key=LABELS.index, default=None)
    return groups


def label(description: str) -> str | None:
    """benchrun's name of a process group: tp, dp, ...; None for one that joins several
    dimensions.
    """
    for pattern, name in GROUPS:
        if pattern.search(description):
            return name
    return None


def _occurrences(
    trace: RankTrace, classes: Classified
) -> Iterator[tuple[tuple[object, ...], Occurrences]]:
    """Kinds of collectives, each with a key that is the same on all ranks of a group.

    Without messages a kind is a kernel of one stream; streams have other numbers on
    other ranks.
    """
    chosen = (classes.number == CLASSES.index("communication")) & (
        classes.events.kind == DeviceKind.KERNEL
    )
    events = classes.events.where(chosen)
    messages = [trace.messages.get(link) for link in events.link.tolist()]
    kinds: dict[tuple[object, ...], list[int]] = {}
    named = zip(messages, _texts(trace, events), events.place.tolist(), strict=True)
    for index, (message, text, stream) in enumerate(named):
        kind: tuple[object, ...] = (text, stream)
        if message:
            kind = (message.name, message.group, message.ranks)
        kinds.setdefault(kind, []).append(index)
    for kind, indices in kinds.items():
        own = [messages[index] for index in indices]
        if first := own[0]:
            yield kind, _occurrence(first.name, trace, events, indices, own)
        else:
            text = str(kind[0])
            yield (
                (text,),
                _occurrence(collective_name(text) or "other", trace, events, indices, own),
            )


def _texts(trace: RankTrace, events: Events) -> list[str]:
    """Texts that name the collective of each kernel: the kernel, or of sends and
    receives a range of an all-to-all.
    """
    texts = trace.texts(events)
    numbers = [number for number, name in enumerate(trace.names) if ALL_TO_ALL.search(name)]
    ranges = trace.ranges.where(np.isin(trace.ranges.name, numbers))
    calls = trace.calls
    if calls is None or not len(ranges):
        return texts
    for index, call in enumerate(launching_calls(events, calls).tolist()):
        if call < 0 or collective_name(texts[index]) != "send_recv":
            continue
        moment = calls.times.start[call]
        around = (
            (ranges.times.start <= moment)
            & (moment < ranges.times.end)
            & (ranges.place == calls.place[call])
        )
        if around.any():
            texts[index] = "all_to_all"
    return texts


def _occurrence(
    name: str, trace: RankTrace, events: Events, indices: list[int], messages: list[Message | None]
) -> Occurrences:
    """``indices``: its kernels among ``events``, each with its message."""
    first = messages[0]
    sizes = np.full(len(messages), -1, np.int64)
    for place, message in enumerate(messages):
        if message and message.bytes is not None:
            sizes[place] = message.bytes
    return Occurrences(
        name=name,
        group=_stated_group(first, trace),
        ranks=first.ranks if first else None,
        ranks_of_group=first.group_size if first else None,
        start=events.times.start[indices],
        end=events.times.end[indices],
        bytes=sizes,
    )


def _stated_group(message: Message | None, trace: RankTrace) -> str | None:
    """The label of a message's group; its own description if no label fits."""
    if message is None or message.group is None:
        return None
    descriptions = {group.name: group.description for group in reversed(trace.groups)}
    description = descriptions.get(message.group, message.group)
    return label(description) or description


def _group_of(
    kinds: list[tuple[int, Occurrences]], groups: dict[tuple[int, ...], str | None], traces: int
) -> dict[int, Occurrences]:
    """The occurrences of one group, by rank, with the first of ``kinds``.

    The group is the one that the trace states; else the largest whose kernels end
    together; else that rank alone. Of more than two ``traces`` without groups it is
    unknown who sends to whom: neighbours in a stage end together too.
    """
    rank, own = kinds[0]
    if own.ranks is not None:
        # A send of one rank is a recv of another, so messages are not paired.
        return {rank: own} if own.name in POINT_TO_POINT else dict(kinds)
    others: dict[int, list[Occurrences]] = {}
    for other, kind in kinds[1:]:
        if other != rank and len(kind.end) == len(own.end):
            others.setdefault(other, []).append(kind)
    candidates = _candidates(own, rank, others, groups)
    if own.name in POINT_TO_POINT:
        pairs = [
            ranks for ranks in candidates if len(ranks) == PAIR and groups.get(ranks, "pp") == "pp"
        ]
        candidates = pairs if groups or traces == PAIR else []
    limit = _limit(own)
    for apart in (_distance, _unsteadiness):
        for ranks in sorted(candidates, key=len, reverse=True):
            nearest = {}
            for other in set(ranks) & set(others):
                distances = [apart(own, kind) for kind in others[other]]
                if min(distances) < limit:
                    nearest[other] = others[other][distances.index(min(distances))]
            if nearest and len(nearest) == len(ranks) - 1:
                return {rank: own, **{other: nearest[other] for other in ranks if other != rank}}
    return {rank: own}


def _candidates(
    own: Occurrences,
    rank: int,
    others: Mapping[int, Sequence[Occurrences]],
    groups: Collection[tuple[int, ...]],
) -> list[tuple[int, ...]]:
    """The known groups of ``rank`` whose members are here; without any, all ranks, and
    those that end together.
    """
    here = {rank, *others}
    if groups:
        return [ranks for ranks in groups if rank in ranks and here.issuperset(ranks)]
    together = [rank]
    for other, kinds in others.items():
        if min(_distance(own, kind) for kind in kinds) < _limit(own):
            together.append(other)
    return [tuple(sorted(here)), tuple(sorted(together))]


def _distance(one: Occurrences, other: Occurrences) -> float:
    """Median distance between the ends of two ranks' kernels, in ns."""
    return float(np.median(np.abs(one.end - other.end)))


def _unsteadiness(one: Occurrences, other: Occurrences) -> float:
    """Unsteadiness of the differences, apart from a constant one, as clocks of
    different hosts have it.
    """
    apart = one.end - other.end
    if len(apart) < FEWEST:
        return np.inf
    return float(np.median(np.abs(apart - np.median(apart))))


def _limit(kind: Occurrences) -> float:
    return max(TOGETHER_NS, TOGETHER_SHARE * float(np.median(kind.end - kind.start)))


def _measured(kinds: dict[int, Occurrences], group: str | None) -> Collective:
    """Transfer and waiting of the k-th occurrence on all ranks."""
    kinds = _same_occurrences(kinds)
    first = next(iter(kinds.values()))
    durations = np.stack([kind.end - kind.start for kind in kinds.values()])
    ranks = tuple(sorted(kinds))
    measured = Collective(
        name=first.name,
        group=group,
        ranks=ranks,
        members=first.ranks or ranks,
        ranks_of_group=first.ranks_of_group,
        count=len(first.start),
        bytes=int(first.bytes.sum()) if (first.bytes >= 0).all() else None,
        duration=_by_rank(kinds, durations),
        transfer=None,
        waiting={},
    )
    if len(ranks) == 1:
        return measured
    transfer = durations.min(axis=0)
    return replace(
        measured,
        ranks_of_group=first.ranks_of_group or len(ranks),
        transfer=int(transfer.sum()),
        waiting=_by_rank(kinds, durations - transfer),
    )


def _by_rank(ranks: Collection[int], times: NDArray[np.int64]) -> dict[int, int]:
    """The sum of each row, one for each rank."""
    return dict(zip(ranks, times.sum(axis=1).tolist(), strict=True))


def _same_occurrences(kinds: dict[int, Occurrences]) -> dict[int, Occurrences]:
    """The occurrences that all ranks have: traces of several ranks do not begin and end
    with the same collective.

    Of a longer series that part is taken whose ends keep the steadiest distance to
    those of the shortest; if several do, as in even steps, the closest in time.
    """
    shortest = min(kinds.values(), key=lambda kind: len(kind.end))
    return {rank: _part_beside(kind, shortest) for rank, kind in kinds.items()}


def _part_beside(kind: Occurrences, shortest: Occurrences) -> Occurrences:
    """The occurrences of ``kind`` that belong to those of ``shortest``."""
    count = len(shortest.end)
    parts = []
    for skip in range(min(len(kind.end) - count, MOST_SKIPPED) + 1):
        some = slice(skip, skip + count)
        parts.append(
            kind._replace(start=kind.start[some], end=kind.end[some], bytes=kind.bytes[some])
        )
    uneven = [float(np.ptp(each.end - shortest.end)) for each in parts]
    most = min(uneven) + TOGETHER_NS
    steady = [each for each, value in zip(parts, uneven, strict=True) if value <= most]
    return min(steady, key=lambda each: _distance(each, shortest))


def _joined(listed: list[Collective]) -> list[Collective]:
    """Kernels of one collective and group, which may differ in algorithm and stream, as
    one.
    """
    joined: dict[tuple[object, ...], Collective] = {}
    for each in listed:
        key = (each.name, each.group, each.ranks)
        before = joined.get(key)
        if before is None:
            joined[key] = each
            continue
        joined[key] = replace(
            before,
            count=before.count + each.count,
            bytes=_sum_if_known(before.bytes, each.bytes),
            duration={rank: before.duration[rank] + each.duration[rank] for rank in each.ranks},
            transfer=_sum_if_known(before.transfer, each.transfer),
            waiting={rank: before.waiting[rank] + each.waiting[rank] for rank in each.waiting},
        )
    return list(joined.values())


def _sum_if_known(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return None
    return one + other
