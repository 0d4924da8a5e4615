"""The same data and weights give the same loss and gradient norm in every layout of the same mathematics.

Each case is a real training of a few steps, held to the one-process run step by step.
"""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import forked
import pytest
from selection import some

from benchrun.errors import UserError
from benchrun.frameworks.registry import framework
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.runspec.spec import RunSpec

pytestmark = pytest.mark.train
pytest.importorskip("torch", reason="training needs pip install '.[train]'")
pytest.importorskip("megatron.core", reason="training needs pip install '.[train]'")

Curve = tuple[list[float], list[float]]
"""Loss and gradient norm of every step."""
SMALL = ("training.steps=4", "model.num_layers=4", "seq_length=64")
# FP32 sums in another order: seen differences stay below 5e-7 for dense models. Experts that few tokens reach have
# gradients near Adam's epsilon (1e-8), whose rounding Adam makes large: seen 4e-6, and 2e-7 with an epsilon of 1e-4.
TOLERANCE = {"tiny-llama": 2e-6, "tiny-mixtral": 2e-5}
NEMOTRON = ("model.activation=squared-relu", "model.normalization=LayerNorm1p", "model.rotary_percent=0.5")
GPT3 = (
    "model.activation=gelu",
    "model.normalization=LayerNorm",
    "model.position_embedding=learned",
    "model.bias=true",
    "model.tied_embeddings=true",
    "model.num_query_groups=4",
)
GROK = ("model.activation=geglu",)


def spec_for(recipe: str, ranks: int, *overrides: str, precision: str = "fp32", **layout: Any) -> RunSpec:
    """A RunSpec for any number of ranks, whether the recipe lists it or not."""
    base = resolve(Request(recipe, "CPU", precision, 1, overrides=(*SMALL, *overrides)))
    spread = base.layout.model_copy(update=layout)
    return framework("megatron-core").configured(base.resized(layout=spread, num_gpus=ranks))


def run(tmp_path: Path, spec: RunSpec, **env: str) -> CompletedProcess[str]:
    """Start the worker's ranks and wait."""
    path = tmp_path / "spec.json"
    path.write_text(spec.model_dump_json())
    return forked.run("benchrun.worker", path, spec.num_gpus, **env)


def curve(tmp_path: Path, spec: RunSpec) -> Curve:
    """Train ``spec`` to its end."""
    result = run(tmp_path, spec)
    assert result.returncode == 0, result.stderr[-3000:]
    losses = [float(text) for text in re.findall(r"lm loss: (\S+)", result.stdout)]
    norms = [float(text) for text in re.findall(r"grad norm: (\S+)", result.stdout)]
    assert len(losses) == len(norms) == spec.training.steps
    return losses, norms


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Curve]:
    """Model -> its one-process run, made once."""

    @functools.cache
    def made(recipe: str, family: tuple[str, ...] = ()) -> Curve:
        return curve(tmp_path_factory.mktemp("alone"), spec_for(recipe, 1, *family))

    return made


SEQUENCE = {"tp": 2, "sequence_parallel": True}
RECOMPUTE = ("training.recompute={granularity: full, method: uniform, num_layers: 1}",)
PLAIN = ("training.distributed_optimizer=false", "training.overlap_param_gather=false")
LAYOUTS: dict[str, tuple[str, int, dict[str, Any], tuple[str, ...]]] = {
    "dp2": ("tiny-llama", 2, {}, ()),
    "pp2-vp2": ("tiny-llama", 2, {"pp": 2, "vp": 2}, ()),
    "ep2": ("tiny-mixtral", 2, {"ep": 2}, ()),
}
"""What `make test` trains."""
MORE_LAYOUTS: dict[str, tuple[str, int, dict[str, Any], tuple[str, ...]]] = {
    "tp2-sp": ("tiny-llama", 2, SEQUENCE, ()),
    "cp2": ("tiny-llama", 2, {"cp": 2}, ()),
    "dp2-plain-optimizer": ("tiny-llama", 2, {}, PLAIN),
    "tp2-pp2": ("tiny-llama", 4, {"tp": 2, "pp": 2}, ()),
    "fsdp2": ("tiny-llama", 2, {"fsdp": 2}, ()),
    "fsdp2-tp2-sp": ("tiny-llama", 4, {**SEQUENCE, "fsdp": 2}, ()),
    "fsdp2-cp2": ("tiny-llama", 2, {"fsdp": 2, "cp": 2}, ()),
    "recompute": ("tiny-llama", 1, {}, RECOMPUTE),
    "fsdp2-moe": ("tiny-mixtral", 2, {"fsdp": 2}, RECOMPUTE),
    "etp2": ("tiny-mixtral", 2, {**SEQUENCE, "etp": 2}, ()),
    "pp2-ep2": ("tiny-mixtral", 4, {"pp": 2, "ep": 2}, ()),
    "tp2-ep2": ("tiny-mixtral", 2, {**SEQUENCE, "ep": 2}, ()),
    # The ranks that share an expert then hold different numbers of tokens.
    "ep2-etp2": ("tiny-mixtral", 4, {**SEQUENCE, "ep": 2, "etp": 2}, ()),
}


@pytest.mark.parametrize(
    ("recipe", "ranks", "layout", "overrides"),
    [*LAYOUTS.values(), *some(MORE_LAYOUTS.values(), 0)],
    ids=[*LAYOUTS, *MORE_LAYOUTS],
)
def test_a_layout_changes_nothing_but_speed(
    tmp_path: Path,
    alone: Callable[..., Curve],
    recipe: str,
    ranks: int,
    layout: dict[str, Any],
    overrides: tuple[str, ...],
) -> None:
    losses, norms = curve(tmp_path, spec_for(recipe, ranks, *overrides, **layout))
    assert losses == pytest.approx(alone(recipe)[0], rel=TOLERANCE[recipe])
    assert norms == pytest.approx(alone(recipe)[1], abs=2e-3)


@pytest.mark.parametrize(
    ("family", "layout"),
    [
        # The first and the last stage share a matrix, and learned positions live on the first.
        (GPT3, {"pp": 2}),
        *some(
            [
                (NEMOTRON, SEQUENCE),
                (GROK, {"tp": 2}),
                (("model.num_layers=6",), {"pp": 2, "vp": 2, "account_for_embedding_and_loss": True}),
            ],
            0,
        ),
    ],
    ids=["gpt3-pp2", "nemotron-tp2-sp", "grok-tp2", "uneven-stages"],
)
def test_other_families_learn_and_split_as_well(
    tmp_path: Path, alone: Callable[..., Curve], family: tuple[str, ...], layout: dict[str, Any]
) -> None:
    losses, norms = curve(tmp_path, spec_for("tiny-llama", 2, *family, **layout))
    expected_losses, expected_norms = alone("tiny-llama", family)
    assert losses == pytest.approx(expected_losses, rel=TOLERANCE["tiny-llama"])
    assert norms == pytest.approx(expected_norms, abs=2e-3)
    assert losses[-1] < losses[0] - 0.2


def test_every_weight_is_sharded_and_the_update_is_that_of_whole_weights(tmp_path: Path) -> None:
    facts = []
    for name, layout in (("whole", {}), ("sharded", {"fsdp": 2})):
        (tmp_path / name).mkdir()
        result = run(tmp_path / name, spec_for("tiny-llama", 2, precision="bf16", **layout))
        assert result.returncode == 0, result.stderr[-3000:]
        facts.append(json.loads(re.findall(r"benchrun in use: (.*)", result.stdout)[0]))
    whole, sharded = facts
    assert (whole["sharded_weights"], sharded["sharded_weights"]) == (0, sum(sharded["weights"].values()))
    assert sharded["weights"] == whole["weights"]
    assert sharded["optimizer_states"]["exp_avg"] == "float32"


@pytest.mark.parametrize(
    ("layout", "overrides", "named"),
    [
        ({"fsdp": 2}, (), "must be 1 or dp * cp (4)"),
        ({"fsdp": 4}, ("training.overlap_grad_reduce=false",), "overlap_grad_reduce"),
        ({"fsdp": 4}, ("training.grad_reduce_in_fp32=true",), "grad_reduce_in_fp32"),
        ({"fsdp": 4}, ("training.offload_activations=true",), "offload_activations"),
        ({"fsdp": 4}, ("model.tied_embeddings=true",), "ties"),
        ({"fsdp": 2, "pp": 2}, (), "excludes a pipeline"),
        ({"fsdp": 4}, ("training.optimizer.precision_aware=true",), "precision_aware"),
    ],
)
def test_what_fsdp_excludes_is_refused(layout: dict[str, int], overrides: tuple[str, ...], named: str) -> None:
    stated = [f"layout.{name}={size}" for name, size in {"tp": 1, "pp": 1, "cp": 1, **layout}.items()]
    with pytest.raises(UserError) as error:
        resolve(Request("tiny-llama", "CPU", "fp32", 4, overrides=(*SMALL, *stated, *overrides)))
    assert named in str(error.value)


def test_bf16_is_near_fp32_and_not_the_same(tmp_path: Path, alone: Callable[..., Curve]) -> None:
    losses, _ = curve(tmp_path, spec_for("tiny-llama", 1, precision="bf16"))
    assert losses == pytest.approx(alone("tiny-llama")[0], rel=0.02)
    assert losses != alone("tiny-llama")[0]
