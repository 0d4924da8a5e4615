"""What a step would take at the ceilings that its machine reached alone."""

import pytest
from shapes import MODELS

from benchrun.measure.bound import Bound, bound
from benchrun.measure.statistics import spread
from benchrun.model.flops import attention_scores
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.rundir.artifacts import Ceilings, Gemm
from benchrun.runspec.training import Fp8

LLAMA = MODELS["llama2-7b"]
BATCH = {"gbs": 128, "num_gpus": 8, "num_microbatches": 4}
SPEC = resolve(Request("llama2-7b", "H100", "fp8", 8)).model_copy(update={"model": LLAMA, **BATCH})
EVEN = {"forward": 500.0, "input_gradient": 500.0, "weight_gradient": 500.0}
FASTER = {"forward": 1000.0, "input_gradient": 1000.0, "weight_gradient": 1000.0}


def gemm(name: str = "fc1", low_precision: bool = True, **tflops: dict[str, float]) -> Gemm:
    return Gemm(name=name, m=4096, n=8192, k=1024, count=32, low_precision=low_precision, tflops=tflops)


def ceilings(*gemms: Gemm) -> Ceilings:
    return Ceilings(device="x", seconds=1, gemms=gemms, copy_gb_per_s=1, collectives=())


def of(found: Ceilings, precision: str = "bf16", fp8_attention: int = False, task: str = "pretrain") -> Bound | None:
    training = SPEC.training.model_copy(update={"fp8": Fp8(dot_product_attention=fp8_attention)})
    spec = SPEC.model_copy(update={"precision": precision, "task": task, "training": training})
    return bound(found, spec, spread([2.0]))


ONCE_S = 2 * 4096 * 8192 * 1024 / 500e12


def test_every_product_counts_forward_and_twice_backward_in_every_microbatch() -> None:
    assert of(ceilings(gemm(bf16=EVEN))).matmul_s == pytest.approx(3 * 4 * 32 * ONCE_S)
    slow = {**EVEN, "weight_gradient": 250.0}
    assert of(ceilings(gemm(bf16=slow))).matmul_s == pytest.approx(4 * 4 * 32 * ONCE_S)


def test_frozen_weights_have_no_gradient() -> None:
    assert of(ceilings(gemm(bf16=EVEN)), task="lora").matmul_s == pytest.approx(2 * 4 * 32 * ONCE_S)


def test_fp8_leaves_the_output_layer_in_bf16() -> None:
    both = {"bf16": EVEN, "fp8": FASTER}
    found = of(ceilings(gemm(**both), gemm("logits", low_precision=False, **both)), precision="fp8")
    assert found.matmul_s == pytest.approx((0.5 + 1) * 3 * 4 * 32 * ONCE_S)


def test_the_three_parts_are_the_step() -> None:
    found = of(ceilings(gemm(bf16=EVEN)))
    assert found.attention_tflop == pytest.approx(3 * attention_scores(LLAMA, 4096) / 2 * 16 * 4096 / 1e12)
    assert found.attention_s == pytest.approx(found.attention_tflop / 500)
    assert found.matmul_s + found.attention_s + found.rest_s == pytest.approx(2.0)
    share = round(100 * found.matmul_s / 2)
    assert f"of the step's 2 s ({share} %)" in found.sentence


def test_attention_is_bound_by_products_of_its_own_precision() -> None:
    both = ceilings(gemm(bf16=EVEN, fp8=FASTER))
    usual, faster, ignored = (of(both, precision=p, fp8_attention=a) for p, a in (("fp8", 0), ("fp8", 1), ("bf16", 1)))
    assert usual.attention_s == pytest.approx(2 * faster.attention_s)
    assert usual.attention_s == ignored.attention_s


def test_what_was_not_measured_in_the_run_s_precision_bounds_nothing() -> None:
    assert of(ceilings(gemm(bf16=EVEN)), precision="fp8") is None
    assert of(ceilings(gemm(bf16=EVEN)), precision="fp32") is None
