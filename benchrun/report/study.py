"""A study as a table, and the sentences that its numbers support."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from benchrun.report.table import Table, as_csv, markdown, markdown_text, plain
from benchrun.study.result import SERVED, TABLED, PointResult, StudyResult
from benchrun.study.schedule import State

NAMES = {metric.key: metric for metric in (*TABLED, *SERVED)}


def study_table(study: StudyResult) -> Table:
    """One row per point: its factors, what it measured, its ratio to the baseline."""
    ratio = ("ratio", "ratio_low", "ratio_high")
    hours = ("gpu_hours_limit", "gpu_hours_used")
    names = [name for name in NAMES if any(name in point.metrics for point in study.points)]
    titles = ("point", *study.columns, "state", "runs", *names, *ratio, *hours, "note")
    return Table(titles, [_row(number, point, study, names) for number, point in enumerate(study.points, 1)])


def _row(number: int, point: PointResult, study: StudyResult, names: Sequence[str]) -> list[Any]:
    ratio = point.ratio
    return [
        number,
        *(setting(point.settings[column]) if column in point.settings else None for column in study.columns),
        point.state.value,
        point.measured,
        *(point.metrics.get(name) for name in names),
        *((ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)),
        point.hours.limit * study.repeats if point.hours else None,
        point.gpu_hours_used,
        point.reason,
    ]


def measured_table(study: StudyResult) -> Table:
    """For readers: factors, what was measured and the ratio with its interval, without the state of the runs."""
    factors = [name for name in study.columns if any(name in point.settings for point in study.points)]
    metrics = [name for name in NAMES if any(point.metrics.get(name) is not None for point in study.points)]
    titles = (*factors, "runs", *(NAMES[name].title or name for name in metrics), "ratio (95 % interval)")
    rows = [
        (
            *(setting(point.settings[name]) if name in point.settings else "" for name in factors),
            point.measured,
            *(NAMES[name].text(point.metrics.get(name), "") for name in metrics),
            _interval(point),
        )
        for point in study.points
    ]
    return Table(titles, rows)


def _interval(point: PointResult) -> str:
    """The ratio to the baseline, as far as it is known."""
    ratio = point.ratio
    if ratio is None:
        return ""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.3f}"
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def setting(value: Any) -> str:
    """A value of a factor as text."""
    return value if isinstance(value, str) else json.dumps(value)


def study_page(study: StudyResult, form: str) -> str:
    """The study as ``markdown``, ``csv`` or ``plain`` text; without CSV with the sentences."""
    table = filled(study_table(study))
    if form == "csv":
        return as_csv(study_table(study))
    if form == "markdown":
        points = "".join(f"- {line}\n" for line in (*sentences(study), *remarks(study)))
        head = f"# {study.study}\n\n{markdown_text(study.description)}. {planned_line(study)}\n\n"
        return f"{head}{markdown(table)}" + (f"\n{points}" if points else "")
    lines = "".join(f"{line}\n" for line in (planned_line(study), *sentences(study), *remarks(study)))
    return f"{study.study}: {study.description}\n\n{plain(table)}\n{lines}"


def filled(table: Table) -> Table:
    """``table`` without the columns that have no value in any row."""
    columns = range(len(table.titles))
    return table.only([index for index in columns if any(row[index] is not None for row in table.rows)])


def planned_line(study: StudyResult) -> str:
    """What all runs of the study may take and what they took, and the cost where a price is stated."""
    price = study.price_per_gpu_hour
    limit = f"{study.gpu_hours_limit:.3g} GPU-hours by their time limits"
    parts = [f"{study.runs} runs take at most {limit}{_cost(study.gpu_hours_limit, price)}"]
    if study.gpu_hours_steps is not None:
        some = "" if study.runs_with_known_steps == study.runs else f" of {study.runs_with_known_steps} of them"
        steps = f"the steps{some} take {study.gpu_hours_steps:.3g} GPU-hours by reference numbers"
        parts.append(f"{steps}{_cost(study.gpu_hours_steps, price)}, without start-up")
    if study.gpu_hours_used is not None:
        parts.append(f"used so far: {study.gpu_hours_used:.3g} GPU-hours{_cost(study.gpu_hours_used, price)}")
    return "; ".join(parts) + "."


def _cost(hours: float, price: float | None) -> str:
    return "" if price is None else f" (cost {hours * price:.4g} at {price:g} per GPU-hour)"


def sentences(study: StudyResult) -> Iterator[str]:
    """One sentence for each measured point about its difference from its baseline, as far as the interval shows one."""
    for point in study.points:
        if point.ratio is None or point.baseline is None:
            continue
        baseline = study.points[point.baseline - 1]
        stated = [column for column in study.columns if column in point.settings]
        changed = [column for column in stated if point.settings[column] != baseline.settings[column]]
        what = ", ".join(f"{column} {setting(point.settings[column])}" for column in changed)
        other = ", ".join(setting(baseline.settings[column]) for column in changed)
        same = [column for column in stated if column not in changed]
        where = f" ({', '.join(f'{column} {setting(point.settings[column])}' for column in same)})" if same else ""
        yield f"{what}{where}: {_speed(point, other)}{_memory(point, baseline)}."


def remarks(study: StudyResult) -> Iterator[str]:
    """What limits the sentences."""
    once = [number for number, point in enumerate(study.points, 1) if point.measured == 1]
    if once and any(point.ratio for point in study.points):
        listed = f"Point{'s' if len(once) > 1 else ''} {', '.join(map(str, once))} of the table"
        repeated = any(point.measured > 1 for point in study.points)
        which = f"{listed} {'were' if len(once) > 1 else 'was'}" if repeated else "Each point was"
        yield f"{which} measured once: the intervals do not show how runs differ from each other."


def _speed(point: PointResult, other: str) -> str:
    ratio = point.ratio
    assert ratio is not None
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f} times the speed of {other}, without an interval"
    interval = f"{ratio.value:.3f}, interval {ratio.low:.3f} to {ratio.high:.3f}"
    if not ratio.clear:
        return f"no clear difference in speed from {other} (ratio {interval})"
    percent = 100 * abs(ratio.value - 1)
    return f"{percent:.1f} % {'faster' if ratio.value > 1 else 'slower'} than {other} (ratio {interval})"


def _memory(point: PointResult, baseline: PointResult) -> str:
    memory, other = (each.metrics["peak_memory_gib"] for each in (point, baseline))
    if memory is None or other is None:
        return ""
    return f"; peak memory {memory:.3g} GiB, not {other:.3g}" if f"{memory:.3g}" != f"{other:.3g}" else ""


def missing(study: StudyResult) -> Iterator[str]:
    """One line for each legal point without all its numbers."""
    for number, point in enumerate(study.points, 1):
        if point.state not in (State.REFUSED, State.WAITING, State.GOING) and point.measured < study.repeats:
            yield f"point {number}: {point.reason or point.state.value}"


def point_text(study: StudyResult, point: PointResult) -> str:
    """The factors of a point."""
    stated = [f"{column} {setting(point.settings[column])}" for column in study.columns if column in point.settings]
    return ", ".join(stated) or "the only point"
