"""The Hugging Face fine-tune before the queue: what it cannot do is refused, what it needs is estimated."""

from pathlib import Path
from typing import Any

import pytest

from benchrun import paths
from benchrun.errors import UserError
from benchrun.memory import ESTIMATE_ERROR, estimate
from benchrun.model.adapters import TRANSFORMERS, adapter_params
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

LLAMA = ("llama2-70b-lora-hf", "H100", "bf16", 8)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["layout.tp=2"], "benchrun supports hf without tp: tp (2) must be 1"),
        (["layout.pp=2"], "pp (2) must be 1"),
        (["layout.fsdp=2"], "hf shards over all ranks: fsdp (2) must be "),
        (["training.overlap_param_gather=false"], "training.overlap_param_gather must be true"),
        (["layout.cp=2"], "cp (2) must be 1"),
        (
            ["model.moe={num_experts: 8, topk: 2, ffn_hidden_size: 1024}"],
            "benchrun supports hf for models without experts",
        ),
        (["model.activation=gelu"], "activation must be swiglu, not gelu"),
        (["model.normalization=LayerNorm"], "normalization must be RMSNorm"),
        (["model.rotary_percent=0.5"], "rotary_percent must be 1.0"),
        (["model.position_embedding=learned"], "position_embedding must be rope"),
        (["training.recompute={granularity: selective}"], "must be none or full, not selective"),
        (["training.recompute.num_layers=4"], "recompute.num_layers (4) must be 1 with uniform"),
        (["training.lora.target_modules=[q_proj, linear_qkv]"], "no layer of a Llama is called linear_qkv"),
        (["model.hidden_size=8200"], "hidden_size (8200) to be a multiple of num_attention_heads (64)"),
        (["image=null"], "container runtime pyxis needs an image"),
    ],
)
def test_what_it_cannot_do_is_refused(overrides: list[str], says: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request(*LLAMA, overrides=tuple(overrides)))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("precision: bf16", "precision: fp8", "benchrun supports hf in bf16 or fp32, not in fp8"),
        ("  hf: {image", "  megatron-lm: {image", "benchrun does not support megatron-lm for lora"),
    ],
)
def test_what_no_option_can_change_is_refused_in_a_recipe(tmp_path: Path, old: str, new: str, says: str) -> None:
    text = (paths.RECIPES / "llama2-70b-lora-hf.yaml").read_text()
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(UserError) as error:
        resolve(Request(str(path), "H100", None, 8))
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("recipe", "ranks", "update", "overrides", "peak_gib"),
    [
        ("llama2-70b-lora-hf", 2, {"gbs": 16}, (), 97.96),
        ("mistral-7b-hf", 2, {"gbs": 128}, (), 27.43),
        ("mistral-7b-hf", 1, {}, ("mbs=4", "training.recompute={granularity: none}"), 79.51),
        ("mistral-7b-hf", 2, {"gbs": 16, "task": "sft"}, ("mbs=2", "training.recompute={granularity: none}"), 80.37),
    ],
    ids=["llama2-70b", "mistral", "mistral-no-recompute", "mistral-whole-no-recompute"],
)
def test_the_memory_is_the_one_that_was_measured(
    recipe: str, ranks: int, update: dict[str, Any], overrides: tuple[Any, ...], peak_gib: float
) -> None:
    """Peak of rank 0 on H200 with torch 2.11.0, transformers 5.17.0 and peft 0.21.0, in GiB."""
    spec = resolve(Request(recipe, "H200", "bf16", 8, overrides=overrides))
    spec = spec.model_copy(update={"num_gpus": ranks, "dp": ranks, **update})
    assert estimate(spec).total == pytest.approx(peak_gib, rel=ESTIMATE_ERROR)


def test_seventy_billion_fit_on_one_node_because_every_rank_holds_its_part_only() -> None:
    spec = resolve(Request(*LLAMA))
    memory = estimate(spec)
    assert memory.total < 70
    wider = estimate(resolve(Request("llama2-70b-lora-hf", "H100", "bf16", 64)))
    parts = spec.model.params_total * 2 * (1 / 8 - 1 / 64) / 2**30
    assert memory.weights - wider.weights == pytest.approx(parts, rel=0.02)
    assert memory.activations == wider.activations


def test_adapters_of_the_published_run_have_as_many_parameters_as_peft_counts() -> None:
    """peft 0.21.2 says of a Llama 2 70B with rank 8 on all seven linear layers: trainable params: 103,546,880."""
    model = resolve(Request(*LLAMA)).model
    assert model.num_layers * adapter_params(model, TRANSFORMERS, (), rank=8) == 103_546_880
