"""A plot as data: its series, and the table with the same numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Literal, NamedTuple

from benchrun import extensions

from .table import Table

Kind = Literal["line", "bars", "stack", "waterfall"]

EQUAL = "Dashed: equal speed."


@dataclass(frozen=True)
class Series:
    """Named values: ``y`` over ``x``, or one bar for each label of the plot; no point
    and no bar for NaN.
    """

    name: str
    y: tuple[float, ...]
    x: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    """Lower ends of the interval of each value; empty if there is none."""
    high: tuple[float, ...] = ()
    """Upper ends."""
    style: Literal["line", "dashed", "dots"] = "line"


class Mark(NamedTuple):
    """A point that stands out, e.g. a stall."""

    x: float
    y: float
    name: str = ""
    """The text beside it."""


@dataclass(frozen=True)
class Plot:
    """One plot; its table is for readers who do not see it and for those who want the
    numbers.
    """

    kind: Kind
    title: str
    series: tuple[Series, ...]
    table: Table
    x_title: str = ""
    y_title: str = ""
    """The unit of the values; of bars and a waterfall too."""
    labels: tuple[str, ...] = ()
    """Names of bars."""
    level: float | None = None
    """A value with a dashed line, e.g. the median."""
    shade: tuple[float, float] | None = None
    """Values of x that do not count, e.g. the warm-up."""
    marks: tuple[Mark, ...] = ()
    limits: tuple[float, float] | None = None
    """Lowest and highest value of the axis, from the data if None; a larger value is
    written at its edge.
    """
    log_x: bool = False
    """The x axis is logarithmic, with powers of two."""
    note: str = ""
    """The meaning of shade, marks and level."""
    from_zero: bool = False
    """The y axis begins at zero."""
    whole_row: bool = False
    """Shown alone in a row of a page, its table beside it."""

    @property
    def wide(self) -> bool:
        """Whether it takes a whole row of a page; many bars do too."""
        return self.whole_row or bool(self.labels)

    @property
    def legend(self) -> list[str]:
        """Name of each series; empty if nothing has to be told apart. A single bar's
        parts have their value.
        """
        names = [series.name for series in self.series]
        if self.kind == "waterfall" or (len(names) < 2 and not self.series[0].low):
            return []
        if self.kind != "stack" or self.labels:
            return names
        whole = sum(series.y[0] for series in self.series) or 1.0
        texts = []
        for series in self.series:
            share = 100 * series.y[0] / whole
            texts.append(f"{series.name}: {series.y[0]:.3g} {self.y_title}, {share:.1f} %")
        return texts

    @property
    def description(self) -> str:
        """One sentence for readers who do not see the plot."""
        first = self.series[0]
        if self.kind == "waterfall":
            return f"{len(self.labels)} parts that add up to {sum(first.y):.4g} {self.y_title}"
        if self.kind == "stack" and not self.labels:
            return "; ".join(self.legend)
        ranges = []
        for series in self.series:
            values = [value for value in series.y if not isnan(value)]
            if values:
                ranges.append(f"{series.name or 'value'} {min(values):.4g} to {max(values):.4g}")
        return ", ".join(ranges)


def ratio_bars(
    title: str, names: Sequence[str], ratios: Sequence[float], table: Table, note: str = EQUAL
) -> Plot | None:
    """Bars of speed ratios, with equal speed marked; None without any."""
    if not names:
        return None
    bars = Series("", tuple(ratios))
    return Plot("bars", title, (bars,), table, labels=tuple(names), level=1.0, note=note)


def thinned(
    x: Sequence[float], y: Sequence[float], most: int = 300
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Thin a curve to ``2 * most`` points at most: the lowest and highest of each
    stretch, in order.
    """
    if len(x) <= 2 * most:
        return tuple(x), tuple(y)
    chosen = []
    for part in range(most):
        indices = range(part * len(x) // most, (part + 1) * len(x) // most)
        chosen += sorted({min(indices, key=y.__getitem__), max(indices, key=y.__getitem__)})
    return tuple(x[index] for index in chosen), tuple(y[index] for index in chosen)


def save(plots: Sequence[Plot], path: Path) -> None:
    """Write the plots below each other to a new file, in the format that its name ends
    in.

    UserError if nothing can draw, and if the file cannot be written.
    """
    extensions.capability("html.picture", "save")(plots, path)
