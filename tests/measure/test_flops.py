"""FLOPs a token, held to counts made independently."""

import pytest
from shapes import MODELS

from benchrun import hardware
from benchrun.measure.convention import CONVENTIONS
from benchrun.model import ModelShape
from benchrun.model.flops import attention_scores, flops_per_token, logits
from benchrun.model.operators import operators

COLUMNS = (
    "six_n", "palm", "full", "causal", "megatron_0.5", "causal_no_logits", "lora_full", "lora_causal",
)  # fmt: skip
# GFLOP a token, from a script that shares no code with this one.
WORKED = {
    ("llama3.1-8b", 8192): (48.18, 61.06, 57.91, 51.47, 49.86, 48.32, 42.90, 36.46),
    ("llama3.1-70b", 8192): (423.31, 487.74, 481.43, 449.22, 400.90, 442.92, 342.43, 310.22),
    ("llama3.1-405b", 8192): (2435.10, 2638.03, 2625.42, 2523.96, 2270.28, 2511.35, 1817.93, 1716.46),
    ("llama3.1-405b-kv16", 8192): (2460.46, 2663.40, 2650.79, 2549.32, 2295.65, 2536.72, 1834.84, 1733.37),
    ("nemotron4-15b", 4096): (93.77, 103.43, 93.99, 89.16, 93.99, 79.73, 65.88, 61.05),
    ("nemotron4-340b", 4096): (2046.13, 2133.11, 2104.79, 2061.31, 2104.79, 2033.00, 1432.19, 1388.70),
    ("gpt3-175b", 2048): (1051.23, 1080.22, 1076.44, 1061.95, 1076.44, 1058.17, 727.29, 712.80),
    ("mixtral-8x7b", 4096): (77.28, 83.72, 82.93, 79.71, 41.05, 78.92, 57.43, 54.21),
    ("grok1-314b", 8192): (507.36, 546.02, 541.17, 521.84, 193.27, 517.01, 373.66, 354.33),
    ("llama2-7b", 4096): (40.43, 46.87, 46.08, 42.86, 45.88, 42.08, 32.87, 29.65),
    ("llama2-13b", 4096): (78.09, 88.16, 87.18, 82.14, 86.55, 81.16, 61.47, 56.44),
    ("llama2-70b", 4096): (413.85, 446.06, 444.49, 428.39, 363.96, 426.81, 307.06, 290.96),
}


@pytest.mark.parametrize("convention", COLUMNS)
@pytest.mark.parametrize(("name", "seq_length"), WORKED)
def test_gflop_a_token(name: str, seq_length: int, convention: str) -> None:
    worked = WORKED[name, seq_length][COLUMNS.index(convention)]
    assert CONVENTIONS[convention](MODELS[name], seq_length) / 1e9 == pytest.approx(worked, rel=0.001)


def products(model: ModelShape, *names: str) -> float:
    """Forward FLOPs per token of these products of all layers."""
    return sum(operators(model).product(name).flops for name in names)


def test_the_quantities_of_llama_2_7b_by_hand() -> None:
    model = MODELS["llama2-7b"]
    assert products(model, "qkv", "proj") == 2 * 32 * 4 * 4096**2
    assert products(model, "fc1", "fc2") == 2 * 32 * 3 * 4096 * 11008
    assert attention_scores(model, 4096) == 2 * 32 * 2 * 4096 * 4096
    assert logits(model) == 2 * 32000 * 4096


def test_only_the_active_experts_count() -> None:
    assert products(MODELS["mixtral-8x7b"], "fc1", "fc2") == 2 * products(MODELS["llama3.1-8b"], "fc1", "fc2")


def test_fine_tuning_all_weights_costs_what_pretraining_costs() -> None:
    model = MODELS["llama2-7b"]
    assert flops_per_token(model, 4096, task="sft") == flops_per_token(model, 4096)


def test_lora_saves_the_gradient_of_the_frozen_weights_and_no_scores() -> None:
    model = MODELS["llama2-70b"]
    saved = flops_per_token(model, 4096).full - flops_per_token(model, 4096, task="lora").full
    assert saved == products(model, "qkv", "proj", "fc1", "fc2", "logits")


def test_parameters_are_the_known_totals() -> None:
    assert MODELS["llama3.1-8b"].params_total == 8_030_261_248
    assert MODELS["mixtral-8x7b"].params_total == 46_702_792_704
    assert MODELS["mixtral-8x7b"].params_active < MODELS["mixtral-8x7b"].params_total


def test_an_unknown_gpu_has_no_peak_and_a_known_one_has_a_source() -> None:
    assert hardware.gpu("CPU") is None
    assert hardware.gpu("H1000") is None
    h100 = hardware.gpu("H100")
    assert (h100.peak_tflops("bf16"), h100.peak_tflops("fp8"), h100.peak_tflops("fp32")) == (989, 1979, None)
    assert h100.source
    assert hardware.gpu("A100").peak_tflops("fp8") is None
