"""The parts of a report on several runs: nodes, changes, two runs side by side,
frameworks, curves, published numbers.
"""

from collections.abc import Iterator, Sequence

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.sides import sides_of
from benchrun.capabilities.explain.view import interval_text
from benchrun.judge.difference import NOTICEABLE, difference
from benchrun.show.curve import scaling_plots
from benchrun.show.frameworks import frameworks_table, side_by_side, valid_runs
from benchrun.show.model import ReportModel
from benchrun.show.published import published_table
from benchrun.show.readable import readable
from benchrun.show.section import Section
from benchrun.show.table import Table

from .findings import Findings, changes_table, failures_table, nodes_table

POINTS = (
    "point",
    "layout",
    "runs",
    "ratio",
    "low",
    "high",
    "step time s",
    "tokens/s/GPU",
    "MFU",
    "verdict",
    "source",
)
"""Columns of the table of points that a page shows."""


def summary(report: ReportModel, found: Findings) -> Iterator[Section]:
    """Sections that a reader asks for first: the points, slow nodes, failures, changes."""
    points = _points(readable(found.alike))
    if 1 < len(points.rows) <= len(report.results) / 2:
        text = (
            "Each point with its repeats together, beside its reference: the median of the ratios and its "
            "interval; of fewer than six runs, their range. Two points differ where these do not overlap."
        )
        yield Section("points", "Points", text + found.left_out, tables=(points,))
    nodes = nodes_table(found)
    if len(nodes.rows) > 1:
        text = (
            "Runs of each node beside those of the same point and driver on other nodes, between the same changes, "
            "the slow ones first, then those of failed runs. A node whose interval lies above 0 is slower; "
            "since: it was not before. A run on a node that is slower counts for no other node."
        )
        yield Section("nodes", "Nodes", text, tables=(nodes,))
    if found.failures:
        text = "Runs that failed or gave no valid number, by what went wrong; nodes: those that it names, else all."
        yield Section("failures", "Failures", text, tables=(failures_table(found),))
    if found.changes:
        text = (
            f"Where the step time of a point changed, or its newest day differs from all days before. "
            f"Interval: the range of the earlier runs, and {100 * NOTICEABLE:.0f} % by which repeats differ."
        )
        yield Section(
            "changes", "Changes", text + found.on_slow, tables=(changes_table(found.changes),)
        )


def _points(table: Table) -> Table:
    """One row per point, in few columns."""
    return table.only([table.titles.index(name) for name in POINTS if name in table.titles])


def sections(
    report: ReportModel, found: Findings, explained: Sequence[Evidence | None] = ()
) -> Iterator[Section]:
    """Every further section that has something to show; ``explained``: what is known
    about each run.
    """
    known = list(filter(None, explained))
    if len(known) == 2:
        yield _beside(*known)
    frameworks = side_by_side(valid_runs(found.alike))
    if frameworks.rows:
        text = "The same point in different frameworks, the fastest first." + found.left_out
        tables = (frameworks_table(frameworks),)
        yield Section("frameworks", "Frameworks", text, tables=tables)
    plots = tuple(scaling_plots(report.curves))
    if plots:
        text = (
            "Speed of one GPU over the number of GPUs: a level line is perfect scaling. Expected, beyond what "
            "was measured: the prediction, in proportion to the largest measured size."
        )
        yield Section("scaling", "Scaling", text, plots)
    if report.published:
        text = (
            "Each point beside the published number that is nearest to it, and what differs. "
            "A verdict counts only numbers of the same conditions."
        )
        tables = (published_table(report.published),)
        yield Section("published", "Beside published numbers", text, tables=tables)


def _beside(first: Evidence, second: Evidence) -> Section:
    """Two runs: the ratio of their steps, where the seconds went, what differs."""
    result = difference(*sides_of(first, second))
    text = f"{result.b} takes {result.ratio:.3f} times as long as {result.a} for the same tokens"
    text += f"{interval_text(result)}."
    differs = Table(
        ("differs", "first", "second"), [(each.name, each.a, each.b) for each in result.differs]
    )
    parts = []
    for each in result.parts:
        parts.append((each.part, f"{each.a:.4g}", f"{each.b:.4g}", f"{each.seconds:+.4g}"))
    seconds = Table(("part", "first s", "second s", "second - first s"), parts)
    tables = tuple(table for table in (seconds, differs) if table.rows)
    return Section("beside", "Side by side", text, tables=tables)
