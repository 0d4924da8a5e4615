"""A study as a table, and the sentences that its numbers support."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from benchrun.judge.ratio import Ratio
from benchrun.show.table import LINE, Table, as_csv, fitted, markdown, markdown_text

from .result import SERVED, TABLED, PointResult, StudyResult
from .schedule import PointState

NAMES = {metric.key: metric for metric in (*TABLED, *SERVED)}


SPARE = ("gpu hours limit", "spread pct", "gpu hours used", "peak memory gib")
"""Columns that a line does without, the first one first."""


def study_table(study: StudyResult) -> Table:
    """One row per point: its factors, what it measured, its ratio to the baseline."""
    measured = set().union(*(point.metrics for point in study.points))
    names = [name for name in NAMES if name in measured]
    ratios = ("ratio", "ratio_low", "ratio_high")
    hours = ("gpu_hours_limit", "gpu_hours_used")
    titles = ("point", *study.columns, "state", "runs", *names, *ratios, *hours, "note")
    rows = []
    for number, point in enumerate(study.points, 1):
        rows.append(_row(number, point, study, names))
    return Table(titles, rows)


def _row(number: int, point: PointResult, study: StudyResult, names: Sequence[str]) -> list[Any]:
    row: list[Any] = [
        number,
        *factors(point, study.columns, None),
        point.state.value,
        point.measured,
    ]
    row += map(point.metrics.get, names)
    ratio = point.ratio
    hours = point.hours
    row += [ratio.value, ratio.low, ratio.high] if ratio else [None] * 3
    row += [hours.limit * study.repeats if hours else None, point.gpu_hours_used, point.reason]
    return row


def factors(
    point: PointResult, columns: Iterable[str], missing: str | None = ""
) -> list[str | None]:
    """The values of a point's factors as text; ``missing`` for one that it does not
    have.
    """
    found = []
    for name in columns:
        found.append(setting(point.settings[name]) if name in point.settings else missing)
    return found


def setting(value: Any) -> str:
    """A value of a factor as text."""
    if isinstance(value, str):
        return value
    return json.dumps(value)


def study_page(study: StudyResult, form: str) -> str:
    """The study as ``markdown``, ``csv`` or ``plain`` text; without CSV with the
    sentences.
    """
    if form == "csv":
        return as_csv(study_table(study))
    table = filled(study_table(study))
    said = [*sentences(study), *remarks(study)]
    if form == "markdown":
        points = "".join(f"- {line}\n" for line in said)
        head = f"# {study.study}\n\n{markdown_text(study.description)}. {planned_line(study)}\n\n"
        return f"{head}{markdown(table)}" + (f"\n{points}" if points else "")
    lines = "\n".join((planned_line(study), *said))
    titles = []
    for title in table.titles:
        titles.append(title if title in study.columns else title.replace("_", " "))
    text = fitted(Table(titles, table.rows, table.missing), LINE, SPARE)
    return f"{study.study}: {study.description}\n\n{text}\n{lines}\n"


def filled(table: Table) -> Table:
    """``table`` without the columns that have no value in any row."""
    columns = range(len(table.titles))
    return table.only(
        [index for index in columns if any(row[index] is not None for row in table.rows)]
    )


def planned_line(study: StudyResult) -> str:
    """GPU-hours that all runs may take and have taken, and their cost if a price is
    stated.
    """
    price = study.price_per_gpu_hour
    limit = f"{study.gpu_hours_limit:.3g} GPU-hours by their time limits"
    parts = [f"{study.runs} runs take at most {limit}{_cost(study.gpu_hours_limit, price)}"]
    if study.gpu_hours_steps is not None:
        some = ""
        if study.runs_with_known_steps != study.runs:
            some = f" of {study.runs_with_known_steps} of them"
        steps = f"the steps{some} take {study.gpu_hours_steps:.3g} GPU-hours by reference numbers"
        parts.append(f"{steps}{_cost(study.gpu_hours_steps, price)}, without start-up")
    if study.gpu_hours_used is not None:
        parts.append(
            f"used so far: {study.gpu_hours_used:.3g} GPU-hours{_cost(study.gpu_hours_used, price)}"
        )
    return "; ".join(parts) + "."


def _cost(hours: float, price: float | None) -> str:
    if price is None:
        return ""
    return f" (cost {hours * price:.4g} at {price:g} per GPU-hour)"


def sentences(study: StudyResult) -> Iterator[str]:
    """One sentence for each measured point about its difference from its baseline, as
    far as the interval shows one.
    """
    for point in study.points:
        if point.ratio is None or point.baseline is None:
            continue
        baseline = study.points[point.baseline - 1]
        changed = []
        same = []
        other = []
        for name in study.columns:
            if name not in point.settings:
                continue
            text = f"{name} {setting(point.settings[name])}"
            if point.settings[name] == baseline.settings[name]:
                same.append(text)
            else:
                changed.append(text)
                other.append(setting(baseline.settings[name]))
        where = ""
        if same:
            where = f" ({', '.join(same)})"
        speed = _speed(point.ratio, ", ".join(other))
        memory = _memory(point, baseline)
        yield f"{', '.join(changed)}{where}: {speed}{memory}."


def remarks(study: StudyResult) -> Iterator[str]:
    """Limits of the sentences."""
    once = []
    for number, point in enumerate(study.points, 1):
        if point.measured == 1:
            once.append(str(number))
    if not once or not any(point.ratio for point in study.points):
        return
    which = "Each point was"
    if any(point.measured > 1 for point in study.points):
        listed = f"{', '.join(once)} of the table"
        which = f"Points {listed} were" if len(once) > 1 else f"Point {listed} was"
    yield f"{which} measured once: the intervals do not show how runs differ from each other."


def _speed(ratio: Ratio, other: str) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f} times the speed of {other}, without an interval"
    interval = f"{ratio.value:.3f}, interval {ratio.low:.3f} to {ratio.high:.3f}"
    if not ratio.clear:
        return f"no clear difference in speed from {other} (ratio {interval})"
    percent = 100 * abs(ratio.value - 1)
    return f"{percent:.1f} % {'faster' if ratio.value > 1 else 'slower'} than {other} (ratio {interval})"


def _memory(point: PointResult, baseline: PointResult) -> str:
    memory = point.metrics["peak_memory_gib"]
    other = baseline.metrics["peak_memory_gib"]
    if memory is None or other is None or f"{memory:.3g}" == f"{other:.3g}":
        return ""
    return f"; peak memory {memory:.3g} GiB, not {other:.3g}"


def missing(study: StudyResult) -> Iterator[str]:
    """One line for each legal point without all its numbers."""
    for number, point in enumerate(study.points, 1):
        if (
            point.state not in (PointState.REFUSED, PointState.WAITING, PointState.GOING)
            and point.measured < study.repeats
        ):
            yield f"point {number}: {point.reason or point.state.value}"


def point_text(study: StudyResult, point: PointResult) -> str:
    """The factors of a point."""
    stated = []
    for column in study.columns:
        if column in point.settings:
            stated.append(f"{column} {setting(point.settings[column])}")
    return ", ".join(stated) or "the only point"
