"""The time in collectives of a rank: of one that has others; a rank alone waits for nobody."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.train
torch: Any = pytest.importorskip("torch", reason="training needs pip install '.[train]'")

from benchrun.rundir.rank_times import RankTime, RankTimes  # noqa: E402
from benchrun.worker.clock import StepClock, together  # noqa: E402


@pytest.fixture
def group() -> Iterator[None]:
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(("ranks", "counted"), [(1, False), (2, True)])
def test_collectives_count_where_there_are_other_ranks(
    ranks: int, counted: bool, group: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    method = torch.distributed.ProcessGroup.allreduce
    with StepClock(SimpleNamespace(gpu="CPU", num_gpus=ranks, training=None)) as clock:
        for number in range(1, 4):
            clock.start()
            torch.distributed.all_reduce(torch.ones(1000))
            clock.end_step(number)
    assert torch.distributed.ProcessGroup.allreduce is method
    clock.keep()
    (rank,) = json.loads(Path("ranks.json").read_text())["ranks"]
    assert len(rank["collective_time_s"]) == 3
    assert all((seconds > 0) is counted for seconds in rank["collective_time_s"])


class Event:
    """An event in a GPU's queue that has come to its first ``reached`` events."""

    recorded = reached = 0

    def __init__(self, *, enable_timing: bool) -> None:
        self.place = -1

    def record(self) -> None:
        self.place = Event.recorded
        Event.recorded += 1

    def query(self) -> bool:
        return self.place < Event.reached


def test_the_marks_of_collectives_tell_what_a_gpu_that_stands_still_has_come_to(
    group: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchrun.worker import hang

    stream = SimpleNamespace(device=torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(hang, "device", None)
    training = SimpleNamespace(tp_comm_overlap=False, cuda_graphs="none")
    spec = SimpleNamespace(gpu="H200", num_gpus=2, training=training, layout=SimpleNamespace(cp=1))
    with StepClock(spec) as clock:
        clock.start()
        torch.distributed.all_reduce(torch.ones(8))
    assert Event.recorded == 5  # the begin of the step; the begin and the end of the call, of waiting for it
    written = []
    for Event.reached in (1, 4, 5):
        path = tmp_path / f"device_{Event.reached}.txt"
        hang._device(path)
        written.append(path.read_text() if path.exists() else None)
    assert written == ["computes", "waits", None]


def test_ranks_that_measured_other_steps_are_joined_by_those_of_all() -> None:
    """A pipeline stage with many calls measures every tenth step."""
    often = [(step, 1.0 + step, 0.5) for step in range(1, 31)]
    seldom = [(step, 2.0 + step, -1e-9) for step in (1, 10, 20, 30)]
    times = together([("node1", 0, often), ("node1", 1, seldom)])
    assert times.steps == (1, 10, 20, 30)
    assert [rank.compute_time_s for rank in times.ranks] == [(2.0, 11.0, 21.0, 31.0), (3.0, 12.0, 22.0, 32.0)]
    assert [rank.stage for rank in times.ranks] == [0, 1]


def test_ranks_with_other_numbers_of_times_are_refused() -> None:
    rank = RankTime(rank=0, host="node1", compute_time_s=(1.0,), collective_time_s=(0.0,))
    with pytest.raises(ValueError, match="rank 0 has 1 times for 2 steps"):
        RankTimes(steps=(1, 2), ranks=(rank,))
