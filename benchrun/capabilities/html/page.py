"""A report as one HTML file: no script, no request to any host, readable on a telephone
and on paper.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from benchrun.show.model import ReportModel
from benchrun.show.plot import Plot
from benchrun.show.section import Section
from benchrun.show.table import Table, visible

from .picture import INSTALL, drawable, inline_svg
from .section import RunSection, evidence_of, run_section
from .sections import sections
from .style import PAGE

SHORT = 12
"""Letters of a cell that does not wrap."""
MANY = 80
"""Runs up to which each is drawn with all of its plots, so that the page stays below
1.5 MB.
"""
OPEN = 6
"""The largest number of runs whose sections are open from the beginning."""
SMALL = 12
"""The most rows of a plot's table that is open from the beginning."""
ARROW = "\u00a0\u2192\u00a0"
"""Arrow between two values, which stay on one line."""
FEW_COLUMNS = 4
"""The most columns of a table that stays a table on a narrow screen."""
NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]\d+)?( %)?")
"""A cell of a column that stands at the right."""
COLOURS = {
    "pass": "pass",
    "as_expected": "pass",
    "slow": "slow",
    "slower_than_expected": "slow",
    "invalid_run": "slow",
}
"""Class of a judgement; every other one needs a look."""


NO_PLOTS = f"<p class=look>Plots are left out, because matplotlib is not installed: {INSTALL}</p>"


def page(
    report: ReportModel,
    title: str = "benchrun report",
    leads: Sequence[Section] = (),
    added: Sequence[Section] = (),
    *,
    by: str = "point",
    history: bool = True,
) -> str:
    """The whole file. ``leads`` stand before the points, ``added`` before the sections
    of the report.

    ``by`` framework or scaling: only that section, without the runs. Without
    ``history`` no plot over time.
    """
    parts = [] if drawable() else [NO_PLOTS]
    for lead in leads:
        parts += _lead(lead)
    return document(title, [*parts, *_body(report, added, by, history=history)])


def document(title: str, parts: Iterable[str]) -> str:
    """A whole file of these parts."""
    lines = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>{PAGE}</style>\n</head>\n<body>\n<main>",
        f"<h1>{escape(title)}</h1>",
        *parts,
        "</main>\n</body>\n</html>\n",
    ]
    return visible("\n".join(lines))


ONLY = {"framework": "frameworks", "scaling": "scaling"}
"""Section that is shown alone, by what the rows are."""


def _body(
    report: ReportModel, added: Sequence[Section], by: str, *, history: bool
) -> Iterator[str]:
    only = ONLY.get(by)
    explained = []
    if only is None:
        explained = list(map(evidence_of, report.results))
    parts = (*added, *sections(report, explained, history=history))
    shown = [part for part in parts if only in (None, part.identity)]
    yield _tally(report)
    links = [(part.identity, part.title) for part in shown]
    if only is None:
        links = [("points", "Points"), *links, ("runs", "Runs")]
    anchors = [f'<a href="#{identity}">{escape(name)}</a>' for identity, name in links]
    yield f"<nav>{''.join(anchors)}</nav>"
    if only is None:
        yield '<h2 id="points">Points</h2>'
        yield table_html(report.readable, links=_anchors(report))
        for sentence in report.ratios:
            yield f"<p>{escape(sentence)}</p>"
    elif not shown:
        yield f"<p>There is nothing to show by {escape(by)} in these runs.</p>"
    for part in shown:
        yield from section_html(part)
    if only:
        return
    yield '<h2 id="runs">Runs</h2>'
    number = len(report.results)
    for index, (run, known) in enumerate(zip(report.results, explained, strict=True)):
        yield from _run(run_section(run, known, brief=number > MANY), f"r{index}", number <= OPEN)


def _anchors(report: ReportModel) -> list[str]:
    """Anchor of each point's first run."""
    keys = [result.spec.repeat_key() for result in report.results]
    return [f"r{keys.index(key)}" for key in dict.fromkeys(keys)]


def _lead(lead: Section) -> Iterator[str]:
    yield f"<h2>{escape(lead.title)}</h2>\n<p>{escape(lead.text)}</p>"
    yield from map(table_html, lead.tables)


def _tally(report: ReportModel) -> str:
    """The number of runs with each verdict."""
    judgements = [run.judgement for run in report.results]
    if not judgements:
        return "<p>no runs</p>"
    each = [(f"run{'s' if len(judgements) > 1 else ''}", len(judgements), "")]
    for name in dict.fromkeys(judgements):
        each.append((name.replace("_", " "), judgements.count(name), _kind(name)))
    parts = (
        f'<span class="{kind}"><b>{count}</b> {escape(name)}</span>' for name, count, kind in each
    )
    return f'<div class="tally">{"".join(parts)}</div>'


def _kind(judgement: str) -> str:
    return COLOURS.get(judgement, "look")


def section_html(part: Section) -> Iterator[str]:
    """A heading, a sentence, the plots and the tables."""
    yield f'<h2 id="{part.identity}">{escape(part.title)}</h2>\n<p>{escape(part.text)}</p>'
    yield _plots(part.plots, part.identity)
    yield from map(table_html, part.tables)


def _run(run: RunSection, identity: str, opened: bool) -> Iterator[str]:
    """One run: what it is worth in the line that is always visible."""
    yield f"<details{' open' if opened else ''}><summary><h3>{escape(run.title)}</h3> "
    yield f'<span class="judgement {_kind(run.judgement)}">{escape(run.judgement.replace("_", " "))}</span><br>'
    yield f'<span class="soft">{escape(run.run_id)}</span></summary>'
    # The anchor stands inside: a browser opens the closed details that a link leads
    # into.
    yield f'<p id="{identity}">{escape(run.reason)}</p>'
    if run.plots:
        yield _plots(run.plots, identity)
    if run.causes:
        yield "<h4>Causes</h4>" + table_html(run.causes)
    for each in run.missing:
        yield f'<p class="soft">To know more: {escape(each)}</p>'
    yield "<h4>Measured</h4>" + table_html(Table(("name", "value"), run.facts), "facts")
    yield "<h4>Conditions</h4>" + table_html(Table(("name", "value"), run.conditions), "facts")
    yield "</details>"


def _plots(plots: Sequence[Plot], identity: str) -> str:
    return f'<div class="figures">{"".join(_plot(each, f"{identity}f{i}") for i, each in enumerate(plots))}</div>'


def _plot(plot: Plot, identity: str) -> str:
    """The plot with its table below it, or beside it if it takes a whole row."""
    note = ""
    if plot.note:
        note = f"<p>{escape(plot.note)}</p>"
    head = f"<figcaption>{escape(plot.title)}</figcaption>"
    drawn = (inline_svg(plot, identity) if drawable() else "") + note
    if plot.wide:
        beside = f'<div class="pair"><div>{drawn}</div>{table_html(plot.table)}</div>'
        return f'<figure class="wide">{head}{beside}</figure>'
    opened = " open" if len(plot.table.rows) <= SMALL else ""
    table = f"<details{opened}><summary>Numbers</summary>{table_html(plot.table)}</details>"
    return f"<figure>{head}{drawn}{table}</figure>"


def table_html(table: Table, kind: str = "", links: Sequence[str] = ()) -> str:
    """A table; if it has many columns each row is a block on a narrow screen.
    ``links``: anchors of its rows.
    """
    kind = kind or ("cards" if len(table.titles) > FEW_COLUMNS else "")
    cells = table.cells()
    numeric = []
    for index in range(len(table.titles)):
        numeric.append(_numeric([row[index] for row in cells]))
    titles = [escape(str(title).replace("_", " ")) for title in table.titles]
    head = "".join(
        f"<th{_class(number, '')}>{title}</th>"
        for title, number in zip(titles, numeric, strict=True)
    )
    heading = ""
    if kind != "facts":
        heading = f"<thead><tr>{head}</tr></thead>"
    rows = [[*_cells(row, titles, numeric, kind)] for row in cells]
    for row, anchor in zip(rows, links, strict=bool(links)):
        row[0] = row[0].replace(">", f'><a href="#{anchor}">', 1).replace("</td>", "</a></td>")
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f"<table{_attribute(kind)}>{heading}<tbody>{body}</tbody></table>"


def _numeric(column: Sequence[str]) -> bool:
    return all(not cell or NUMBER.fullmatch(cell) for cell in column)


def _cells(
    row: Sequence[str], titles: Sequence[str], numeric: Sequence[bool], kind: str
) -> Iterator[str]:
    for cell, title, number in zip(row, titles, numeric, strict=True):
        label = ""
        if kind == "cards":
            label = f' data-label="{title}"'
        yield f"<td{_class(number, cell)}{label}>{escape(cell.replace(' -> ', ARROW))}</td>"


def _class(number: object, cell: str) -> str:
    """Numbers stand at the right; a short cell, such as a value with its unit, does not
    wrap.
    """
    return _attribute("n" if number else "s" if cell and len(cell) <= SHORT else "")


def _attribute(kind: str) -> str:
    if not kind:
        return ""
    return f" class={kind}"
