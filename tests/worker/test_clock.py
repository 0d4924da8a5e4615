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

from benchrun.worker.clock import StepClock  # noqa: E402


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
