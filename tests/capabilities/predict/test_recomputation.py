"""What is computed again: everything, every second product, or what a checkpoint policy does not store."""

from dataclasses import replace

import pytest

from benchrun import hardware
from benchrun.capabilities.predict.counting import count
from benchrun.capabilities.predict.rows import workload_of_row
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
