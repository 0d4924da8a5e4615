"""The plots of several runs together."""

from collections.abc import Iterator, Sequence
from math import nan
from typing import Any

from benchrun.comparison.checks import Check
from benchrun.explain.model import Difference
from benchrun.metrics.model import Metrics
from benchrun.report.curve import rounded_table
from benchrun.report.plot import Plot, Series, thinned
from benchrun.report.published import Pair, published_table
from benchrun.report.readable import brief
from benchrun.report.run_plots import PARTS
from benchrun.report.table import Table

MOST_BREAKDOWNS = 60
"""Bars of one plot."""
EQUAL = "Dashed: equal speed."


def verdict_plot(pairs: Sequence[tuple[str, Check]]) -> Plot | None:
    """Speed of each point over that of its verdict's reference; None where nothing was compared."""
    speeds = [(name, check) for name, check in pairs if check.reference.better != "equal"]
    if not speeds:
        return None
    titles = ("point", "measured", "reference", "unit", "speed ratio", "reference id")
    rows = [
        (name, check.value, check.reference.value, check.reference.unit, f"{check.ratio:.2f}", check.reference.id)
        for name, check in speeds
    ]
    return Plot(
        "bars",
        "Speed over that of the verdict's reference",
        (Series("", tuple(check.ratio for _, check in speeds)),),
        Table(titles, rows),
        labels=tuple(name for name, _ in speeds),
        level=1.0,
        note=EQUAL,
    )


def published_plot(listed: Sequence[Pair]) -> Plot | None:
    """Speed of each point over that of the nearest published number; None where nothing was published."""
    if not listed:
        return None
    return Plot(
        "bars",
        "Speed over that of the nearest published number",
        (Series("", tuple(pair.ratio for pair in listed)),),
        published_table(listed),
        labels=tuple(pair.name for pair in listed),
        level=1.0,
        note=f"{EQUAL} A proxy without a published number is compared with the whole model, in TFLOPS/GPU.",
    )


def speeds_plot(table: Table) -> Plot | None:
    """Speed of each framework, in its fastest release, relative to the fastest of its point; None without a point."""
    points = _by_point(table)
    if not points:
        return None
    each: list[dict[str, float]] = []
    for records in points.values():
        ordered = sorted(records, key=lambda record: float(record["speed"]))  # of several releases the fastest stays
        each.append({record["framework"].partition(" ")[0]: float(record["speed"]) for record in ordered})
    names = list(dict.fromkeys(name for speeds in each for name in reversed(speeds)))
    labels = tuple(_title(point) for point in points)
    rows = [
        (label, *(f"{speeds[name]:.2f}" if name in speeds else None for name in names))
        for label, speeds in zip(labels, each, strict=True)
    ]
    return Plot(
        "bars",
        "Speed relative to the fastest framework",
        tuple(Series(name, tuple(speeds.get(name, nan) for speeds in each)) for name in names),
        Table(("point", *names), rows),
        labels=labels,
        limits=(0.0, 1.0),
    )


def frameworks_plots(table: Table) -> Iterator[Plot]:
    """Frameworks of one point side by side, from the rows of `benchrun.report.frameworks`."""
    shown = ("framework", "runs", "step_time_s", "tokens_per_s_per_gpu", "speed", "memory_gib")
    for point, records in _by_point(table).items():
        yield Plot(
            "bars",
            _title(point),
            (Series("", tuple(float(record["tokens_per_s_per_gpu"] or 0) for record in records)),),
            Table(
                ("framework", "runs", "step time s", "tokens/s/GPU", "speed", "memory GiB"),
                [[_short(record[key]) for key in shown] for record in records],
            ),
            labels=tuple(str(record["framework"]) for record in records),
            y_title="tokens/s/GPU",
        )


def _by_point(table: Table) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The rows of each point."""
    keys = ("recipe", "gpu", "precision", "num_gpus", "gbs", "layout")
    points: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in table.records():
        points.setdefault(tuple(record[key] for key in (*keys, "seq_length")), []).append(record)
    return points


def _title(point: tuple[Any, ...]) -> str:
    recipe, gpu, precision, num_gpus, gbs, layout, _ = point
    return f"{recipe}, {precision}, {num_gpus} x {gpu}, batch {gbs}, {brief(layout)}".removesuffix(", ")


def breakdowns_plot(runs: Sequence[tuple[str, Metrics]]) -> Plot | None:
    """Shares of a profiled step of several runs; None where fewer than two have a breakdown."""
    profiled = [(name, metrics.breakdown) for name, metrics in runs if metrics.breakdown][:MOST_BREAKDOWNS]
    if len(profiled) < 2:
        return None
    shares = {key: tuple(100 * getattr(step, key) / step.step_s for _, step in profiled) for key in PARTS}
    rows = [
        (name, f"{step.step_s:.4g}", *(f"{shares[key][index]:.1f}" for key in PARTS))
        for index, (name, step) in enumerate(profiled)
    ]
    return Plot(
        "stack",
        "Where the time of a profiled step goes",
        tuple(Series(name, shares[key]) for key, name in PARTS.items()),
        Table(("point", "step s", *(f"{name} %" for name in PARTS.values())), rows),
        y_title="%",
        labels=tuple(name for name, _ in profiled),
    )


def steps_plot(runs: Sequence[tuple[str, Sequence[float], Sequence[float]]]) -> Plot | None:
    """Step times of a few runs over their measured steps: name, steps, seconds; None of fewer than two."""
    drawn = [(name, thinned(steps, times, most=150), times) for name, steps, times in runs if len(times) > 1]
    if len(drawn) < 2:
        return None
    rows = [(name, len(times), min(times), sorted(times)[len(times) // 2], max(times)) for name, _, times in drawn]
    return Plot(
        "line",
        "Step time over the measured steps",
        tuple(Series(name, y, x) for name, (x, y), _ in drawn),
        Table(("run", "steps", "lowest s", "median s", "highest s"), rounded_table(Table("", rows)).rows),
        x_title="step",
        y_title="step time (s)",
        whole_row=True,
    )


def difference_plot(difference: Difference) -> Plot | None:
    """Seconds of a step by part, of two runs; None where no part differs."""
    if not difference.parts:
        return None
    rows = [(each.part, f"{each.a:.4g}", f"{each.b:.4g}", f"{each.seconds:+.4g}") for each in difference.parts]
    return Plot(
        "bars",
        "Seconds of a step by part",
        tuple(
            Series(name, tuple(max(getattr(each, side), 0.0) for each in difference.parts))
            for name, side in (("first", "a"), ("second", "b"))
        ),
        Table(("part", "first s", "second s", "second - first"), rows),
        y_title="s",
        labels=tuple(each.part for each in difference.parts),
        note=f"first: {difference.a}; second: {difference.b}. Parts that differ by less than 0.1 % are left out.",
    )


def _short(value: Any) -> Any:
    return (
        f"{value:,.0f}"
        if isinstance(value, float) and value >= 1000
        else rounded_table(Table("", [[value]])).rows[0][0]
    )
