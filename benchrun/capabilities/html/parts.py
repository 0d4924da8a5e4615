"""Parts of a page: a whole document, tables, sections."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape as escaped
from pathlib import Path

from benchrun.show.plot import Plot
from benchrun.show.section import Section
from benchrun.show.table import Table, visible

from .picture import INSTALL, drawable, inline_svg
from .style import SCHEMES

escape = partial(escaped, quote=False)
"""Text of a page; quotes stay, because no attribute has such text."""
HERE = Path(__file__).parent
ON_PAPER = {"points": 4, "nodes": 3, "failures": 3, "changes": 3, "runs": 4}
"""Rows of a section that fit on the first sheet of paper."""
SHORT = 12
"""Letters of a cell that does not wrap."""
ARROW = "\u00a0\u2192\u00a0"
"""Arrow between two values, which stay on one line."""
NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]\d+)?( %)?")
"""A cell of a column that stands at the right."""
COLOURS = {
    "pass": "good",
    "as_expected": "good",
    "slow": "bad",
    "slower_than_expected": "bad",
    "invalid_run": "bad",
    "no_reference": "none",
    "not_comparable": "none",
    "not judged": "none",
    "passed": "good",
    "failed": "bad",
    "no_answer": "look",
}
"""Class of a judgement, of a run or by a criterion; every other one needs a look."""
NO_PLOTS = f"<p class=look>Plots are left out, because matplotlib is not installed: {INSTALL}</p>"


def document(title: str, parts: Iterable[str], scripts: str = "") -> str:
    """A whole file of these parts."""
    style = SCHEMES + (HERE / "page.css").read_text(encoding="utf-8")
    lines = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>",
        f"<h1>{escape(title)}</h1>",
        *parts,
        f"</main>\n{scripts}</body>\n</html>\n",
    ]
    return visible("\n".join(lines))


def kind_of(judgement: str) -> str:
    """Class of a judgement."""
    return COLOURS.get(judgement, "look")


def verdict_html(judgement: str) -> str:
    """A judgement in its colour."""
    return f"<span class={kind_of(judgement)}>{escape(judgement.replace('_', ' '))}</span>"


def section_html(part: Section, most: int | None = None) -> Iterator[str]:
    """A heading, a sentence, the plots and the tables; what a table has beyond ``most``
    rows is folded.
    """
    yield f'<section id="{part.identity}"><h2>{escape(part.title)}</h2>'
    rows = max((len(table.rows) for table in part.tables), default=0)
    yield f"<p>{escape(part.text)}{on_paper(part.identity, rows)}</p>"
    if part.plots:
        drawn = [_plot(plot, f"{part.identity}f{i}") for i, plot in enumerate(part.plots)]
        yield f'<div class="figures">{"".join(drawn)}</div>'
    for table in part.tables:
        yield table_html(Table(table.titles, table.rows[:most]))
        rest = table.rows[most:] if most else ()
        if rest:
            yield f"<details class=rest><summary>{len(rest)} more</summary>"
            yield table_html(Table(table.titles, rest)) + "</details>"
    yield "</section>"


def on_paper(identity: str, rows: int) -> str:
    """How many ``rows`` of a section are printed, in words and as a rule; empty if all are."""
    most = ON_PAPER.get(identity, rows)
    if rows <= most:
        return ""
    rule = f"@media print{{#{identity} tbody tr:nth-child(n+{most + 1}){{display:none}}}}"
    return f'<span class="onpaper"> On paper: the first {most}.</span><style>{rule}</style>'


def _plot(plot: Plot, identity: str) -> str:
    """The plot with its table below it, or beside it if it takes a whole row."""
    drawn = inline_svg(plot, identity) if drawable() else NO_PLOTS
    if plot.note:
        drawn += f"<p>{escape(plot.note)}</p>"
    head = f"<figcaption>{escape(plot.title)}</figcaption>"
    if plot.wide:
        return f'<figure class="wide">{head}<div class="pair"><div>{drawn}</div>{table_html(plot.table)}</div></figure>'
    table = f"<details><summary>Numbers</summary>{table_html(plot.table)}</details>"
    return f"<figure>{head}{drawn}{table}</figure>"


def slots(rows: Iterable[tuple[str, str]], without: Sequence[str] = ()) -> str:
    """Names with their values, but for some."""
    texts = []
    for name, value in rows:
        if name.strip() not in without:
            texts.append(f"<dt>{escape(name.strip())}<dd>{_cell(value)}")
    return f"<dl>{''.join(texts)}</dl>"


def table_html(table: Table) -> str:
    """A table, which scrolls by itself where it is wider than the window."""
    cells = table.cells()
    numeric = []
    for index in range(len(table.titles)):
        numeric.append(_numeric([row[index] for row in cells]))
    head = []
    for title, number in zip(table.titles, numeric, strict=True):
        head.append(f"<th{_class(number, '')}>{escape(str(title).replace('_', ' '))}")
    rows = []
    for row in cells:
        each = zip(row, numeric, strict=True)
        rows.append("<tr>" + "".join(f"<td{_class(n, cell)}>{_cell(cell)}" for cell, n in each))
    body = f"<table><thead><tr>{''.join(head)}</thead><tbody>{''.join(rows)}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="group" aria-label="table">{body}</div>'


def _cell(text: str) -> str:
    if kind := COLOURS.get(text.lower().replace(" ", "_")):
        return f"<span class={kind}>{escape(text)}</span>"
    return escape(text.replace(" -> ", ARROW))


def _numeric(column: Sequence[str]) -> bool:
    return all(not cell or NUMBER.fullmatch(cell) for cell in column)


def _class(number: object, cell: str) -> str:
    """Numbers stand at the right; a short cell, such as a value with its unit, does not
    wrap.
    """
    if number:
        return " class=n"
    if cell and len(cell) <= SHORT:
        return " class=s"
    return ""
