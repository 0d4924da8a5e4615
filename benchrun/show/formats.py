"""A report as text in one of its formats."""

from collections.abc import Sequence
from textwrap import fill

from benchrun import extensions

from .curve import CurveView
from .frameworks import frameworks_table
from .junit import junit
from .model import ReportModel
from .prometheus import prometheus
from .table import Table, as_csv, capitals, fitted, markdown
from .terminal import run_page

OF_RUNS = {"junit": junit, "prometheus": prometheus}
"""Formats that list runs, whatever a row is."""
FORMATS = ("terminal", "markdown", "csv", *OF_RUNS)
"""Formats of text that need no extension."""

SPARE = (
    "slowest rank",
    "micro",
    "sequence",
    "reference",
    "TFLOPS/GPU",
    "batch",
    "layout",
    "MFU",
    "source",
    "tokens/s/GPU",
    "served",
)
"""Columns of points that a narrow terminal does without, the first one first."""
SPARE_OF_FRAMEWORKS = ("MEMORY GIB", "OPTIONS", "TOKENS/S/GPU")


def formatted(
    report: ReportModel,
    form: str,
    by: str = "point",
    *,
    one: bool = False,
    width: int | None = None,
) -> str:
    """Format ``report`` as one of `FORMATS` or what an extension adds; the first two are
    a page if there is ``one`` run.

    ``by``: point, framework or scaling. ``width``: of the terminal.
    """
    if form not in FORMATS:
        added: str = extensions.load("formats", form)(report, by=by)
        return added
    if form in OF_RUNS:
        return OF_RUNS[form](report.results)
    if by == "scaling":
        return _scaling(report.curves, form)
    if form == "csv":
        return as_csv(report.rows(by))
    if by == "framework":
        if not report.frameworks.rows:
            return f"{ONE_FRAMEWORK}\n"
        if form == "markdown":
            return markdown(report.frameworks)
        return fitted(capitals(frameworks_table(report.frameworks)), width, SPARE_OF_FRAMEWORKS)
    if one:
        return run_page(report.results[0])
    return _points(report, form, width)


ONE_FRAMEWORK = "no training was run with two frameworks: there is nothing to compare (benchrun report has the runs)"


def _points(report: ReportModel, form: str, width: int | None) -> str:
    """A row per point, then the sentences on ratios of two kinds of runs."""
    if not report.results:
        return "no runs\n"
    if form == "markdown":
        return markdown(report.readable) + "".join(f"\n{line}\n" for line in report.ratios)
    text = fitted(capitals(report.readable), width, [*map(str.upper, SPARE)])
    return text + "".join(f"\n{fill(line, width or 10**4)}\n" for line in report.ratios)


def _scaling(curves: Sequence[CurveView], form: str) -> str:
    """Every curve; as CSV one row per point of a curve."""
    if form == "terminal":
        return "\n".join(view.text() for view in curves)
    if form == "markdown":
        return "\n".join(
            f"## {view.title}, {view.kind} scaling\n\n{markdown(view.table())}" for view in curves
        )
    tables = [(view, view.table()) for view in curves]
    titles = dict.fromkeys(title for _, table in tables for title in table.titles)
    rows = []
    for view, table in tables:
        for row in table.records():
            rows.append([view.title, view.kind, *map(row.get, titles)])
    return as_csv(Table(("curve", "scaling", *titles), rows))
