"""The physics that several rooms share: bus bytes, the pipeline's bubble, what
recomputation repeats."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .products import Product

FACTORS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
"""Bus bandwidth over algorithm bandwidth is this times (n - 1) / n among n ranks, as
nccl-tests counts."""
LAST = "fc2"
"""The last product of a layer: no gradient needs its result, so XLA does not repeat
it."""


def bus_factor(collective: str, ranks: float) -> float:
    """Bytes that cross a rank's link over bytes of the tensor; 1 for messages between
    two ranks."""
    if collective not in FACTORS:
        return 1.0
    return FACTORS[collective] * (ranks - 1) / ranks


def bubble(stages: Any, virtual: Any, microbatches: Any = 1) -> Any:
    """Time that a stage waits for the pipeline to fill and to drain, over the time that
    it computes.

    Source: Narayanan et al. 2021 (arXiv:2104.04473), section 2.2. Takes and returns
    numbers or arrays.
    """
    return (stages - 1) / (virtual * microbatches)


def repeats(
    product: "Product",
    granularity: str,
    modules: Collection[str] = (),
    stored: Collection[str] | None = None,
) -> bool:
    """Whether the backward pass computes the forward pass of a layer's ``product``
    again.

    ``modules`` count if the granularity is ``selective``. ``stored``: the products
    whose results a checkpoint policy of JAX keeps, None without a policy.
    """
    if stored is not None:
        return product.name not in (*stored, LAST)
    if granularity == "selective":
        return any(module in modules for module in _modules(product))
    return granularity == "full"


def _modules(product: "Product") -> tuple[str, ...]:
    """The names that megatron.core gives the parts of a layer with ``product`` that it
    can repeat alone."""
    name = product.name
    if name.startswith("shared_"):
        return "moe", "shared_experts"
    if product.expert or name.startswith("latent_"):
        return ("moe",)
    if name.endswith(("fc1", "fc2")):
        return ("mlp",)
    if name in ("q_up", "kv_up"):
        return ("mla_up_proj",)
    return ()
