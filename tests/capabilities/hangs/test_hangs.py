"""The rank that the others wait for is named, and never another one."""

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import jobs
import pytest
from jobs import DP, PP, TP, WORLD, Fault, document, groups_of, job, stage_program, write, write_pipeline

from benchrun.capabilities.hangs.find import hang_of
from benchrun.capabilities.hangs.model import Hang


def found(folder: Path) -> Hang | None:
    return hang_of(folder.iterdir())


CASES = {
    "a rank stops": (Fault("host", (5,)), ("tp", "all_reduce", 9), "host"),
    "a device stops": (Fault("device", (3,)), ("tp", "all_reduce", 9), "device"),
    "a process died": (Fault("dead", (6,)), ("tp", "all_reduce", 9), "host"),
    "another size": (Fault("shape", (1,)), ("tp", "all_reduce", 9), "host"),
    "two ranks stop": (Fault("host", (1, 6), 15), ("dp", "reduce_scatter", 5), "host"),
}


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_guilty_ranks_with_collective_and_side(tmp_path: Path, name: str, active: bool) -> None:
    fault, place, side = CASES[name]
    write(tmp_path, 8, 4, fault, active=active)
    hang = found(tmp_path)
    assert tuple(hang.ranks) == fault.ranks
    assert (hang.group, hang.collective, hang.sequence) == place
    assert hang.where == side
    assert any(f"rank {fault.ranks[0]}" in line for line in hang.evidence)


def test_a_call_that_was_left_out_shows_in_what_the_rank_called_before(tmp_path: Path) -> None:
    write(tmp_path, 8, 4, Fault("skip", (2,)))
    hang = found(tmp_path)
    assert (hang.ranks, hang.where) == ([2], "host")


def test_without_the_calls_before_nobody_is_named_for_one_that_was_left_out(tmp_path: Path) -> None:
    write(tmp_path, 8, 4, Fault("skip", (2,)), active=True)
    hang = found(tmp_path)
    assert (hang.ranks, hang.where) == ([], "unknown")
    assert "do not show which rank" in hang.sentence


def planted(seed: int, folder: Path) -> Fault:
    """Write a job with a random layout and fault."""
    chance = random.Random(seed)
    tp = chance.choice([1, 2, 4])
    ranks = tp * chance.choice([2, 3, 4])
    kind = chance.choice(["host", "device", "dead", "skip", "shape"])
    guilty = tuple(sorted(chance.sample(range(ranks), chance.choice([1, 1, 2]))))
    fault = Fault(kind, guilty[: ranks // 2], chance.randrange(8, 20))
    write(folder, ranks, tp, fault, ahead=chance.choice([0, 2, 6]), active=chance.random() < 0.4)
    return fault


@pytest.mark.parametrize("first", [0, *(pytest.param(100 * n, marks=pytest.mark.thorough) for n in range(1, 12))])
def test_no_other_rank_is_ever_named(tmp_path: Path, first: int) -> None:
    named = 0
    for seed in range(first, first + 100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        fault = planted(seed, folder)
        hang = found(folder)
        assert hang is None or set(hang.ranks) <= set(fault.ranks), (seed, fault, hang)
        named += hang is not None and bool(hang.ranks)
    assert named > 50


def test_nothing_hangs_where_all_calls_have_ended(tmp_path: Path) -> None:
    write(tmp_path, 4, 2, None)
    assert found(tmp_path) is None


def put(folder: Path, documents: dict[int, dict[str, Any]]) -> None:
    for rank, each in documents.items():
        (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(each))


def dumps(ranks: int, tp: int, fault: Fault) -> dict[int, dict[str, Any]]:
    groups = groups_of(ranks, tp)
    return {rank.number: document(rank, groups) for rank in job(ranks, tp, fault)}


def test_json_is_read_too(tmp_path: Path) -> None:
    put(tmp_path, dumps(4, 2, Fault("host", (3,))))
    assert found(tmp_path).ranks == [3]


def test_a_rank_whose_dump_is_cut_off_is_not_named(tmp_path: Path) -> None:
    write(tmp_path, 4, 2, Fault("host", (3,)))
    path = tmp_path / "_dump_3"
    path.write_bytes(path.read_bytes()[:-40])
    hang = found(tmp_path)
    assert (hang.ranks, hang.where) == ([], "unknown")


def test_ranks_whose_dumps_were_not_collected_are_not_named(tmp_path: Path) -> None:
    write(tmp_path, 8, 4, Fault("host", (2,)))
    for rank in (0, 1, 2, 4, 5, 7):
        (tmp_path / f"_dump_{rank}").unlink()
    assert found(tmp_path).ranks == []


def test_a_kernel_that_has_not_started_shows_the_busy_device(tmp_path: Path) -> None:
    """All ranks are in the call; NCCL tells who started with TORCH_NCCL_ENABLE_TIMING."""
    each = dumps(4, 4, Fault("shape", (1,)))
    for rank, dump in each.items():
        for entry in dump["entries"]:
            entry["input_sizes"] = [[1]]
            if entry["state"] == "scheduled" and rank != 2:
                entry["state"] = "started"
    put(tmp_path, each)
    assert (found(tmp_path).ranks, found(tmp_path).where) == ([2], "device")


def test_the_device_of_a_call_without_another_member_is_to_blame(tmp_path: Path) -> None:
    """An endless kernel, and no peer that could be late; in a job of one rank, and of two."""
    config = {"3": {"name": "3", "desc": DP, "ranks": "[0]"}}
    put(tmp_path, {0: {**stage(entry(0, "3", "all_reduce", 1)), "pg_config": config}})
    hang = found(tmp_path)
    assert (hang.ranks, hang.where, hang.sequence) == ([0], "device", 1)
    pair = {"9": {"name": "9", "desc": TP, "ranks": "[0, 1]"}}
    other = {**stage(entry(0, "9", "all_gather", 2)), "pg_config": pair}
    put(tmp_path, {0: {**stage(entry(0, "3", "all_reduce", 1)), "pg_config": {**config, **pair}}, 1: other})
    hang = found(tmp_path)
    assert (hang.ranks, hang.where, hang.sequence) == ([0], "device", 2)


def test_a_group_that_no_record_describes_has_no_single_member(tmp_path: Path) -> None:
    put(tmp_path, {0: {**stage(entry(0, "3", "all_reduce", 1)), "pg_config": {}}})
    assert found(tmp_path).ranks == []


@pytest.mark.parametrize(
    ("devices", "guilty"),
    [
        ({0: "waits", 1: "waits", 2: "computes", 3: "waits"}, [2]),
        ({0: "waits", 1: "waits", 3: "waits"}, []),
        ({0: "waits", 1: "computes", 2: "computes", 3: "waits"}, []),
        ({0: "waits", 2: "computes", 3: "waits"}, []),
    ],
)
def test_the_gpu_that_has_not_come_to_the_call_of_all_others_is_named(
    tmp_path: Path, devices: dict[int, str], guilty: list[int]
) -> None:
    """An endless kernel: benchrun's worker knows which of its marks its GPU has reached."""
    each = dumps(4, 4, Fault("shape", (1,)))
    for dump in each.values():
        for one in dump["entries"]:
            one["input_sizes"] = [[1]]
    put(tmp_path, each)
    for rank in range(4):
        (tmp_path / f"rank_{rank}.json").write_text(json.dumps({"rank": rank, "state": "R", "cpu_s": 1.9}))
    for rank, device in devices.items():
        (tmp_path / f"device_{rank}.txt").write_text(device)
    hang = found(tmp_path)
    assert (hang.ranks, hang.where) == (guilty, "device" if guilty else "unknown")


def entry(number: int, group: str, name: str, sequence: int, transfer: bool = False) -> dict[str, Any]:
    title = PP if group == "9" else DP
    return {
        **{"record_id": number, "pg_id": int(group), "process_group": [group, title], "op_id": sequence},
        **{"collective_seq_id": 0 if transfer else sequence, "p2p_seq_id": sequence if transfer else 0},
        **{"profiling_name": f"nccl:{name}", "state": "scheduled", "is_p2p": transfer, "retired": False},
        **{"input_sizes": [[4]], "output_sizes": [[4]], "time_created_ns": 10**18 + number},
    }


def stage(*entries: dict[str, Any]) -> dict[str, Any]:
    config = {"9": {"name": "9", "desc": PP, "ranks": "[0, 4, 8]"}, "3": {"name": "3", "desc": DP, "ranks": "[8, 9]"}}
    return {"version": "2.9", "pg_config": config, "pg_status": {}, "entries": list(entries)}


def test_a_chain_of_transfers_ends_at_the_stage_that_stopped(tmp_path: Path) -> None:
    """The numbers in a transfer's name are places in its group."""
    stages = {0: stage(entry(0, "9", "recv 0<-1", 7, True)), 4: stage(entry(0, "9", "recv 1<-2", 7, True)), 8: stage()}
    put(tmp_path, stages)
    hang = found(tmp_path)
    assert (hang.ranks, hang.group, hang.collective) == ([8], "pp", "recv")


def test_a_send_on_its_way_does_not_excuse_the_rank_that_stopped(tmp_path: Path) -> None:
    sender = stage(entry(0, "9", "send 2->0", 7, True))
    put(tmp_path, {0: stage(), 4: stage(), 8: sender, 9: stage(entry(0, "3", "all_reduce", 1))})
    first = {0: stage(entry(0, "9", "recv 0<-2", 8, True)), 4: stage(), 8: sender}
    assert 9 not in found(tmp_path).ranks
    put(tmp_path, {**first, 9: stage(entry(0, "3", "all_reduce", 1))})
    assert found(tmp_path).ranks in ([], [8])


def coalesced(number: int, sequence: int, state: str, *parts: str) -> list[dict[str, Any]]:
    """Transfers of one `batch_isend_irecv`: NCCL leaves each of them scheduled for ever, and ends the whole."""
    entries = [entry(number + place, "9", part, sequence, True) for place, part in enumerate(parts)]
    whole = entry(number + len(parts), "9", "coalesced", sequence, True)
    return [*entries, {**whole, "is_p2p": False, "state": state}]


def test_the_parts_of_a_coalesced_call_have_its_state(tmp_path: Path) -> None:
    put(
        tmp_path,
        {0: stage(*coalesced(0, 7, "completed", "send 0->1")), 4: stage(*coalesced(0, 7, "completed", "recv 1<-0"))},
    )
    assert found(tmp_path) is None


STEPS = 4
"""Steps of a pipeline."""


def planted_transfer(seed: int, folder: Path, evaluation: int | None = None) -> tuple[str, int]:
    """Write a pipeline of which a stage stops, leaves a transfer out, or makes one too many in a late step."""
    chance = random.Random(seed)
    stages, batches = chance.choice([2, 2, 3, 4]), chance.choice([1, 2, 4, 8])
    programs: list[list[Any]] = [[] for _ in range(stages)]
    for number, step in product(range(stages), range(STEPS)):
        programs[number] += stage_program(number, stages, batches, evaluates=step == evaluation)
    guilty = chance.randrange(stages)
    program = programs[guilty]
    last = range(len(program) // 2, len(program))
    fault = chance.choice(["stops", "leaves out", "makes"])
    kind, at = chance.choice(["send", "recv"]), chance.choice(last)
    if fault == "stops":
        del program[at:]
    elif fault == "makes":
        peers = [peer for peer in (guilty - 1, guilty + 1) if 0 <= peer < stages]
        program.insert(at, [(kind, chance.choice(peers))])
    else:
        at = chance.choice([place for place in last if kind in dict(program[place])])
        program[at] = [each for each in program[at] if each[0] != kind]
        if not program[at]:
            del program[at]
    write_pipeline(folder, programs, chance.choice([0, 0, 3]))
    return f"{fault} {kind}", guilty


@pytest.mark.parametrize("first", [0, *(pytest.param(100 * n, marks=pytest.mark.thorough) for n in range(1, 12))])
def test_the_stage_whose_transfers_differ_from_its_own_steps_before(tmp_path: Path, first: int) -> None:
    """Numbers of calls look alike for a transfer that one stage left out and one that the other made too many."""
    named = 0
    for seed in range(first, first + 100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        fault, guilty = planted_transfer(seed, folder)
        hang = found(folder)
        assert hang.ranks in ([], [guilty]), (seed, fault, guilty, hang)
        named += hang.ranks == [guilty]
    assert named >= 90


def test_a_stage_that_begins_to_train_again_is_not_named_for_it(tmp_path: Path) -> None:
    """The fault is in the steps after their first evaluation."""
    named = 0
    for seed in range(100, 200):
        folder = tmp_path / str(seed)
        folder.mkdir()
        fault, guilty = planted_transfer(seed, folder, 1)
        hang = found(folder)
        assert hang.ranks in ([], [guilty]), (seed, fault, guilty, hang)
        named += hang.ranks == [guilty]
    assert named >= 85


def test_without_the_steps_before_nobody_is_named_for_a_transfer(tmp_path: Path) -> None:
    """Rank 0 receives and does not send, rank 4 waits for both, and may have received once too often."""
    first = stage(*coalesced(0, 7, "scheduled", "recv 0<-1"))
    put(tmp_path, {0: first, 4: stage(*coalesced(0, 7, "scheduled", "send 1->0", "recv 1<-0")), 8: stage()})
    hang = found(tmp_path)
    assert (hang.ranks, hang.collective, hang.sequence) == ([], "recv", 7)


def test_a_rank_whose_transfer_is_answered_waits_for_what_its_peer_waits_for(tmp_path: Path) -> None:
    middle = stage(*coalesced(0, 7, "scheduled", "send 1->0", "recv 1<-0", "recv 1<-2"))
    put(tmp_path, {0: stage(*coalesced(0, 7, "scheduled", "recv 0<-1")), 4: middle, 8: stage()})
    assert found(tmp_path).ranks == [8]


def test_a_coalesced_collective_is_one_of_its_own(tmp_path: Path) -> None:
    each = entry(0, "3", "reduce_scatter_tensor_coalesced", 1)
    put(tmp_path, {8: stage(each), 9: stage()})
    assert (found(tmp_path).ranks, found(tmp_path).sequence) == ([9], 1)


PERIOD = ("all_gather", "reduce_scatter", "all_reduce", "reduce_scatter")


def ran_on(names: list[str], ended: int) -> dict[str, Any]:
    """A rank whose collectives met others than they belong to: NCCL went on where the sizes allowed it."""
    entries = [entry(place, "3", name, place + 1) for place, name in enumerate(names)]
    return stage(*({**each, "state": "completed"} for each in entries[:ended]), *entries[ended:])


@pytest.mark.parametrize("other", [8, 9])
@pytest.mark.parametrize("extra", [False, True])
def test_the_rank_whose_calls_are_shifted_from_some_number_on(tmp_path: Path, other: int, extra: bool) -> None:
    """They got stuck later, where the other rank is the one that has not ended a call."""
    usual = list(PERIOD * 4)
    strayed = [*usual[:9], "all_gather", *usual[9:]] if extra else usual[:8] + usual[9:]
    put(tmp_path, {other: ran_on(usual, 12), 17 - other: ran_on(strayed, 13)})
    hang = found(tmp_path)
    assert (hang.ranks, hang.where, hang.collective) == ([17 - other], "host", "all_gather")
    assert hang.sequence == 9 + extra
    assert any("called reduce_scatter" in line for line in hang.evidence)


def test_calls_that_are_not_shifted_say_nothing_of_the_rank(tmp_path: Path) -> None:
    usual = list(PERIOD * 4)
    swapped = [*usual[:9], usual[10], usual[9], *usual[11:]]
    put(tmp_path, {8: ran_on(usual, 12), 9: ran_on(swapped, 12)})
    assert " 10 of group" not in found(tmp_path).sentence


def test_the_short_names_of_groups(tmp_path: Path) -> None:
    titles = {WORLD: "default", TP: "tp", DP: "dp"}
    for fault_at, title in ((12, TP), (15, DP), (17, WORLD)):
        folder = tmp_path / title
        folder.mkdir()
        write(folder, 4, 2, Fault("host", (1,), fault_at))
        assert found(folder).group == titles[title]


@pytest.mark.parametrize("odd", range(4))
def test_the_rank_that_alone_left_out_a_call_is_named(tmp_path: Path, odd: int) -> None:
    """The others wait in a call of all, it in one of a group of its own with another rank."""
    config = {}
    for name, title, ranks in (("0", "default_pg", [0, 1, 2, 3]), ("3", DP, [odd, (odd + 1) % 4])):
        config[name] = {"name": name, "desc": title, "ranks": str(sorted(ranks))}
    ended = {"retired": True, "state": "completed"}
    before = [entry(number, "0", "all_reduce", number) | ended for number in range(1, 5)]
    written = {}
    for rank in range(4):
        call = entry(9, "3" if rank == odd else "0", "all_reduce", 5)
        written[rank] = {"version": "2.9", "pg_config": config, "pg_status": {}, "entries": [*before, call]}
    put(tmp_path, written)
    hang = found(tmp_path)
    assert hang is not None and hang.ranks == [odd]


def test_one_of_a_row_of_like_calls_that_was_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last calls that the rank made are usual ones: it is their number since the step before that is not."""
    row = [(TP, "all_reduce", 64)] * 9
    monkeypatch.setattr(jobs, "STEP", (*row, (DP, "all_reduce", 512), (WORLD, "all_reduce", 1)))
    write(tmp_path, 4, 2, Fault("skip", (1,), 11 + 8))
    assert found(tmp_path).ranks == [1]


def test_a_call_in_another_group_of_the_same_short_name(tmp_path: Path) -> None:
    """Rank 3 calls in its data-parallel group where the others do in their tensor-parallel ones."""
    config = {}
    for name, title, ranks in (
        *(("0", WORLD, [0, 1, 2, 3]), ("1", TP, [0, 1]), ("2", TP, [2, 3]), ("3", DP, [0, 2]), ("4", DP, [1, 3])),
        *(("5", f"{DP}_WITH_CP", [0, 2]), ("6", f"{DP}_WITH_CP", [1, 3])),
    ):
        config[name] = {"name": name, "desc": title, "ranks": str(ranks)}
    written = {}
    for rank in range(4):
        usual = [("0", WORLD), ("56"[rank % 2], f"{DP}_WITH_CP")]
        new = ("4", DP) if rank == 3 else ("12"[rank // 2], TP)
        ends = 6 if rank >= 2 else 7
        entries = []
        for place, group in enumerate([*usual * 3, new, usual[0]][: ends + 1]):
            sequence = 1 if place == 6 else 1 + place // 2
            state = "completed" if place < ends else "scheduled"
            entries.append(entry(place, group[0], "all_reduce", sequence) | {"process_group": group, "state": state})
        written[rank] = {"version": "2.9", "pg_config": config, "pg_status": {}, "entries": entries}
    put(tmp_path, written)
    assert found(tmp_path).ranks == [3]


def test_two_ranks_that_both_receive_first(tmp_path: Path) -> None:
    """They never exchanged such a thing before; the third waits for both in the next collective."""
    config = {"0": {"name": "0", "desc": WORLD, "ranks": "[0, 1, 2]"}}
    before = [entry(number, "0", "all_reduce", number + 1) | {"state": "completed"} for number in range(5)]
    written = {}
    for rank, name in enumerate(("all_reduce", "recv 1<-2", "recv 2<-1")):
        last = entry(5, "0", name, 6 if rank == 0 else 1, transfer=rank > 0)
        written[rank] = {"version": "2.9", "pg_config": config, "pg_status": {}, "entries": [*before, last]}
    put(tmp_path, written)
    hang = found(tmp_path)
    assert (hang.ranks, hang.where) == ([1, 2], "host")
    for rank, name in ((1, "recv 1<-2"), (2, "recv 2<-1")):
        written[rank]["entries"][1] = entry(1, "0", name, 9, transfer=True) | {"state": "completed"}
    put(tmp_path, written)
    assert found(tmp_path).ranks == []
    for rank in (1, 2):  # an earlier exchange of another shape says nothing of this one
        written[rank]["entries"][1]["input_sizes"] = [[99]]
    put(tmp_path, written)
    assert found(tmp_path).ranks == [1, 2]


@pytest.mark.parametrize("usual", [7, 8])
def test_of_two_ranks_whose_first_evaluations_differ_in_length_none_is_named(tmp_path: Path, usual: int) -> None:
    """Seven batches on one rank, eight on the other: nobody knows which is right."""
    config = {}
    for name, title, ranks in (("0", WORLD, [0, 1]), ("1", TP, [0, 1])):
        config[name] = {"name": name, "desc": title, "ranks": str(ranks)}
    written = {}
    for rank, batches in enumerate((usual, 15 - usual)):
        calls = [*[("0", WORLD)] * 3, *[("1", TP)] * batches]
        calls += [("0", WORLD)] if batches == 7 else []
        entries = []
        for place, group in enumerate(calls):
            state = "completed" if place < 10 else "scheduled"
            sequence = calls[:place].count(group) + 1
            entries.append(entry(place, group[0], "all_reduce", sequence) | {"process_group": group, "state": state})
        written[rank] = {"version": "2.9", "pg_config": config, "pg_status": {}, "entries": entries}
    put(tmp_path, written)
    assert found(tmp_path).ranks == []


def test_in_the_first_step_of_two_ranks_none_is_named(tmp_path: Path) -> None:
    """One goes on with what it began with, the other does not: both may be right."""
    begun = ["all_reduce", "reduce_scatter", "broadcast"]
    put(tmp_path, {8: ran_on([*begun, "all_reduce"], 3), 9: ran_on([*begun, "all_gather"], 3)})
    assert found(tmp_path).ranks == []
