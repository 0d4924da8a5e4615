"""What every plot is made of: texts that fit, boxes, round numbers."""

import math
from collections.abc import Sequence
from html import escape

WIDTH = 360
"""Of a plot, in pixels."""
COLOURS = 6
"""Classes c0 to c5 of the page's style sheet."""
LETTER = 7.0
"""Width of a letter in pixels, for what must fit."""


def text(x: float, y: float, content: str, anchor: str = "") -> str:
    """A line of text that begins at ``x``; with ``anchor`` middle or end it has its middle or end there."""
    where = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{where}>{escape(content)}</text>'


def box(kind: str, x: float, y: float, width: float, height: float) -> str:
    """A filled rectangle of at least half a pixel."""
    size = f'width="{brief(max(width, 0.5))}" height="{brief(height)}"'
    return f'<rect class="fill {kind}" x="{brief(x)}" y="{brief(y)}" {size}/>'


def brief(pixels: float) -> str:
    """Pixels with one decimal place, where it is not 0."""
    return f"{pixels:.1f}".removesuffix(".0")


def length(content: str) -> float:
    """Width of a text in pixels, rather more than less."""
    return LETTER * len(content)


def wrapped(content: str, width: float) -> list[str]:
    """``content`` in lines of at most ``width`` pixels, broken between words where that is possible."""
    most = max(int(width / LETTER), 4)
    lines = [""]
    for word in content.split():
        joined = f"{lines[-1]} {word}".strip()
        if len(joined) <= most:
            lines[-1] = joined
            continue
        pieces = [word[start : start + most] for start in range(0, len(word), most)]
        lines += pieces if lines[-1] else []
        if not lines[-1]:
            lines[-1:] = pieces
    return lines


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between ``low`` and ``high``."""
    span = high - low or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if span / (power * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def names_of(values: Sequence[float]) -> list[str]:
    """Numbers in few letters, with as many digits as tell them apart."""
    for digits in range(3, 8):
        names = [number(value, digits) for value in values]
        if len(set(names)) == len(values):
            break
    return names


def number(value: float, digits: int = 4) -> str:
    """A number in few letters: ``12k`` for 12,000."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.{digits}g}{unit}"
    return f"{value:.{max(digits, 4) if abs(value) >= 1000 else digits}g}"
