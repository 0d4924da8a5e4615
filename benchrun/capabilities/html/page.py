"""A report as one HTML file that needs no network: a page to read, which a script makes
one to sort, filter and compare.
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

import benchrun
from benchrun.judge.verdict import RunResult
from benchrun.show.model import ReportModel
from benchrun.show.readable import named_points
from benchrun.show.runs import site_name
from benchrun.show.section import Section

from .charts import data_of
from .findings import findings
from .parts import HERE, document, escape, kind_of, on_paper, section_html, table_html, verdict_html
from .run import TITLES, axis_svg, evidence_of, explanation_of, row, section
from .sections import sections, summary
from .todo import todo, todo_html

BRIEF = 150
"""Runs from which on small parts of a step are left out, so that 500 runs stay below
1.5 MB.
"""
OPEN = 2
"""The largest number of runs whose sections are open where no script is."""
ONLY = {"framework": "frameworks", "scaling": "scaling"}
"""Section that is shown alone, by what the rows are."""
HIDE = "<script>document.documentElement.classList.add('js')</script>"
"""Hides what a script shows on demand before it is laid out."""
NUMERIC = (4, 7, 8, 9, 10)
"""Columns of the table of all runs that stand at the right."""
WRAPPED = (0, 6, 11, 12)
"""Columns of several words."""
NODES = 12
"""Column that is left out where all runs have the same."""
SPARE = (3, 9, 11)
"""Columns that paper has no room for."""
FIRST_ROWS = 12
"""Rows of a table of the summary that are open from the beginning."""


def made_now(report: ReportModel, *, by: str = "point") -> str:
    """The page with its time. ``report --format html`` writes it."""
    return page(report, by=by, made=datetime.now(timezone.utc))


def page(
    report: ReportModel,
    title: str = "benchrun report",
    leads: Sequence[Section] = (),
    added: Sequence[Section] = (),
    *,
    by: str = "point",
    history: bool = True,
    made: datetime | None = None,
) -> str:
    """The whole file. ``leads`` stand before the summary of the runs, ``added`` after it.

    ``by`` framework or scaling: only that section, without the runs. Without
    ``history`` nothing over time. The same runs give the same page, but for ``made``.
    """
    parts = [_head(report, made)]
    for lead in leads:
        parts.append(f"<h2>{escape(lead.title)}</h2>\n<p>{escape(lead.text)}</p>")
        parts += map(table_html, lead.tables)
    if only := ONLY.get(by):
        found = findings(report.results, history=False)
        shown = [part for part in sections(report, found) if part.identity == only]
        for part in shown:
            parts += section_html(part)
        if not shown:
            parts.append(f"<p>There is nothing to show by {escape(by)} in these runs.</p>")
        return document(title, parts)
    for part in added:
        parts += section_html(part)
    known = list(map(evidence_of, report.results))
    explained = list(map(explanation_of, known))
    names = _names(report.results)
    order = sorted(range(len(names)), key=lambda index: _urgency(report.results[index]))
    found = findings(report.results, explained, history=history)
    if not order:
        return document(title, [*parts, "<p>no runs</p>"])
    parts += todo_html(todo(found))
    for part in summary(report, found):
        parts += section_html(part, FIRST_ROWS)
    parts += _runs(report, names, order)
    parts.append('<div class="more">')
    for part in sections(report, found, known):
        parts += section_html(part)
    parts += [*map(_sentence, report.ratios), '</div><section id="each"><h2>Each run</h2>']
    number = len(order)
    for index in order:
        result, one = report.results[index], explained[index]
        parts += section(result, names[index], index, one, brief=number > BRIEF)
    parts.append("</section>")
    head, *rest = parts
    return document(title, [HIDE, head, _contents("".join(rest)), *rest], _scripts(report.results))


def _contents(text: str) -> str:
    """Links to the sections of a page."""
    links = []
    for identity, name in re.findall(r'<section id="(?!each")(\w+)"><h2>(.*?)</h2>', text):
        links.append(f'<a href="#{identity}">{name}</a>')
    return f"<nav>{' '.join(links)}</nav>"


def _sentence(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _names(results: Sequence[RunResult]) -> list[str]:
    """The name of each run's point."""
    of_run = {}
    for name, point in named_points(results):
        for run in point:
            of_run[run.run_id] = name
    return [of_run[run.run_id] for run in results]


def _urgency(run: RunResult) -> tuple[bool, bool, float]:
    """Order of runs: the slow ones first, then by their ratio, last those without one."""
    ratio = run.verdict.ratio if run.verdict else None
    return kind_of(run.judgement) != "bad", ratio is None, ratio.value if ratio else 0.0


def _head(report: ReportModel, made: datetime | None) -> str:
    """What the page is on: runs, dates, clusters, GPUs, versions; how many have each
    verdict.
    """
    results = report.results
    judgements = [run.judgement for run in results]
    facts = {"runs": str(len(results))}
    days = sorted(f"{run.launched:%Y-%m-%d}" for run in results if run.launched)
    if days:
        facts["launched"] = " to ".join(dict.fromkeys((days[0], days[-1])))
    facts["cluster"] = ", ".join(sorted({site_name(run.spec) for run in results}))
    facts["GPUs"] = ", ".join(sorted({run.spec.gpu for run in results}))
    facts["versions"] = ", ".join(_versions(results))
    if made:
        facts["made"] = f"{made:%Y-%m-%d %H:%M} UTC by benchrun {benchrun.__version__}"
    stated = [f"<dt>{name}<dd>{escape(value)}" for name, value in facts.items() if value]
    tally = []
    for name in dict.fromkeys(sorted(judgements, key=judgements.count, reverse=True)):
        tally.append(f"<li><b>{judgements.count(name)}</b> {verdict_html(name)}")
    return f"<dl class=head>{''.join(stated)}</dl><ul class=tally>{''.join(tally)}</ul>"


def _versions(results: Sequence[RunResult]) -> Iterator[str]:
    """Each package that trained, with its versions."""
    found: dict[str, dict[str, None]] = {}
    for run in results:
        for name, version in run.versions.items():
            found.setdefault(name, {})[version] = None
    for name, versions in found.items():
        yield f"{name} {' '.join(sorted(versions, reverse=True))}"


def _runs(report: ReportModel, names: Sequence[str], order: Sequence[int]) -> Iterator[str]:
    """The table of all runs; a column in which no run has anything is left out."""
    yield '<section id="runs"><h2>Runs</h2><p>Speed: a dot is the speed over that of the reference, '
    yield "with its interval; 1 is as fast as the reference, and more is faster. "
    yield f"The slowest stand first.{on_paper('runs', len(order))}</p>"
    rows = [row(report.results[index], names[index], index) for index in order]
    shown = []
    for column in range(len(TITLES)):
        values = {cells[column] for cells in rows}
        if values != {""} and (column < NODES or len(values) > 1):
            shown.append(column)
    head = []
    labels = []
    right = []
    whole = []
    spare = []
    for place, column in enumerate(shown):
        title = escape(TITLES[column])
        kind = " class=n" if column in NUMERIC else ""
        head.append(f"<th{kind}>{title}{axis_svg() if column == 3 else ''}")
        labels.append(f'#all td:nth-child({place + 1})::before{{content:"{title}"}}')
        if column in NUMERIC:
            right.append(f"#all td:nth-child({place + 1})")
        if column in SPARE:
            spare.append(f"#all tr>:nth-child({place + 1})")
        if column not in WRAPPED:
            whole.append(f"#all td:nth-child({place + 1})")
    yield f"<style>{','.join(right)}{{text-align:right}}{','.join(whole)}{{white-space:nowrap}}"
    yield f"@media screen and (max-width:900px){{{''.join(labels)}}}"
    yield f"@media print{{{','.join(spare)}{{display:none}}}}</style>"
    yield f"<table id=all><thead><tr>{''.join(head)}</thead><tbody>"
    for cells in rows:
        yield f"<tr>{''.join(f'<td>{cells[column]}' for column in shown)}</tr>"
    yield "</tbody></table></section>"


def _scripts(results: Sequence[RunResult]) -> str:
    """The series, the plotting library and the page's own script."""
    data = [data_of(result, len(results)) for result in results]
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    library = HERE / "uplot"
    styles = (library / "uPlot.min.css").read_text(encoding="utf-8")
    plotter = (library / "uPlot.iife.min.js").read_text(encoding="utf-8")
    own = (HERE / "page.js").read_text(encoding="utf-8")
    licence = (library / "LICENSE").read_text(encoding="utf-8")
    return (
        f"<!-- uPlot\n{licence}-->\n<style>{styles}</style>\n"
        f'<script type="application/json" id="data">{text}</script>\n'
        f"<script>{plotter}</script>\n<script>\n{own}</script>\n"
    )
