"""One dimension in which a proxy is smaller than the recipe's model: data here, ``num_layers 4 of 96`` in JSON."""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

from pydantic import PlainSerializer, PlainValidator

Size = int | str | None
TEXT = re.compile(r"(\S+) (\S+) of (\S+)")


class Reduced(NamedTuple):
    """One dimension: its size in the proxy and in the whole model."""

    name: str
    """As in `ModelShape`; ``moe.num_experts`` for one of the experts."""
    size: Size
    """Size in the proxy."""
    whole: Size
    """Size in the recipe's model."""

    def __str__(self) -> str:
        return f"{self.name} {self.size} of {self.whole}"


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
