"""What makes a run a proxy: the dimensions in which its model is smaller, in JSON ``num_layers 4 of 96``."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator

from benchrun.vocabulary import NO_WORK as NO_WORK
from benchrun.vocabulary import Reduced as Reduced
from benchrun.vocabulary import Size
from benchrun.vocabulary import reductions as reductions

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


def dimensions(reduced: tuple[Reduced, ...]) -> tuple[Reduced, ...]:
    """The reductions of anything but the number of layers."""
    return tuple(reduction for reduction in reduced if reduction.name != "num_layers")
