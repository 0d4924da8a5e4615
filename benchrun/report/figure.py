"""A plot as data: what is drawn, and the table that says the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchrun.report.table import Table

Kind = Literal["line", "histogram", "bars", "stack"]


@dataclass(frozen=True)
class Series:
    """Named values: ``y`` over ``x``, or one bar for each of ``labels``."""

    name: str
    y: tuple[float, ...]
    x: tuple[float, ...] = ()


@dataclass(frozen=True)
class Figure:
    """One plot. Each has a table, for readers who do not see it and for those who want the numbers."""

    kind: Kind
    title: str
    series: tuple[Series, ...]
    table: Table
    x_title: str = ""
    y_title: str = ""
    labels: tuple[str, ...] = ()
    """Names of bars."""
    level: float | None = None
    """A value with a line of its own, e.g. the median."""
    shade: tuple[float, float] | None = None
    """Values of x that do not count, e.g. the warm-up."""
    marks: tuple[tuple[float, float], ...] = ()
    """Points that stand out, e.g. stalls."""
    note: str = ""
    """What shade, marks and level mean."""
    from_zero: bool = False
    """The y axis begins at zero."""


def thinned(x: Sequence[float], y: Sequence[float], most: int = 300) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """At most ``2 * most`` points of a curve: the lowest and the highest of each stretch, in their order."""
    if len(x) <= 2 * most:
        return tuple(x), tuple(y)
    chosen: list[int] = []
    for part in range(most):
        indices = range(part * len(x) // most, (part + 1) * len(x) // most)
        chosen += sorted({min(indices, key=y.__getitem__), max(indices, key=y.__getitem__)})
    return tuple(x[index] for index in chosen), tuple(y[index] for index in chosen)
