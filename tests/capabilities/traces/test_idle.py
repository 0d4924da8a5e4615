"""Idle time by cause, in traces where the cause is known."""

from pathlib import Path
from typing import Any

import pytest
from made import call, fingerprint, host, kernel
from test_nsight import KERNEL, KERNELS, PROCESS, STRINGS, export, measured

from benchrun.capabilities.traces import json_stream
from benchrun.capabilities.traces.loader import LOADER


def causes(tmp_path: Path, events: list[dict[str, Any]]) -> dict[str, float] | None:
    (rank,) = fingerprint(tmp_path, events).ranks
    return rank.idle_by_cause.model_dump() if rank.idle_by_cause else None


def test_a_launch_after_the_previous_kernel_is_the_hosts_fault(tmp_path: Path) -> None:
    events = [call(0, 2, 1), kernel(10, 40, link=1), call(80, 2, 2), kernel(90, 20, link=2)]
    assert causes(tmp_path, events) == {"host": 0.4, "launch_gap": 0, "data": 0, "sync": 0}


def test_a_kernel_that_was_queued_in_time_leaves_a_launch_gap(tmp_path: Path) -> None:
    events = [call(0, 2, 1), call(3, 2, 2), kernel(10, 40, link=1), kernel(60, 50, link=2)]
    assert causes(tmp_path, events) == {"host": 0, "launch_gap": 0.1, "data": 0, "sync": 0}


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation"),
        ("torch/utils/data/dataloader.py(701): __next__", "python_function"),
        ("## load_batch ##", "user_annotation"),
        ("batch-generator", "user_annotation"),
    ],
)
def test_time_in_the_loader_of_the_thread_that_launches_next_is_data(tmp_path: Path, name: str, category: str) -> None:
    events = [call(0, 2, 1), kernel(10, 40, link=1), host(40, 40, name, category), call(85, 2, 2)]
    events += [kernel(90, 20, link=2)]
    # The gap is 50 to 90; the loader had it until 80.
    assert causes(tmp_path, events) == {"host": 0.1, "launch_gap": 0, "data": 0.3, "sync": 0}


WAITS = [
    *("dataloading", "data_loading", "train_dataloader_next", "data_iterator", "data_iter.__next__", "load_dataset"),
    *("fetch_data", "get_data", "next_data", "_next_data", "data", "train/data", "data#5", "Iterator::GetNext"),
    *("load_next_micro_batch", "get_microbatch", "get_train_batch", "prefetch_batch", "## load_batch ##"),
    *("pretrain_gpt.py(120): get_batch", "torch/utils/data/dataloader.py(733): _next_data"),
]
OTHERS = [
    *("load_state_dict", "metadata", "get_metadata", "metadata_iterator", "data_parallel_all_reduce", "data_ptr"),
    *("load_checkpoint", "database", "load_database", "get_data_parallel_rank", "get_data_ptr", "DataParallel.forward"),
    *(
        "get_batch_size",
        "get_micro_batch_size",
        "target_batch",
        "target_data",
        "BatchNorm",
        "torch/utils/data/x.py(3): f",
    ),
    *("/data/train.py(8): forward", "iteration"),
]


@pytest.mark.parametrize("name", WAITS)
def test_usual_names_of_a_wait_for_data(name: str) -> None:
    assert LOADER.search(name)


@pytest.mark.parametrize("name", OTHERS)
def test_names_that_only_resemble_a_wait_for_data(name: str) -> None:
    assert not LOADER.search(name)


@pytest.mark.parametrize("name", WAITS)
def test_a_python_function_that_waits_for_data_is_not_skipped_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(json_stream, "PIECE", 300)
    events = [call(0, 2, 1), kernel(10, 40, link=1), host(50, 30, name, "python_function"), call(85, 2, 2)]
    assert causes(tmp_path, [*events, kernel(90, 20, link=2)])["data"] == pytest.approx(0.3)


@pytest.mark.parametrize(("name", "data"), [("train/data", 0.2), ("data_parallel", 0)])
def test_a_range_of_nsight_is_a_wait_for_data_by_the_same_names(tmp_path: Path, name: str, data: float) -> None:
    thread = PROCESS | 7
    spans = ((0, 1, 1), (800, 810, 2))
    calls = [{"start": s, "end": e, "nameId": 2, "globalTid": thread, "correlationId": link} for s, e, link in spans]
    ranges = [{"start": 500, "end": 700, "eventType": 59, "text": name, "globalTid": thread}]
    tables = {KERNEL: KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME": calls, "NVTX_EVENTS": ranges, "StringIds": STRINGS}
    assert measured(export(tmp_path / "t.sqlite", **tables)).idle_by_cause.data == data


def test_a_loader_of_another_thread_is_not_waited_for(tmp_path: Path) -> None:
    events = [call(0, 2, 1), kernel(10, 40, link=1), host(40, 40, "DataLoader", thread=2), call(85, 2, 2)]
    events += [kernel(90, 20, link=2)]
    assert causes(tmp_path, events)["data"] == 0


@pytest.mark.parametrize(
    ("blocked", "expected"),
    [
        (30, {"host": 0.1, "launch_gap": 0, "data": 0, "sync": 0.3}),  # without it, 30 us earlier
        (45, {"host": 0, "launch_gap": 0, "data": 0, "sync": 0.4}),  # never more than the gap
    ],
)
def test_a_synchronise_costs_at_most_the_time_that_it_blocked_the_host(
    tmp_path: Path, blocked: int, expected: dict[str, float]
) -> None:
    events = [call(0, 2, 1), kernel(10, 40, link=1), call(50 - blocked, blocked + 1, 7, "cudaStreamSynchronize")]
    assert causes(tmp_path, [*events, call(80, 2, 2), kernel(90, 20, link=2)]) == expected


def test_without_calls_of_the_host_idle_time_has_no_cause(tmp_path: Path) -> None:
    assert causes(tmp_path, [kernel(10, 40), kernel(90, 20)]) is None
