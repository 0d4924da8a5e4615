"""The plots of several runs together."""

from collections.abc import Iterator, Sequence
from math import nan
from typing import Any

from benchrun.judge.checks import Check
from benchrun.judge.difference import Difference
from benchrun.measure.model import Metrics
from benchrun.show.curve import rounded_table
from benchrun.show.plot import EQUAL, Plot, Series, ratio_bars, thinned
from benchrun.show.published import Pair, published_table
from benchrun.show.readable import brief
from benchrun.show.table import Table

from .run_plots import PARTS

MOST_BREAKDOWNS = 60
"""Bars of one plot."""
POINT = ("recipe", "gpu", "precision", "num_gpus", "gbs", "layout", "seq_length")
"""Columns of the side-by-side table that name a point."""
FRAMEWORK = {
    "framework": "framework",
    "runs": "runs",
    "step_time_s": "step time s",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "speed": "speed",
    "memory_gib": "memory GiB",
}
"""Columns of the side-by-side table that stand beside a plot, with their titles."""


def verdict_plot(pairs: Sequence[tuple[str, Check]]) -> Plot | None:
    """Speed of each point over that of its verdict's reference; None if nothing was
    compared.
    """
    names = []
    ratios = []
    rows = []
    for name, check in pairs:
        entry = check.reference
        if entry.better != "equal":
            names.append(name)
            ratios.append(check.ratio)
            rows.append(
                (name, check.value, entry.value, entry.unit, f"{check.ratio:.2f}", entry.id)
            )
    titles = ("point", "measured", "reference", "unit", "speed ratio", "reference id")
    title = "Speed over that of the verdict's reference"
    return ratio_bars(title, names, ratios, Table(titles, rows))


def published_plot(listed: Sequence[Pair]) -> Plot | None:
    """Speed of each point over that of the nearest published number; None if nothing
    was published.
    """
    title = "Speed over that of the nearest published number"
    names = [pair.name for pair in listed]
    ratios = [pair.ratio for pair in listed]
    note = f"{EQUAL} A proxy without a published number is compared with the whole model, in TFLOPS/GPU."
    return ratio_bars(title, names, ratios, published_table(listed), note)


def speeds_plot(table: Table) -> Plot | None:
    """Speed of each framework, in its fastest release, relative to the fastest of its
    point; None without a point.
    """
    points = []
    names: dict[str, None] = {}
    labels = []
    rows = []
    for point, records in _by_point(table).items():
        speeds = {}
        for record in sorted(records, key=lambda record: float(record["speed"])):
            name = record["framework"].partition(" ")[0]
            speeds[name] = float(record["speed"])  # the fastest of several releases stays
        points.append(speeds)
        labels.append(_title(point))
        names |= dict.fromkeys(reversed(speeds))
    if not points:
        return None
    for label, speeds in zip(labels, points, strict=True):
        cells = [f"{speeds[name]:.2f}" if name in speeds else None for name in names]
        rows.append((label, *cells))
    return Plot(
        "bars",
        "Speed relative to the fastest framework",
        tuple(Series(name, tuple(speeds.get(name, nan) for speeds in points)) for name in names),
        Table(("point", *names), rows),
        labels=tuple(labels),
        limits=(0.0, 1.0),
    )


def frameworks_plots(table: Table) -> Iterator[Plot]:
    """Frameworks of one point side by side, from the rows of
    `benchrun.show.frameworks`.
    """
    for point, records in _by_point(table).items():
        rows = []
        for record in records:
            rows.append([_short(record[key]) for key in FRAMEWORK])
        speeds = [float(record["tokens_per_s_per_gpu"] or 0) for record in records]
        yield Plot(
            "bars",
            _title(point),
            (Series("", tuple(speeds)),),
            Table(tuple(FRAMEWORK.values()), rows),
            labels=tuple(str(record["framework"]) for record in records),
            y_title="tokens/s/GPU",
        )


def _by_point(table: Table) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The rows of each point."""
    points: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in table.records():
        point = tuple(record[key] for key in POINT)
        points.setdefault(point, []).append(record)
    return points


def _title(point: tuple[Any, ...]) -> str:
    recipe, gpu, precision, num_gpus, gbs, layout, _ = point
    return f"{recipe}, {precision}, {num_gpus} x {gpu}, batch {gbs}, {brief(layout)}".removesuffix(
        ", "
    )


def breakdowns_plot(runs: Sequence[tuple[str, Metrics]]) -> Plot | None:
    """Shares of a profiled step of several runs; None if fewer than two have a
    breakdown.
    """
    names: list[str] = []
    rows = []
    shares = []
    for name, metrics in runs:
        step = metrics.breakdown
        if step and len(names) < MOST_BREAKDOWNS:
            parts = [100 * getattr(step, key) / step.step_s for key in PARTS]
            names.append(name)
            shares.append(parts)
            rows.append((name, f"{step.step_s:.4g}", *(f"{part:.1f}" for part in parts)))
    if len(names) < 2:
        return None
    return Plot(
        "stack",
        "Where the time of a profiled step goes",
        tuple(map(Series, PARTS.values(), zip(*shares, strict=True))),
        Table(("point", "step s", *(f"{name} %" for name in PARTS.values())), rows),
        y_title="%",
        labels=tuple(names),
    )


def steps_plot(runs: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> Plot | None:
    """Step times of a few runs over their measured steps: name, steps, seconds; None of
    fewer than two.
    """
    drawn = []
    rows = []
    for name, steps, times in runs:
        if len(times) > 1:
            x, y = thinned(steps, times, most=150)
            drawn.append(Series(name, y, x))
            rows.append((name, len(times), min(times), sorted(times)[len(times) // 2], max(times)))
    if len(drawn) < 2:
        return None
    return Plot(
        "line",
        "Step time over the measured steps",
        tuple(drawn),
        rounded_table(Table(("run", "steps", "lowest s", "median s", "highest s"), rows)),
        x_title="step",
        y_title="step time (s)",
        whole_row=True,
    )


def difference_plot(difference: Difference) -> Plot | None:
    """Seconds of a step by part, of two runs; None if no part differs."""
    parts = difference.parts
    if not parts:
        return None
    rows = []
    for each in parts:
        rows.append((each.part, f"{each.a:.4g}", f"{each.b:.4g}", f"{each.seconds:+.4g}"))
    first = [max(each.a, 0.0) for each in parts]
    second = [max(each.b, 0.0) for each in parts]
    return Plot(
        "bars",
        "Seconds of a step by part",
        (Series("first", tuple(first)), Series("second", tuple(second))),
        Table(("part", "first s", "second s", "second - first"), rows),
        y_title="s",
        labels=tuple(each.part for each in parts),
        note=f"first: {difference.a}; second: {difference.b}. Parts that differ by less than 0.1 % are left out.",
    )


def _short(value: Any) -> Any:
    """A number with four digits, or whole with a comma."""
    if not isinstance(value, float):
        return value
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
