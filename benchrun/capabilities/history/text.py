"""A history as text: for terminals, in Markdown, as CSV."""

from collections.abc import Callable
from datetime import datetime

from benchrun.show.table import LINE, Table, as_csv, capitals, fitted, markdown

from .series import Change, Changed, History, PointHistory

COLUMNS = ("node", "driver", "image", "version", "options")
"""Facts that have a column in CSV."""
CONDITIONS = (
    "recipe",
    "framework",
    "gpu",
    "precision",
    "num_gpus",
    "seq_length",
    "gbs",
    "layout",
    "cluster",
)
SHOWN = 5
"""Points that became slower which have a line of their own."""
NOTE = """\
Newest day: its step time against all days before; above 0 is longer. The interval is the range of
the earlier runs, and the 2 % by which repeats differ: a point is slower where all of it lies above 0.
"""


def history_page(history: History, form: str) -> str:
    """The history in ``form``: terminal, markdown or csv."""
    if form == "csv":
        return as_csv(history_runs_table(history))
    if not history.series:
        return "no runs\n"
    heading, as_text = (
        ("## ", markdown)
        if form == "markdown"
        else ("", lambda table: fitted(capitals(table), LINE, ("TOKENS/S/GPU", "FROM")))
    )
    changed = [series for series in history.series if series.changes]
    parts = [*map(_slower, history.slower[:SHOWN])]
    if more := history.slower[SHOWN:]:
        parts.append(f"SLOWER  {len(more)} more points, which stand below\n")
    parts.append(as_text(histories_table(history)))
    for series in changed:
        parts.append(_section(series, heading, as_text))
    if any(series.newest for series in history.series):
        parts.append(NOTE)
    return "\n".join(parts)


def _slower(series: PointHistory) -> str:
    """Line on a point that became slower, for which the exit code is 1."""
    runs = f"its runs of {_day(series.runs[-1].launched)} against all days before"
    if series.changes:
        runs = f"since {_day(series.changes[-1].launched)}"
    return f"SLOWER  {series.name}: a step takes {series.slower_by:.1f} % longer, {runs}\n"


def _section(series: PointHistory, heading: str, as_text: Callable[[Table], str]) -> str:
    sentences = "".join(f"\n{change_sentence(change)}\n" for change in series.changes)
    gap = "\n" if heading else ""
    return f"{heading}{series.name}\n{gap}{as_text(periods_table(series))}{sentences}"


def histories_table(history: History) -> Table:
    """One row per point: its newest period and how that began."""
    rows = []
    for series in history.series:
        now = series.periods[-1]
        newest = None
        if series.changes:
            newest = series.changes[-1]
        since = ""
        if newest:
            since = f"{newest.percent:+.1f} % on {_day(newest.launched)}"
        day = series.newest
        against = day and f"{day.percent:+.1f} % ({day.low:+.1f} to {day.high:+.1f})"
        days = (_day(series.periods[0].first), _day(now.last))
        rows.append(
            (
                series.name,
                len(series.runs),
                *days,
                now.step_time_s,
                now.tokens_per_s_per_gpu,
                since,
                against,
            )
        )
    titles = (
        "point",
        "runs",
        "from",
        "to",
        "step time (s)",
        "tokens/s/GPU",
        "newest change",
        "newest day",
    )
    return Table(titles, rows)


def periods_table(series: PointHistory) -> Table:
    """One row per period between two changes."""
    sizes = ["", *(f"{change.percent:+.1f} %" for change in series.changes)]
    rows = []
    for period, size in zip(series.periods, sizes, strict=True):
        days = (_day(period.first), _day(period.last))
        rows.append((*days, period.runs, period.step_time_s, period.tokens_per_s_per_gpu, size))
    return Table(
        ("from", "to", "runs", "step time (s)", "tokens/s/GPU", "step time changed by"), rows
    )


def change_sentence(change: Change) -> str:
    """Sentence on a change: when, how much, and what changed with it."""
    size = f"{abs(change.percent):.1f} % {'slower' if change.percent > 0 else 'faster'}"
    head = f"{_day(change.launched)}: {size} since {change.run_id} (chance {change.chance:.2g})"
    facts = "; ".join(map(changed_text, change.changed))
    return f"{head}; changed with it: {facts or 'nothing that is recorded'}"


def changed_text(one: Changed) -> str:
    """A column with its values on the two sides of a change."""
    nothing = {"options": "the defaults"}.get(one.column, "none")
    before, after = (", ".join(values) or nothing for values in (one.before, one.after))
    return f"{one.column} {before} -> {after}"


def history_runs_table(history: History) -> Table:
    """One row per run, the oldest of each point first."""
    rows = []
    for series in history.series:
        first = {change.run_id: change for change in series.changes}
        for number, run in zip(series.period_of, series.runs, strict=True):
            row = [getattr(series, name) for name in CONDITIONS]
            row += [run.run_id, run.launched.strftime("%Y-%m-%dT%H:%M:%SZ"), run.step_time_s]
            row += [run.tokens_per_s_per_gpu, run.verdict]
            for name in COLUMNS:
                row.append(" ".join(run.facts[name]))
            change = first.get(run.run_id)
            if change:
                columns = "; ".join(one.column for one in change.changed)
                rows.append([*row, number + 1, change.percent, change.chance, columns])
            else:
                rows.append([*row, number + 1, None, None, ""])
    measured = ("run_id", "launched", "step_time_s", "tokens_per_s_per_gpu", "verdict")
    return Table(
        (*CONDITIONS, *measured, *COLUMNS, "period", "change_percent", "chance", "changed"), rows
    )


def _day(time: datetime) -> str:
    return time.strftime("%Y-%m-%d")
