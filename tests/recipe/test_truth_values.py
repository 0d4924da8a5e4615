"""A truth value is no number, wherever a number belongs."""

import pytest

from benchrun.errors import UserError
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request


@pytest.mark.parametrize("key", ["mbs", "seed", "layout.tp", "generation.memory_share", "cluster.gpus_per_node"])
def test_it_is_refused(key: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("qwen3-30b-a3b-grpo", "H100", num_gpus=32, overrides=(f"{key}=true",)))
    assert "number" in error.value.message


def test_it_is_accepted_where_it_belongs() -> None:
    spec = resolve(Request("qwen3-30b-a3b-grpo", "H100", num_gpus=32, overrides=("layout.sequence_parallel=true",)))
    assert spec.layout.sequence_parallel
