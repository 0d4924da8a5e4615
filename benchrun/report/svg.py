"""Figures as SVG, drawn for a width of 360 pixels, so that text stays readable on a telephone."""

import math
from collections.abc import Iterator, Sequence
from html import escape

from benchrun.report.figure import Figure

WIDTH, HEIGHT = 360, 220
LEFT, RIGHT, TOP, BOTTOM = 66, 10, 12, 40
FEW = 30
"""The largest number of points that are drawn with a dot each."""
COLOURS = 6
"""Classes c0 to c5 of the page's style sheet."""
LETTER = 7.0
"""Width of a letter in pixels, for what must fit."""


def svg(figure: Figure, identity: str) -> str:
    """The figure; ``identity`` makes its ids unique in a page."""
    draw = {"line": _line, "histogram": _histogram, "bars": _bars, "stack": _stack}[figure.kind]
    height, marks = draw(figure)
    label = escape(figure.title)
    legend = [] if figure.kind == "bars" or len(figure.series) < 2 else [*_legend(figure, height)]
    height += 18 * len(legend)
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{identity}">'
    return "".join([head, f'<title id="{identity}">{label}</title>', *marks, *legend, "</svg>"])


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between ``low`` and ``high``."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def number(value: float) -> str:
    """A number in few letters: ``12k`` for 12,000."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.4g}{unit}"
    return f"{value:.4g}"


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
        lines = [(self.py(value), value) for value in ticks(*self.y)]
        grid = "".join(f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}" for y, _ in lines)
        yield f'<path class="grid" d="{grid}"/><g text-anchor="end">'
        yield from (_text(LEFT - 5, y + 4, number(value)) for y, value in lines)
        yield '</g><g text-anchor="middle">'
        for value in ticks(*self.x):
            half = LETTER * len(number(value)) / 2
            yield _text(min(self.px(value), WIDTH - half - 2), HEIGHT - BOTTOM + 15, number(value))
        yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, figure.x_title) + "</g>"
        yield f'<text transform="translate(12 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        yield f"{escape(figure.y_title)}</text>"


def _text(x: float, y: float, content: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}">{escape(content)}</text>'


def _limits(figure: Figure) -> tuple[float, float]:
    """Of the y axis: what counts, with some room; a warm-up outside is drawn at the edge."""
    low_x, high_x = figure.shade or (math.inf, -math.inf)
    pairs = [pair for series in figure.series for pair in zip(series.x, series.y, strict=True)]
    values = [y for x, y in pairs if not low_x <= x <= high_x] or [y for _, y in pairs]
    values += [figure.level] if figure.level is not None else []
    low, high = min(values), max(values)
    room = 0.08 * (high - low) or 0.02 * abs(high) or 1.0
    return (0.0 if figure.from_zero else max(low - room, 0.0 if low >= 0 else -math.inf)), high + room


def _line(figure: Figure) -> tuple[int, list[str]]:
    every = [x for series in figure.series for x in series.x]
    axes = _Axes((min(every), max(every)), _limits(figure))
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
        points = [(axes.px(x), axes.py(y)) for x, y in zip(series.x, series.y, strict=True)]
        path = " ".join(f"{x:.0f} {y:.1f}" for x, y in points)
        marks.append(f'<polyline class="line c{index % COLOURS}" points="{path}"/>')
        if len(points) <= FEW and len(figure.series) == 1:
            dots = "".join(f"M{x:.0f} {y:.1f}h0" for x, y in points)
            marks.append(f'<path class="dots c{index % COLOURS}" d="{dots}"/>')
    marks += [f'<circle class="mark" cx="{axes.px(x):.1f}" cy="{axes.py(y):.1f}" r="4"/>' for x, y in figure.marks]
    return HEIGHT, marks


def _histogram(figure: Figure) -> tuple[int, list[str]]:
    (series,) = figure.series
    width = series.x[1] - series.x[0] if len(series.x) > 1 else 1.0
    axes = _Axes((series.x[0], series.x[-1] + width), (0.0, 1.05 * max(series.y)))
    marks = [*axes.frame(figure)]
    for x, count in zip(series.x, series.y, strict=True):
        left, right, top = axes.px(x), axes.px(x + width), axes.py(count)
        box = f'x="{left:.1f}" y="{top:.1f}" width="{max(right - left - 1, 1):.1f}" height="{axes.py(0) - top:.1f}"'
        marks.append(f'<rect class="fill c0" {box}/>')
    if figure.level is not None:
        x = axes.px(figure.level)
        marks.append(f'<line class="level" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
    return HEIGHT, marks


def _bars(figure: Figure) -> tuple[int, list[str]]:
    """A line of text, then a bar for each series with its number behind it."""
    largest = max((value for series in figure.series for value in series.y), default=1.0) or 1.0
    longest, marks, y = WIDTH - 130, [], 14
    for index, label in enumerate(figure.labels):
        marks.append(_text(0, y, _fitting(label, WIDTH)))
        for which, series in enumerate(figure.series):
            length = max(series.y[index], 0.0) / largest * longest
            marks.append(f'<rect class="fill c{which % COLOURS}" x="0" y="{y + 5}" width="{length:.1f}" height="13"/>')
            name = f" {series.name}" if len(figure.series) > 1 else ""
            marks.append(_text(length + 5, y + 16, f"{number(series.y[index])}{name}"))
            y += 16
        y += 22
    return y - 8, marks


def _stack(figure: Figure) -> tuple[int, list[str]]:
    """One bar of all series after each other."""
    whole, x, marks = sum(series.y[0] for series in figure.series) or 1.0, 0.0, []
    for index, series in enumerate(figure.series):
        length = series.y[0] / whole * WIDTH
        marks.append(f'<rect class="fill c{index % COLOURS}" x="{x:.1f}" y="4" width="{length:.1f}" height="28"/>')
        x += length
    return 40, marks


def _legend(figure: Figure, y: int) -> Iterator[str]:
    """A line for each series below the plot."""
    for index, series in enumerate(figure.series):
        line = y + 18 * index
        share = f": {series.y[0]:.3g} {figure.y_title}" if figure.kind == "stack" else ""
        box = f'<rect class="fill c{index % COLOURS}" x="0" y="{line + 2}" width="11" height="11"/>'
        yield box + _text(17, line + 12, _fitting(series.name + share, WIDTH - 17))


def _fitting(text: str, width: float) -> str:
    most = int(width / LETTER)
    return text if len(text) <= most else text[: most - 1] + "…"


def classes() -> Sequence[str]:
    """The classes that a style sheet must colour."""
    return [f"c{index}" for index in range(COLOURS)]
