"""Numbers of layers of each kind in a model."""

import functools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shape import ModelShape

ATTENTION, MLP, EXPERTS, MAMBA = "*", "-", "E", "M"
"""The letters of `Mamba.pattern`. A layer of a plain transformer is two of them:
attention, then MLP or experts."""


@dataclass(frozen=True)
class LayerCounts:
    """Layers of the whole model, those of multi-token predictions among them."""

    attention: int
    windowed: int
    """Attention layers with a sliding window."""
    dense: int
    """Layers with an MLP of the model's own width."""
    experts: int
    mamba: int

    @property
    def halves(self) -> int:
        """Blocks with a norm before and a sum with the residual stream after: two in a
        plain layer."""
        return self.attention + self.dense + self.experts + self.mamba


def kinds(model: "ModelShape") -> list[str]:
    """The kinds of each layer, in order: ``*-`` or ``*E`` in a plain transformer, one
    letter in a hybrid one."""
    if model.mamba:
        return list(model.mamba.pattern[: model.num_layers])
    found = []
    for layer in range(model.num_layers):
        found.append(ATTENTION + (EXPERTS if has_experts(model, layer) else MLP))
    return found


def has_experts(model: "ModelShape", layer: int) -> bool:
    """Whether the MLP of ``layer`` (from 0) of a plain transformer is a mixture of
    experts."""
    moe = model.moe
    return (
        moe is not None
        and layer >= moe.leading_dense_layers
        and (layer + 1) % (moe.every or 1) == 0
    )


@functools.lru_cache(maxsize=64)
def layer_counts(model: "ModelShape") -> LayerCounts:
    """The layers of ``model`` by kind. A multi-token prediction has one more of the
    last kind, or its own pattern."""
    layers = kinds(model)
    windowed = 0
    if model.window:
        every = model.window.full_every or len(layers) + 1
        windowed = len(layers) - len(layers) // every
        if len(layers) % every:
            windowed += model.mtp_layers
    prediction = model.mamba.mtp_pattern if model.mamba else layers[-1]
    counted = Counter("".join([*layers, *[prediction] * model.mtp_layers]))
    return LayerCounts(counted[ATTENTION], windowed, counted[MLP], counted[EXPERTS], counted[MAMBA])
