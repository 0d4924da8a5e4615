"""Jobs of several ranks that hang: simulated calls, written as PyTorch's Flight Recorder dumps them."""

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Call = tuple[str, str, int]
"""Title of the group, e.g. ``TENSOR_MODEL_PARALLEL_GROUP``; what is called; elements."""
WORLD, TP, DP, PP = (
    "default_pg",
    *(f"{name}_PARALLEL_GROUP" for name in ("TENSOR_MODEL", "DATA", "PIPELINE_MODEL")),
)
STEP: tuple[Call, ...] = (
    *((TP, "all_reduce", 64), (TP, "_all_gather_base", 32), (TP, "all_reduce", 16)),
    *((DP, "_reduce_scatter_base", 512), (DP, "_all_gather_base", 128), (WORLD, "all_reduce", 1)),
)


@dataclass
class Fault:
    """A fault of some ranks, from their call ``at`` on."""

    kind: str
    """``host`` stops, ``device`` stops, a call is left out (``skip``), has another size
    (``shape``), or the process is ``dead``.
    """
    ranks: tuple[int, ...]
    at: int = 14


@dataclass
class Rank:
    """One rank: what it calls, how far it is."""

    number: int
    program: list[Call]
    called: list[tuple[str, int, Call]] = field(default_factory=list)
    """Group, number in it, call."""
    ended: int = 0
    stops_at: int | None = None
    device_stops_at: int | None = None


def groups_of(ranks: int, tp: int) -> dict[str, dict[int, tuple[str, tuple[int, ...]]]]:
    """Title -> rank -> name and ranks of its group, numbered as they would be made."""
    names: dict[str, dict[int, tuple[str, tuple[int, ...]]]] = {WORLD: {}, TP: {}, DP: {}}
    split: dict[str, list[tuple[int, ...]]] = {WORLD: [tuple(range(ranks))], TP: [], DP: []}
    split[TP] = [tuple(range(first, first + tp)) for first in range(0, ranks, tp)]
    split[DP] = [tuple(range(first, ranks, tp)) for first in range(tp)]
    number = 0
    for title, each in split.items():
        for members in each:
            for rank in members:
                names[title][rank] = (str(number), members)
            number += 1
    return names


def job(ranks: int, tp: int, fault: Fault | None, ahead: int = 4, steps: int = 4) -> list[Rank]:
    """The ranks of a job when nothing moves any more. ``ahead``: calls that a rank makes before
    the first of them ends.
    """
    groups = groups_of(ranks, tp)
    every = [Rank(number, list(STEP) * steps) for number in range(ranks)]
    for number in fault.ranks if fault else ():
        rank, at = every[number], fault.at
        if fault.kind in ("host", "dead"):
            rank.stops_at = at
        elif fault.kind == "device":
            rank.device_stops_at = at
        elif fault.kind == "skip":
            del rank.program[at]
        else:
            title, name, size = rank.program[at]
            rank.program[at] = title, name, size + 7
    while any(_call(rank, groups, ahead) for rank in every) or _end(every, groups):
        pass
    return every


def _call(rank: Rank, groups: Any, ahead: int) -> bool:
    place = len(rank.called)
    if place == len(rank.program) or place == rank.stops_at or place - rank.ended > ahead:
        return False
    call = rank.program[place]
    group = groups[call[0]][rank.number][0]
    number = 1 + sum(own == group for own, _, _ in rank.called)
    rank.called.append((group, number, call))
    return True


def _end(every: list[Rank], groups: Any) -> bool:
    """End the calls that all ranks of a group have come to. What a stopped device began ends on the others."""
    moved = False
    for rank in every:
        if rank.ended == len(rank.called) or rank.ended == rank.device_stops_at:
            continue
        group, number, call = rank.called[rank.ended]
        members = groups[call[0]][rank.number][1]
        if all(_is_in(every[member], group, number, call) for member in members):
            rank.ended += 1
            moved = True
    return moved


def _is_in(rank: Rank, group: str, number: int, call: Call) -> bool:
    for place, own in enumerate(rank.called):
        if own == (group, number, call):
            return place <= rank.ended
    return False


def document(rank: Rank, groups: Any, *, active: bool = False) -> dict[str, Any]:
    """A rank's dump as NCCL writes it; ``active``: without what has ended, as some jobs configure it."""
    own = {title: members[rank.number] for title, members in groups.items()}
    numbers = {name: str(number) for number, (name, _) in enumerate(own.values())}
    entries, status = [], {}
    for place, (group, number, (title, name, size)) in enumerate(rank.called):
        pending = place >= rank.ended
        past = status.setdefault(numbers[group], {"last_completed_collective": 0, "last_started_collective": -1})
        past["last_enqueued_collective"] = number
        if not pending:
            past["last_completed_collective"] = number
        entries.append(
            {
                **{"record_id": place, "pg_id": int(numbers[group]), "process_group": (group, title)},
                **{"collective_seq_id": number, "p2p_seq_id": 0, "op_id": number, "is_p2p": False},
                **{"profiling_name": f"nccl:{name}", "state": "scheduled" if pending else "completed"},
                **{"input_sizes": [[size]], "output_sizes": [[size]], "input_dtypes": ["Float"]},
                **{"time_created_ns": 10**18 + place * 10**6 + rank.number, "retired": not pending},
                **{"timeout_ms": 600000, "frames": []},
            }
        )
    used = {name: (title, ranks) for title, (name, ranks) in own.items() if numbers[name] in status}
    config = {name: {"name": name, "desc": title, "ranks": str(list(ranks))} for name, (title, ranks) in used.items()}
    kept = [entry for entry in entries if not active or entry["state"] != "completed"]
    return {"version": "2.9", "pg_config": config, "pg_status": status, "entries": kept}


def write(folder: Path, ranks: int, tp: int, fault: Fault | None, *, ahead: int = 4, active: bool = False) -> None:
    """Write the dumps of a job that hangs; a dead rank leaves none."""
    groups = groups_of(ranks, tp)
    for rank in job(ranks, tp, fault, ahead):
        if not (fault and fault.kind == "dead" and rank.number in fault.ranks):
            data = pickle.dumps(document(rank, groups, active=active), protocol=2)
            (folder / f"_dump_{rank.number}").write_bytes(data)


TICK_NS = 10**9
"""Time of a call of a pipeline: a step is longer than the moment before a wait in which its cause is looked for."""
Transfers = list[tuple[str, int]]
"""Transfers of one call: ``send`` or ``recv``, and the other stage. A collective of all stages has none."""


def stage_program(stage: int, stages: int, batches: int, *, evaluates: bool = False) -> list[Transfers]:
    """Calls of a step of one forward, one backward, as Megatron makes them; an evaluation has no backward."""
    before, after = stage - 1, stage + 1
    ahead = batches if evaluates else min(stages - after, batches)
    calls: list[Transfers] = []
    for _ in range(ahead):
        calls += [[("recv", before)], [("send", after)]]
    if batches > ahead:
        calls.append([("recv", before)])
    for batch in range(ahead, batches):
        last = batch + 1 == batches
        calls += [[("send", after), ("recv", after)], [("send", before), ("recv", before)][: 1 if last else 2]]
    for _ in range(0 if evaluates else ahead):
        calls += [[("recv", after)], [("send", before)]]
    real = [[each for each in call if 0 <= each[1] < stages] for call in calls]
    return [*filter(None, real), [], []]


def write_pipeline(folder: Path, programs: list[list[Transfers]], ahead: int) -> None:
    """Write the dumps of a pipeline whose stages have come as far as they can. ``ahead``: calls that a stage makes
    before the first of them ends.
    """
    called: list[list[tuple[int, Transfers]]] = [[] for _ in programs]
    ended = [0] * len(programs)
    moved = True
    for tick in range(10**6):
        if not moved:
            break
        moved = False
        for calls, program, done in zip(called, programs, ended, strict=True):
            if len(calls) < len(program) and len(calls) - done <= ahead:
                calls.append((tick, program[len(calls)]))
                moved = True
        reached = [[call for _, call in calls[: done + 1]] for calls, done in zip(called, ended, strict=True)]
        for stage, calls in enumerate(reached):
            if ended[stage] < len(calls) and _answered(stage, reached):
                ended[stage] += 1
                moved = True
    for stage, calls in enumerate(called):
        (folder / f"_dump_{stage}").write_bytes(
            pickle.dumps(_stage_document(stage, calls, ended[stage], len(called)), 2)
        )


def _answered(stage: int, reached: list[list[Transfers]]) -> bool:
    """Whether the last call of a stage has met its other sides, each the n-th of its kind."""
    if not reached[stage][-1]:
        return all(calls.count([]) >= reached[stage].count([]) for calls in reached)
    for kind, peer in reached[stage][-1]:
        other = ("recv" if kind == "send" else "send", stage)
        own = sum(call.count((kind, peer)) for call in reached[stage])
        if sum(call.count(other) for call in reached[peer]) < own:
            return False
    return True


def _stage_document(stage: int, calls: list[tuple[int, Transfers]], ended: int, stages: int) -> dict[str, Any]:
    entries: list[dict[str, Any]] = []
    transfers = collectives = 0
    for place, (tick, call) in enumerate(calls):
        state = "completed" if place < ended else "scheduled"
        transfers += bool(call)
        collectives += not call
        group = ("1", PP) if call else ("0", WORLD)
        names = [f"{kind} {stage}{'->' if kind == 'send' else '<-'}{peer}" for kind, peer in call]
        for name in [*names, "coalesced"] if call else ["all_reduce"]:
            entries.append(
                {
                    **{"record_id": len(entries), "pg_id": int(group[0]), "process_group": group, "retired": False},
                    **{"collective_seq_id": 0 if call else collectives, "p2p_seq_id": transfers if call else 0},
                    **{"profiling_name": f"nccl:{name}", "state": "scheduled" if name in names else state},
                    **{"is_p2p": name in names, "input_sizes": [[4]], "output_sizes": [[4]]},
                    **{"time_created_ns": 10**18 + tick * TICK_NS + stage, "timeout_ms": 600000},
                }
            )
    config = {}
    for name, title in (("0", WORLD), ("1", PP)):
        config[name] = {"name": name, "desc": title, "ranks": str(list(range(stages)))}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}
