"""What makes a run a proxy: the dimensions in which its model is smaller, in JSON ``num_layers 4 of 96``."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from benchrun.model import ModelShape
from benchrun.vocabulary import NO_WORK as NO_WORK
from benchrun.vocabulary import Reduced as Reduced
from benchrun.vocabulary import Size

TEXT = re.compile(r"(\S+) (\S+) of (\S+)")


def reduced(text: Any) -> Reduced:
    """A reduction from its text, or as it is. ValueError for anything else."""
    if isinstance(text, Reduced):
        return text
    match = TEXT.fullmatch(str(text))
    if match is None:
        raise ValueError("expected NAME SIZE of SIZE, e.g. num_layers 4 of 96")
    return Reduced(match[1], _size(match[2]), _size(match[3]))


def _size(text: str) -> Size:
    return None if text == "None" else int(text) if text.isdecimal() else text


Reduction = Annotated[Reduced, PlainValidator(reduced), PlainSerializer(str)]
"""The type of a field that holds one."""


def reductions(model: ModelShape, whole: ModelShape) -> tuple[Reduced, ...]:
    """A reduction for each dimension in which ``model`` differs from the recipe's; none for the whole model."""
    own, others = sizes(model), sizes(whole)
    pairs = ((name, own.get(name), others.get(name)) for name in others | own if name not in NO_WORK)
    return tuple(reduced(f"{name} {size} of {whole_size}") for name, size, whole_size in pairs if size != whole_size)


def dimensions(reduced: tuple[Reduced, ...]) -> tuple[Reduced, ...]:
    """The reductions of anything but the number of layers."""
    return tuple(reduction for reduction in reduced if reduction.name != "num_layers")


def sizes(model: ModelShape) -> dict[str, Any]:
    """Each dimension by its name; of the experts as ``moe.num_experts``."""
    experts = {f"moe.{name}": value for name, value in model.moe or ()}
    return {name: value for name, value in model if name != "moe"} | experts
