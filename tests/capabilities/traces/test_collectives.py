"""Transfer against waiting, bus bandwidth and slow ranks, where they are known."""

from pathlib import Path
from typing import Any

import pytest
from made import call, copy, fingerprint, host, kernel, message, write

from benchrun import api

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def late(by: int, times: int = 5, elements: int = 500_000_000, **kwargs: Any) -> list[dict[str, Any]]:
    """A rank that arrives ``by`` us late at each of several all-reduces of 1 ms."""
    args = message("allreduce", elements, [0, 1, 2, 3], **kwargs)
    computed = [kernel(10_000 * step, 5000 + by) for step in range(times)]
    return computed + [
        kernel(10_000 * step + 5000 + by, 4000 - by, ALL_REDUCE, stream=20, **args) for step in range(times)
    ]


def test_the_shortest_duration_is_the_transfer_and_the_rest_is_waiting(tmp_path: Path) -> None:
    (each,) = fingerprint(tmp_path, late(0), late(1000), late(0), late(3000)).collectives
    assert (each.name, each.group, each.ranks, each.count) == ("all_reduce", "dp", [0, 1, 2, 3], 5)
    assert each.transfer_s == pytest.approx(5 * 0.001)
    assert each.waiting_s == pytest.approx(5 * (0.003 + 0.002 + 0.003 + 0) / 4)
    assert each.bytes == 5 * 1_000_000_000
    assert each.busbw_gb_s == pytest.approx(1000 * 2 * 3 / 4)


@pytest.mark.parametrize(
    ("name", "sizes", "whole", "factor"),
    [
        ("allreduce", {"elements": 1000}, 2000, 2 * 3 / 4),
        ("_allgather_base", {"elements": 250, "output": 1000}, 2000, 3 / 4),
        ("_reduce_scatter_base", {"elements": 1000, "output": 250}, 2000, 3 / 4),
        ("all_to_allv", {"elements": 1000}, 2000, 3 / 4),
        ("broadcast", {"elements": 1000}, 2000, 1),
        ("allreduce", {"elements": 1000, "dtype": "Float"}, 4000, 2 * 3 / 4),
        ("allreduce", {"elements": 1000, "dtype": "Float8_e4m3fn"}, 1000, 2 * 3 / 4),
    ],
)
def test_bytes_and_bus_bandwidth_are_those_of_nccl_tests(
    tmp_path: Path, name: str, sizes: dict[str, Any], whole: int, factor: float
) -> None:
    args = message(name, ranks=[0, 1, 2, 3], **sizes)
    ranks = [[kernel(0, 10, "ncclDevKernel_X", **args)] for _ in range(4)]
    (each,) = fingerprint(tmp_path, *ranks).collectives
    assert each.bytes == whole
    assert each.busbw_gb_s == pytest.approx(whole / 10e3 * factor)


@pytest.mark.parametrize("missing", [0, 4])
def test_a_trace_that_begins_later_or_ends_earlier_is_aligned(tmp_path: Path, missing: int) -> None:
    ranks = [late(0), late(0), late(0), late(3000)]
    del ranks[1][5 + missing]
    ranks[0][5 + missing]["dur"] += 8000  # an occurrence that one rank lacks does not count
    (each,) = fingerprint(tmp_path, *ranks).collectives
    assert each.count == 4
    assert each.transfer_s == pytest.approx(4 * 0.001)
    assert each.waiting_s == pytest.approx(4 * 0.009 / 4)


def test_one_rank_alone_has_neither_transfer_nor_bandwidth(tmp_path: Path) -> None:
    result = fingerprint(tmp_path, late(0))
    (each,) = result.collectives
    assert (each.transfer_s, each.waiting_s, each.busbw_gb_s) == (None, None, None)
    assert each.duration_s == pytest.approx(5 * 0.004)
    assert result.notes


def test_the_rank_that_never_waits_is_the_slow_one(tmp_path: Path) -> None:
    (slow,) = fingerprint(tmp_path, late(0), late(0), late(2000), late(0)).stragglers
    assert slow.rank == 2
    assert slow.behind_s == pytest.approx(5 * 0.002)


def test_a_cure_saves_no_more_than_the_next_slow_rank_allows(tmp_path: Path) -> None:
    (slow,) = fingerprint(tmp_path, late(0), late(500), late(2500), late(0)).stragglers
    assert (slow.rank, slow.behind_s) == (2, pytest.approx(5 * 0.002))


@pytest.mark.parametrize("delays", [(0, 0, 0, 0), (0, 30, 10, 45), (0, 0, 2000, 2000)])
def test_equal_ranks_have_no_straggler(tmp_path: Path, delays: tuple[int, ...]) -> None:
    assert fingerprint(tmp_path, *map(late, delays)).stragglers == []


def test_waiting_that_kernels_hide_makes_no_rank_slow(tmp_path: Path) -> None:
    ranks = [late(0), late(0), late(2000), late(0)]
    for rank in (0, 1, 3):
        ranks[rank] += [kernel(10_000 * step + 5000, 4000) for step in range(5)]
    result = fingerprint(tmp_path, *ranks)
    assert result.collectives[0].waiting_s == pytest.approx(5 * 0.0015)
    assert result.stragglers == []


def test_a_stage_that_others_wait_for_at_the_end_of_a_step_is_no_slow_rank(tmp_path: Path) -> None:
    messages = message("send", 1000, [0, 2], description="PIPELINE_MODEL_PARALLEL_GROUP")
    ranks = [late(0), late(0), late(2000), late(0)]
    for rank in (0, 2):
        ranks[rank].append(kernel(4500, 10, SEND, stream=21, **messages))
    assert fingerprint(tmp_path, *ranks).stragglers == []


def test_without_messages_the_groups_come_from_the_header_and_from_common_ends(tmp_path: Path) -> None:
    named = (("DATA_PARALLEL_GROUP", [[0, 2], [1, 3]]), ("TENSOR_MODEL_PARALLEL_GROUP", [[0, 1], [2, 3]]))
    groups = [{"pg_name": "1", "pg_desc": name, "ranks": ranks} for name, pairs in named for ranks in pairs]
    paths = []
    for rank in range(4):
        # The pairs of tp end together; those of dp keep a distance of 3 ms.
        events = [kernel(10_000 * k + 3000 * (rank // 2), 100, GATHER, stream=20 + rank) for k in range(6)]
        paths.append(write(tmp_path / f"{rank}.json", events, distributedInfo={"rank": rank, "pg_config": groups}))
    listed = {(each.group, tuple(each.ranks)) for each in api.fingerprint_of(paths)[0].collectives}
    assert listed == {("tp", (0, 1)), ("tp", (2, 3))}


def test_sends_of_two_ranks_are_not_one_message(tmp_path: Path) -> None:
    args = message("send", 1000, [0, 1], description="PIPELINE_MODEL_PARALLEL_GROUP")
    result = fingerprint(tmp_path, *([kernel(0, length, "ncclDevKernel_SendRecv", **args)] for length in (10, 90)))
    assert [(each.name, each.group, each.ranks, each.transfer_s) for each in result.collectives] == [
        ("send", "pp", [1], None),
        ("send", "pp", [0], None),
    ]


@pytest.mark.parametrize(
    ("text", "thread", "name"),
    [
        ("nccl:all_to_all", 1, "all_to_all"),
        ("Thunk:#hlo_op=all-to-all.3#", 1, "all_to_all"),
        ("nccl:all_to_all", 2, "send_recv"),
        ("nccl:send", 1, "send_recv"),
    ],
)
def test_a_range_around_the_launch_names_an_all_to_all(tmp_path: Path, text: str, thread: int, name: str) -> None:
    events = [host(0, 10, text, thread=thread), call(5, 1, link=1), call(20, 1, link=2)]
    events += [kernel(30 * link, 20, SEND, link=link) for link in (1, 2)]
    found = fingerprint(tmp_path, events).collectives
    assert sorted((each.name, each.count) for each in found) == sorted(
        [(name, 1), ("send_recv", 1)] if name == "all_to_all" else [("send_recv", 2)]
    )


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("void deep_ep::internode_ll::combine<false, 7168, 9, 3>(void*)", "all_to_all"),
        ("void pplx::a2a_dispatch_send_kernel<8>(int)", "all_to_all"),
        ("void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(int)", "all_reduce"),
        ("void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8<8, __nv_fp8_e5m2>(int)", "reduce_scatter"),
        ("void userbuffers_fp16_sum_inplace_gpu_rw_ag<8>(int)", "all_gather"),
        ("void userbuffers_fp16_sum_inplace_gpu_mc<2>(int)", "all_reduce"),
        ("kuserbuffers_pushsend(int)", "send"),
        ("void c10d::multimem_one_shot_reduce_kernel<c10::BFloat16, 16>(int)", "reduce"),
        ("void c10d::symmetric_memory::wait_signal_kernel(int)", "other"),
    ],
)
def test_a_kernel_names_its_collective(tmp_path: Path, text: str, name: str) -> None:
    assert [each.name for each in fingerprint(tmp_path, [kernel(0, 10, text)]).collectives] == [name]


def test_copies_from_one_gpu_to_another_are_communication(tmp_path: Path) -> None:
    events = [kernel(0, 50), copy(50, 30, "Memcpy PtoP (Device -> Device)"), copy(80, 20)]
    (rank,) = fingerprint(tmp_path, events).ranks
    assert (rank.compute, rank.exposed_comm, rank.copies, rank.idle) == (0.5, 0.3, 0.2, 0)


@pytest.mark.parametrize(
    ("name", "args", "communication"),
    [
        ("Memcpy DtoD (Device -> Device)", {"fromDevice": 0, "inDevice": 0, "toDevice": 1}, 0.3),
        ("Memcpy DtoD (Device -> Device)", {"fromDevice": 1, "inDevice": 1, "toDevice": 1}, 0),
        ("Memcpy DtoD (Device -> Device)", {"toDevice": 1}, 0),
        ("Memcpy HtoD (Pinned -> Device)", {"fromDevice": 0, "toDevice": 1}, 0),
    ],
)
def test_a_copy_of_a_device_to_another_is_communication(
    tmp_path: Path, name: str, args: dict[str, int], communication: float
) -> None:
    events = [kernel(0, 70), copy(70, 30, name, **args)]
    (rank,) = fingerprint(tmp_path, events).ranks
    assert (rank.exposed_comm, rank.copies) == (communication, pytest.approx(0.3 - communication))
