"""Plots drawn with matplotlib, in points: a panel is as wide as a telephone, so that
its text stays readable.
"""

from collections.abc import Callable, Sequence
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from benchrun.show.plot import Mark, Plot, Series

from .style import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 360
"""Width of a panel."""
GAP = 28
"""Distance between panels."""
LINE = 16
"""Height of a line of text."""
BAR = 15
"""Height of a bar with the gap below it."""
LETTER = 7.2
"""Width of a letter, rather more than less."""
LETTERS = int(WIDTH / LETTER)
COLOURS = [LIGHT[f"c{number}"] for number in range(6)]
LEAST_ROOM = 0.004
"""Room above and below the values, as a share of them: noise of a thousandth is no
mountain range.
"""
Look = dict[str, Any]
"""Keyword arguments of matplotlib."""
LEVEL: Look = {"color": LIGHT["ink"], "linestyle": "--", "linewidth": 1, "gid": "level"}
OFFSET: Look = {"textcoords": "offset points"}
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": LIGHT["line"],
    "axes.facecolor": "none",
    "axes.labelcolor": LIGHT["ink"],
    "axes.labelsize": 11.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 11.5,
    "grid.color": LIGHT["line"],
    "legend.borderaxespad": 0,
    "legend.borderpad": 0,
    "legend.fontsize": 11.5,
    "legend.frameon": False,
    "legend.handlelength": 1,
    "legend.labelspacing": 0.25,
    "svg.fonttype": "none",
    "svg.hashsalt": "benchrun",
    "text.color": LIGHT["ink"],
    "text.parse_math": False,
    "xtick.labelcolor": LIGHT["ink"],
    "xtick.labelsize": 11.5,
    "xtick.major.size": 0,
    "ytick.labelcolor": LIGHT["ink"],
    "ytick.labelsize": 11.5,
    "ytick.major.size": 0,
}
"""Parameters of matplotlib: text stays text in an SVG, and the same plot is the same
file.
"""


class Box(NamedTuple):
    """Place of the axes in a panel: distances from its edges, and their height."""

    height: float
    left: float = 0
    right: float = 0
    top: float = 0
    bottom: float = 0


CURVE = Box(height=162, left=72, right=24, top=18, bottom=40)


def draw(plots: Sequence[Plot], columns: int = 1, *, titled: bool) -> "Figure":
    """The plots in columns, each with its title and note if ``titled``; call it with
    `STYLE` set.
    """
    from matplotlib.figure import Figure

    figure = Figure(dpi=72)
    margin = GAP / 2 if titled else 0
    upper = lower = margin
    places = []
    for number, plot in enumerate(plots):
        axes = figure.add_axes((0, 0, 1, 1), label=str(number))
        box = _with_legend(axes, plot, DRAW[plot.kind](axes, plot))
        if titled:
            box = _with_texts(axes, plot, box)
        column = number % columns
        if number and not column:
            upper = lower + GAP
        lower = max(lower, upper + box.top + box.height + box.bottom)
        places.append((axes, box, margin + column * (WIDTH + GAP) + box.left, upper + box.top))
    width = min(columns, len(plots)) * (WIDTH + GAP) - GAP + 2 * margin
    height = lower + margin
    figure.set_size_inches(width / 72, height / 72)
    for axes, box, left, top in places:
        bottom = 1 - (top + box.height) / height
        size = (WIDTH - box.left - box.right) / width, box.height / height
        axes.set_position((left / width, bottom, *size))
    return figure


def _with_legend(axes: "Axes", plot: Plot, box: Box) -> Box:
    """Add the names of the series below a plot."""
    if not plot.legend:
        return box
    anchor = -box.left / (WIDTH - box.left - box.right), -(box.bottom + 2) / box.height
    axes.legend(loc="upper left", bbox_to_anchor=anchor)
    lines = sum(len(_wrapped(name).splitlines()) for name in plot.legend)
    return box._replace(bottom=box.bottom + LINE * lines + 4)


def _wrapped(name: str) -> str:
    """A name in lines that fit beside its colour."""
    return fill(name, LETTERS - 3)


def _with_texts(axes: "Axes", plot: Plot, box: Box) -> Box:
    """Add the title above a plot, and its note below it."""
    title = fill(plot.title, LETTERS)
    note = fill(plot.note, LETTERS)
    place: Look = {"xycoords": "axes fraction", **OFFSET}
    axes.annotate(title, (0, 1), (-box.left, box.top + 4), va="bottom", weight="bold", **place)
    below: Look = {"va": "top", "color": LIGHT["soft"]}
    axes.annotate(note, (0, 0), (-box.left, -box.bottom - 4), **below, **place)
    top, bottom = LINE * len(title.splitlines()) + 4, LINE * len(note.splitlines()) + 4
    return box._replace(top=box.top + top, bottom=box.bottom + bottom)


def _line(axes: "Axes", plot: Plot) -> Box:
    """Curves over x, with their intervals, the shade, the level and the marks."""
    low, high = _limits(plot)
    marks = [mark for mark in plot.marks if mark.y <= high]
    beyond = []
    for series, colour in zip(plot.series, cycle(COLOURS)):
        _curve(axes, series, colour, high, dotted=plot.log_x)
        for x, y in zip(series.x, series.y, strict=True):
            if y > high:
                beyond.append(Mark(x, y))
    if plot.shade:
        axes.axvspan(*plot.shade, color=LIGHT["shade"], linewidth=0, zorder=0, gid="shade")
    if plot.level is not None:
        axes.axhline(plot.level, **LEVEL)
    _points(axes, marks, marker="o", markersize=8, fillstyle="none")
    if beyond:
        _points(axes, [mark._replace(y=high) for mark in beyond], marker="^", gid="beyond")
        largest = max(beyond, key=lambda mark: mark.y)
        marks.append(Mark(largest.x, high, value_text(largest.y)))
    middle = sum(axes.get_xlim()) / 2
    for x, y, name in marks:
        on_right = x > middle
        side = {"ha": "right" if on_right else "left", **OFFSET}
        axes.annotate(name, (x, y), (-6 if on_right else 6, 5), **side)
    axes.set_ylim(low, high)
    if plot.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    box = _framed(axes, plot)
    places = {x for series in plot.series for x in series.x}
    if len(places) == 1:
        axes.set_xticks([*places])
    return box


def _limits(plot: Plot) -> tuple[float, float]:
    """Ends of the y axis: the values with some room."""
    values = [plot.level] if plot.level is not None else []
    for series in plot.series:
        values += [*series.y, *series.low, *series.high]
    low, high = plot.limits or (float(np.nanmin(values)), float(np.nanmax(values)))
    room = max(0.08 * (high - low), LEAST_ROOM * high) or 1.0
    return 0.0 if plot.from_zero else max(low - room, 0.0), high + room


def _curve(axes: "Axes", series: Series, colour: str, high: float, *, dotted: bool) -> None:
    """One curve, with its interval; ``dotted``: with a dot for each point."""
    if series.low:
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
    dots = series.style == "dots" or dotted or len(series.x) == 1
    line = {"line": "-", "dashed": "--", "dots": "none"}[series.style]
    look: Look = {
        "color": colour,
        "linestyle": line,
        "marker": "o" if dots else "",
        "markersize": 3.5,
    }
    axes.plot(
        series.x, np.minimum(series.y, high), label=_wrapped(series.name), clip_on=False, **look
    )


def _points(axes: "Axes", marks: Sequence[Mark], **look: Any) -> None:
    x = [mark.x for mark in marks]
    y = [mark.y for mark in marks]
    axes.plot(x, y, linestyle="none", color=COLOURS[4], clip_on=False, **look)


def _framed(axes: "Axes", plot: Plot) -> Box:
    """Titles, grid and numbers of the axes."""
    axes.set(xlabel=plot.x_title, ylabel=plot.y_title)
    axes.yaxis.set_label_coords(-55 / (WIDTH - CURVE.left - CURVE.right), 0.5)
    axes.grid(axis="y", linewidth=1)
    linear: dict[Literal["x", "y"], str] = {"x": plot.x_title, "y": plot.y_title}
    if plot.log_x:
        del linear["x"]
    for axis, title in linear.items():
        axes.ticklabel_format(axis=axis, useOffset=False)
        axes.locator_params(axis=axis, nbins=5, integer=title in ("step", "steps"))
    return CURVE


def _bars(axes: "Axes", plot: Plot) -> Box:
    """The lines of a label, then a bar for each series with its number behind it; none
    for NaN.
    """
    values = np.array([series.y for series in plot.series])
    names = [f" {series.name}" for series in plot.series] if len(values) > 1 else [""]
    level = plot.level or 0.0
    largest = plot.limits[1] if plot.limits else max(np.nanmax(values), level) or 1.0
    letters = max(map(len, map(value_text, values.flat))) + max(map(len, names))
    edge = largest * WIDTH / (WIDTH - 8 - LETTER * letters)
    tops, height = _labels(axes, plot.labels, BAR * len(values))
    for number, series in enumerate(plot.series):
        y = tops + BAR * number
        lengths = np.nan_to_num(series.y)
        axes.barh(y + 1, lengths, 12, align="edge", color=COLOURS[number % 6], label=series.name)
        # Behind the line of the level too, which would cross it.
        for value, place, middle in zip(series.y, np.maximum(lengths, level), y + 7, strict=True):
            if not np.isnan(value):
                text = value_text(value) + names[number]
                axes.annotate(text, (place, middle), (5, 0), va="center", **OFFSET)
    if plot.level is not None:
        ends = tops - 1, tops + BAR * len(values)
        axes.vlines([level] * len(tops), *ends, color=LIGHT["paper"], linewidth=4)
        axes.vlines([level] * len(tops), *ends, **LEVEL)
    axes.text(0, height, plot.y_title and f"in {plot.y_title}", va="top", color=LIGHT["soft"])
    return _unframed(axes, edge, height + LINE * bool(plot.y_title))


def _stack(axes: "Axes", plot: Plot) -> Box:
    """All series after each other in one bar for each label, or in a single bar without
    labels.
    """
    tall = 12 if plot.labels else 28
    tops, height = _labels(axes, plot.labels or ("",), tall + 2)
    left = np.zeros(len(tops))
    for number, (series, name) in enumerate(zip(plot.series, plot.legend, strict=True)):
        lengths = np.maximum(series.y, 0.0)
        axes.barh(
            tops + 1, lengths, tall, left, align="edge", color=COLOURS[number], label=_wrapped(name)
        )
        left += lengths
    return _unframed(axes, max(left), height)


def _waterfall(axes: "Axes", plot: Plot) -> Box:
    """Each part begins where the one before ends; the last bar is the whole. ``x`` is 1
    for a cause.
    """
    (series,) = plot.series
    whole = sum(series.y)
    values = np.array([*series.y, whole])
    starts = np.array([0.0, *np.cumsum(series.y)[:-1], 0.0])
    colours = []
    for value, caused in zip(series.y, series.x, strict=True):
        if value < 0:
            colours.append(COLOURS[2])
        else:
            colours.append(COLOURS[1] if caused else COLOURS[0])
    labels = []
    for label, value in zip((*plot.labels, "the measured step"), values, strict=True):
        labels.append(f"{label}: {value:.3g} {plot.y_title}, {100 * value / (whole or 1.0):.1f} %")
    tops, height = _labels(axes, labels, BAR)
    axes.barh(tops + 1, values, 9, starts, align="edge", color=[*colours, COLOURS[5]])
    return _unframed(axes, max(starts + np.maximum(values, 0.0)), height)


def _labels(axes: "Axes", labels: Sequence[str], room: float) -> tuple[np.ndarray, float]:
    """Write the labels below each other with room for bars; where each one ends, and
    the last bar.
    """
    ends = []
    y = 3.0
    for label in labels:
        lines = fill(label, LETTERS)
        axes.text(0, y, lines, va="top")
        y += LINE * len(lines.splitlines())
        ends.append(y)
        y += room + 7
    return np.array(ends), y


def _unframed(axes: "Axes", longest: float, height: float) -> Box:
    """Bars as long as the panel is wide, without axes."""
    axes.set(xlim=(0, longest or 1.0), ylim=(height, 0))
    axes.axis("off")
    return Box(height)


def value_text(value: float) -> str:
    """A number beside a bar or a point."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


DRAW: dict[str, Callable[["Axes", Plot], Box]] = {
    "line": _line,
    "bars": _bars,
    "stack": _stack,
    "waterfall": _waterfall,
}
