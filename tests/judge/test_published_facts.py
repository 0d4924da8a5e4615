"""Facts of publications that were once recorded wrongly, as their sources state them."""

import re

import pytest
import yaml

from benchrun import api, paths
from benchrun.errors import UserError
from benchrun.judge.references import Reference, load_references
from benchrun.runspec.spec import TrainingSpec

COMMIT_OF_NEMO_RL = "aea463dd2d"
"""NVIDIA-NeMo/RL, its page of 9 July 2026."""


def rows(recipe: str) -> list[Reference]:
    return [entry for entry in load_references() if entry.key.recipe == recipe]


def test_rows_of_nemo_rl_cite_a_commit_that_exists() -> None:
    cited = {word for entry in load_references() for word in re.findall(r"\baea463dd\w+", entry.source.where)}
    assert cited == {COMMIT_OF_NEMO_RL}


def test_the_mfu_of_nemotron_4_is_that_of_two_releases() -> None:
    noted = [
        entry
        for name in ("nemotron4-15b", "nemotron4-340b")
        for entry in rows(name)
        if "v25.04 prints a higher" in (entry.notes or "")
    ]
    assert noted
    assert all("v25.04.01 and v25.04.02" in entry.source.where for entry in noted)


def test_rows_with_a_footnote_of_a_regression_carry_it() -> None:
    flagged = {entry.value for entry in load_references() if "known_regression" in entry.flags}
    assert flagged == {20288.0, 18304.0}  # gpt-oss-120b in MXFP8, nemo:26.06.01


def test_trtllm_runs_as_many_requests_as_were_published() -> None:
    wanted = {("llama3.3-70b-offline", 128): 30000, ("llama3.3-70b-offline", 1000): 3000}
    for (recipe, tokens), count in wanted.items():
        lengths = (f"input_tokens={tokens}", f"output_tokens={tokens}")
        spec = api.resolve_shown(api.Request(recipe, "H100", "fp8", 2, overrides=lengths))
        assert (spec.num_prompts, spec.warmups) == (count, 2)
        assert any("--warmup=2" in text for text in api.render(spec).values())


def test_trtllm_runs_deepseek_r1_with_its_published_options() -> None:
    lengths = ("input_tokens=1000", "output_tokens=1000")
    spec = api.resolve_shown(api.Request("deepseek-r1-offline", "H200", "fp8", 8, overrides=lengths))
    files = api.render(spec)
    written = yaml.safe_load(files["trtllm.yml"])
    assert written["attention_dp_config"] == {"batching_wait_iters": 0, "enable_balance": True, "timeout_iters": 60}
    assert written["moe_config"] == {"backend": "CUTLASS"}
    assert written["kv_cache_config"]["dtype"] == "fp8"
    assert written["enable_attention_dp"] is True
    assert "moe_config" not in files["job.sh"]


def test_a_section_that_follows_from_the_recipe_is_refused_as_an_option() -> None:
    twice = api.Request(
        "deepseek-r1-offline", "H200", "fp8", 8, overrides=("server_options=[--kv_cache_config.dtype=fp8]",)
    )
    with pytest.raises(UserError, match="kv_cache_config follows from"):
        api.resolve_shown(twice)


@pytest.mark.parametrize(
    ("recipe", "gpus"), [("nemotron-3-super", 64), ("nemotron-3-ultra", 256), ("nemotron-3.5-lightning", 8)]
)
def test_nemotron_3_predicts_several_tokens_with_the_weights_of_one_layer(recipe: str, gpus: int) -> None:
    spec = api.resolve_shown(api.Request(recipe, "GB200", "bf16", gpus))
    driver = api.render(spec)["train_megatron_bridge.py"]
    assert "mtp_use_repeated_layer" in driver


def test_the_parameters_in_the_head_of_a_model_are_its_own() -> None:
    head = (paths.RECIPES / "models/mixtral-8x3b.yaml").read_text(encoding="utf-8").splitlines()[0]
    spec = api.resolve_shown(api.Request("mixtral-8x3b", "H100", "bf16", 8))
    assert isinstance(spec, TrainingSpec)
    assert f"{spec.model.params_active / 1e9:.2f} G active" in head
