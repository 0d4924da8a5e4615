"""What is computed again: everything, every second product, or what a checkpoint policy does not store."""

from dataclasses import replace
from statistics import median

import kept_runs
import pytest

from benchrun import hardware, kept, paths
from benchrun.capabilities.predict.counting import count
from benchrun.capabilities.predict.prediction import predict
from benchrun.capabilities.predict.rows import workload_of_row
from benchrun.capabilities.predict.runs import Measured, read
from benchrun.capabilities.predict.workload import Workload, architectures
from benchrun.model.layout import Layout


def load(**changes: object) -> Workload:
    gpu = hardware.gpu("H100")
    assert gpu is not None
    one = Workload(architectures()["llama3-8b"], gpu, 8, Layout(fsdp=8), 1, 8, 4096)
    return replace(one, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("number", "share"), [("bf16", 3.5 / 3), ("fp8", 4 / 3)])
def test_torchtitan_repeats_products_and_keeps_attention(number: str, share: float) -> None:
    none, some = (count(load(stack="torchtitan", number=number, recompute=each)) for each in ("none", "selective"))
    assert some.products == pytest.approx(share * none.products)
    assert some.attention == none.attention
    assert some.memory > none.memory


def test_megatrons_selective_recomputation_repeats_no_product() -> None:
    none, some = (count(load(recompute=each)) for each in ("none", "selective"))
    assert (some.products, some.memory) == (none.products, none.memory)


def test_a_checkpoint_policy_repeats_what_it_does_not_store() -> None:
    policies = ("", "save_dot_except_mlpwi", "save_qkv_proj", "full")
    none, *stored = (count(load(stack="jax-maxtext", policy=each)) for each in policies)
    products = [none.products, *(each.products for each in stored)]
    assert products == sorted(set(products))
    assert products[-1] < 4 / 3 * none.products  # not the last product of a layer
    assert all(each.attention == pytest.approx(4 / 3 * none.attention) for each in stored)


def test_what_an_unknown_policy_stores_is_not_guessed() -> None:
    none, unknown = (count(load(stack="jax-maxtext", policy=each)) for each in ("", "minimal"))
    assert none == unknown


def test_a_row_states_the_policy_of_software_that_has_policies() -> None:
    row = {"model": "llama3-70b", "gpu": "H100", "num_gpus": "128", "gbs": "256", "seq_len": "8192"}
    policy = {"recompute": "save_qkv_proj"}
    assert workload_of_row({**row, **policy, "task": "pretrain-maxtext"}).policy == "save_qkv_proj"
    assert workload_of_row({**row, **policy}).policy == ""


# What weights in FP8 cost the other frameworks: kept runs on one GPU, which no fit has seen.

OTHERS = ("megatron-lm", "nemo2", "megatron-bridge")
KEPT = [
    read(kept_runs.folder(run))
    for name in OTHERS
    for run, entry in kept.entries(paths.MEASURED).items()
    if entry["framework"] == name
]


def recast() -> list[Measured]:
    """Runs on one GPU whose optimizer casts weights to FP8."""
    return [run for run in KEPT if run.load.framework in OTHERS and run.load.recast and run.load.num_gpus == 1]


def miss(run: Measured, *, counted: bool) -> float:
    """How far the prediction for nobody's run is from the measurement, relative."""
    load = replace(run.load, recast=counted, framework="", source="")
    return abs(run.step_s / predict(load).median - 1)


def test_the_cast_is_what_they_take_longer() -> None:
    runs = recast()
    assert len(runs) >= 15
    assert median(miss(run, counted=True) for run in runs) < 0.03
    assert median(miss(run, counted=False) for run in runs) > 0.1


def test_more_data_parallel_ranks_share_it() -> None:
    run = next(run for run in recast() if run.load.model.name == "gpt3-175b")
    parts = [
        predict(replace(run.load, num_gpus=gpus, gbs=8 * gpus, recast=counted)).parts["optimizer"]
        for gpus in (1, 8)
        for counted in (True, False)
    ]
    assert parts[0] - parts[1] == pytest.approx(8 * (parts[2] - parts[3]), rel=0.05)


@pytest.mark.parametrize("framework", ["megatron-core", "nemo1"])
def test_weights_in_bf16_and_the_worker_have_none(framework: str) -> None:
    assert not any(run.load.recast for run in KEPT if run.load.framework == framework)
