"""Who waits for whom, by the recorders of all ranks: a chain of waits ends at the guilty rank."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import NamedTuple

from .dumps import Dump, Op, Records

CONTEXT = 3
"""Calls before one that show which call usually comes next; calls after one that show a shift."""
Calls = Mapping[int, Op]
"""A rank's calls in one group by their number."""
Turn = tuple[tuple[str, str, str], ...]
"""Calls, and the one that came after them."""
LATELY_NS = 10**9
"""Time before the first call that waits in which its cause was called."""


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
    """The ranks of a circle that called something else than the others, or than they did
    before; empty if the recorders do not show it.
    """
    if not ranks:
        return set()
    since_ns = _since(ranks, found, records)
    turns = {rank: new_turns(dump, since_ns, records) for rank, dump in records.dumps.items()}
    made = Counter(turn for each in turns.values() for turn in each)
    strayed = set()
    shared = set(made)
    for rank, each in turns.items():
        rare = {turn for turn in each if 2 * made[turn] <= len(turns)}
        if rare:
            strayed.add(rank)
            shared &= rare
    # Ranks that each did something else began something new, such as an evaluation.
    if strayed and shared and strayed < ranks:
        return strayed
    return _minority(ranks, found, records)


def _since(ranks: set[int], found: dict[int, Wait], records: Records) -> int:
    """Time from which on a call may be the cause: a moment before the first wait, or the last
    collective that ended on all of ``ranks``.
    """
    since_ns = min(found[rank].op.created_ns for rank in ranks) - LATELY_NS
    for op in reversed(records.dumps[min(ranks)].ops):
        together = op.peer is None and ranks <= set(records.groups.get(op.group, ()))
        if together and all(records.dumps[rank].ended(op) for rank in ranks):
            return min(since_ns, op.created_ns)
    return since_ns


def _minority(ranks: set[int], found: dict[int, Wait], records: Records) -> set[int]:
    """Ranks whose call of the same number differs from that of most others, or that alone did
    not come to a call, or alone came to one.
    """
    first = min((found[rank].op for rank in ranks), key=lambda op: op.sequence, default=None)
    if first is None or first.peer is not None:
        return set()
    calls: dict[int, tuple[str, str, str]] = {}
    for rank in records.groups.get(first.group, ()):
        own = records.dumps[rank].same(first) if rank in records.dumps else None
        if own is not None:
            calls[rank] = own.call
    usual = Counter(calls.values()).most_common(2)
    if len(usual) < 2 or usual[0][1] == usual[1][1]:
        return _absent(ranks, found, records)
    return {rank for rank, call in calls.items() if call != usual[0][0]}


def _absent(ranks: set[int], found: dict[int, Wait], records: Records) -> set[int]:
    """The few that did not come to a call in which most of its group wait, or the few that
    came to one; empty where two calls name different ranks.
    """
    few: set[int] = set()
    for op in (found[rank].op for rank in ranks if found[rank].op.peer is None):
        members = records.groups.get(op.group, ())
        came = set()
        for rank in members:
            if rank not in records.dumps or (called := records.dumps[rank].called(op)) is None:
                return set()
            if called:
                came.add(rank)
        fewer = min(came, set(members) - came, key=len)
        if 2 * len(fewer) < len(members):
            if few and fewer != few:
                return set()
            few = fewer or few
    return few


def new_turns(dump: Dump, since_ns: int, records: Records) -> set[Turn]:
    """Calls since then that a rank made once, where another one came after the same calls
    before.
    """
    calls = []
    for op in dump.ops:
        calls.append((records.titles.get(op.group, op.group), op.name, op.shape))
    followers: dict[Turn, set[tuple[str, str, str]]] = {}
    times: Counter[Turn] = Counter()
    new = set()
    for place in range(CONTEXT, len(calls)):
        turn = tuple(calls[place - CONTEXT : place + 1])
        usual = followers.setdefault(turn[:-1], set())
        times[turn] += 1
        if usual and turn[-1] not in usual and dump.ops[place].created_ns >= since_ns:
            new.add(turn)
        usual.add(turn[-1])
    return {turn for turn in new if times[turn] == 1}


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
    usual = {call for each in calls.values() for call in _usual(each, number)}
    for short, long in permutations(sides.values(), 2):
        if len(sides) > 2 or not all(
            _lacks(calls[a], calls[b], number) for a in short for b in long
        ):
            continue
        here = {rank: each[number] for rank, each in calls.items()}
        op = here[min(long)]
        if len(short) != len(long):
            return Parting(op, min(short, long, key=len), here)
        strange = [side for side in (short, long) if here[min(side)].call not in usual]
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


def _usual(calls: Calls, number: int) -> set[tuple[str, str, str]]:
    """The calls that came after the same calls as that of ``number``, before it."""
    found = set()
    for each, op in calls.items():
        if each < number and _before(calls, each) == _before(calls, number):
            found.add(op.call)
    return found


def _before(calls: Calls, number: int) -> list[tuple[str, str, str] | None]:
    before = [calls.get(each) for each in range(number - CONTEXT, number)]
    return [op.call if op else None for op in before]
