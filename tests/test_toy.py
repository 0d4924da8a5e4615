"""A framework that a package adds is refused what it cannot run, from its attributes and its own rules."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import DEADLINE_S

from benchrun import api
from benchrun.errors import UserError
from benchrun.frameworks.registry import FRAMEWORKS, register
from benchrun.jobs.endings import Ending
from benchrun.jobs.launcher import observe
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.folder import RunDir

sys.path.insert(0, str(Path(__file__).parent / "extension"))
from site_pack.training import Abacus

RECIPE = """
description: a toy
task: pretrain
model: {num_layers: 4, hidden_size: 64, ffn_hidden_size: 176, num_attention_heads: 4, num_query_groups: 2,
  kv_channels: 16, vocab_size: 256, max_position_embeddings: 128}
seq_length: 128
training: {steps: 30}
frameworks: {abacus: {}}
points: [{gpu: CPU, precision: [fp32, bf16], num_gpus: [1, 2], mbs: 2, gbs: 8, derived: a test}]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[str]:
    """The recipe of the framework that a package adds, while it is registered."""
    (tmp_path / "mine.yaml").write_text(RECIPE)
    register(Abacus())
    yield str(tmp_path / "mine.yaml")
    del FRAMEWORKS["abacus"]


def request(recipe: str, *overrides: str, precision: str = "fp32", num_gpus: int = 1) -> Request:
    return Request(recipe, "CPU", precision, num_gpus, overrides=(f"cluster.python={sys.executable}", *overrides))


def ended(run: RunDir, deadline_s: float = DEADLINE_S) -> Ending:
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        observation = observe([run])[0]
        if observation.over:
            return api.end_of(observation).ending
        time.sleep(0.1)
    raise AssertionError(f"{run.run_id} has not ended")


@pytest.mark.parametrize(
    ("precision", "num_gpus", "overrides", "refused"),
    [
        ("bf16", 1, (), "benchrun supports abacus in fp32, not in bf16"),
        ("fp32", 2, ("layout.tp=2",), "tp (2) must be 1"),
        ("fp32", 2, ("layout.fsdp=2",), "fsdp (2) must be 1"),
        ("fp32", 1, ("training.cuda_graphs=layers",), "training.cuda_graphs"),
        ("fp32", 1, ("training.seed=13",), "superstitious"),
        ("fp32", 1, ("env.ABACUS=null",), "env.ABACUS"),
    ],
)
def test_what_it_cannot_run_is_refused_from_its_attributes_and_its_own_rules(
    recipe: str, precision: str, num_gpus: int, overrides: tuple[str, ...], refused: str
) -> None:
    with pytest.raises(UserError) as error:
        resolve(request(recipe, *overrides, precision=precision, num_gpus=num_gpus))
    assert refused in str(error.value)


def test_a_name_that_is_not_registered_is_refused_at_its_line_with_the_closest_one(tmp_path: Path, recipe: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(RECIPE.replace("abacus: {}", "abakus: {}"))
    with pytest.raises(UserError) as error:
        resolve(request(str(path)))
    assert error.value.where == f"{path}:8"
    assert "did you mean 'abacus'" in str(error.value.hint)
