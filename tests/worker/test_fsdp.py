"""Parts of the worker's FSDP that do not need two ranks."""

from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("megatron.core")

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

from benchrun.worker.fsdp import cut_moments


@pytest.fixture
def first_of_two() -> Iterator[Any]:
    """A mesh of two ranks, of which only the first exists."""
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,))
    torch.distributed.destroy_process_group()


def test_moments_have_the_size_of_the_rank_s_part(first_of_two: Any) -> None:
    """transformer-engine's FusedAdam would allocate them for both ranks."""
    weight = DTensor.from_local(torch.ones(3, 5, dtype=torch.bfloat16), first_of_two, [Shard(0)])
    assert weight.shape == (6, 5)
    adam = SimpleNamespace(param_groups=[{"params": [weight]}], state=defaultdict(dict))
    cut_moments(adam)
    for moment in adam.state[weight].values():
        assert moment.shape == (3, 5)
        assert moment.dtype == torch.float32
    assert set(adam.state[weight]) == {"exp_avg", "exp_avg_sq"}
