"""The convention of a published TFLOPS is recognised from its tokens/s."""

import pytest
from shapes import MODELS

from benchrun.frameworks.megatron_bridge.dialect import MegatronBridge
from benchrun.measure.convention import CONVENTIONS, identify
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

SHORT = 150
"""Tokens of a SQuAD sample (130 to 170): what NVIDIA's fine-tuning runs, packed into 4096, are charged for scores."""

# Model, sequence length, tokens/s/GPU, TFLOPS/GPU, convention.
PUBLISHED = {
    "NVIDIA blog, H200, 7B": ("llama2-7b", 4096, 16913, 779, "full"),
    "NVIDIA blog, H200, 13B": ("llama2-13b", 4096, 9432, 822, "full"),
    "NVIDIA blog, H200, 70B": ("llama2-70b", 4096, 1880, 836, "full"),
    "NeMo 2.0, GPT-3, 128 GPUs": ("gpt3-175b", 2048, 745, 802, "full"),
    "NeMo 2.0, GPT-3, 512 GPUs": ("gpt3-175b", 2048, 832, 895, "full"),
    "NeMo 2.0, Llama 2 7B": ("llama2-7b", 4096, 16634, 767, "full"),
    "NeMo 2.0, Llama 2 13B": ("llama2-13b", 4096, 8715, 760, "full"),
    "NeMo 2.0, Llama 2 70B": ("llama2-70b", 4096, 1717, 763, "full"),
    "NeMo 2.0, Llama 3 8B": ("llama3.1-8b", 8192, 11883, 688, "full"),
    "NeMo 2.0, Llama 3 70B": ("llama3.1-70b", 8192, 1549, 746, "full"),
    "NeMo 2.0, Nemotron 340B": ("nemotron4-340b", 4096, 328, 691, "full"),
    "NeMo 24.05, Mixtral": ("mixtral-8x7b", 4096, 4369, 362, "full"),
    "NeMo 2.0, SFT 7B": ("llama2-7b", SHORT, 17617, 702, "full"),
    "NeMo 2.0, SFT 13B": ("llama2-13b", SHORT, 10176, 787, "full"),
    "NeMo 2.0, SFT 70B": ("llama2-70b", SHORT, 1812, 747, "full"),
    "NeMo 2.0, LoRA 7B": ("llama2-7b", SHORT, 25206, 673, "lora_full"),
    "NeMo 2.0, LoRA 13B": ("llama2-13b", SHORT, 14760, 764, "lora_full"),
    "NeMo 2.0, LoRA 70B": ("llama2-70b", SHORT, 2621, 722, "lora_full"),
    "Bridge, 8B H100": ("llama3.1-8b", 8192, 14451, 744, "causal"),
    "Bridge, 8B GB200": ("llama3.1-8b", 8192, 31508, 1622, "causal"),
    "Bridge, 70B H100": ("llama3.1-70b", 8192, 1602, 719, "causal"),
    "Bridge, 70B GB200": ("llama3.1-70b", 8192, 4898, 2201, "causal"),
    "Bridge, 405B H100": ("llama3.1-405b", 8192, 311, 784, "causal"),
    "Bridge, 405B GB200": ("llama3.1-405b", 8192, 1136, 2866, "causal"),
    "Bridge, 405B H100, newer": ("llama3.1-405b", 8192, 328, 827, "causal"),
    # MFU of 2450 TFLOPS on 128 GB200.
    "dgxc 25.05, Grok": ("grok1-proxy", 8192, 286300.61 / 128, 0.4759 * 2450, "causal"),
    "dgxc 25.05, 405B": ("llama3.1-405b-kv16", 8192, 64 * 8192 / 9.347 / 128, 64 * 2.17e16 / 9.347 / 128e12, "full"),
    "dgxc 25.05, 340B": ("nemotron4-340b", 4096, 59877 / 128, 0.402 * 2450, "full"),
    "dgxc 25.05, 340B FP8, parsed": ("nemotron4-340b", 4096, 512 * 4096 / 21.542 / 128, 1600.74, "full"),
}


@pytest.mark.parametrize("pair", PUBLISHED)
def test_published_pairs_of_tokens_and_tflops(pair: str) -> None:
    name, seq_length, tokens_per_s, tflops, convention = PUBLISHED[pair]
    found = identify(tflops, tokens_per_s, MODELS[name], seq_length)
    assert found == convention


@pytest.mark.parametrize("length", [130, 170])
@pytest.mark.parametrize("pair", [pair for pair in PUBLISHED if PUBLISHED[pair][1] == SHORT])
def test_how_short_the_samples_were_hardly_matters(pair: str, length: int) -> None:
    """The length was never published; at both ends of what is plausible the count stays within 0.5 %."""
    name, _, tokens_per_s, tflops, convention = PUBLISHED[pair]
    implied = tflops * 1e12 / tokens_per_s
    assert CONVENTIONS[convention](MODELS[name], length) == pytest.approx(implied, rel=0.005)


def test_a_count_with_as_many_key_heads_as_heads_matches_nothing() -> None:
    """dgxc 24.11 charged Nemotron 15B 434.5 TFLOP a sequence of 4096: 13 % too many."""
    assert identify(434.5 / 4096, 1.0, MODELS["nemotron4-15b"], 4096) is None


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_convention_is_recognised(convention: str) -> None:
    model = MODELS["llama3.1-70b"]
    found = identify(CONVENTIONS[convention](model, 8192) * 10_000 / 1e12, 10_000, model, 8192)
    assert found == convention


def test_a_padded_vocabulary_does_not_hide_the_convention() -> None:
    model = MODELS["llama2-7b"]
    padded = model.model_copy(update={"vocab_size": 32768})
    found = identify(CONVENTIONS["causal"](padded, 4096) / 1e12, 1.0, model, 4096)
    assert found == "causal"


def test_where_two_conventions_agree_the_plain_one_is_named() -> None:
    """GPT-3 has the shape that Megatron-LM 0.5 took every model to have, and PaLM's count lies 0.35 % away."""
    model = MODELS["gpt3-175b"]
    for same in ("megatron_0.5", "palm"):
        found = identify(CONVENTIONS[same](model, 2048) / 1e12, 1.0, model, 2048)
        assert found == "full"


def test_a_wider_tolerance_accepts_rounded_tables() -> None:
    model, implied = MODELS["llama3.1-405b"], CONVENTIONS["causal"](MODELS["llama3.1-405b"], 8192) / 1e12
    assert identify(implied * 1.015, 1.0, model, 8192) is None
    found = identify(implied * 1.015, 1.0, model, 8192, tolerance=0.02)
    assert found == "causal"


@pytest.mark.parametrize(("tflops", "tokens_per_s"), [(0, 1000), (400, 0)])
def test_nothing_reported_matches_nothing(tflops: int, tokens_per_s: int) -> None:
    assert identify(tflops, tokens_per_s, MODELS["llama3.1-8b"], 8192) is None


def test_a_gate_of_gelu_that_bridge_does_not_count() -> None:
    """Bridge 0.4.1 counts the third product of an MLP for SwiGLU alone; measured on one layer of Grok-1."""
    grok = MODELS["grok1-proxy"].model_copy(update={"num_layers": 1})
    ways = MegatronBridge.printed_conventions
    assert identify(528.4, 51_603, grok, 4096, ways) == "causal_ungated"
    assert identify(528.4, 51_603, grok, 4096, ("full", "causal")) is None


def test_windows_that_bridge_does_not_count() -> None:
    """Bridge 0.4.1 counts all positions of a windowed layer; measured on four layers of gpt-oss 20B on two H200."""
    request = Request("gpt-oss-20b", "H200", "bf16", 2, overrides=("model.num_layers=4",))
    shape = resolve(request).model
    ways = MegatronBridge.printed_conventions
    assert identify(247.2, 40_484, shape, 4096, ways) == "causal_ungated_unwindowed"
    assert identify(247.2, 40_484, shape, 4096, ("full", "causal", "causal_ungated")) is None
