"""What a log prints is checked against what is computed, in every framework that prints a rate beside a time."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchrun.frameworks.logs import Reader
from benchrun.measure.setting import Setting
from benchrun.measure.summary import summarise
from benchrun.model import ModelShape
from benchrun.model.flops import flops_per_token

MODEL = ModelShape(
    **{"num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32},
    **{"num_query_groups": 8, "kv_channels": 128, "vocab_size": 128256, "max_position_embeddings": 8192},
    activation="swiglu",
)
SETTING = Setting(seq_length=8192, gbs=128, num_gpus=8, gpu="H100", precision="bf16", model=MODEL)
TIME_S = 12.2
TOKENS = 8192 * 128 / 8 / TIME_S
STEPS = 20


def megatron(step: int, tokens: float, tflops: float) -> str:
    return (
        f" iteration {step:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1000 * TIME_S:.1f} |"
        f" lm loss: {9 - step / 10:.6E} | tokens per gpu per second (tgs): {tokens:.3f} | TFLOPs: {tflops:.2f} |\n"
    )


def primus(step: int, tokens: float, tflops: float) -> str:
    return (
        f" iteration {step:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1000 * TIME_S:.1f}/{1000 * TIME_S:.1f} |"
        f" lm loss: {9 - step / 10:.6E} | throughput per GPU (TFLOP/s/GPU): {tflops:.1f}/{tflops:.1f} |"
        f" tokens per GPU (tokens/s/GPU): {tokens:.1f}/{tokens:.1f} |\n"
    )


def samples(step: int, tokens: float, tflops: float) -> str:
    return (
        f" iteration {step:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1000 * TIME_S:.1f} |"
        f" lm loss: {9 - step / 10:.6E} | samples per second: {tokens * 8 / 8192:.3f} | TFLOPs: {tflops:.2f} |\n"
    )


def maxtext(step: int, tokens: float, tflops: float) -> str:
    return (
        f"completed step: {step - 1}, seconds: {TIME_S:.3f}, TFLOP/s/device: {tflops:.3f}, "
        f"Tokens/s/device: {tokens:.3f}, total_weights: 1048576, loss: {9 - step / 10:.3f}\n"
    )


def nemo2(step: int, tokens: float, tflops: float) -> str:
    return (
        f"Training epoch 0, iteration {step - 1}/{STEPS - 1} | lr: 1e-06 | global_batch_size: 128 | "
        f"global_step: {step - 1} | reduced_train_loss: {9 - step / 10:.4g} | train_step_timing in s: {TIME_S:.4g} | "
        f"TFLOPS_per_GPU: {tflops:.4g} | tokens_per_sec_per_gpu: {tokens:.4g} | consumed_samples: {128 * step}\n"
    )


def nanotron(step: int, tokens: float, tflops: float) -> str:
    return (
        f"[INFO|DP=0|TP=0|host]: iteration: {step} / {STEPS} | consumed_tokens: {1.048576 * step:.3g}M | "
        f"time_per_iteration_ms: {TIME_S:.3g}K | tokens_per_sec_per_gpu: {tokens / 1000:.3g}K | "
        f"global_batch_size: 1.05M | lm_loss: {9 - step / 10:.3g} | model_tflops_per_gpu: {tflops:.3g} | \n"
    )


Form = Callable[[int, float, float], str]
each_form = pytest.mark.parametrize(
    "form", [megatron, primus, samples, maxtext, nemo2, nanotron], ids=lambda form: form.__name__
)
"""Number of the step, tokens/s/GPU, TFLOPS -> its line."""


def fatal(form: Form, tokens: float, tflops: float, setting: Setting = SETTING) -> str | None:
    reading = Reader()
    reading.feed("".join(form(step, tokens, tflops) for step in range(1, STEPS + 1)).encode())
    reading.end()
    found = summarise(reading.log("x"), given=setting).fatal
    return found.kind if found else None


def counted(setting: Setting = SETTING) -> float:
    flops = flops_per_token(MODEL, 8192)
    return TOKENS * flops.causal / 1e12


@each_form
@settings(deadline=None, max_examples=15)
@given(off=st.floats(-0.015, 0.015))
def test_a_printed_rate_that_agrees_is_no_matter(form: Form, off: float) -> None:
    assert fatal(form, TOKENS * (1 + off), counted() * (1 + off)) is None


@each_form
@settings(deadline=None, max_examples=15)
@given(factor=st.one_of(st.floats(0.1, 0.96), st.floats(1.04, 10)))
def test_a_printed_rate_of_other_work_is_a_contradiction(form: Form, factor: float) -> None:
    """Half the sequence, twice the batch, another number of GPUs: whatever was typed in, or stated elsewhere."""
    assert fatal(form, TOKENS * factor, counted()) == "contradictory_rate"


@each_form
@settings(deadline=None, max_examples=15)
@given(factor=st.one_of(st.floats(0.1, 0.6), st.floats(2, 10)))
def test_a_printed_tflops_of_other_work_is_a_contradiction(form: Form, factor: float) -> None:
    assert fatal(form, TOKENS, counted() * factor) in ("unexplained_tflops", "impossible_rate")


def torchtitan(step: int, tokens: float, tflops: float, mfu: float) -> str:
    return (
        f"[rank0]:[titan] 2026-05-12 09:50:16,023 - root - INFO - step: {step:2d}  loss: {9 - step / 10:8.5f}  "
        f"grad_norm: 1.0000  memory: 20.66GiB(65.88%)  tps: {tokens:,.0f}  tflops: {tflops:.2f}  mfu: {mfu:.2f}%\n"
    )


@pytest.mark.parametrize(
    ("peak", "kind"),
    [(989, None), (312, None), (2 * 989, "unexplained_mfu"), (989 / 1.4, "unexplained_mfu")],
)
def test_a_printed_mfu_is_over_the_gpus_peak_or_over_what_the_framework_takes(peak: float, kind: str | None) -> None:
    tokens = TOKENS / 2
    tflops = flops_per_token(MODEL, 8192).full * tokens / 1e12
    assert fatal(lambda step, *_: torchtitan(step, tokens, tflops, 100 * tflops / peak), 0, 0) == kind


def core(step: int, tokens: float, tflops: float) -> str:
    """Megatron-core's line, which has a date since 0.7."""
    return (
        f" [2026-05-12 09:50:16] iteration {step:8d}/{STEPS:8d} |"
        f" elapsed time per iteration (ms): {1000 * TIME_S:.1f} |"
        f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} | lm loss: {9 - step / 10:.6E} |\n"
    )


@settings(deadline=None, max_examples=30)
@given(place=st.floats(0.25, 0.75))
def test_a_tflops_between_two_conventions_is_neither(place: float) -> None:
    flops = flops_per_token(MODEL, 8192)
    low, high = (TOKENS * count / 1e12 for count in (flops.causal, flops.full))
    assert fatal(core, TOKENS, low + place * (high - low)) == "unexplained_tflops"
    assert [fatal(core, TOKENS, each) for each in (low, high)] == [None, None]


@pytest.mark.parametrize(("granularity", "kind"), [("full", None), ("None", "unexplained_tflops")])
def test_a_fork_counts_what_it_recomputes_where_it_does(granularity: str, kind: str | None) -> None:
    stated = f"  recompute_granularity {'.' * 27} {granularity}\n"
    tflops = flops_per_token(MODEL, 8192).full * 4 / 3 * TOKENS / 1e12

    def line(step: int, *rates: float) -> str:
        return (stated if step == 1 else "") + megatron(step, *rates)

    assert fatal(line, TOKENS, tflops, replace(SETTING, gpu=None)) == kind
