"""The hang that the files of a job show."""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchrun.errors import UserError

from . import dumps, states
from .dumps import Op, Records
from .model import Hang, Where
from .states import Host
from .waits import Wait, circle, ends, odd, parting, waits

YOUNG_S = 20
"""Age of a wait below which a dump shows a job at work, or half of the job's deadline if that is less."""
OVERDUE = 0.9
"""Share of its own time limit after which a call is overdue, however short that limit is."""


def hang_of(
    files: Iterable[Path], deadline_s: float = math.inf, size: int | None = None
) -> Hang | None:
    """The hang; None where nothing hangs: no rank waits for long, or the one that it waits for
    is slow and moves on. ``deadline_s``: of the job, after which its ranks were asked;
    ``size``: its number of ranks. UserError without a dump, and for one that would run code.
    """
    files = sorted(files)
    records, hosts = dumps.read(files), states.read(files)
    if not (records.dumps or records.damaged or hosts):
        places = {str(path.parent) for path in files}
        hint = "PyTorch's Flight Recorder writes a file a rank, whose name ends with its number"
        raise UserError("no dump is here", where=", ".join(places) or None, hint=hint)
    found = waits(records, {rank: host.device for rank, host in hosts.items()})
    if found and _young(records, found, min(YOUNG_S, deadline_s / 2)):
        return None
    parted = parting(records) if found else None
    guilty = set() if parted else _guilty(found, records, hosts)
    if size and not found and all(host.idles for host in hosts.values()):
        guilty |= {rank for rank, host in hosts.items() if host.sits and not _waits(host)}
    for rank in guilty & hosts.keys():
        if hosts[rank].moves_on or (rank not in found and hosts[rank].toils):
            return None
    unproven = _recorded(records, hosts) or not any(map(_waits, hosts.values()))
    unproven = unproven or any(host.moves_on for host in hosts.values())
    if not guilty and not found and unproven:
        return None
    turning = set() if guilty else circle(found)
    strayed = parted.ranks if parted else odd(turning, found, records)
    named = guilty or strayed
    op = parted.op if parted else _first(named, found, records)
    calls = parted.calls if parted else {rank: found[rank].op for rank in turning}
    evidence = [
        *_waiting(found, records),
        *_doing(named, found, records, hosts),
        *_calls(calls, records),
    ]
    if not named and any(wait.together for wait in found.values()):
        evidence.append("TORCH_NCCL_ENABLE_TIMING=1 records on which ranks a kernel has started")
    return Hang(
        ranks=sorted(named),
        group=records.titles.get(op.group, op.group) if op else None,
        collective=op.name if op else None,
        sequence=op.sequence if op else None,
        where=_where(guilty, strayed, found, hosts),
        evidence=evidence,
    )


def at_work(files: Iterable[Path]) -> str:
    """Activity of each rank of a job, in one sentence."""
    files = sorted(files)
    records, hosts = dumps.read(files), states.read(files)
    found = waits(records, {})
    alike: dict[str, list[int]] = {}
    for rank, host in sorted(hosts.items()):
        if rank not in found or host.moves_on:
            alike.setdefault(host.activity, []).append(rank)
    lines = list(_waiting(found, records))
    for activity, ranks in alike.items():
        lines.append(f"{_names(ranks)}: {activity}")
    return "; ".join(lines)


def _young(records: Records, found: Mapping[int, Wait], least_s: float) -> bool:
    """Whether no call has waited for long, from its beginning to the last dump."""
    for wait in found.values():
        long_s = min(least_s, OVERDUE * wait.op.limit_s)
        if records.written_s - wait.op.created_ns / 1e9 >= long_s:
            return False
    return True


def _recorded(records: Records, hosts: Mapping[int, Host]) -> bool:
    """Whether every rank has a record of its calls."""
    return all(rank in records.dumps and records.dumps[rank].ops for rank in hosts)


def _waits(host: Host) -> bool:
    return host.doing == "waits"


def _guilty(found: Mapping[int, Wait], records: Records, hosts: Mapping[int, Host]) -> set[int]:
    """The ranks at which chains of waits end. Of those without a dump, none if most have none."""
    every = {rank for ranks in records.groups.values() for rank in ranks} | hosts.keys()
    missing = every - records.dumps.keys()
    stopped = {rank for rank, host in hosts.items() if host.stopped}
    guilty = set()
    for rank in ends(dict(found)) - records.damaged:
        unseen = rank in missing and rank not in hosts and 2 * len(missing) > len(every)
        if not unseen and (rank in found or not _waits(hosts.get(rank, Host()))):
            guilty.add(rank)
    if guilty or stopped:
        # Another one may have ended its calls, and nobody has come to wait for it yet.
        for rank in hosts.keys() & records.dumps.keys() - found.keys():
            host = hosts[rank]
            if records.dumps[rank].ops and host.stack and host.idles and not _waits(host):
                guilty.add(rank)
        return guilty | stopped
    # Calls that no recorder has: the stacks show who waits in one.
    waiting = {rank for rank, host in hosts.items() if _waits(host)} | found.keys()
    others = hosts.keys() - waiting
    return set(others) if waiting and 2 * len(others) <= len(hosts) else set()


def _first(ranks: set[int], found: Mapping[int, Wait], records: Records) -> Op | None:
    """The earliest call in which somebody waits for one of ``ranks``; a collective before a
    transfer, in which a chain of waits may begin.
    """
    calls = []
    for rank, wait in found.items():
        own = rank in ranks
        left = own and wait.alone and len(records.groups[wait.op.group]) > 1
        if ranks & wait.ranks or left or (wait.together and not own):
            calls.append(wait.op)
    calls = calls or [wait.op for wait in found.values()]
    return min(calls, key=lambda op: (op.peer is not None, op.created_ns), default=None)


def _where(
    guilty: set[int], strayed: set[int], found: Mapping[int, Wait], hosts: Mapping[int, Host]
) -> Where:
    if strayed:
        return "host"
    sides: set[Where] = set()
    for rank in guilty:
        on_device = rank in found or hosts.get(rank, Host()).doing == "device"
        stopped = rank in hosts and hosts[rank].stopped
        sides.add("device" if on_device and not stopped else "host")
    return sides.pop() if len(sides) == 1 else "unknown"


def _waiting(found: Mapping[int, Wait], records: Records) -> Iterator[str]:
    """Sentences on who waits for whom, ranks with the same wait together."""
    alike: dict[tuple[str, str], list[int]] = {}
    for rank, wait in found.items():
        op = wait.op
        call = f"{op.name} {op.sequence} of group {records.titles.get(op.group, op.group)}"
        alike.setdefault((call, _names(wait.ranks)), []).append(rank)
    for (call, ranks), waiting in alike.items():
        verb = "waits" if len(waiting) == 1 else "wait"
        yield f"{_names(waiting)} {verb} in {call}" + (f" for {ranks}" if ranks else "")


def _doing(
    ranks: set[int], found: Mapping[int, Wait], records: Records, hosts: Mapping[int, Host]
) -> Iterator[str]:
    """Sentences on each guilty rank: what it called last, its process, its stack."""
    for rank in sorted(ranks):
        host = hosts.get(rank, Host())
        if rank in found and found[rank].alone:
            yield f"rank {rank} has not ended a call in which no other rank is any more"
        elif rank in found and found[rank].unstarted:
            yield f"rank {rank}: the kernel of its call has not started, on all others it has"
        elif rank in records.dumps and rank not in found:
            yield f"rank {rank} has ended all of its calls, and made no more"
        elif records.dumps and rank not in records.dumps:
            yield f"rank {rank} wrote no dump" + (
                "" if rank in hosts else ", and no process of it was seen"
            )
        if host.stopped:
            yield f"rank {rank}: {host.stopped}"
        elif host.state and host.doing == "data":
            places = sorted({child.place for child in host.state.children})
            yield f"rank {rank} waits for data; its other processes are in {', '.join(places)}"
        elif host.computes and host.locked and rank not in found:
            yield f"rank {rank} computes and keeps Python's lock, so that no other thread of it runs"
        if host.stack:
            yield f"rank {rank} is in {host.frames}"


def _calls(calls: Mapping[int, Op], records: Records) -> Iterator[str]:
    """Sentences on the call of each rank of a circle, or where their calls part."""
    for rank, op in sorted(calls.items()):
        title = records.titles.get(op.group, op.group)
        yield f"rank {rank} called {op.name} {op.shape} as {op.sequence} of group {title}"


def _names(ranks: Iterable[int]) -> str:
    names = ", ".join(map(str, sorted(ranks)))
    return f"ranks {names}" if "," in names else f"rank {names}" if names else ""
