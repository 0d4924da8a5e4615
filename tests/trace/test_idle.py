"""Idle time by cause, in traces where the cause is known."""

from pathlib import Path
from typing import Any

import pytest
from made import call, fingerprint, host, kernel


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
