"""The time in collectives of a rank: of one that has others; a rank alone waits for nobody."""

import json
from collections.abc import Iterator
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
