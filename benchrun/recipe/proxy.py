"""What makes a run a proxy: the dimensions in which its model differs from the recipe's."""

from __future__ import annotations

from typing import Any

from benchrun.model import ModelShape
from benchrun.spec.reduction import Reduced, reduced

NO_WORK = frozenset({"max_position_embeddings", "moe.aux_loss_coeff", "moe.force_balance"})
"""Dimensions that do not change the work per token: room for longer sequences, and how experts are fed."""


def dimensions(reduced: tuple[Reduced, ...]) -> tuple[Reduced, ...]:
    """The reductions of anything but the number of layers."""
    return tuple(reduction for reduction in reduced if reduction.name != "num_layers")


def reductions(model: ModelShape, whole: ModelShape) -> tuple[Reduced, ...]:
    """A reduction for each dimension in which ``model`` differs from the recipe's; none for the whole model."""
    sizes, whole_sizes = _dimensions(model), _dimensions(whole)
    pairs = ((name, sizes.get(name), whole_sizes.get(name)) for name in whole_sizes | sizes if name not in NO_WORK)
    return tuple(reduced(f"{name} {size} of {whole_size}") for name, size, whole_size in pairs if size != whole_size)


def _dimensions(model: ModelShape) -> dict[str, Any]:
    experts = {f"moe.{name}": value for name, value in model.moe or ()}
    return {name: value for name, value in model if name != "moe"} | experts
