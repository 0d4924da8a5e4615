"""Measurements of a check of nodes: its files, and which nodes exchange data with each
other.
"""

import math
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt

from benchrun.model import Frozen

from .artifacts import File

Test = Literal["products", "memory", "node_collective", "exchange"]
UNITS: dict[Test, str] = {
    "products": "TFLOPS",
    "memory": "GB/s",
    "node_collective": "GB/s",
    "exchange": "GB/s",
}
FEW_NODES = 8
"""The largest number of nodes of which every pair is measured."""
Pair = tuple[int, int]


class Rate(Frozen):
    """One measurement of a rank."""

    test: Test
    """products: matrix products; memory: a copy, bytes read and written;
    node_collective: bus bandwidth of an all-reduce within the node; exchange: with the
    same rank of another node, both ways at once, bytes of one way.
    """
    work: str
    """Work that was computed or sent."""
    peer: str | None = None
    """The other node of an exchange."""
    values: Annotated[tuple[Annotated[FiniteFloat, Field(gt=0)], ...], Field(min_length=1)]
    """The rate in each repeat, in TFLOPS or in 10^9 bytes/s."""


class RankRates(File):
    """nodes/HOST.RANK.json: everything that one rank measured."""

    host: str
    """Name of the node, as Slurm has it."""
    rank: NonNegativeInt
    """Number of the rank."""
    local_rank: NonNegativeInt
    """Its number on the node."""
    device: str
    """Name of the GPU."""
    device_id: str | None = None
    """UUID of the GPU."""
    ranks: PositiveInt
    """Number of all ranks."""
    complete: bool = False
    """Whether the collectives were measured too."""
    rates: tuple[Rate, ...]
    """Rates in the order of measurement."""


def rounds(count: int) -> list[list[Pair]]:
    """Rounds of disjoint pairs of ``count`` nodes, numbered from 0; with an odd number
    one of them rests in each.

    A round-robin tournament by the circle method. All rounds up to FEW_NODES nodes,
    else log2(count) of them, evenly spread, so that the time hardly grows and no two
    nodes meet twice.
    """
    even = count + count % 2
    turns = even - 1
    if turns < 1:
        return []
    played = turns if count <= FEW_NODES else math.ceil(math.log2(count))
    chosen = [turns * index // played for index in range(played)]
    tables = (
        [(even - 1, turn), *(((turn + k) % turns, (turn - k) % turns) for k in range(1, even // 2))]
        for turn in chosen
    )
    found = []
    for table in tables:
        found.append([(min(pair), max(pair)) for pair in table if max(pair) < count])
    return found
