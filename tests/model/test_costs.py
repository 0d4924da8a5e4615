"""The physics that several rooms share: bus bytes, the pipeline's bubble, repeated products."""

import pytest

from benchrun.capabilities.predict.workload import architectures
from benchrun.model.costs import bubble, bus_factor, repeats
from benchrun.model.layout import Layout
from benchrun.model.operators import operators


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75), ("send", 1.0)],
)
def test_the_bus_factor_is_that_of_nccl_tests(collective: str, factor: float) -> None:
    assert bus_factor(collective, 4) == factor


def test_interleaving_divides_the_bubble() -> None:
    assert bubble(1, 1, 8) == 0
    assert bubble(4, 1, 8) == 3 / 8
    assert bubble(4, 2, 8) == 3 / 16


@pytest.mark.parametrize(
    ("model", "module", "names"),
    [
        ("llama3-8b", "mlp", {"fc1", "fc2"}),
        ("llama3-8b", "moe", set()),
        ("llama3-8b", "core_attn", set()),
        ("mixtral-8x7b", "mlp", set()),
        ("mixtral-8x7b", "moe", {"fc1", "fc2"}),
        ("deepseek-v3", "mlp", {"dense_fc1", "dense_fc2"}),
        ("deepseek-v3", "shared_experts", {"shared_fc1", "shared_fc2"}),
        ("deepseek-v3", "mla_up_proj", {"q_up", "kv_up"}),
    ],
)
def test_selective_recomputation_repeats_the_products_of_its_modules(model: str, module: str, names: set[str]) -> None:
    products = operators(architectures()[model].shape, layout=Layout()).block
    assert {each.name for each in products if repeats(each, "selective", [module])} == names


def test_a_policy_repeats_what_it_does_not_store() -> None:
    products = operators(architectures()["llama3-8b"].shape).block
    assert {each.name for each in products if repeats(each, "none", stored=("qkv",))} == {"proj", "fc1"}
    assert all(repeats(each, "full") for each in products)
    assert not any(repeats(each, "none") for each in products)
