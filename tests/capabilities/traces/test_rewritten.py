"""Traces as exporters rewrite them: what remains is measured alike, what was lost is null or one clear error."""

import json
import lzma
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made import call, fingerprint, host, kernel, message, write
from oracle import shares
from selection import some
from test_nsight import KERNEL, STRINGS, export, row
from test_other_grammars import TRACES, kineto, nsight
from test_strange_traces import USUAL, begun_and_ended, read

from benchrun import api
from benchrun.errors import UserError

Event = dict[str, Any]
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MATRICES: dict[str, Any] = {"Input Dims": [[8, 16], [16, 32]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}


DOCUMENT = json.loads(lzma.decompress((TRACES / "h200_llama_tp2_pp2_bf16/trace-rank0.json.xz").read_bytes()))
OF_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
EVENTS: list[Event] = DOCUMENT["traceEvents"]


def each(change: Callable[[Event], Event]) -> Callable[[], list[Event]]:
    """The real trace with every event that has a length changed."""
    return lambda: [change(event) if event.get("ph") == "X" else event for event in EVENTS]


def pairs() -> list[Event]:
    """The real trace with each event of the GPU as a begin and an end of the same name, all in the order of time."""
    of_gpu = [event for event in EVENTS if event.get("cat") in OF_GPU]
    ends = [{**event, "ph": "E", "ts": event["ts"] + event["dur"]} for event in of_gpu]
    apart = [
        *({**event, "ph": "B"} for event in of_gpu),
        *ends,
        *(event for event in EVENTS if event.get("cat") not in OF_GPU),
    ]
    return sorted(apart, key=lambda event: (float(event.get("ts", 0)), event["ph"] == "B"))


REWRITTEN: dict[str, Callable[[], list[Event]]] = {
    "backwards": lambda: EVENTS[::-1],
    "in any order": lambda: random.Random(1).sample(EVENTS, len(EVENTS)),
    "twice": lambda: [*EVENTS, *EVENTS],
    "begins and ends": pairs,
    "texts": each(lambda event: {**event, "ts": str(event["ts"]), "pid": str(event["pid"]), "tid": str(event["tid"])}),
    "old categories": each(
        lambda event: {**event, "cat": {"gpu_memcpy": "Memcpy", "gpu_memset": "Memset"}.get(event["cat"], event["cat"])}
    ),
    "with annotations of the GPU": lambda: [
        *EVENTS,
        *({**event, "cat": "gpu_user_annotation", "dur": 3 * event.get("dur", 0)} for event in EVENTS),
    ],
    "with events that have no length": lambda: [*EVENTS, *({**event, "dur": 0} for event in EVENTS[:200])],
}


@pytest.mark.parametrize("way", some(REWRITTEN, 3))
def test_a_real_trace_is_measured_alike_however_it_is_written(tmp_path: Path, way: str) -> None:
    (usual,) = read(tmp_path, EVENTS).ranks
    (rank,) = read(tmp_path, REWRITTEN[way]()).ranks
    assert rank == usual
    (expected,) = shares(TRACES / "h200_llama_tp2_pp2_bf16/trace-rank0.json.xz").values()
    assert {name: getattr(rank, name) for name in expected if name != "copy"} == pytest.approx(
        {name: share for name, share in expected.items() if name != "copy"}, abs=1e-7
    )


def test_hyphens_in_categories_hide_no_copy(tmp_path: Path) -> None:
    hyphened = kineto(tmp_path, lambda event: {**event, "cat": str(event.get("cat", "")).replace("_", "-")})
    assert hyphened == kineto(tmp_path)


def test_events_that_are_written_twice_count_once(tmp_path: Path) -> None:
    once = [*USUAL, kernel(50, 10, REDUCE, stream=9)]
    assert read(tmp_path, [*once, *once]).model_dump() == read(tmp_path, once).model_dump()


def test_gpus_that_are_told_by_the_name_of_a_process_stay_apart(tmp_path: Path) -> None:
    def named(event: Event, device: int) -> Event:
        args = {key: value for key, value in event["args"].items() if key != "device"}
        return {**event, "pid": f"GPU {device}", "args": args}

    ranks = read(tmp_path, [named(kernel(0, 30), 0), named(kernel(90, 10), 0), named(kernel(0, 100), 1)]).ranks
    assert [(rank.device, rank.compute) for rank in ranks] == [(0, pytest.approx(0.4)), (1, 1)]


def test_ends_belong_to_the_begin_of_their_name(tmp_path: Path) -> None:
    """Kernels of one stream that overlap by the clock's error: the first ends after the second has begun."""
    pairs = [begun_and_ended({**kernel(start, 20), "name": name}) for start, name in ((0, "gemm"), (19, "nccl_x"))]
    for first, last in pairs:
        last["name"] = first["name"]
    events = sorted((event for pair in pairs for event in pair), key=lambda event: event["ts"])
    (rank,) = read(tmp_path, events).ranks
    assert (rank.compute, rank.exposed_comm) == (pytest.approx(20 / 39), pytest.approx(19 / 39))


def test_begins_and_ends_out_of_order_are_refused(tmp_path: Path) -> None:
    events = [each for start in range(0, 900, 30) for each in begun_and_ended(kernel(start, 20))]
    with pytest.raises(UserError, match="damaged"):
        read(tmp_path, random.Random(1).sample(events, len(events)))


def test_begins_without_ends_are_refused(tmp_path: Path) -> None:
    begun = [begun_and_ended(kernel(start, 20))[0] for start in range(0, 900, 30)]
    with pytest.raises(UserError, match="no length"):
        read(tmp_path, [*begun, kernel(900, 5)])


def test_products_of_unnumbered_operators_are_unknown(tmp_path: Path) -> None:
    events = [{**host(0, 5, "aten::mm", "cpu_op"), "args": MATRICES}, kernel(0, 30), kernel(40, 20, "elementwise")]
    assert read(tmp_path, events).products == []


def test_messages_without_a_link_are_those_of_their_own_kernels(tmp_path: Path) -> None:
    sizes = (1000, 3000)
    events = [kernel(100 * size, 10, REDUCE, **message("allreduce", size, [0, 1])) for size in sizes]
    (each,) = fingerprint(tmp_path, [*events, kernel(0, 5, REDUCE, **message("reduce", 9, [0, 2]))]).collectives[:1]
    assert (each.name, each.count, each.bytes) == ("all_reduce", 2, 2 * sum(sizes))


def test_ranges_of_unlinked_kernels_have_no_time_on_the_device(tmp_path: Path) -> None:
    events = [host(0, 100, "forward"), call(5, 2, 1), {**kernel(10, 30), "args": {}}]
    assert [(each.name, each.device_s) for each in read(tmp_path, events).ranges] == [("forward", None)]


def test_a_stage_of_a_pipeline_with_stated_messages_is_no_slow_rank(tmp_path: Path) -> None:
    """Stages wait for each other in the collective over all of them."""
    stages = message("send", 1000, [0, 1], description="PIPELINE_MODEL_PARALLEL_GROUP")
    every = message("allreduce", 1000, [0, 1], description="MODEL_PARALLEL_GROUP")
    ranks = [
        [
            each
            for step in range(5)
            for each in (
                kernel(10_000 * step, 5000 + late, link=3 * step),
                kernel(10_000 * step + 5000 + late, 4000 - late, REDUCE, stream=20, link=3 * step + 1, **every),
                kernel(10_000 * step + 4500, 10, "ncclDevKernel_SendRecv", stream=21, link=3 * step + 2, **stages),
            )
        ]
        for late in (0, 2000)
    ]
    assert fingerprint(tmp_path, *ranks).stragglers == []


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for number in range(11):
        write(tmp_path / f"profile.{number}.json", [kernel(0, 50 + number), kernel(99, 1)])
    ranks = api.fingerprint_of([tmp_path])[0].ranks
    assert [round(100 * rank.compute) - 51 for rank in ranks] == list(range(11))


def test_kernels_whose_long_names_are_missing_have_short_ones(tmp_path: Path) -> None:
    (rank,) = nsight(tmp_path, f"update {KERNEL} set demangledName = 999999999")
    assert rank.classes.matmul == pytest.approx(nsight(tmp_path)[0].classes.matmul, abs=0.005)


@pytest.mark.parametrize(
    "queries",
    [
        [f"alter table {KERNEL} drop column {name}" for name in ("demangledName", "shortName", "mangledName")],
        [f"delete from StringIds where id in (select {name} from {KERNEL})" for name in ("demangledName", "shortName")],
    ],
)
def test_without_names_communication_is_unknown_and_the_export_is_refused(tmp_path: Path, queries: list[str]) -> None:
    with pytest.raises(UserError, match="name"):
        nsight(tmp_path, *queries)


def test_contexts_of_other_processes_on_the_first_gpu_are_no_ranks(tmp_path: Path) -> None:
    def used(device: int, process: int, times: int) -> list[dict[str, int]]:
        pairs = ((100 * step, 100 * step + 50) for step in range(times))
        place = {"deviceId": device, "globalPid": process << 24}
        return [row(*pair, demangledName=1, **place) for pair in pairs]

    kernels = [*used(0, 7, 300), *used(1, 8, 300), *used(0, 8, 2)]
    ranks = api.fingerprint_of([export(tmp_path / "a.sqlite", StringIds=STRINGS, **{KERNEL: kernels})])[0].ranks
    assert [rank.device for rank in ranks] == [0, 1]
    alone = [*used(0, 7, 300), *used(1, 7, 2)]
    ranks = api.fingerprint_of([export(tmp_path / "b.sqlite", StringIds=STRINGS, **{KERNEL: alone})])[0].ranks
    assert [rank.device for rank in ranks] == [0, 1]


def joined(*devices: int) -> list[Event]:
    """Two ranks in one file, each with the numbers of its own process."""
    return [
        {**event, "pid": event["pid"] + 100 * rank}
        for rank, device in enumerate(devices)
        for event in (kernel(0, 40, link=1, device=device), call(60, 2, 2), kernel(70, 9, link=2, device=device))
    ]


def test_two_ranks_in_one_file_have_no_causes_of_idle_time(tmp_path: Path) -> None:
    ranks = read(tmp_path, joined(0, 1)).ranks
    assert [(rank.device, rank.compute, rank.idle_by_cause) for rank in ranks] == [
        (device, pytest.approx(49 / 79), None) for device in (0, 1)
    ]


def test_two_ranks_in_one_file_with_the_same_number_of_their_gpu_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="several processes"):
        read(tmp_path, joined(0, 0))
