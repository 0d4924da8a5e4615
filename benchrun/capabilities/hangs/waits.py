"""Who waits for whom, by the recorders of all ranks: a chain of waits ends at the guilty rank."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

from .dumps import Dump, Op, Records

CONTEXT = 2
"""Calls before one that show which call usually comes next; calls after one that show a shift."""
Calls = Mapping[int, Op]
"""A rank's calls in one group by their number."""
Call = tuple[str, str, str, int | None]
"""Kind of the group, name, shape and peer of a call."""


@dataclass
class Wait:
    """A rank's wait: for whom, in which call."""

    op: Op
    ranks: set[int] = field(default_factory=set)
    """Ranks that have not come to ``op``."""
    alone: bool = False
    """Whether ``op`` has ended on every other rank of its group, or there is no other: this
    rank's device has not finished it.
    """
    together: bool = False
    """Whether all ranks are in ``op``, and none has ended it."""
    unstarted: bool = False
    """Whether they are, and its kernel has started on all others: this rank's device is busy
    with something else.
    """


def waits(records: Records, devices: Mapping[int, str | None]) -> dict[int, Wait]:
    """The wait of each rank that has a call which has not ended. ``devices``: what their GPUs
    do, where that is known.
    """
    found = {}
    for rank, dump in records.dumps.items():
        if dump.head is not None:
            wait = found[rank] = _wait(dump, dump.head, records)
            others = set(records.groups.get(wait.op.group, ())) - {rank}
            if wait.together and devices.get(rank) == "computes":
                wait.unstarted = all(devices.get(other) == "waits" for other in others)
    for wait in found.values():
        peer = wait.op.peer
        if peer in found and not wait.ranks:
            # Its own transfer is answered. The peer has not ended it: it misses another one.
            wait.ranks.add(peer)
    return found


def _wait(dump: Dump, op: Op, records: Records) -> Wait:
    wait = Wait(op)
    if op.peer is not None:
        for own in dump.beside(op):
            if own.peer is not None and not _answers(records.dumps.get(own.peer), dump.rank, own):
                wait.op = wait.op if wait.ranks else own
                wait.ranks.add(own.peer)
        return wait
    members = records.groups.get(op.group, ())
    others = [rank for rank in members if rank != dump.rank]
    ended = joined = 0
    for rank in others:
        other = records.dumps.get(rank)
        if other is None or other.called(op) is False:
            wait.ranks.add(rank)
        elif other.ended(op):
            ended += 1
        elif other.head is not None and other.head.group == op.group:
            joined += other.head.sequence == op.sequence
            if other.head.sequence < op.sequence:
                wait.ranks.add(rank)
        elif other.head is not None:
            wait.ranks.add(rank)  # it has called op, and waits in an earlier call
    wait.alone = bool(members) and ended == len(others)
    wait.together = bool(others) and joined == len(others)
    heads = [records.dumps[rank].head for rank in others if rank in records.dumps]
    started = sum(head is not None and head.started for head in heads)
    wait.unstarted = wait.together and not op.started and started == len(others)
    return wait


def _answers(other: Dump | None, rank: int, op: Op) -> bool:
    """Whether the peer of a transfer is in the other side of it."""
    pending = [own for own in other.ops if own.pending] if other else []
    return any((own.peer, own.group) == (rank, op.group) and own.name != op.name for own in pending)


def _reached(start: int, found: dict[int, Wait]) -> set[int]:
    """The ranks for which ``start`` waits, directly or through others."""
    reached: set[int] = set()
    todo = [start]
    while todo:
        wait = found.get(todo.pop())
        for rank in wait.ranks - reached if wait else ():
            reached.add(rank)
            todo.append(rank)
    return reached


def ends(found: dict[int, Wait]) -> set[int]:
    """The ranks for which others wait, and that wait for nobody."""
    waited = {rank for wait in found.values() for rank in wait.ranks}
    alone = {rank for rank, wait in found.items() if wait.alone or wait.unstarted}
    return alone | {rank for rank in waited if rank not in found}


def circle(found: dict[int, Wait]) -> set[int]:
    """Ranks that wait for each other in a circle, or are together in a call."""
    turning = {rank for rank in found if rank in _reached(rank, found)}
    return turning or {rank for rank, wait in found.items() if wait.together}


def odd(ranks: set[int], found: dict[int, Wait], records: Records) -> set[int]:
    """The ranks of a circle that called something else than they did before, or than most others
    did; empty if the recorders do not show it.
    """
    if not ranks:
        return set()
    made = {rank: _program(dump, records) for rank, dump in records.dumps.items()}
    for start in _starts(ranks, records):
        since = {}
        for rank, dump in records.dumps.items():
            if own := dump.same(start):
                since[rank] = dump.ops.index(own) + 1
        new = {}
        row = False
        for rank, place in since.items():
            new[rank] = _new(made[rank], place)
            row |= rank in ranks and made[rank][place - 1] in made[rank][place : place + 1]
        if row:  # only the calls before a row of like ones show how long it has to be
            new = {}
        times = Counter(call[:3] for call in new.values() if call)
        strayed = {rank for rank, call in new.items() if call and 2 * times[call[:3]] <= len(new)}
        alone = len({new[rank] for rank in strayed}) == 1 and not any(map(new.get, ranks - strayed))
        # Ranks that each did something else began something new, such as an evaluation.
        if alone and strayed < ranks:
            return strayed
        changed = {rank for rank, call in new.items() if call}
        if changed == ranks < since.keys() and _meet(ranks, found, records):
            return ranks
        if apart := _apart({rank: made[rank][place:] for rank, place in since.items()}):
            return apart
    return _minority(ranks, found, records)


def _meet(ranks: set[int], found: dict[int, Wait], records: Records) -> bool:
    """Whether all are in their first transfer of this shape with each other, and on the same side
    of it.
    """
    for rank in ranks:
        op = found[rank].op
        made = [own for own in records.dumps[rank].ops if own.created_ns < op.created_ns]
        if op.peer is None or (op.peer, op.shape) in [(own.peer, own.shape) for own in made]:
            return False
    return len({found[rank].op.name for rank in ranks}) == 1


def _starts(ranks: set[int], records: Records) -> Iterator[Op]:
    """The last collective of each kind that has ended on all of ``ranks``, the latest first."""
    seen = set()
    for op in reversed(records.dumps[min(ranks)].ops):
        if (
            op.call in seen
            or op.peer is not None
            or not ranks <= set(records.groups.get(op.group, ()))
        ):
            continue
        if all(records.dumps[rank].ended(op) for rank in ranks):
            seen.add(op.call)
            yield op


def _program(dump: Dump, records: Records) -> list[Call]:
    """The calls of a rank, as other ranks make them in groups of their own."""
    calls = []
    for op in dump.ops:
        calls.append((records.kinds.get(op.group, op.group), op.name, op.shape, op.peer))
    return calls


def _new(calls: list[Call], place: int) -> Call | None:
    """The first of ``calls`` from ``place`` on that never came there before, after the same calls."""
    best = 0
    for earlier in range(CONTEXT, place):
        if calls[earlier - CONTEXT : earlier] == calls[place - CONTEXT : place]:
            # The beginning may be such a place, before which nothing was called.
            best = max(best, *(_alike(calls[old:], calls[place:]) for old in (0, earlier)))
    return calls[place + best] if place + best < len(calls) else None


def _alike(some: list[Call], others: list[Call]) -> int:
    """Number of calls with which both begin."""
    for number, (one, other) in enumerate(zip(some, others, strict=False)):
        if one != other:
            return number
    return min(len(some), len(others))


def _apart(made: Mapping[int, list[Call]]) -> set[int]:
    """The few whose calls go on otherwise than those of most; empty in a pipeline, whose stages
    do that.
    """
    if any(call[3] is not None for calls in made.values() for call in calls):
        return set()
    alike = {}
    for rank, calls in made.items():
        same = [_alike(calls, other) == min(len(calls), len(other)) for other in made.values()]
        alike[rank] = dict(zip(made, same, strict=True))
    most = [rank for rank, same in alike.items() if 2 * sum(same.values()) > len(made)]
    agree = most and all(alike[rank][other] for rank in most for other in most)
    return made.keys() - most if agree else set()


def _minority(ranks: set[int], found: dict[int, Wait], records: Records) -> set[int]:
    """Ranks whose call of the same number differs from that of most others."""
    first = min((found[rank].op for rank in ranks), key=lambda op: op.sequence)
    if first.peer is not None:
        return set()
    calls: dict[int, tuple[str, str, str]] = {}
    for rank in records.groups.get(first.group, ()):
        own = records.dumps[rank].same(first) if rank in records.dumps else None
        if own is not None:
            calls[rank] = own.call
    usual = Counter(calls.values()).most_common(2)
    if len(usual) < 2 or usual[0][1] == usual[1][1]:
        return set()
    return {rank for rank, call in calls.items() if call != usual[0][0]}


class Parting(NamedTuple):
    """Call that some ranks of a group left out, or made alone: each later one meets another."""

    op: Op
    ranks: set[int]
    calls: dict[int, Op]
    """Call of each rank at the number where they part."""


def parting(records: Records) -> Parting | None:
    """The first call from which on the calls of a group's ranks are shifted by one."""
    found = []
    for group, members in records.groups.items():
        calls = {}
        for rank in records.dumps.keys() & members:
            own = [op for op in records.dumps[rank].ops if op.group == group and op.peer is None]
            calls[rank] = {op.sequence: op for op in own}
        common = set(next(iter(calls.values()), ())).intersection(*calls.values())
        for number in sorted(common):
            if len({each[number].call for each in calls.values()}) > 1:
                found.append(_shift(calls, number))
                break
    return min(filter(None, found), key=lambda each: each.op.created_ns, default=None)


def _shift(calls: Mapping[int, Calls], number: int) -> Parting | None:
    """The side that lacks the call ``number`` of the other, or made it though nobody else did:
    the smaller one, or that whose call never came after the same calls before.
    """
    sides: dict[tuple[str, str, str], set[int]] = {}
    for rank, each in calls.items():
        sides.setdefault(each[number].call, set()).add(rank)
    for short, long in permutations(sides.values(), 2):
        if len(sides) > 2 or not all(
            _lacks(calls[a], calls[b], number) for a in short for b in long
        ):
            continue
        here = {rank: each[number] for rank, each in calls.items()}
        op = here[min(long)]
        if len(short) != len(long):
            return Parting(op, min(short, long, key=len), here)
        strange = [side for side in (short, long) if _is_new(calls[min(side)], number)]
        if len(strange) == 1:
            return Parting(op, strange[0], here)
    return None


def _lacks(short: Calls, long: Calls, number: int) -> bool:
    """Whether ``short`` is ``long`` without its call ``number``."""
    alike = 0
    for each, op in short.items():
        if each >= number and each + 1 in long:
            if op.call != long[each + 1].call:
                return False
            alike += 1
    return alike >= CONTEXT


def _is_new(calls: Calls, number: int) -> bool:
    before = [(*op.call, None) for each, op in calls.items() if each < number]
    return (
        _new([("", "", "", None), *before, (*calls[number].call, None)], len(before) + 1)
        is not None
    )
