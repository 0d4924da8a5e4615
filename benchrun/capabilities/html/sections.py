"""The parts of a report on several runs: nodes, changes, two runs side by side,
frameworks, curves, published numbers.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.model import Explanation
from benchrun.capabilities.explain.sides import sides_of
from benchrun.capabilities.explain.view import interval_text
from benchrun.capabilities.history.series import (
    HistoryRun,
    PointHistory,
    changed_between,
    history_of,
    shift,
)
from benchrun.capabilities.history.text import changed_text
from benchrun.judge.difference import NOTICEABLE, difference
from benchrun.judge.verdict import RunResult
from benchrun.measure.changes import changes
from benchrun.measure.statistics import confidence_interval
from benchrun.show.curve import scaling_plots
from benchrun.show.model import ReportModel
from benchrun.show.published import published_table
from benchrun.show.readable import brief
from benchrun.show.section import Section
from benchrun.show.table import Table

from .run import hosts_of

POINTS = (
    "point",
    "layout",
    "with",
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
FRAMEWORKS = {
    "framework": "framework",
    "runs": "runs",
    "step_time_s": "step time s",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "speed": "speed",
    "memory_gib": "memory GiB",
}
"""Columns of the side-by-side table that a page shows, with their titles."""
BLAMED = ("slow_rank", "slow_node", "data", "host", "clocks", "power")
"""Causes that blame the node that they name."""


def summary(
    report: ReportModel, explained: Sequence[Explanation | None], *, history: bool
) -> Iterator[Section]:
    """Sections that a reader asks for first: the points, slow nodes, changes."""
    points = _points(report.readable)
    if 1 < len(points.rows) <= len(report.results) / 2:
        text = (
            "Each point with its repeats together, beside its reference: the median of the ratios and its "
            "interval; of fewer than six runs, their range. Two points differ where these do not overlap."
        )
        yield Section("points", "Points", text, tables=(points,))
    nodes = nodes_table(report.results, explained)
    if len(nodes.rows) > 1:
        text = (
            "Runs of each node beside those of the same point on other nodes, between the same changes, "
            "the slow ones first, then those of failed runs. A node whose interval lies above 0 is slower; "
            "since: it was not before."
        )
        yield Section("nodes", "Nodes", text, tables=(nodes,))
    if not history:
        return
    found = changes_table(history_of(report.results).series)
    if found.rows:
        text = (
            f"Where the step time of a point changed, or its newest day differs from all days before. "
            f"Interval: the range of the earlier runs, and {100 * NOTICEABLE:.0f} % by which repeats differ."
        )
        yield Section("changes", "Changes", text, tables=(found,))


def _points(table: Table) -> Table:
    """One row per point, in few columns."""
    return table.only([table.titles.index(name) for name in POINTS if name in table.titles])


def nodes_table(results: Sequence[RunResult], explained: Sequence[Explanation | None]) -> Table:
    """How much slower the runs of each node are than those of their points on others,
    the slowest first; since when; how many failed, and how many explanations blame it.
    """
    slower: dict[str, list[tuple[datetime, float]]] = {}
    for point in history_of(results).series:
        periods = list(zip(point.runs, point.period_of, strict=True))
        for run, period in periods:
            for host in run.facts["node"]:
                others = []
                for other, its in periods:
                    if its == period and host not in other.facts["node"]:
                        others.append(other.step_time_s)
                if others:
                    percent = 100 * (run.step_time_s / median(others) - 1)
                    slower.setdefault(host, []).append((run.launched, percent))
    runs = Counter(host for run in results for host in hosts_of(run))
    failed: Counter[str] = Counter()
    for result in results:
        ended = result.ending in (None, "completed", "cancelled")
        if result.judgement == "invalid_run" or not ended:
            failed.update(hosts_of(result))
    blamed = _blamed(explained)
    rows = []
    for host, number in runs.items():
        since, each = _newest(sorted(slower.get(host, [])))
        interval = confidence_interval(each)
        span = f"{interval.low:+.1f} to {interval.high:+.1f}" if interval else None
        middle = f"{median(each):+.1f}" if each else None
        counts = (failed[host], blamed.get(host, 0))
        rows.append((host, number, len(each), middle, span or "", since, *counts))
    rows.sort(key=lambda row: (row[4][:1] != "+", -row[6], -float(row[3] or 0)))
    titles = ("node", "runs", "compared", "step longer by %", "interval %", "since")
    return Table((*titles, "failed runs", "runs that blame it"), rows)


def _newest(slower: Sequence[tuple[datetime, float]]) -> tuple[str | None, list[float]]:
    """The values since the last change that is noticeable, with its day."""
    values = [percent for _, percent in slower]
    for cut in reversed(changes(values)):
        before, after = values[: cut.place], values[cut.place :]
        if abs(median(after) - median(before)) >= 100 * NOTICEABLE:
            return f"{slower[cut.place][0]:%Y-%m-%d}", after
    return None, values


def _blamed(explained: Sequence[Explanation | None]) -> Mapping[str, int]:
    """In how many runs each node is at fault."""
    found: dict[str, int] = {}
    for each in filter(None, explained):
        hosts = set()
        for cause in each.causes:
            if cause.kind == "fault" and cause.host and cause.cause in BLAMED:
                hosts.add(cause.host)
        for host in hosts:
            found[host] = found.get(host, 0) + 1
    return found


def changes_table(series: Sequence[PointHistory]) -> Table:
    """The changes of each point, the largest first; of a point whose runs are too few to
    show one, its newest day where it differs from all days before.
    """
    rows = []
    for point in series:
        parts = _periods(point)
        for before, after in pairwise(parts):
            found = shift(before, after)
            if found.low < 0 < found.high and not point.changes:
                continue
            sizes = (f"{found.percent:+.1f}", f"{found.low:+.1f} to {found.high:+.1f}")
            changed = "; ".join(map(changed_text, changed_between(before, after)))
            known = changed or "nothing that is recorded"
            sides = (_days(before), len(before), _days(after), len(after))
            rows.append((point.name, *sides, *sizes, known))
    rows.sort(key=lambda row: -abs(float(row[5])))
    titles = ("point", "before", "runs", "after", "runs", "step longer by %", "interval %")
    return Table((*titles, "changed with it"), rows)


def _periods(point: PointHistory) -> list[list[HistoryRun]]:
    """The runs between two changes; without a change the newest day apart."""
    newest = point.runs[-1].launched.date()
    numbers: Sequence[int] = [run.launched.date() == newest for run in point.runs]
    if point.changes:
        numbers = point.period_of
    parts: dict[int, list[HistoryRun]] = {}
    for number, run in zip(numbers, point.runs, strict=True):
        parts.setdefault(number, []).append(run)
    return list(parts.values())


def _days(runs: Sequence[HistoryRun]) -> str:
    """The first and the last day."""
    days = dict.fromkeys(f"{run.launched:%Y-%m-%d}" for run in (runs[0], runs[-1]))
    return " to ".join(days)


def sections(report: ReportModel, explained: Sequence[Evidence | None] = ()) -> Iterator[Section]:
    """Every further section that has something to show; ``explained``: what is known
    about each run.
    """
    known = list(filter(None, explained))
    if len(known) == 2:
        yield _beside(*known)
    if report.frameworks.rows:
        text = "The same point in different frameworks, the fastest first."
        tables = (frameworks_table(report.frameworks),)
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


def frameworks_table(table: Table) -> Table:
    """The side-by-side table in few columns, for readers."""
    rows = []
    for record in table.records():
        layout = brief(record["layout"])
        point = f"{record['recipe']}, {record['precision']}, {record['num_gpus']} x {record['gpu']}"
        point += f", batch {record['gbs']}" + f", {layout}" * bool(layout)
        rows.append((point, *(_short(record[name]) for name in FRAMEWORKS)))
    return Table(("point", *FRAMEWORKS.values()), rows)


def _short(value: Any) -> Any:
    """A number with four digits, or whole with a comma."""
    if not isinstance(value, float):
        return value
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


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
