"""A picture of the ranks over time: a page that needs nothing else."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from .events import RankTrace
from .intervals import Intervals, union_of
from .kernels import Classified, classified
from .window import TraceWindow

COLOURS = {
    "matrix products": "#0550ae",
    "attention": "#8250df",
    "other kernels": "#116329",
    "exposed communication": "#bc4c00",
    "copies": "#7d4e00",
    "idle": "#eaeef2",
}
"""What a rank does -> its colour."""
CELLS = 1200
"""Parts of the window; each has the colour of what takes most of it."""
ROW = 22
LEFT = 90
NS_OF_MS = 1e6


def page(parts: Sequence[tuple[RankTrace, TraceWindow]], title: str) -> str:
    """The page for the traces of these ranks: a row for each."""
    longest = max(window.length for _, window in parts)
    rows = []
    for number, (trace, window) in enumerate(parts):
        rows.append(f'<text x="0" y="{ROW * number + 15}">rank {trace.rank or 0}</text>')
        rows += _cells(trace, window, longest, ROW * number)
    key = ""
    for name, colour in COLOURS.items():
        key += f'<span><i style="background:{colour}"></i>{name}</span>'
    return (
        f"<!doctype html><meta charset=utf-8><title>{escape(title)}</title>"
        "<style>body{font:14px system-ui,sans-serif;margin:16px}span{margin-right:16px}"
        "i{display:inline-block;width:12px;height:12px;margin-right:4px}"
        "svg{width:100%;height:auto}text{font-size:12px}</style>"
        f"<h1>{escape(title)}</h1><p>{key}</p>"
        f'<svg viewBox="0 0 {LEFT + CELLS} {ROW * len(parts) + 20}">{"".join(rows)}'
        f'<text x="{LEFT}" y="{ROW * len(parts) + 15}">0</text>'
        f'<text x="{LEFT + CELLS}" y="{ROW * len(parts) + 15}" text-anchor="end">'
        f"{longest / NS_OF_MS:.4g} ms, each rank from the begin of its own window</text></svg>\n"
    )


def _cells(trace: RankTrace, window: TraceWindow, longest: int, top: int) -> Iterator[str]:
    """The stretches of one rank, each with what it does, from when, for how long."""
    doings = _doing(trace, window, longest)
    numbers = enumerate(doings[doings >= 0])
    names = list(COLOURS)
    ms = longest / CELLS / NS_OF_MS
    for doing, cells in groupby(numbers, key=lambda each: each[1]):
        (first, _), *others = cells
        width = 1 + len(others)
        words = (
            f"rank {trace.rank or 0}: {names[doing]}, {first * ms:.4g} ms, for {width * ms:.4g} ms"
        )
        yield (
            f'<rect x="{LEFT + first}" y="{top}" width="{width}" height="{ROW - 4}" '
            f'fill="{COLOURS[names[doing]]}"><title>{words}</title></rect>'
        )


def _doing(trace: RankTrace, window: TraceWindow, longest: int) -> NDArray[np.int64]:
    """What takes most of each cell, as an index in COLOURS; -1 after the rank's window."""
    edges = window.first + np.linspace(0, longest, CELLS + 1).astype(np.int64)
    classes = classified(trace)
    spent = [np.diff(each.covered_before(edges)) for each in _kinds(classes)]
    compute, kernels, busy = spent[3:]
    divided = [*spent[:2], compute - spent[0] - spent[1], kernels - compute, busy - kernels]
    divided.append(np.diff(edges) - busy)
    doing: NDArray[np.int64] = np.argmax(np.maximum(divided, 0), axis=0)
    doing[edges[:-1] >= window.last] = -1
    return doing


def _kinds(classes: Classified) -> Iterator[Intervals]:
    """Products, attention, communication; then everything that computes, with
    communication, with copies.
    """
    communication = classes.of("communication")
    yield classes.of("matmul")
    yield classes.of("attention")
    yield communication
    yield classes.compute
    yield union_of(classes.compute, communication)
    yield union_of(classes.compute, communication, classes.copies)
