"""What the backward pass of a workload computes again: products, attention, and what the memory limits."""

import functools
from dataclasses import dataclass

from benchrun.frameworks.jax import policies
from benchrun.model.products import Product
from benchrun.predict import software
from benchrun.predict.workload import Workload

SECOND_PRODUCTS = 0.5
"""torchtitan's selective recomputation keeps attention and every second ``aten.mm``; FP8 products (``_scaled_mm``) and
what memory limits are computed again. pytorch/torchtitan had that list until commit 114151ad4 (2026-03-23), which keeps
FP8 products too. Every published row is older."""
LAST = "fc2"
"""The last product of a layer: no gradient needs its result, so that XLA leaves it out."""


@dataclass(frozen=True)
class Recomputation:
    """How often the forward pass is repeated."""

    whole: int
    """1 where all of a layer is repeated, else 0."""
    operators: bool
    """The software chooses operator by operator."""
    stored: tuple[str, ...] | None
    """The products whose results a checkpoint policy of JAX stores; None without a policy that is known."""
    low: bool
    """Products are in FP8 or FP4."""

    @classmethod
    def of(cls, load: Workload, low: bool) -> "Recomputation":
        """That of ``load``."""
        operators = load.recompute == "selective" and load.stack == software.TORCHTITAN
        return cls(int(load.recompute == "full"), operators, _stored(load.stack, load.policy), low)

    def product(self, product: Product) -> float:
        """How often the forward pass of ``product`` is repeated."""
        if self.operators:
            return 1.0 if self.low else SECOND_PRODUCTS
        if self.stored is not None:
            return float(product.name not in (*self.stored, LAST))
        return self.whole

    @property
    def attention(self) -> int:
        """1 where attention is repeated, else 0."""
        return int(self.whole or self.stored is not None)

    @property
    def memory(self) -> int:
        """1 where norms, activations and the like are repeated, else 0."""
        return int(self.attention or self.operators)


@functools.cache
def _stored(stack: str, policy: str) -> tuple[str, ...] | None:
    return policies(stack.removeprefix(software.JAX)).get(policy) if policy else None
