"""Curves and histograms: plots with two axes."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchrun.report.drawing import COLOURS, WIDTH, box, brief, length, names_of, number, text, ticks
from benchrun.report.figure import Figure, Series

HEIGHT = 220
LEFT, RIGHT, TOP, BOTTOM = 72, 10, 18, 40
FEW = 30
"""The largest number of points that are drawn with a dot each."""
LEAST = 0.004
"""Room above and below the values, as a share of them: noise of a thousandth is no mountain range."""
BEYOND = 4
"""Values beyond the axis that are written."""


class _Axes:
    """Maps values to pixels."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.x, self.y = x, y

    def px(self, value: float) -> float:
        low, high = self.x
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def py(self, value: float) -> float:
        low, high = self.y
        inside = min(max(value, low), high)
        return HEIGHT - BOTTOM - (inside - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    def frame(self, figure: Figure) -> Iterator[str]:
        """Grid, numbers and titles of the axes."""
        values = ticks(*self.y)
        if figure.kind == "histogram":
            values = [value for value in values if value == round(value)]
        grid = "".join(f"M{LEFT} {self.py(value):.1f}H{WIDTH - RIGHT}" for value in values)
        yield f'<path class="grid" d="{grid}"/><g text-anchor="end">'
        yield from (text(LEFT - 5, self.py(at) + 4, name) for at, name in zip(values, names_of(values), strict=True))
        yield '</g><g text-anchor="middle">'
        yield from self._x_names(figure)
        yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, figure.x_title) + "</g>"
        yield f'<text transform="translate(12 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        yield f"{escape(figure.y_title)}</text>"

    def _x_names(self, figure: Figure) -> Iterator[str]:
        """The numbers below the x axis, without those that would touch the one before."""
        round_ones = ticks(*self.x)
        if "step" in figure.x_title and "time" not in figure.x_title:
            round_ones = [value for value in round_ones if value == round(value)]
        free = 0.0
        for value, name in figure.ticks or zip(round_ones, names_of(round_ones), strict=True):
            half = length(name) / 2
            middle = min(self.px(value), WIDTH - half - 2)
            if middle - half >= free:
                yield text(middle, HEIGHT - BOTTOM + 15, name)
                free = middle + half + 6


def _limits(figure: Figure) -> tuple[float, float]:
    """Of the y axis: what counts, with some room."""
    low_x, high_x = figure.shade or (math.inf, -math.inf)
    pairs = [pair for series in figure.series for pair in zip(series.x, series.y, strict=True)]
    values = [y for x, y in pairs if not low_x <= x <= high_x] or [y for _, y in pairs]
    values += [value for series in figure.series for value in (*series.low, *series.high)]
    values += [figure.level] if figure.level is not None else []
    low, high = figure.limits or (min(values), max(values))
    room = max(0.08 * (high - low), LEAST * max(abs(low), abs(high))) or 1.0
    return (0.0 if figure.from_zero else max(low - room, 0.0 if low >= 0 else -math.inf)), high + room


def line(figure: Figure) -> tuple[int, list[str]]:
    """Curves over x, with their intervals, the shade, the level and the marks."""
    every = [x for series in figure.series for x in series.x]
    room = 0.15 if figure.ticks else 0.0
    axes = _Axes((min(every) - room, max(every) + room), _limits(figure))
    marks = []
    if figure.shade:
        left, right = (axes.px(min(max(x, axes.x[0]), axes.x[1])) for x in figure.shade)
        height = HEIGHT - TOP - BOTTOM
        marks.append(f'<rect class="shade" x="{left:.1f}" y="{TOP}" width="{right - left:.1f}" height="{height}"/>')
    marks += axes.frame(figure)
    if figure.level is not None:
        y = axes.py(figure.level)
        marks.append(f'<line class="level" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    for index, series in enumerate(figure.series):
        marks += _curve(series, axes, f"c{index % COLOURS}", dots=len(figure.series) == 1 or bool(figure.ticks))
    marks += [
        f'<circle class="mark" cx="{axes.px(x):.1f}" cy="{axes.py(y):.1f}" r="4"/>'
        for x, y in figure.marks
        if y <= axes.y[1]
    ]
    pairs = [pair for series in figure.series for pair in zip(series.x, series.y, strict=True)]
    return HEIGHT, [*marks, *_beyond([pair for pair in pairs if pair[1] > axes.y[1]], axes)]


def _curve(series: Series, axes: _Axes, colour: str, dots: bool) -> Iterator[str]:
    """One curve, with whiskers where it has intervals and dots where it has few points."""
    points = [(axes.px(x), axes.py(y)) for x, y in zip(series.x, series.y, strict=True)]
    if series.low:
        ends = zip(points, series.low, series.high, strict=True)
        whiskers = "".join(
            f"M{x - 4:.0f} {axes.py(low):.1f}h8M{x:.0f} {axes.py(low):.1f}V{axes.py(high):.1f}m-4 0h8"
            for (x, _), low, high in ends
        )
        yield f'<path class="line {colour}" d="{whiskers}"/>'
    dash = ' stroke-dasharray="4 3"' if series.dashed else ""
    path = " ".join(f"{x:.0f} {brief(y) if len(points) <= FEW else round(y)}" for x, y in points)
    yield f'<polyline class="line {colour}" points="{path}"{dash}/>'
    if dots and len(points) <= FEW:
        yield f'<path class="dots {colour}" d="{"".join(f"M{x:.0f} {y:.1f}h0" for x, y in points)}"/>'


def _beyond(points: Sequence[tuple[float, float]], axes: _Axes) -> Iterator[str]:
    """A triangle at the upper edge for each point above it; over it the values of the largest that have room."""
    if not points:
        return
    triangles = "".join(f"M{axes.px(x) - 4:.0f} {TOP + 7}h8l-4 -7z" for x, _ in points)
    yield f'<path class="beyond" d="{triangles}"/>'
    taken: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: -point[1]):
        name, half = number(y), length(number(y)) / 2
        middle = min(max(axes.px(x), LEFT + half), WIDTH - half)
        if len(taken) < BEYOND and all(middle + half + 4 < left or right + 4 < middle - half for left, right in taken):
            taken.append((middle - half, middle + half))
            yield text(middle, TOP - 4, name, "middle")


def histogram(figure: Figure) -> tuple[int, list[str]]:
    """A bar for each stretch of x."""
    (series,) = figure.series
    width = series.x[1] - series.x[0] if len(series.x) > 1 else 1.0
    axes = _Axes((series.x[0], series.x[-1] + width), (0.0, 1.05 * max(series.y)))
    marks = [*axes.frame(figure)]
    for x, count in zip(series.x, series.y, strict=True):
        left, right, top = axes.px(x), axes.px(x + width), axes.py(count)
        if count:
            marks.append(box("c0", left, top, right - left - 1, axes.py(0) - top))
    if figure.level is not None:
        x = axes.px(figure.level)
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
        marks.append(f'<line class="halo" {ends}/><line class="level" {ends}/>')
    return HEIGHT, marks
