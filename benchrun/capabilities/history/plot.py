"""The history of points as plots, for ``report --history --plot``."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from benchrun.errors import UserError
from benchrun.show.plot import Mark, Plot, Series, save

from .series import History, PointHistory
from .text import change_sentence, periods_table

DRAWN = 24
"""The largest number of points in one picture."""
FEWEST = 2
"""Runs of a point that make a plot."""
UNITS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0}
"""Units of the time axis, with their seconds."""


def history_plots(history: History) -> Iterator[Plot]:
    """Step time over the time of launch, for each point with at least `FEWEST` runs."""
    for point in history.series:
        if len(point.runs) >= FEWEST:
            yield _point_plot(point)


def _point_plot(point: PointHistory) -> Plot:
    """Each run as a dot, the median of each period as a line, and the first run after
    each change with its size.
    """
    first = point.runs[0].launched
    last = point.runs[-1].launched
    unit = _unit((last - first).total_seconds())

    def age(time: datetime) -> float:
        return (time - first).total_seconds() / UNITS[unit]

    ages = []
    medians = []
    for period in point.periods:
        ages += [age(period.first), age(period.last), age(period.last)]
        medians += [period.step_time_s, period.step_time_s, float("nan")]
    times = {run.run_id: run.step_time_s for run in point.runs}
    marks = []
    notes = []
    for change in point.changes:
        columns = ", ".join(one.column for one in change.changed)
        text = f"{change.percent:+.1f} % {columns}".strip()
        marks.append(Mark(age(change.launched), times[change.run_id], text))
        notes.append(f"{change_sentence(change)}.")
    if marks:
        notes.insert(0, "Circles: the first run after a change.")
    table = periods_table(point)
    shown = [title not in ("to", "tokens/s/GPU") for title in table.titles]
    runs = tuple(age(run.launched) for run in point.runs)
    clock = ""
    if unit != "days":
        clock = f" {first:%H:%M}"
    return Plot(
        "line",
        f"History: {point.name}",
        (
            Series("step time", tuple(times.values()), runs, style="dots"),
            Series("median between changes", tuple(medians), tuple(ages)),
        ),
        table.only([index for index, wanted in enumerate(shown) if wanted]),
        x_title=f"{unit} since {first:%Y-%m-%d}{clock}",
        y_title="step time (s)",
        marks=tuple(marks),
        note=" ".join(notes),
    )


def _unit(span_s: float) -> str:
    """The largest unit of which the time has two or more."""
    return next((unit for unit, seconds in UNITS.items() if span_s >= 2 * seconds), "minutes")


def plot_history(history: History, path: Path) -> None:
    """Write the picture, one plot per point, to ``path``, in the format that its name
    ends in.

    UserError if there is nothing to draw, or too much, or the file cannot be written.
    """
    plots = list(history_plots(history))
    if not plots:
        raise UserError("no point has two runs to draw", hint="name more RUNS")
    if len(plots) > DRAWN:
        raise UserError(
            f"{len(plots)} points make no readable picture",
            hint=f"name RUNS of at most {DRAWN} points",
        )
    save(plots, path)
