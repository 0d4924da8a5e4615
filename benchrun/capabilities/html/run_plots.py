"""The plots of one run."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from benchrun.capabilities.explain.model import Explanation
from benchrun.measure.model import Metrics
from benchrun.measure.rows import CompletedRows
from benchrun.measure.samples import Samples
from benchrun.show.plot import Mark, Plot, Series, thinned
from benchrun.show.table import Table

STALL = 1.05
"""A counted step this many times the median is marked."""
CUT = 1.5
"""Counted steps over this many times the median are beyond the axis, so that they do
not flatten the others.
"""
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


def step_plots(rows: CompletedRows, metrics: Metrics) -> Iterator[Plot]:
    """Step time over the steps, and its distribution; none if the log has no times."""
    valid = ~np.isnan(rows.step_time_s) & ~rows.impossible
    steps = rows.step[valid].tolist()
    times = rows.step_time_s[valid].tolist()
    spread = metrics.step_time_s
    window = metrics.window
    if len(times) < 2 or spread is None or window is None:
        return
    counted = []
    for step, time in zip(steps, times, strict=True):
        if step >= window.first_step:
            counted.append((step, time))
    stalls = []
    for step, time in counted:
        if time > STALL * spread.median:
            stalls.append(Mark(float(step), time))
    facts = [
        ("steps counted", len(counted)),
        ("warm-up rows dropped", metrics.warmup_rows_dropped),
        ("median (s)", spread.median),
        ("5 % of the steps are below (s)", spread.p5),
        ("5 % of the steps are above (s)", spread.p95),
        (f"steps over {100 * STALL - 100:.0f} % slower than the median", len(stalls)),
        ("slowest counted step (s)", max((time for _, time in counted), default=None)),
    ]
    warm_up = None
    if metrics.warmup_rows_dropped:
        warm_up = (float(steps[0]), window.first_step - 0.5)
    x, y = thinned(steps, times)
    inside = [time for _, time in counted if time <= CUT * spread.median]
    beyond = ""
    if max(y) > max(inside):
        beyond = " Triangles: above the axis, with the value in s."
    grey = "Grey: warm-up, not counted. " if warm_up else ""
    yield Plot(
        "line",
        "Step time over the steps",
        (Series("step time", y, x),),
        Table(("fact", "value"), facts),
        x_title="step",
        y_title="step time (s)",
        level=spread.median,
        shade=warm_up,
        marks=tuple(stalls[:50]),
        limits=(min(inside), max(inside)),
        note=f"{grey}Dashed: median.{' Circles: stalls.' if stalls else ''}{beyond}",
    )
    yield _distribution([time for _, time in counted], spread.median)


def _distribution(times: Sequence[float], median: float) -> Plot:
    """Histogram of the counted step times; the slowest hundredth is in the last bar."""
    high = float(np.quantile(times, 0.99)) if len(times) > 100 else max(times)
    counts, edges = np.histogram(np.minimum(times, high), bins=min(BINS, max(4, len(times) // 3)))
    rows = []
    for (low, upper), count in zip(pairwise(edges), counts, strict=True):
        rows.append((f"{low:.4g} to {upper:.4g}", int(count)))
    return Plot(
        "histogram",
        "Distribution of the step time",
        (Series("steps", tuple(map(float, counts)), tuple(map(float, edges[:-1]))),),
        Table(("step time (s)", "steps"), rows),
        x_title="step time (s)",
        y_title="steps",
        level=median,
        note="Dashed: median.",
    )


def breakdown_plots(metrics: Metrics) -> Iterator[Plot]:
    """One plot of the parts of a profiled step; none without a profile."""
    step = metrics.breakdown
    if step is None:
        return
    parts = {name: float(getattr(step, key)) for key, name in PARTS.items()}
    rows = []
    for name, seconds in parts.items():
        rows.append((name, seconds, f"{100 * seconds / step.step_s:.1f} %"))
    rows.append(("communication hidden by kernels, not added", step.hidden_s, ""))
    yield Plot(
        "stack",
        "Where the time of a profiled step goes",
        tuple(Series(name, (seconds,)) for name, seconds in parts.items()),
        Table(("part", "seconds", "share"), rows),
        y_title="s",
    )


def telemetry_plots(hosts: Mapping[str, Mapping[int, Samples]]) -> Iterator[Plot]:
    """Clock, power and temperature of each GPU over the time since the first sample."""
    gpus = []
    for host, each in hosts.items():
        for index, samples in each.items():
            gpus.append((f"{host} GPU {index}", samples))
    gpus = [(name, samples) for name, samples in gpus if len(samples) > 2]
    if not gpus:
        return
    start = min(float(samples["time"][0]) for _, samples in gpus)
    for column, title in STATE.items():
        series = []
        rows = []
        for name, samples in gpus:
            valid = ~np.isnan(samples[column])
            values = samples[column][valid].tolist()
            if values:
                x, y = thinned((samples["time"][valid] - start).tolist(), values, most=20)
                series.append(Series(name, y, x))
                rows.append((name, min(values), float(np.median(values)), max(values)))
        if series:
            shown = tuple(series[:6])
            more = (
                ""
                if len(series) <= len(shown)
                else f"The first {len(shown)} of {len(series)} GPUs are drawn."
            )
            table = Table(("GPU", "lowest", "median", "highest"), rows)
            yield Plot("line", f"GPU {title} over time", shown, table, "time (s)", title, note=more)


def waterfall_plot(explanation: Explanation) -> Plot:
    """Plot from what the work takes at the GPU's peak to the measured step."""
    parts = explanation.waterfall
    step_s = explanation.step_time_s
    rows = []
    for part in parts:
        rows.append((part.part, part.seconds, f"{100 * part.seconds / step_s:.1f}", part.evidence))
    rows.append(("the measured step", step_s, "100.0", "mean of the log"))
    seconds, caused = zip(
        *((part.seconds, float(part.cause is not None)) for part in parts), strict=True
    )
    return Plot(
        "waterfall",
        "From the GPU's peak to the measured step",
        (Series("", seconds, caused),),
        Table(("part", "s", "%", "from"), rows),
        y_title="s",
        labels=tuple(part.part for part in parts),
        note="Blue: the work at the GPU's peak. Orange: what comes on top. Green: less than expected. "
        "The parts add up to the measured step.",
    )


def causes_table(explanation: Explanation) -> Table:
    """Causes with evidence and advice, the largest fault first."""
    titles = ("cause", "kind", "s", "of the step", "evidence", "advice")
    rows = []
    for cause in explanation.causes:
        share = f"{100 * cause.seconds / explanation.step_time_s:.1f} %"
        name = cause.cause if cause.rank is None else f"{cause.cause}, rank {cause.rank}"
        if cause.host:
            name += f" on {cause.host}"
        rows.append((name, cause.kind, cause.seconds, share, cause.evidence, cause.advice))
    return Table(titles, rows)
