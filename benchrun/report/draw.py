"""Plots drawn with matplotlib, in points: a panel is as wide as a telephone, so that its text stays readable."""

import math
from collections.abc import Callable, Sequence
from textwrap import fill, wrap
from typing import TYPE_CHECKING, NamedTuple

from benchrun.report.plot import Mark, Plot, Series
from benchrun.report.style import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 360
"""Width of a panel."""
GAP = 28
"""Distance between panels."""
LINE = 16
"""Height of a line of text."""
LETTER = 7.2
"""Width of a letter, rather more than less."""
COLOURS = [LIGHT[f"c{number}"] for number in range(6)]
FEW = 30
"""The largest number of points that are drawn with a dot each."""
LEAST_ROOM = 0.004
"""Room above and below the values, as a share of them: noise of a thousandth is no mountain range."""
NAMED_BEYOND = 4
"""Values beyond the axis that are written."""
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
"""Parameters of matplotlib: text stays text in an SVG, and the same plot is the same file."""


class Box(NamedTuple):
    """Where the axes of a panel stand: distances from its edges, and their height."""

    height: float
    left: float = 0
    right: float = 0
    top: float = 0
    bottom: float = 0


CURVE = Box(height=162, left=72, right=10, top=18, bottom=40)


def draw(plots: Sequence[Plot], columns: int = 1, *, titled: bool) -> "Figure":
    """The plots in columns, each below its title where ``titled``; call it with `STYLE` set."""
    from matplotlib.figure import Figure

    figure = Figure(dpi=72)
    panels = [_panel(figure, plot, titled=titled) for plot in plots]
    rows = [panels[start : start + columns] for start in range(0, len(panels), columns)]
    margin = GAP / 2 if titled else 0
    heights = [max(box.height + box.top + box.bottom for _, box in row) for row in rows]
    width = min(columns, len(panels)) * (WIDTH + GAP) - GAP + 2 * margin
    height = sum(heights) + GAP * (len(rows) - 1) + 2 * margin
    figure.set_size_inches(width / 72, height / 72)
    upper = margin
    for row, tall in zip(rows, heights, strict=True):
        for column, (axes, box) in enumerate(row):
            left = margin + column * (WIDTH + GAP) + box.left
            lower = height - upper - box.top - box.height
            size = (WIDTH - box.left - box.right) / width, box.height / height
            axes.set_position((left / width, lower / height, *size))
        upper += tall + GAP
    return figure


def _panel(figure: "Figure", plot: Plot, *, titled: bool) -> "tuple[Axes, Box]":
    """One plot with its title and legend, and the room that it takes."""
    axes = figure.add_axes((0, 0, 1, 1))
    box = DRAW[plot.kind](axes, plot)
    if plot.legend:
        names = [fill(name, int(WIDTH / LETTER) - 3) for name in plot.legend]
        anchor = -box.left / (WIDTH - box.left - box.right), -(box.bottom + 2) / box.height
        handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        drawn = [handles[series.name] for series in plot.series]
        axes.legend(drawn, names, loc="upper left", bbox_to_anchor=anchor)
        lines = sum(name.count("\n") + 1 for name in names)
        box = box._replace(bottom=box.bottom + LINE * lines + 4)
    if titled and plot.note:
        lines = wrap(plot.note, int(WIDTH / LETTER))
        place = {"xycoords": "axes fraction", "textcoords": "offset points", "color": LIGHT["soft"]}
        axes.annotate("\n".join(lines), (0, 0), (-box.left, -box.bottom - 2), va="top", **place)
        box = box._replace(bottom=box.bottom + LINE * len(lines) + 4)
    if titled:
        title = wrap(plot.title, int(WIDTH / LETTER))
        place = {"xycoords": "axes fraction", "textcoords": "offset points"}
        offset = (-box.left, box.top + 4)
        axes.annotate("\n".join(title), (0, 1), offset, va="bottom", weight="bold", **place)
        box = box._replace(top=box.top + LINE * len(title) + 4)
    return axes, box


def _line(axes: "Axes", plot: Plot) -> Box:
    """Curves over x, with their intervals, the shade, the level and the marks."""
    every = [x for series in plot.series for x in series.x]
    room = 0.15 if plot.ticks else 0.0
    left, right = min(every) - room, max(every) + room
    low, high = _limits(plot)
    if left == right:
        left, right = left - 1, right + 1
    axes.set(xlim=(left, right), ylim=(low, high))
    _frame(axes, plot)
    if plot.shade:
        shade = (max(plot.shade[0], left), min(plot.shade[1], right))
        axes.axvspan(*shade, color=LIGHT["shade"], linewidth=0, zorder=0, gid="shade")
    if plot.level is not None:
        axes.axhline(plot.level, color=LIGHT["ink"], linestyle="--", linewidth=1, gid="level")
    dotted = len(plot.series) == 1 or bool(plot.ticks)
    for number, series in enumerate(plot.series):
        _curve(axes, series, COLOURS[number % len(COLOURS)], high, dotted=dotted)
    _marks(axes, [mark for mark in plot.marks if mark.y <= high])
    points = [Mark(x, y) for series in plot.series for x, y in zip(series.x, series.y, strict=True)]
    _beyond(axes, [point for point in points if point.y > high], high)
    return CURVE


def _limits(plot: Plot) -> tuple[float, float]:
    """Ends of the y axis: the values that count, with some room."""
    shaded = plot.shade or (math.inf, -math.inf)
    counted, values = [], []
    for series in plot.series:
        values += [*series.y, *series.low, *series.high]
        counted += [*series.low, *series.high]
        for x, y in zip(series.x, series.y, strict=True):
            if not shaded[0] <= x <= shaded[1]:
                counted.append(y)
    known = [value for value in counted if not math.isnan(value)] or values
    if plot.level is not None:
        known.append(plot.level)
    low, high = plot.limits or (min(known), max(known))
    room = max(0.08 * (high - low), LEAST_ROOM * max(abs(low), abs(high))) or 1.0
    if plot.from_zero:
        return 0.0, high + room
    return (max(low - room, 0.0) if low >= 0 else low - room), high + room


def _frame(axes: "Axes", plot: Plot) -> None:
    """Titles, grid and numbers of the axes."""
    axes.set_ylabel(plot.y_title)
    axes.set_xlabel(plot.x_title)
    axes.yaxis.set_label_coords(-60 / (WIDTH - CURVE.left - CURVE.right), 0.5)
    axes.grid(axis="y", linewidth=1)
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.locator_params(nbins=5)
    if plot.kind == "histogram":
        axes.locator_params(axis="y", integer=True)
    if plot.x_title == "step":
        axes.locator_params(axis="x", integer=True)
    if plot.ticks:
        shown = _apart([Mark(place, 0.0, name) for place, name in plot.ticks], axes.get_xlim())
        axes.set_xticks([each.x for each in shown], [each.name for each in shown])


def _apart(marks: Sequence[Mark], span: tuple[float, float], share: float = 0.12) -> list[Mark]:
    """The marks that stand at least this share of the axis from each one before them."""
    least = share * (span[1] - span[0])
    kept: list[Mark] = []
    for mark in marks:
        if all(abs(mark.x - other.x) >= least for other in kept):
            kept.append(mark)
    return kept


def _curve(axes: "Axes", series: Series, colour: str, high: float, *, dotted: bool) -> None:
    """One curve, with its interval, and with dots where it has few points."""
    y = [min(value, high) for value in series.y]
    if series.low:
        axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.2, linewidth=0)
    dots = series.style == "dots" or (dotted and len(y) <= FEW)
    line = {"line": "-", "dashed": "--", "dots": "none"}[series.style]
    look = {"linestyle": line, "marker": "o" if dots else "", "markersize": 3.5, "linewidth": 1.5}
    axes.plot(series.x, y, color=colour, label=series.name, clip_on=False, **look)


def _marks(axes: "Axes", marks: Sequence[Mark]) -> None:
    """A circle around each point that stands out, with its name."""
    if not marks:
        return
    x, y = [mark.x for mark in marks], [mark.y for mark in marks]
    axes.plot(x, y, "o", markersize=8, fillstyle="none", color=LIGHT["c4"], clip_on=False)
    for mark in marks:
        right = mark.x > sum(axes.get_xlim()) / 2
        offset = (-6 if right else 6, 4)
        side = "right" if right else "left"
        axes.annotate(mark.name, (mark.x, mark.y), offset, textcoords="offset points", ha=side)


def _beyond(axes: "Axes", points: Sequence[Mark], high: float) -> None:
    """A triangle at the upper edge for each point above it, with the values of the largest."""
    if not points:
        return
    look = {"color": LIGHT["c4"], "clip_on": False, "linestyle": "none", "gid": "beyond"}
    axes.plot([point.x for point in points], [high] * len(points), marker="^", markersize=7, **look)
    largest = sorted(points, key=lambda point: -point.y)
    low, end = axes.get_xlim()
    for point in _apart(largest, (low, end), 0.2)[:NAMED_BEYOND]:
        place = min(max(point.x, low + 0.05 * (end - low)), end - 0.07 * (end - low))
        offset = {"xytext": (0, 6), "textcoords": "offset points"}
        axes.annotate(value_text(point.y), (place, high), ha="center", **offset)


def _histogram(axes: "Axes", plot: Plot) -> Box:
    """A bar for each stretch of x."""
    (series,) = plot.series
    width = series.x[1] - series.x[0] if len(series.x) > 1 else 1.0
    axes.set(xlim=(series.x[0], series.x[-1] + width), ylim=(0, 1.05 * max(series.y)))
    _frame(axes, plot)
    look = {"color": COLOURS[0], "edgecolor": LIGHT["paper"], "linewidth": 0.5}
    axes.bar(series.x, series.y, width, align="edge", **look)
    if plot.level is not None:
        axes.axvline(plot.level, color=LIGHT["paper"], linewidth=4)
        axes.axvline(plot.level, color=LIGHT["ink"], linestyle="--", linewidth=1, gid="level")
    return CURVE


def _bars(axes: "Axes", plot: Plot) -> Box:
    """The lines of a label, then a bar for each series with its number behind it; none for NaN."""
    values = [value for series in plot.series for value in series.y if not math.isnan(value)]
    largest = plot.limits[1] if plot.limits else max(*values, plot.level or 0.0) or 1.0
    names = [f" {series.name}" if len(plot.series) > 1 else "" for series in plot.series]
    longest = max(len(value_text(value)) for value in values) + max(map(len, names))
    edge = largest * WIDTH / (WIDTH - 8 - LETTER * longest)
    y = 0.0
    for index, label in enumerate(plot.labels):
        y = top = _label(axes, y, label)
        for number, series in enumerate(plot.series):
            value = series.y[index]
            if math.isnan(value):
                continue
            look = {"color": COLOURS[number % len(COLOURS)], "label": series.name}
            axes.barh(y + 1, value, 12, align="edge", **look)
            # Behind the line of the level too, which would cross it.
            place = (max(value, plot.level or 0.0, 0.0), y + 7)
            text, offset = value_text(value) + names[number], {"textcoords": "offset points"}
            axes.annotate(text, place, (5, 0), va="center", **offset)
            y += 15
        if plot.level is not None:
            _level(axes, plot.level, top, y)
        y += 7
    return _unframed(axes, edge, _label(axes, y, plot.y_title and f"in {plot.y_title}", colour=LIGHT["soft"]))


def _level(axes: "Axes", level: float, top: float, bottom: float) -> None:
    """A dashed line across the bars of one label."""
    axes.plot([level] * 2, [top - 1, bottom], color=LIGHT["paper"], linewidth=4)
    look = {"color": LIGHT["ink"], "linestyle": "--", "linewidth": 1, "gid": "level"}
    axes.plot([level] * 2, [top - 1, bottom], **look)


def _stack(axes: "Axes", plot: Plot) -> Box:
    """All series after each other in one bar for each label, or in a single bar without labels."""
    y, longest = 4.0, 0.0
    for index, label in enumerate(plot.labels or ("",)):
        y = _label(axes, y, label)
        left, height = 0.0, 12 if label else 28
        for number, series in enumerate(plot.series):
            length = max(series.y[index], 0.0)
            look = {"color": COLOURS[number], "label": series.name}
            axes.barh(y + 1, length, height, left, align="edge", **look)
            left += length
        longest = max(longest, left)
        y += height + 9
    return _unframed(axes, longest, y)


def _waterfall(axes: "Axes", plot: Plot) -> Box:
    """Each part begins where the one before ends; the last bar is the whole. ``x`` is 1 for a cause."""
    (series,) = plot.series
    whole, until, furthest, y = sum(series.y), 0.0, 0.0, 0.0
    for label, value, caused in zip(plot.labels, series.y, series.x, strict=True):
        colour = COLOURS[1] if caused else COLOURS[0]
        if value < 0:
            colour = COLOURS[2]
        y = _valued(axes, y, label, value, whole, plot.y_title)
        axes.barh(y + 1, value, 9, until, align="edge", color=colour)
        until += value
        furthest = max(furthest, until)
        y += 15
    y = _valued(axes, y, "the measured step", whole, whole, plot.y_title)
    axes.barh(y + 1, whole, 9, align="edge", color=COLOURS[5])
    return _unframed(axes, furthest, y + 14)


def _valued(axes: "Axes", y: float, label: str, value: float, whole: float, unit: str) -> float:
    """Add a label with its value at the right edge; returns where they end."""
    text = f"{value:.3g} {unit}, {100 * value / (whole or 1.0):.1f} %"
    place = axes.get_yaxis_transform()
    axes.text(1, y, text, va="top", ha="right", transform=place)
    return _label(axes, y, label, WIDTH - LETTER * (len(text) + 1))


def _label(axes: "Axes", y: float, label: str, room: float = WIDTH, colour: str = LIGHT["ink"]) -> float:
    """Add the lines of a label below ``y``; returns where they end."""
    for line in wrap(label, int(room / LETTER)):
        axes.text(0, y, line, va="top", color=colour)
        y += LINE
    return y


def _unframed(axes: "Axes", longest: float, height: float) -> Box:
    """Bars as long as the panel is wide, without axes."""
    axes.set(xlim=(0, longest or 1.0), ylim=(height, 0))
    axes.axis("off")
    return Box(height)


def value_text(value: float) -> str:
    """A number beside a bar or a point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


DRAW: dict[str, Callable[["Axes", Plot], Box]] = {
    "line": _line,
    "histogram": _histogram,
    "bars": _bars,
    "stack": _stack,
    "waterfall": _waterfall,
}
