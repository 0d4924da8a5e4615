"""The calls that are replaced where there is no GPU."""

import pytest

torch = pytest.importorskip("torch")

from benchrun.worker import cpu  # noqa: E402


def test_an_all_gather_without_a_group_is_one_of_all_ranks() -> None:
    """As torch has it, and as the breakdown calls it."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        parts, own = [torch.empty(3)], torch.ones(3)
        cpu._all_gather(parts, own)
        assert parts[0].equal(own)
    finally:
        torch.distributed.destroy_process_group()
