"""The ceilings time the matrix products of a step."""

import pytest

pytest.importorskip("torch", reason="training needs pip install '.[train]'")

from benchrun.model.operators import operators
from benchrun.recipes.resolve import resolve
from benchrun.recipes.select import Request
from benchrun.worker.ceiling import products


@pytest.mark.parametrize(
    ("recipe", "gpus", "overrides"),
    [
        ("llama3.1-8b", 8, ()),
        ("llama3.1-8b", 8, ("layout.tp=4", "layout.sequence_parallel=true", "layout.cp=2")),
        ("llama3.1-8b", 8, ("layout.pp=4", "layout.vp=1", "layout.tp=1", "layout.cp=1")),
        ("nemotron4-15b", 16, ("layout.pp=1", "layout.vp=1")),
        ("mixtral-8x7b", 64, ()),
        ("mixtral-8x7b", 64, ("layout.ep=4", "layout.etp=1")),
        ("tiny-mixtral", 4, ()),
    ],
)
def test_the_products_add_up_to_the_linear_flops_of_a_step(recipe: str, gpus: int, overrides: tuple[str, ...]) -> None:
    tiny = recipe.startswith("tiny")
    spec = resolve(Request(recipe, "CPU" if tiny else "H100", "fp32" if tiny else "bf16", gpus, overrides=overrides))
    listed = products(spec)
    one_pass = sum(2 * s.m * s.n * s.k * s.count for s in listed) * spec.num_microbatches * spec.num_gpus
    model = spec.model
    padded = model.model_copy(update={"vocab_size": -(-model.vocab_size // 128) * 128})
    linear = sum(product.flops for product in operators(padded).products)
    assert one_pass == pytest.approx(linear * spec.tokens_per_step)


def test_a_product_and_its_gradients_have_the_sizes_of_their_matrices() -> None:
    qkv = products(resolve(Request("llama3.1-8b", "H100", "bf16", 8, overrides=("layout.tp=1", "layout.cp=1"))))[0]
    tokens, outputs, inputs = qkv.sizes["forward"]
    assert (outputs, inputs) == (6144, 4096)
    assert qkv.sizes["input_gradient"] == (tokens, inputs, outputs)
    assert qkv.sizes["weight_gradient"] == (outputs, inputs, tokens)
