"""The estimate of a GPU's memory: held to peaks that were measured, and each part to what it should do."""

import re
from typing import Any

import pytest

from benchrun.errors import UserError
from benchrun.memory import ESTIMATE_ERROR, Memory, estimate, impossible, warning
from benchrun.memory.activations import half_layers, stored
from benchrun.memory.stages import stages
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request

FP32_GRADIENTS = "training.grad_reduce_in_fp32=true"
FP32_MOMENTS = (
    *("training.optimizer.precision_aware=false", "training.optimizer.exp_avg=fp32"),
    "training.optimizer.exp_avg_sq=fp32",
)
WHOLE_7B = "model.num_layers=32"


def memory(
    recipe: str, gpu: str, precision: str, num_gpus: int, *overrides: str, framework: str | None = None
) -> Memory:
    return estimate(resolve(Request(recipe, gpu, precision, num_gpus, framework, overrides=overrides)))


# Peaks of allocated memory in GiB, measured with megatron-core 0.19.2 and transformer-engine 2.11.0, gradients in FP32.
MEASURED = [
    (("llama2-7b", "H200", "fp8", 8, "mbs=2"), 77),
    (("llama2-13b", "H200", "fp8", 8, "mbs=1"), 115),
    (("llama3.1-8b", "H200", "fp8", 8), 91),
    (("llama3.1-8b", "H200", "bf16", 8), 96),
    (("llama2-7b", "H200", "fp8", 4, WHOLE_7B, "mbs=2", "gbs=64"), 87),
    (("llama2-7b", "H200", "fp8", 4, WHOLE_7B, "mbs=4", "gbs=64"), 116),
    (
        ("llama2-7b", "H200", "fp8", 4, WHOLE_7B, "mbs=4", "gbs=64", "layout.tp=4", "layout.sequence_parallel=true"),
        44,
    ),
    (("llama3.1-8b", "H100", "bf16", 1, "gbs=8"), 62),
    (("llama3.1-8b", "H100", "fp8", 1, "gbs=8"), 61),
]


@pytest.mark.parametrize(("point", "peak"), MEASURED)
def test_the_estimate_is_within_a_tenth_of_what_was_measured(point: tuple[Any, ...], peak: int) -> None:
    assert memory(*point, FP32_GRADIENTS).total == pytest.approx(peak, rel=ESTIMATE_ERROR)


# The same with gradients in BF16, as the recipes have them; where the first part is a proxy, Adam's step is the peak.
MEASURED_STEP = [
    (("llama2-7b", "H100", "fp8", 1), 72),
    (("llama3.1-8b", "H100", "fp8", 1), 56.8),
    (("mixtral-8x7b", "H100", "fp8", 1), 65.2),
    (("grok1-314b", "H100", "fp8", 1), 58.9),
    (("llama2-13b", "H200", "fp8", 1, "gbs=16", "mbs=2"), 72.2),
    (("llama2-70b", "H200", "fp8", 1), 111.6),
    (("nemotron4-15b", "H200", "fp8", 1, "model.num_layers=6"), 110.4),
    (("llama2-7b", "H200", "fp8", 2, "mbs=4"), 121.8),
    (("llama3.1-8b", "H200", "fp8", 2), 108),
    (("llama3.1-8b", "H200", "bf16", 2), 112.5),
    (("llama3.1-8b", "H200", "bf16", 1, "model.num_layers=8", *FP32_MOMENTS), 53.8),
]


@pytest.mark.parametrize(("point", "peak"), MEASURED_STEP)
def test_so_it_is_where_gradients_become_fp32_in_the_step(point: tuple[Any, ...], peak: float) -> None:
    assert memory(*point, framework="megatron-core").total == pytest.approx(peak, rel=ESTIMATE_ERROR)


def test_the_distributed_optimizer_shares_the_states_and_nothing_else() -> None:
    shared = memory("llama3.1-8b", "H200", "bf16", 8, "model.num_layers=16")
    whole = memory(
        "llama3.1-8b",
        "H200",
        "bf16",
        8,
        "model.num_layers=16",
        "training.distributed_optimizer=false",
        "training.overlap_param_gather=false",
    )
    assert whole.optimizer == pytest.approx(8 * shared.optimizer)
    assert (whole.weights, whole.gradients, whole.activations) == (
        shared.weights,
        shared.gradients,
        shared.activations,
    )


def test_fsdp_cuts_all_states_and_gathers_a_few_layers_and_the_ends() -> None:
    whole = memory("llama3-8b", "H100", "fp8", 8, "layout.fsdp=1", framework="nemo2")
    cut = memory("llama3-8b", "H100", "fp8", 8, framework="nemo2")
    assert (cut.weights, cut.gradients) == pytest.approx((whole.weights / 8, whole.gradients / 8))
    assert cut.optimizer == pytest.approx(whole.optimizer)  # the distributed optimizer has cut that already
    ends = 2 * 128256 * 4096 * 2 / 2**30
    assert whole.gathered == 0 < cut.gathered - 2 * ends < whole.weights / 3


def test_fsdp_gathers_embedding_and_output_layer_and_keeps_fp8_copies() -> None:
    sharded = ("layout.fsdp=8", "training.fp8.param_gather=false")
    bf16 = memory("llama3.1-8b", "H200", "bf16", 8, *sharded, framework="megatron-core")
    fp8 = memory("llama3.1-8b", "H200", "fp8", 8, *sharded, framework="megatron-core")
    layer, output = 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336) / 2**30, 128256 * 4096 / 2**30
    assert bf16.gathered == pytest.approx((4 * layer + 2 * output) * 2 + (5 * layer + 2 * output) * 2, rel=0.01)
    assert fp8.weights - bf16.weights == pytest.approx(32 * layer * 2, rel=0.01)
    assert bf16.placeholders == fp8.placeholders == 0
    assert bf16.states == pytest.approx(8.03 * 1e9 / 2**30 * 16 / 8, rel=0.01)


def test_frozen_weights_have_neither_gradients_nor_optimizer_states() -> None:
    trained = memory("llama3-8b-sft", "H100", "bf16", 8)
    frozen = memory("llama3-8b-lora", "H100", "bf16", 8)
    assert frozen.weights == trained.weights
    assert frozen.gradients < 0.01 * trained.gradients
    assert frozen.optimizer < 0.1 * trained.optimizer


def test_experts_are_cut_by_expert_parallelism_and_the_rest_is_not() -> None:
    eight = memory("mixtral-8x7b", "H200", "bf16", 8)
    one = memory("mixtral-8x7b", "H200", "bf16", 8, "layout.ep=1")
    experts = 12 * 8 * 3 * 4096 * 14336 * 2 / 2**30
    assert one.weights - eight.weights == pytest.approx(experts * 7 / 8)


def test_a_proxy_of_dense_layers_alone_stores_nothing_of_experts() -> None:
    dense = memory("deepseek-v3", "H100", "bf16", 4, "model.num_layers=3")
    assert memory("deepseek-v3", "H100", "bf16", 4, "model.num_layers=1").activations == pytest.approx(
        dense.activations / 3
    )


def test_selective_recompute_saves_nothing_that_flash_attention_had_not() -> None:
    plain = memory("llama3.1-8b", "H200", "bf16", 8)
    assert memory("llama3.1-8b", "H200", "bf16", 8, "training.recompute.granularity=selective") == plain


def test_full_recompute_keeps_the_inputs_of_the_layers() -> None:
    plain = memory("llama3.1-8b", "H200", "bf16", 8).activations
    full = memory(
        "llama3.1-8b", "H200", "bf16", 8, "training.recompute={granularity: full, method: uniform, num_layers: 1}"
    ).activations
    inputs = 32 * 8192 * 4096 * 2 / 2**30
    assert inputs < full < inputs + plain / 32 + 0.01


def test_sequence_parallelism_cuts_what_tensor_parallelism_leaves_whole() -> None:
    split = memory("nemotron4-15b", "H100", "bf16", 16)
    whole = memory(
        "nemotron4-15b", "H100", "bf16", 16, "layout.sequence_parallel=false", "training.tp_comm_overlap=false"
    )
    norms = 32 * 2 * 4096 * 8 * 6144 / 2**30  # layers, sequences, tokens, four tensors of two bytes
    assert whole.activations - split.activations == pytest.approx(norms / 2)


def test_a_pipeline_holds_more_micro_batches_the_more_it_interleaves() -> None:
    plain = memory("llama2-13b", "H100", "bf16", 16, "layout.vp=1")
    interleaved = memory("llama2-13b", "H100", "bf16", 16)
    assert interleaved.activations / plain.activations == pytest.approx((4 + 3 / 10) / 4)


def test_a_stage_stores_what_its_own_layers_do() -> None:
    """The first rank has most micro-batches in flight, but its dense layers store less than experts."""
    spec = resolve(Request("deepseek-v3", "GB200", "bf16", 256, "megatron-bridge"))
    ranks, halves = stages(spec), half_layers(spec)
    first, second, *_, last = (stored(spec, rank, halves) for rank in ranks)
    assert [rank.layers for rank in ranks] == [16, 16, 16, 14]
    assert [rank.halves["-"] for rank in ranks] == [3, 0, 0, 0]
    assert ranks[0].in_flight > ranks[1].in_flight > ranks[3].in_flight
    assert first / ranks[0].in_flight < second / ranks[1].in_flight
    assert last < second
    assert (ranks[3].output, ranks[3].predictions, ranks[3].tables) == (True, 1, 2)


def test_low_precision_weighs_what_the_gpu_needs_of_it() -> None:
    """Rows and columns in FP8, on Blackwell one of them if one scale does for all; four bits and scales in NVFP4."""
    one_scale = memory("nemotron-h-56b", "B300", "fp8", 64, "training.fp8.recipe=tensorwise")
    blocks = memory("nemotron-h-56b", "B300", "fp8", 64, "training.fp8.recipe=mxfp8")
    assert one_scale.weights == pytest.approx(blocks.weights / 2, rel=0.05)
    bf16, nvfp4 = (memory("llama3-8b", "B200", precision, 8, "mbs=2") for precision in ("bf16", "nvfp4"))
    assert nvfp4.weights / bf16.weights == pytest.approx(1 + 7 / 8 * 1.125 / 2, rel=0.01)
    assert nvfp4.activations < 0.9 * bf16.activations


def test_nothing_reads_what_an_expert_returns() -> None:
    plain = memory("qwen3-30b-a3b", "B300", "bf16", 8, "mbs=8").activations
    again = memory(
        "qwen3-30b-a3b", "B300", "bf16", 8, "mbs=8", "training.recompute={granularity: selective, modules: [moe]}"
    ).activations
    copies = 48 * 8 * 4096 * 8 * (2048 + 3 * 768) * 2 / 2**30  # layers, tokens, topk, input and both sides of SwiGLU
    assert plain - again == pytest.approx(copies)


def test_more_than_nine_tenths_is_a_warning_with_both_numbers() -> None:
    spec = resolve(Request("nemotron4-340b", "H100", "bf16", 128))
    assert "needs about 80 GiB per GPU, and H100 has 80" in warning(spec)
    assert warning(resolve(Request("nemotron4-340b", "H100", "bf16", 256))) is None


def test_states_larger_than_the_gpu_are_refused() -> None:
    with pytest.raises(UserError, match=r"optimizer states alone take 120 GiB per GPU, and H100 has 80"):
        resolve(Request("llama3.1-8b", "H100", "bf16", 1, overrides=("model.num_layers=32",)))
    spec = resolve(Request("llama3.1-8b", "H200", "bf16", 1, overrides=("model.num_layers=28",)))
    assert impossible(spec) is None
    assert "H200 has 141" in warning(spec)


@pytest.mark.parametrize(
    ("point", "overrides", "room", "advice"),
    [
        (("llama3.1-8b", "H100", "bf16", 8), ("mbs=8",), 80, r"full recompute would need \d+, mbs 1 would need \d+"),
        (("llama3.1-405b", "H100", "fp8", 128), ("model.num_layers=126", "layout.pp=8"), 80, "spread the model over"),
        (
            ("llama3.1-70b", "H200", "fp8", 8, "megatron-lm"),
            ("model.num_layers=80", "layout.tp=8", "layout.cp=1"),
            141,
            "spread the model over",
        ),
    ],
)
def test_what_is_beyond_the_gpu_by_more_than_the_estimate_errs_is_refused(
    point: tuple[Any, ...], overrides: tuple[Any, ...], room: int, advice: str
) -> None:
    """Though the states alone would fit; with what would fit on the same GPUs, where something does."""
    with pytest.raises(UserError, match=advice) as error:
        resolve(Request(*point, overrides=overrides))
    needed = int(re.search(r"needs about (\d+) GiB", error.value.message)[1])
    assert needed > room * (1 + ESTIMATE_ERROR)
    assert error.value.where and error.value.hint


def test_what_the_refusal_says_would_fit_does() -> None:
    for overrides in (("mbs=1",), ("mbs=8", "training.recompute={granularity: full, method: uniform, num_layers: 1}")):
        assert estimate(resolve(Request("llama3.1-8b", "H100", "bf16", 8, overrides=overrides))).total <= 80


def test_an_estimate_that_may_err_is_a_warning_up_to_its_error_and_a_refusal_beyond() -> None:
    spec = resolve(Request("nemotron4-340b", "H100", "bf16", 128))
    assert 80 < estimate(spec).total < 80 * (1 + ESTIMATE_ERROR)
    assert impossible(spec) is None
    assert warning(spec)
    doubled = spec.model_copy(update={"seq_length": 2 * spec.seq_length})
    assert estimate(doubled).states == estimate(spec).states < 80
    assert impossible(doubled)
