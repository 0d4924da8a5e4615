"""The figures of a report: of one run, and of several together."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from benchrun.comparison.checks import Check
from benchrun.metrics.model import Metrics
from benchrun.metrics.rows import Measured
from benchrun.metrics.telemetry import Samples
from benchrun.report.figure import Figure, Series, thinned
from benchrun.report.scaling import Curve
from benchrun.report.table import Table

STALL = 1.05
"""A counted step this many times the median is marked."""
BINS = 24
PARTS = {
    "matmul_s": "matrix products",
    "attention_s": "attention",
    "other_s": "other kernels",
    "communication_s": "communication that nothing hides",
    "idle_s": "no kernel",
}
"""Parts of a breakdown that add up to its step."""
STATE = {"sm_clock_mhz": "clock (MHz)", "power_w": "power (W)", "temperature_c": "temperature (C)"}
"""Columns of the telemetry that have a plot."""


def step_figures(rows: Measured, metrics: Metrics) -> Iterator[Figure]:
    """Step time over the steps, and its distribution; none where the log has no times."""
    valid = ~np.isnan(rows.step_time_s) & ~rows.impossible
    steps, times = rows.step[valid].tolist(), rows.step_time_s[valid].tolist()
    spread, window = metrics.step_time_s, metrics.window
    if len(times) < 2 or spread is None or window is None:
        return
    counted = [(step, time) for step, time in zip(steps, times, strict=True) if step >= window.first_step]
    stalls = [(float(step), time) for step, time in counted if time > STALL * spread.median]
    facts = [
        ("steps counted", len(counted)),
        ("warm-up rows dropped", metrics.warmup_rows_dropped),
        ("median (s)", spread.median),
        ("5 % of the steps are below (s)", spread.p5),
        ("5 % of the steps are above (s)", spread.p95),
        (f"steps over {100 * STALL - 100:.0f} % slower than the median", len(stalls)),
        ("slowest counted step (s)", max((time for _, time in counted), default=None)),
    ]
    warm_up = (float(steps[0]), window.first_step - 0.5) if metrics.warmup_rows_dropped else None
    x, y = thinned(steps, times)
    note = (
        "Grey: warm-up, not counted. Dashed: median. Circles: stalls."
        if warm_up
        else "Dashed: median. Circles: stalls."
    )
    yield Figure(
        "line",
        "Step time over the steps",
        (Series("step time", y, x),),
        Table(("fact", "value"), facts),
        x_title="step",
        y_title="step time (s)",
        level=spread.median,
        shade=warm_up,
        marks=tuple(stalls[:50]),
        note=note,
    )
    yield _distribution([time for _, time in counted], spread.median)


def _distribution(times: Sequence[float], median: float) -> Figure:
    """How many counted steps took how long; the slowest hundredth is in the last bar."""
    high = float(np.quantile(times, 0.99)) if len(times) > 100 else max(times)
    counts, edges = np.histogram(np.minimum(times, high), bins=min(BINS, max(4, len(times) // 3)))
    rows = [
        (f"{low:.4g} to {upper:.4g}", int(count)) for (low, upper), count in zip(pairwise(edges), counts, strict=True)
    ]
    return Figure(
        "histogram",
        "Distribution of the step time",
        (Series("steps", tuple(map(float, counts)), tuple(map(float, edges[:-1]))),),
        Table(("step time (s)", "steps"), rows),
        x_title="step time (s)",
        y_title="steps",
        level=median,
        note="Dashed: median.",
    )


def breakdown_figure(metrics: Metrics) -> Figure | None:
    """Where the time of a profiled step went; None without a profile."""
    if (step := metrics.breakdown) is None:
        return None
    parts = {name: float(getattr(step, key)) for key, name in PARTS.items()}
    rows = [(name, seconds, f"{100 * seconds / step.step_s:.1f} %") for name, seconds in parts.items()]
    rows.append(("communication hidden by kernels, not added", step.hidden_s, ""))
    return Figure(
        "stack",
        "Where the time of a profiled step goes",
        tuple(Series(name, (seconds,)) for name, seconds in parts.items()),
        Table(("part", "seconds", "share"), rows),
        y_title="s",
    )


def telemetry_figures(hosts: Mapping[str, Mapping[int, Samples]]) -> Iterator[Figure]:
    """Clock, power and temperature of each GPU over the time since the first sample."""
    gpus = [(f"{host} GPU {index}", samples) for host, each in hosts.items() for index, samples in each.items()]
    gpus = [(name, samples) for name, samples in gpus if len(samples) > 2]
    if not gpus:
        return
    start = min(float(samples["time"][0]) for _, samples in gpus)
    for column, title in STATE.items():
        series, rows = [], []
        for name, samples in gpus:
            valid = ~np.isnan(samples[column])
            values = samples[column][valid].tolist()
            if values:
                x, y = thinned((samples["time"][valid] - start).tolist(), values, most=24)
                series.append(Series(name, y, x))
                rows.append((name, min(values), float(np.median(values)), max(values)))
        if series:
            shown = tuple(series[:6])
            more = "" if len(series) <= len(shown) else f"The first {len(shown)} of {len(series)} GPUs are drawn."
            table = Table(("GPU", "lowest", "median", "highest"), rows)
            yield Figure("line", f"GPU {title} over time", shown, table, "time (s)", title, note=more)


def published_figure(pairs: Sequence[tuple[str, Check]]) -> Figure | None:
    """Our speed over the reference's, by point; None where nothing was compared."""
    speeds = [(name, check) for name, check in pairs if check.reference.better != "equal"]
    if not speeds:
        return None
    rows = [
        (name, check.value, check.reference.value, check.reference.unit, f"{check.ratio:.2f}", check.reference.id)
        for name, check in speeds
    ]
    return Figure(
        "bars",
        "Speed over that of the reference (1 is equal)",
        (Series("", tuple(check.ratio for _, check in speeds)),),
        Table(("point", "measured", "reference", "unit", "speed ratio", "reference id"), rows),
        labels=tuple(name for name, _ in speeds),
    )


def scaling_figures(curves: Sequence[Curve]) -> Iterator[Figure]:
    """Tokens/s/GPU over the number of GPUs, by workload, weak and strong."""
    for curve in curves:
        counts, rates = tuple(map(float, curve.rates)), tuple(curve.rates.values())
        first = rates[0]
        rows = [(count, rate, f"{100 * rate / first:.1f} %") for count, rate in zip(curve.rates, rates, strict=True)]
        kept_batch = "batch per GPU" if curve.kind == "weak" else "global batch"
        name = f"{curve.spec.recipe}, {curve.spec.precision}, {curve.spec.gpu}"
        yield Figure(
            "line",
            f"{curve.kind.capitalize()} scaling: {name}",
            (Series("tokens/s/GPU", rates, counts),),
            Table(("GPUs", "tokens/s/GPU", "of the fewest GPUs"), rows),
            x_title="GPUs",
            y_title="tokens/s/GPU",
            from_zero=True,
            note=f"The same {kept_batch} at every number of GPUs.",
        )


def frameworks_figures(table: Table) -> Iterator[Figure]:
    """Frameworks of one point side by side, from the rows of `benchrun.report.frameworks`."""
    points: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in table.records():
        point = tuple(record[key] for key in ("recipe", "gpu", "precision", "num_gpus", "seq_length", "gbs", "layout"))
        points.setdefault(point, []).append(record)
    for (recipe, gpu, precision, num_gpus, *_), records in points.items():
        rates = tuple(float(record["tokens_per_s_per_gpu"] or 0) for record in records)
        rows = [
            [record[key] for key in ("framework", "runs", "step_time_s", "tokens_per_s_per_gpu")] for record in records
        ]
        yield Figure(
            "bars",
            f"Frameworks: {recipe}, {precision}, {num_gpus} x {gpu}",
            (Series("", rates),),
            Table(("framework", "runs", "step time (s)", "tokens/s/GPU"), rows),
            labels=tuple(str(record["framework"]) for record in records),
            note="Tokens/s/GPU.",
        )
