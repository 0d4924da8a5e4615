"""FLOPs a token, held to counts made independently and to what was published."""

from __future__ import annotations

import pytest

from benchrun import hardware
from benchrun.metrics.flops import flops_per_token
from benchrun.metrics.statistics import spread, warmup_rows
from benchrun.model import ModelShape, Moe


def shape(layers, hidden, ffn, heads, groups, vocab, activation="swiglu", moe=None):
    return ModelShape(
        num_layers=layers,
        hidden_size=hidden,
        ffn_hidden_size=ffn,
        num_attention_heads=heads,
        num_query_groups=groups,
        kv_channels=128,
        vocab_size=vocab,
        max_position_embeddings=8192,
        activation=activation,
        moe=Moe(num_experts=8, topk=2, ffn_hidden_size=ffn) if moe else None,
    )


LLAMA31_8B = shape(32, 4096, 14336, 32, 8, 128256)
LLAMA2_7B = shape(32, 4096, 11008, 32, 32, 32000)
LLAMA2_70B = shape(80, 8192, 28672, 64, 8, 32000)
NEMOTRON_340B = shape(96, 18432, 73728, 96, 8, 256000, "squared-relu").model_copy(update={"kv_channels": 192})
MIXTRAL = shape(32, 4096, 14336, 32, 8, 32000, moe=True)


@pytest.mark.parametrize(
    ("model", "seq_length", "full", "causal"),
    [
        (LLAMA31_8B, 8192, 57.91, 51.47),
        (shape(80, 8192, 28672, 64, 8, 128256), 8192, 481.43, 449.22),
        (shape(126, 16384, 53248, 128, 8, 128256), 8192, 2625.42, 2523.96),
        (shape(32, 6144, 24576, 48, 8, 256000, "squared-relu"), 4096, 93.99, 89.16),
        (NEMOTRON_340B, 4096, 2104.79, 2061.31),
        (shape(96, 12288, 49152, 96, 96, 51200, "gelu"), 2048, 1076.44, 1061.95),
        (MIXTRAL, 4096, 82.93, 79.71),
        (shape(64, 6144, 32768, 48, 8, 131072, "geglu", moe=True), 8192, 541.17, 521.84),
        (LLAMA2_7B, 4096, 46.08, 42.86),
        (shape(40, 5120, 13824, 40, 40, 32000), 4096, 87.18, 82.14),
        (LLAMA2_70B, 4096, 444.49, 428.39),
    ],
    ids=["llama3.1-8b", "70b", "405b", "nemotron-15b", "340b", "gpt3", "mixtral", "grok1", "llama2-7b", "13b", "70b-2"],
)  # fmt: skip
def test_gflop_a_token(model, seq_length, full, causal):
    found = flops_per_token(model, seq_length)
    assert found.full / 1e9 == pytest.approx(full, rel=0.001)
    assert found.causal / 1e9 == pytest.approx(causal, rel=0.001)


@pytest.mark.parametrize(
    ("model", "seq_length", "tokens_per_s", "tflops", "convention"),
    [
        (LLAMA2_7B, 4096, 16913, 779, "full"),  # NVIDIA, H200, NeMo 24.01
        (LLAMA2_70B, 4096, 1880, 836, "full"),  # the same
        (LLAMA31_8B, 8192, 11883, 688, "full"),  # NeMo 24.07, H100
        (LLAMA31_8B, 8192, 14451, 744, "causal"),  # Megatron-Bridge, container 25.11, H100
        (MIXTRAL, 4096, 4369, 362, "full"),  # NeMo 24.05, H100
    ],
)
def test_published_pairs_of_tokens_and_tflops(model, seq_length, tokens_per_s, tflops, convention):
    found = getattr(flops_per_token(model, seq_length), convention)
    assert tokens_per_s * found / 1e12 == pytest.approx(tflops, rel=0.005)


def test_parameters_are_the_known_totals():
    assert LLAMA31_8B.params_total == 8_030_261_248
    assert MIXTRAL.params_total == 46_702_792_704
    assert MIXTRAL.params_active < MIXTRAL.params_total


def test_an_unknown_gpu_has_no_peak_and_a_known_one_has_a_source():
    assert hardware.gpu("CPU") is None
    assert hardware.gpu("H1000") is None
    h100 = hardware.gpu("H100")
    assert (h100.peak_tflops("bf16"), h100.peak_tflops("fp8"), h100.peak_tflops("fp32")) == (989, 1979, None)
    assert h100.source
    assert hardware.gpu("A100").peak_tflops("fp8") is None


@pytest.mark.parametrize(("rows", "dropped"), [(0, 0), (1, 0), (4, 2), (10, 5), (50, 5), (51, 6), (500, 50)])
def test_the_warm_up_rule(rows, dropped):
    assert warmup_rows(rows) == dropped


def test_a_row_counts_as_often_as_the_steps_it_averages():
    assert spread([1.0, 3.0], [1, 3]).mean == 2.5
    assert spread([1.0, 3.0], [2, 2]).mean == 2.0
    assert spread([2.0]).stdev == 0.0
