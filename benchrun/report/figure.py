"""A plot as data: what is drawn, and the table with the same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal

from benchrun.report.table import Table

Kind = Literal["line", "histogram", "bars", "stack", "waterfall"]


@dataclass(frozen=True)
class Series:
    """Named values: ``y`` over ``x``, or one bar for each label of the figure."""

    name: str
    y: tuple[float, ...]
    x: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    """Lower ends of the interval of each value; empty where there is none."""
    high: tuple[float, ...] = ()
    """Upper ends."""
    dashed: bool = False


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
    limits: tuple[float, float] | None = None
    """Of the values; points of a curve beyond are drawn at its edge, with their value. From the data where None."""
    ticks: tuple[tuple[float, str], ...] = ()
    """Places and names on the x axis; round numbers where empty."""
    note: str = ""
    """What shade, marks and level mean."""
    from_zero: bool = False
    """The y axis begins at zero."""
    whole_row: bool = False
    """It is shown alone, its table beside it."""

    @property
    def wide(self) -> bool:
        """Whether it takes a whole row of a page, its table beside it: bars grow downwards with their number."""
        return self.whole_row or bool(self.labels)

    @property
    def description(self) -> str:
        """What it shows in one sentence, for readers who do not see it."""
        unit = f" {self.y_title}" if self.kind in ("stack", "waterfall") else ""
        if self.kind == "histogram":
            return f"{sum(self.series[0].y):.0f} {self.y_title} in {len(self.series[0].y)} bars"
        if self.kind == "waterfall":
            return f"{len(self.labels)} parts that add up to {sum(self.series[0].y):.4g}{unit}"
        if not (self.labels or self.series[0].x):
            return ", ".join(f"{series.name} {series.y[0]:.3g}{unit}" for series in self.series)
        ranges = []
        for series in self.series:
            values = [value for value in series.y if not isnan(value)]
            ranges += [f"{series.name or 'value'} {min(values):.4g} to {max(values):.4g}"] if values else []
        return ", ".join(ranges)


def thinned(x: Sequence[float], y: Sequence[float], most: int = 300) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """At most ``2 * most`` points of a curve: the lowest and the highest of each stretch, in their order."""
    if len(x) <= 2 * most:
        return tuple(x), tuple(y)
    chosen: list[int] = []
    for part in range(most):
        indices = range(part * len(x) // most, (part + 1) * len(x) // most)
        chosen += sorted({min(indices, key=y.__getitem__), max(indices, key=y.__getitem__)})
    return tuple(x[index] for index in chosen), tuple(y[index] for index in chosen)
