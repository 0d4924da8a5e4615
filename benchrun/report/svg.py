"""Figures as SVG, drawn for a width of 360 pixels, so that text stays readable on a telephone."""

from collections.abc import Iterator
from html import escape

from benchrun.report.bars import bars, stack, waterfall
from benchrun.report.drawing import COLOURS, WIDTH, box, text, wrapped
from benchrun.report.figure import Figure
from benchrun.report.line import histogram, line

DRAW = {"line": line, "histogram": histogram, "bars": bars, "stack": stack, "waterfall": waterfall}


def height(figure: Figure) -> int:
    """Pixels that the figure takes, with its legend."""
    return _legend(figure, DRAW[figure.kind](figure)[0])[1]


def svg(figure: Figure, identity: str) -> str:
    """The figure; ``identity`` makes its ids unique in a page."""
    bottom, marks = DRAW[figure.kind](figure)
    legend, below = _legend(figure, bottom)
    names = f'role="img" aria-labelledby="{identity}" aria-describedby="{identity}d"'
    head = f'<svg viewBox="0 0 {WIDTH} {below}" {names}><title id="{identity}">{escape(figure.title)}</title>'
    described = f'<desc id="{identity}d">{escape(figure.description)}</desc>'
    return "".join([head, described, *marks, *legend, "</svg>"])


def _legend(figure: Figure, y: float) -> tuple[list[str], int]:
    """A line for each series below the plot; and where the legend ends."""
    if figure.kind == "waterfall" or (len(figure.series) < 2 and not any(each.low for each in figure.series)):
        return [], round(y)
    marks = []
    for index, (name, colour) in enumerate(_names(figure)):
        for number, part in enumerate(wrapped(name, WIDTH - 17)):
            if not number:
                dash = ' stroke-dasharray="4 3"' if figure.series[index].dashed else ""
                marks.append(
                    f'<path class="line {colour}" d="M0 {y + 8:.0f}h11"{dash}/>'
                    if figure.kind == "line"
                    else box(colour, 0, y + 2, 11, 11)
                )
            marks.append(text(17, y + 12, part))
            y += 16
    return marks, round(y + 2)


def _names(figure: Figure) -> Iterator[tuple[str, str]]:
    """Name and colour of each series; of a single bar with its parts in numbers."""
    whole = sum(series.y[0] for series in figure.series) if figure.kind == "stack" else 0.0
    for index, series in enumerate(figure.series):
        share = ""
        if figure.kind == "stack" and not figure.labels and whole:
            share = f": {series.y[0]:.3g} {figure.y_title}, {100 * series.y[0] / whole:.1f} %"
        yield series.name + share, f"c{index % COLOURS}"
