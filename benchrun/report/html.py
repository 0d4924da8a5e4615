"""A report as one HTML file: no script, no request to any host, readable on a telephone and on paper."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from benchrun.report.figure import Figure
from benchrun.report.model import ReportModel, RunSection
from benchrun.report.svg import svg
from benchrun.report.table import Table

SHORT = 12
"""Letters of a cell that does not wrap."""
OPEN = 6
"""The largest number of runs whose sections are open from the beginning."""
STYLE = """
:root { --ink: #1f2328; --soft: #57606a; --paper: #fff; --line: #d0d7de; --shade: #eaeef2; --link: #0550ae;
  --c0: #0550ae; --c1: #bc4c00; --c2: #116329; --c3: #8250df; --c4: #a40e26; --c5: #6e7781;
  --good: #116329; --bad: #a40e26; --look: #7d4e00; color-scheme: light dark }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9da7b3; --paper: #0d1117; --line: #3d444d;
  --shade: #1c2128; --link: #79b8ff; --c0: #58a6ff; --c1: #f0883e; --c2: #56d364; --c3: #bc8cff; --c4: #ff7b72;
  --c5: #9da7b3; --good: #56d364; --bad: #ff7b72; --look: #e3b341 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 1240px; padding: 16px; overflow-wrap: break-word }
h1 { font-size: 1.6rem; margin: 0 0 .3em } h2 { font-size: 1.25rem; margin: 1.6em 0 .5em }
h3 { display: inline; font-size: 1rem; margin: 0 }
a { color: var(--link) } .soft { color: var(--soft) }
.pass { color: var(--good) } .slow, .invalid_run { color: var(--bad) } .look { color: var(--look) }
.judgement { font-weight: 600 }
.figures { display: grid; gap: 24px; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 1fr)) }
figure { margin: 0; break-inside: avoid } figure svg { width: 100%; max-width: 460px; height: auto; display: block }
figcaption { font-weight: 600; margin-bottom: 4px } figure p { margin: 2px 0; color: var(--soft); font-size: 13px }
svg text { font: 11.5px system-ui, sans-serif; fill: var(--ink) }
.grid { stroke: var(--line); stroke-width: 1 } .shade { fill: var(--shade) }
.level { stroke: var(--ink); stroke-dasharray: 5 3 } .mark { fill: none; stroke: var(--c4); stroke-width: 1.5 }
.line { fill: none; stroke-width: 1.5 } .dots { stroke-width: 4; stroke-linecap: round }
.line.c0, .dots.c0 { stroke: var(--c0) } .line.c1, .dots.c1 { stroke: var(--c1) }
.line.c2, .dots.c2 { stroke: var(--c2) } .line.c3, .dots.c3 { stroke: var(--c3) }
.line.c4, .dots.c4 { stroke: var(--c4) } .line.c5, .dots.c5 { stroke: var(--c5) }
.fill.c0 { fill: var(--c0) } .fill.c1 { fill: var(--c1) } .fill.c2 { fill: var(--c2) }
.fill.c3 { fill: var(--c3) } .fill.c4 { fill: var(--c4) } .fill.c5 { fill: var(--c5) }
table { border-collapse: collapse; width: 100%; font-size: 13px } caption { text-align: left; font-weight: 600 }
th, td { text-align: left; vertical-align: top; padding: 3px 10px 3px 0; border-bottom: 1px solid var(--line) }
td.number, th.number { text-align: right; white-space: nowrap } td.short { white-space: nowrap }
td { overflow-wrap: anywhere } td:first-child:not(.short) { min-width: 9em }
details { border-top: 1px solid var(--line); padding: 8px 0 } summary { cursor: pointer }
figure details { border: 0; padding: 2px 0 } figure summary { color: var(--soft); font-size: 13px }
@media (max-width: 760px) {
  table.cards thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden }
  table.cards tr { display: block; border-bottom: 2px solid var(--line); padding: 6px 0 }
  table.cards td { display: flex; justify-content: space-between; gap: 12px; border: 0; padding: 1px 0;
    text-align: right }
  table.cards td::before { content: attr(data-label); color: var(--soft); text-align: left }
  table.cards td.number { white-space: normal } }
@media print { details > *:not(summary) { display: block } body { max-width: none; padding: 0 } }
"""


@dataclass(frozen=True)
class Lead:
    """A part of a page that stands before the points."""

    title: str
    text: str
    table: Table


def page(report: ReportModel, title: str = "benchrun report", leads: Sequence[Lead] = ()) -> str:
    """The whole file; ``leads`` stand first."""
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>{escape(title)}</h1>",
            *(part for lead in leads for part in _lead(lead)),
            *_body(report),
            "</main>\n</body>\n</html>\n",
        ]
    )


def _body(report: ReportModel) -> Iterator[str]:
    yield f'<p class="soft">{_counted(report)}</p>'
    yield '<h2 id="points">Points</h2>'
    yield _table(report.readable, "cards")
    yield from (f"<p>{escape(sentence)}</p>" for sentence in report.ratios)
    if report.overview:
        yield '<h2 id="overview">Side by side</h2>'
        yield _figures(report.overview, "o")
    yield '<h2 id="runs">Runs</h2>'
    for index, run in enumerate(report.runs):
        yield from _run(run, f"r{index}", len(report.runs) <= OPEN)


def _lead(lead: Lead) -> Iterator[str]:
    yield f"<h2>{escape(lead.title)}</h2>\n<p>{escape(lead.text)}</p>"
    yield _table(lead.table, "cards")


def _counted(report: ReportModel) -> str:
    judgements = [run.judgement for run in report.runs]
    each = ", ".join(f"{judgements.count(name)} {name.replace('_', ' ')}" for name in dict.fromkeys(judgements))
    return escape(f"{len(judgements)} run{'s' if len(judgements) != 1 else ''}: {each}" if judgements else "no runs")


def _run(run: RunSection, identity: str, opened: bool) -> Iterator[str]:
    """One run: what it is worth in the line that is always visible."""
    kind = run.judgement if run.judgement in ("pass", "slow", "invalid_run") else "look"
    yield f'<details id="{identity}"{" open" if opened else ""}><summary><h3>{escape(run.title)}</h3> '
    yield f'<span class="judgement {kind}">{escape(run.judgement.replace("_", " "))}</span><br>'
    yield f'<span class="soft">{escape(run.run_id)}</span></summary>'
    yield f"<p>{escape(run.reason)}</p>"
    if run.figures:
        yield _figures(run.figures, identity)
    yield _table(Table(("measured", ""), run.facts))
    yield _table(Table(("conditions", ""), run.conditions))
    yield "</details>"


def _figures(figures: Sequence[Figure], identity: str) -> str:
    return f'<div class="figures">{"".join(_figure(each, f"{identity}f{i}") for i, each in enumerate(figures))}</div>'


def _figure(figure: Figure, identity: str) -> str:
    note = f"<p>{escape(figure.note)}</p>" if figure.note else ""
    wide = "cards" if len(figure.table.titles) > 4 else ""
    table = f"<details><summary>Numbers</summary>{_table(figure.table, wide)}</details>"
    return f"<figure><figcaption>{escape(figure.title)}</figcaption>{svg(figure, identity)}{note}{table}</figure>"


def _table(table: Table, kind: str = "") -> str:
    """A table; of ``cards`` each row is a block on a narrow screen."""
    numeric = [
        all(isinstance(row[index], (int, float)) or row[index] is None for row in table.rows)
        for index in range(len(table.titles))
    ]
    titles = [str(title).replace("_", " ") for title in table.titles]
    head = "".join(
        f"<th scope=col{_class(number)}>{escape(title)}</th>" for title, number in zip(titles, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(_cells(row, titles, numeric, kind))}</tr>" for row in table.cells())
    opening = f'<table class="{kind}">' if kind else "<table>"
    return f"{opening}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: Sequence[str], titles: Sequence[str], numeric: Sequence[bool], kind: str) -> Iterable[str]:
    for cell, title, number in zip(row, titles, numeric, strict=True):
        if kind and not cell:
            label = f' data-label="{escape(title)}"'
            yield f"<td{label}>-</td>"
            continue
        label = f' data-label="{escape(title)}"' if kind else ""
        yield f"<td{_class(number) or _short(cell)}{label}>{escape(cell)}</td>"


def _class(number: Any) -> str:
    return ' class="number"' if number else ""


def _short(cell: str) -> str:
    """A class for a cell that should not wrap, such as a value with its unit."""
    return ' class="short"' if len(cell) <= SHORT else ""
