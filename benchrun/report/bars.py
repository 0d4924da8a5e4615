"""Horizontal bars: values, parts of a whole, and the waterfall from the peak to the measurement."""

import math

from benchrun.report.drawing import COLOURS, WIDTH, box, length, number, text, wrapped
from benchrun.report.figure import Figure

DIGITS = 3
"""Of the number behind a bar."""
LINE = 14
"""Height of a line of text."""


def bars(figure: Figure) -> tuple[int, list[str]]:
    """The lines of a label, then a bar for each series with its number behind it; none for NaN."""
    values = [value for series in figure.series for value in series.y if not math.isnan(value)]
    largest = figure.limits[1] if figure.limits else max(*values, figure.level or 0.0) or 1.0
    names = [f" {series.name}" if len(figure.series) > 1 else "" for series in figure.series]
    texts = [
        [number(value, DIGITS) + name for value in each.y] for each, name in zip(figure.series, names, strict=True)
    ]
    longest = WIDTH - 8 - max(length(each) for column in texts for each in column)
    level = None if figure.level is None else figure.level / largest * longest
    marks: list[str] = []
    y = 0
    for index, label in enumerate(figure.labels):
        y = _label(label, y, marks)
        top = y
        for which, series in enumerate(figure.series):
            if math.isnan(series.y[index]):
                continue
            end = max(series.y[index], 0.0) / largest * longest
            marks += [box(f"c{which % COLOURS}", 0, y + 1, end, 12)]
            # Behind the line of the level too, which would cross it.
            marks += [text(max(end, level or 0.0) + 5, y + 11, texts[which][index])]
            y += 15
        if level is not None:
            ends = f'x1="{level:.1f}" x2="{level:.1f}" y1="{top - 1}" y2="{y}"'
            marks.append(f'<line class="halo" {ends}/><line class="level" {ends}/>')
        y += 7
    return y, marks


def stack(figure: Figure) -> tuple[int, list[str]]:
    """For each label a bar of all series after each other; a single bar without a label where there are none."""
    rows = range(max(len(figure.labels), 1))
    wholes = [sum(max(series.y[row], 0.0) for series in figure.series) or 1.0 for row in rows]
    marks: list[str] = []
    longest, y = max(wholes), 4
    for row in rows:
        if figure.labels:
            y = _label(figure.labels[row], y, marks)
        x, height = 0.0, 12 if figure.labels else 28
        for index, series in enumerate(figure.series):
            width = max(series.y[row], 0.0) / longest * WIDTH
            if width:
                marks.append(box(f"c{index % COLOURS}", x, y + 1, width, height))
            x += width
        y += height + 9
    return y, marks


def waterfall(figure: Figure) -> tuple[int, list[str]]:
    """Each part begins where the one before ends; the last bar is the whole. ``x`` is 1 for what a cause takes."""
    (series,) = figure.series
    marks: list[str] = []
    whole, until, y = sum(series.y) or 1.0, 0.0, 0
    scale = WIDTH / max(whole, *_ends(series.y))
    for index, (label, seconds) in enumerate(zip(figure.labels, series.y, strict=True)):
        start, end = sorted((until, until + seconds))
        colour = "c2" if seconds < 0 else "c1" if series.x[index] else "c0"
        y = _valued(label, seconds, whole, figure.y_title, y, marks)
        marks.append(box(colour, start * scale, y + 1, (end - start) * scale, 9))
        until, y = until + seconds, y + 17
    y = _valued("the measured step", whole, whole, figure.y_title, y, marks)
    marks.append(box("c5", 0, y + 1, whole * scale, 9))
    return y + 14, marks


def _ends(values: tuple[float, ...]) -> list[float]:
    """Where each part ends."""
    ends = [0.0]
    for value in values:
        ends.append(ends[-1] + value)
    return ends


def _label(label: str, y: int, marks: list[str]) -> int:
    """Add the lines of a label below ``y``; returns where they end."""
    for line in wrapped(label, WIDTH):
        marks.append(text(0, y + 11, line))
        y += LINE
    return y


def _valued(label: str, seconds: float, whole: float, unit: str, y: int, marks: list[str]) -> int:
    """Add a label with its value at the right edge; returns where they end."""
    value = f"{seconds:.3g} {unit}, {100 * seconds / whole:.1f} %"
    marks.append(text(WIDTH, y + 11, value, "end"))
    for line in wrapped(label, WIDTH - length(value) - 8):
        marks.append(text(0, y + 11, line))
        y += LINE
    return y
