"""What the host of a rank does in each step: waits for data, garbage and a core, as it was injected."""

import gc
import os
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install '.[train]'")

from benchrun.worker import host  # noqa: E402
from benchrun.worker.host import HostClock, Scheduled, cores, queued  # noqa: E402


def spec(steps: int, micro_batches: int) -> Any:
    return SimpleNamespace(training=SimpleNamespace(steps=steps), num_microbatches=micro_batches)


def slow(count: int, *, at: int, seconds: float) -> Iterator[int]:
    for number in range(count):
        if number == at:
            time.sleep(seconds)
        yield number


@pytest.fixture
def clock() -> Iterator[HostClock]:
    made = HostClock(spec(3, 4))
    yield made
    made._end()
    assert made._collected not in gc.callbacks


def test_a_wait_for_data_counts_in_its_own_step(clock: HostClock) -> None:
    assert list(clock.timed(slow(14, at=5, seconds=0.2))) == list(range(14))  # two more than the steps have
    assert len(clock._data) == 3
    assert clock.waited_for_data_s == pytest.approx(sum(clock._data), abs=0.1)
    assert clock._data[1] >= 0.2
    assert max(clock._data[0], clock._data[2]) < 0.1


def test_chunks_of_the_model_share_the_steps(clock: HostClock) -> None:
    """With virtual stages each chunk reads the same micro-batches."""
    one, other = (clock.timed(slow(12, at=at, seconds=0.1)) for at in (0, 1))
    for _ in range(12):
        next(one)
        next(other)
    assert len(clock._data) == 3
    assert clock._data[0] >= 0.2


def test_micro_batches_that_are_fetched_together_are_one_wait(clock: HostClock) -> None:
    def fetch() -> list[int]:
        time.sleep(0.05)
        return [1, 2]

    assert [clock.fetch(fetch) for _ in range(4)] == [[1, 2]] * 4
    assert len(clock._data) == 3
    assert min(clock._data) >= 0.05


def test_what_a_rank_does_between_two_steps_counts_in_the_second(clock: HostClock) -> None:
    batches = clock.timed(range(12))
    for number in range(3):
        clock.begin_step()
        for _ in range(4):
            next(batches)
        clock.end_step()
        time.sleep(0.2 if number == 1 else 0.0)
    assert clock._between[2] >= 0.2
    assert clock._between[0] == 0
    assert clock._between[1] < 0.1


def test_waits_of_profiled_steps_are_in_the_sum_alone(clock: HostClock) -> None:
    one = clock.timed(slow(14, at=13, seconds=0.2))
    for _ in range(12):
        next(one)
    before = clock.waited_for_data_s
    assert list(one) == [12, 13]
    assert clock.waited_for_data_s - before >= 0.2
    assert sum(clock._data) < 0.2


def test_garbage_counts_in_the_step_in_which_it_is_collected(clock: HostClock) -> None:
    heap = [[number] for number in range(200_000)]
    for number in clock.timed(range(12)):
        if number == 9:
            gc.collect()
    assert clock._garbage[2] > 0
    assert clock._garbage[:2] == [0, 0]
    assert len(heap) == 200_000


def test_threads_that_only_wait_for_messages_do_not_count() -> None:
    before = {"main": Scheduled(10.0, 1.0), "watch": Scheduled(1.0, 5.0)}
    now = {"main": Scheduled(11.0, 1.5), "watch": Scheduled(1.01, 9.0), "backward": Scheduled(0.5, 0.25)}
    assert queued(before, now) == pytest.approx(0.75)
    assert queued({}, {}) == 0


def test_cores_are_listed_as_linux_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for chosen, text in (({0}, "0"), ({0, 1, 2, 3, 8}, "0-3,8"), ({5, 1, 2}, "1-2,5")):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, chosen=chosen: chosen)
        assert cores() == text


def test_a_system_that_does_not_count_waits_gives_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(host, "THREADS", tmp_path)
    assert host.scheduled() == {}
