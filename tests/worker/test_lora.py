"""The worker's LoRA, really trained on the CPU: frozen weights, adapters that begin at zero, any number of ranks."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from selection import some
from test_parity import run

from benchrun.errors import UserError
from benchrun.model.adapters import MEGATRON, MEGATRON_LINEARS, adapter_params
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

SMALL = ("training.steps=6", "model.num_layers=2", "seq_length=64")


def spec_for(ranks: int, *overrides: str, recipe: str = "tiny-llama-lora", precision: str = "fp32") -> RunSpec:
    """A short run."""
    return resolve(Request(recipe, "CPU", precision, ranks, "megatron-core", overrides=(*SMALL, *overrides)))


def trained(folder: Path, spec: RunSpec) -> tuple[list[float], dict[str, Any]]:
    """The losses, and what the worker says is in use."""
    folder.mkdir()
    result = run(folder, spec)
    assert result.returncode == 0, result.stderr[-3000:]
    (facts,) = re.findall(r"benchrun in use: (.*)", result.stdout)
    return [float(text) for text in re.findall(r"lm loss: (\S+)", result.stdout)], json.loads(facts)


@pytest.mark.parametrize("targets", some(["", "linear_qkv", "linear_proj, linear_fc2"], 1))
def test_the_adapters_alone_are_trained(tmp_path: Path, targets: str) -> None:
    spec = spec_for(1, f"training.lora.target_modules=[{targets}]" if targets else "training.seed=1234")
    losses, facts = trained(tmp_path / "run", spec)
    named = tuple(filter(None, targets.split(", ")))
    of_a_layer = adapter_params(spec.model, MEGATRON, named, spec.training.lora.rank)
    assert facts["trained_parameters"] == spec.model.num_layers * of_a_layer
    assert losses[-1] < losses[0]


def test_two_ranks_train_the_same(tmp_path: Path) -> None:
    alone, _ = trained(tmp_path / "one", spec_for(1))
    together, _ = trained(tmp_path / "two", spec_for(2))
    assert together == pytest.approx(alone, rel=2e-6)


def test_layers_that_are_computed_again_train_the_same(tmp_path: Path) -> None:
    """Nothing before the first layer is trained, and yet it has a backward pass."""
    again = spec_for(1, "training.recompute={granularity: full, method: uniform, num_layers: 1}")
    recomputed, facts = trained(tmp_path / "again", again)
    stored, _ = trained(tmp_path / "stored", spec_for(1))
    assert recomputed == stored
    assert facts["recompute"] == {"full": 2}


def test_the_first_loss_is_that_of_the_weights(tmp_path: Path) -> None:
    """The first step of a run without adapters: theirs add nothing yet."""
    dimensions = spec_for(1).model
    same = [f"model.{name}={value}" for name, value in dimensions.model_dump(exclude_defaults=True).items()]
    whole = spec_for(1, *same, recipe="tiny-llama")
    adapted, _ = trained(tmp_path / "adapters", spec_for(1))
    plain, facts = trained(tmp_path / "whole", whole)
    assert adapted[0] == plain[0]
    assert adapted[1:] != plain[1:]
    assert facts["trained_parameters"] == dimensions.params_total


def test_in_bf16_the_loss_falls_too(tmp_path: Path) -> None:
    losses, facts = trained(tmp_path / "run", spec_for(2, precision="bf16"))
    assert losses[-1] < losses[0]
    assert facts["weights"].keys() == {"bfloat16"}


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("training.lora.target_modules=[q_proj]", "linear_qkv"),
        ("training.offload_activations=true", "offload_activations"),
    ],
)
def test_what_the_adapters_cannot_do_is_refused(override: str, named: str) -> None:
    with pytest.raises(UserError) as error:
        spec_for(1, override)
    assert named in str(error.value)


@pytest.mark.parametrize("name", ["tp", "pp"])
def test_other_parallelism_is_refused(name: str) -> None:
    with pytest.raises(UserError) as error:
        spec_for(2, f"layout.{name}=2")
    assert f"{name} (2) must be 1" in str(error.value)


def test_every_linear_layer_of_a_block_can_have_an_adapter() -> None:
    assert set(MEGATRON_LINEARS) == {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}
