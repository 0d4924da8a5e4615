"""The history of points as a picture (matplotlib, the ``plot`` extra), and as figures of an HTML report."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchrun.errors import UserError
from benchrun.report.figure import Figure, Series
from benchrun.report.history import History
from benchrun.report.history import Series as PointHistory
from benchrun.report.history_text import change_sentence, periods_table
from benchrun.report.picture import picture, save
from benchrun.report.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWN = 24
"""The largest number of points in one picture."""
FEWEST = 3
"""Runs of a point that make a figure."""
UNITS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0}
"""Units of the time axis, with their seconds."""


def history_figures(history: History) -> Iterator[Figure]:
    """Step time over the days, by point; none of a point with fewer than three runs."""
    for point in history.series:
        if len(point.runs) < FEWEST:
            continue
        first = point.runs[0].launched
        unit = _unit((point.runs[-1].launched - first).total_seconds())
        ages = [(run.launched - first).total_seconds() / UNITS[unit] for run in point.runs]
        times = [run.step_time_s for run in point.runs]
        firsts = {change.run_id for change in point.changes}
        marks = [
            pair for run, pair in zip(point.runs, zip(ages, times, strict=True), strict=True) if run.run_id in firsts
        ]
        circles = "Circles: the first run after a change. " if marks else ""
        yield Figure(
            "line",
            f"History: {point.name}",
            (Series("step time", tuple(times), tuple(ages)),),
            _narrow(periods_table(point)),
            x_title=f"{unit} since {first:%Y-%m-%d}" + ("" if unit == "days" else f" {first:%H:%M}"),
            y_title="step time (s)",
            marks=tuple(marks),
            note=circles + " ".join(f"{change_sentence(change)}." for change in point.changes),
        )


def _unit(span_s: float) -> str:
    """The largest unit of which the time has two or more."""
    return next((unit for unit, seconds in UNITS.items() if span_s >= 2 * seconds), "minutes")


def _narrow(table: Table) -> Table:
    """The columns that fit beside other figures."""
    return table.only([index for index, title in enumerate(table.titles) if title not in ("to", "tokens/s/GPU")])


def plot_history(history: History, path: Path) -> None:
    """Write the picture, one panel per point, to ``path``, in the format that its name ends in.

    UserError where there is nothing to draw, or too much, or the file cannot be written.
    """
    points = [point for point in history.series if len(point.runs) > 1]
    if not points:
        raise UserError("no point has two runs to draw", hint="name more RUNS")
    if len(points) > DRAWN:
        raise UserError(f"{len(points)} points make no readable picture", hint=f"name RUNS of at most {DRAWN} points")
    figure = picture(10, 1 + 2.6 * len(points))
    for axes, point in zip(figure.subplots(len(points), squeeze=False)[:, 0], points, strict=True):
        _panel(axes, point)
    save(figure, path)


def _panel(axes: "Axes", point: PointHistory) -> None:
    """Each run as a dot, each period's median as a line, each change as a vertical line with its size."""
    from matplotlib.dates import date2num

    axes.plot(
        [date2num(run.launched) for run in point.runs], [run.step_time_s for run in point.runs], ".", markersize=6
    )
    for period in point.periods:
        axes.plot([date2num(period.first), date2num(period.last)], [period.step_time_s] * 2, color="0.4", linewidth=1.5)
    for change in point.changes:
        axes.axvline(date2num(change.launched), color="C3", linestyle="--", linewidth=1)
        columns = ", ".join(one.column for one in change.changed)
        label = f" {change.percent:+.1f} %" + (f"\n {columns}" if columns else "")
        axes.annotate(label, (date2num(change.launched), 1.0), xycoords=("data", "axes fraction"), va="top", fontsize=8)
    axes.set_title(point.name, fontsize=9)
    axes.set_ylabel("step time (s)")
    axes.margins(y=0.3)
    axes.xaxis_date()
    axes.tick_params(axis="x", labelsize=8)
