"""What makes a run a proxy: the dimensions in which its model differs from the recipe's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchrun.model import ModelShape
from benchrun.spec.reduction import Reduced, reduced

NO_WORK = frozenset({"max_position_embeddings", "moe.aux_loss_coeff", "moe.force_balance"})
"""What may differ without another amount of work a token: room for longer sequences, and how experts are fed."""


def dimensions(reduced: tuple[Reduced, ...]) -> tuple[Reduced, ...]:
    """The reductions of anything but the number of layers."""
    return tuple(reduction for reduction in reduced if reduction.name != "num_layers")


def reductions(ours: ModelShape, whole: ModelShape) -> tuple[Reduced, ...]:
    """A reduction for each dimension that differs; nothing for the whole model."""
    theirs = dict(_flat(whole))
    mine = dict(_flat(ours))
    names = [name for name in (*theirs, *(name for name in mine if name not in theirs)) if name not in NO_WORK]
    pairs = ((name, mine.get(name), theirs.get(name)) for name in names)
    return tuple(reduced(f"{name} {a} of {b}") for name, a, b in pairs if a != b)


def _flat(model: ModelShape) -> Iterator[tuple[str, Any]]:
    for name, value in model:
        if name != "moe":
            yield name, value
    for name, value in model.moe or ():
        yield f"moe.{name}", value
