"""A report as text in one of its formats."""

from benchrun.report.html import page
from benchrun.report.junit import junit
from benchrun.report.model import ReportModel
from benchrun.report.runs import runs_page
from benchrun.report.table import Table, as_csv, markdown, plain
from benchrun.report.terminal import run_page


def written(report: ReportModel, form: str, by: str = "point", *, one: bool = False) -> str:
    """``report`` as terminal, markdown, csv, html or junit; of ``one`` run the first two are a page of it."""
    if form == "html":
        return page(report)
    if form == "junit":
        return junit(report.results)
    if form == "csv":
        return as_csv(report.rows(by))
    if by == "framework":
        return (markdown if form == "markdown" else plain)(report.frameworks)
    if one:
        return run_page(report.results[0])
    if form == "markdown":
        return runs_page(report.results)
    ratios = "".join(f"\n{sentence}\n" for sentence in report.ratios)
    return plain(_upper(report.readable)) + ratios if report.results else "no runs\n"


def _upper(table: Table) -> Table:
    return Table([str(title).upper() for title in table.titles], table.rows, missing="-")
