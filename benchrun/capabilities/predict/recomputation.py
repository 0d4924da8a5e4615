"""Repeats of parts of the forward pass in the backward pass of a workload."""

import functools
from dataclasses import dataclass

from benchrun.frameworks.jax import policies
from benchrun.model.costs import repeats
from benchrun.model.products import Product

from . import software
from .workload import Workload

SECOND_PRODUCTS = 0.5
"""torchtitan's selective recomputation keeps attention and every second ``aten.mm``;
FP8 products (``_scaled_mm``) and what memory limits are computed again.
pytorch/torchtitan had that list until commit 114151ad4 (2026-03-23), which keeps FP8
products too. Every published row is older."""


@dataclass(frozen=True)
class Recomputation:
    """Repeats of the forward pass, by kind of operator: 0 to 1 times."""

    load: Workload
    low: bool
    """Products are in FP8 or FP4."""

    @property
    def whole(self) -> int:
        """1 if the whole layer is repeated, else 0."""
        return int(self.load.recompute == "full")

    @property
    def stored(self) -> tuple[str, ...] | None:
        """The products whose results a checkpoint policy of JAX stores; None without a
        policy that is known."""
        return _stored(self.load.stack, self.load.policy)

    @property
    def by_operator(self) -> bool:
        """Whether the software chooses operator by operator."""
        return self.load.recompute == "selective" and self.load.stack == software.TORCHTITAN

    def product(self, product: Product) -> float:
        """Repeats of ``product``."""
        if self.by_operator:
            if self.low:
                return 1.0
            return SECOND_PRODUCTS
        return float(repeats(product, self.load.recompute, stored=self.stored))

    @property
    def attention(self) -> int:
        """Repeats of attention."""
        return int(self.whole or self.stored is not None)

    @property
    def memory(self) -> int:
        """Repeats of norms, activations and the like."""
        return int(self.attention or self.by_operator)


@functools.cache
def _stored(stack: str, policy: str) -> tuple[str, ...] | None:
    if not policy:
        return None
    return policies(stack.removeprefix(software.JAX)).get(policy)
