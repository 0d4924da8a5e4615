"""The pictures of docs/images: plots of the report on our own runs, as files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isnan, nan
from statistics import median
from typing import Any

from benchrun.capabilities.explain.model import Explanation
from benchrun.capabilities.html.picture import svg_file
from benchrun.capabilities.html.run import evidence_of, explanation_of
from benchrun.judge.measured import grouped
from benchrun.measure.model import Metrics
from benchrun.show.curve import scaling_plots
from benchrun.show.frameworks import valid_runs
from benchrun.show.model import ReportModel
from benchrun.show.plot import EQUAL, Plot, Series, ratio_bars
from benchrun.show.published import Pair, published_table
from benchrun.show.readable import brief, point_name
from benchrun.show.table import Table

MOST_BREAKDOWNS = 60
"""Bars of one plot."""
POINT = ("recipe", "gpu", "precision", "num_gpus", "gbs", "layout", "seq_length")
"""Columns of the side-by-side table that name a point."""
PARTS = {
    "matmul_s": "matrix products",
    "attention_s": "attention",
    "other_s": "other kernels",
    "communication_s": "communication that nothing hides",
    "idle_s": "no kernel",
}
"""Parts of a breakdown that add up to its step."""
SAME = ("num_gpus", "gpu", "gbs", "framework")
"""What the runs of two waterfalls side by side share."""


def pictures(model: ReportModel) -> dict[str, str]:
    """File name in docs/images -> the picture; without those that have nothing to show."""
    drawn = {
        "measured-proxies.svg": (
            "Proxies: speed over that of the published number",
            _proxies(model),
        ),
        "measured-frameworks.svg": ("Frameworks side by side", _frameworks(model)),
        "measured-scaling.svg": ("Scaling, measured and predicted", scaling_plots(model.curves)),
        "measured-waterfall.svg": ("From the GPU's peak to the measured step", waterfalls(model)),
        "measured-breakdowns.svg": ("Where the time of a profiled step goes", _breakdowns(model)),
    }
    plots = {name: (title, list(each)) for name, (title, each) in drawn.items()}
    return {name: grid(title, each) for name, (title, each) in plots.items() if each}


def texts(picture: str) -> list[str]:
    """Every text of an SVG: titles, names and numbers. Places differ between releases of matplotlib."""
    return re.findall(r">([^<]+)<", re.sub("(?s)<style>.*?</style>", "", picture))


def grid(title: str, plots: Sequence[Plot]) -> str:
    """Plots in two columns as one file."""
    return svg_file(title, plots, columns=2)


def _halves(plot: Plot | None) -> Iterator[Plot]:
    """Two plots of half the bars each; the second without a title."""
    if plot is None:
        return
    middle = (len(plot.labels) + 1) // 2
    for part, title in ((slice(0, middle), plot.title), (slice(middle, None), "and")):
        if plot.labels[part]:
            yield part_of(plot, part, title)


def part_of(plot: Plot, part: slice, title: str) -> Plot:
    """Some of the bars of a plot, at the same scale."""
    series = tuple(replace(each, y=each.y[part]) for each in plot.series)
    table = Table(plot.table.titles, plot.table.rows[part])
    high = max(value for each in plot.series for value in each.y if not isnan(value))
    limits = plot.limits or (0.0, high)
    return replace(
        plot, title=title, series=series, labels=plot.labels[part], table=table, limits=limits
    )


def _proxies(model: ReportModel) -> Iterator[Plot]:
    return _halves(published_plot([pair for pair in model.published if pair.spec.proxy]))


def _frameworks(model: ReportModel) -> Iterator[Plot]:
    if plot := speeds_plot(model.frameworks):
        yield from _halves(plot)


def _breakdowns(model: ReportModel) -> Iterator[Plot]:
    """One bar for each workload and precision: the most complete model, on most GPUs."""
    runs = [
        run
        for run in valid_runs(model.results)
        if run.metrics.breakdown and run.spec.framework == "megatron-core"
    ]
    chosen = [
        max(same, key=lambda run: (run.spec.model.num_layers, run.spec.num_gpus))
        for same in grouped(runs, lambda run: (run.spec.recipe, run.spec.precision))
    ]
    named = [
        (f"{run.spec.recipe}, {run.spec.precision}, {run.spec.num_gpus} x {run.spec.gpu}", run)
        for run in chosen
    ]
    yield from _halves(breakdowns_plot([(name, run.metrics) for name, run in named]))


def waterfalls(model: ReportModel) -> list[Plot]:
    """Of one whole model in two precisions: the pair of points on most GPUs whose precisions differ."""
    whole = [run for run in model.results if run.numbers and not getattr(run.spec, "proxy", True)]
    points = grouped(
        whole, lambda run: (run.spec.recipe, *(getattr(run.spec, name) for name in SAME))
    )
    both = [same for same in points if len({run.spec.precision for run in same}) > 1]
    if not both:
        return []
    chosen = max(both, key=lambda same: (same[0].spec.num_gpus, len(same)))
    firsts = {run.spec.precision: run for run in reversed(chosen)}
    drawn = []
    for precision in sorted(firsts):
        run = firsts[precision]
        explained = explanation_of(evidence_of(run))
        if explained:
            drawn.append(replace(waterfall_plot(explained), title=point_name(run.spec)))
    return drawn


def headline_pairs(published: Sequence[Pair]) -> list[Pair]:
    """One pair per whole model and precision, fastest first: the point with most GPUs; ties go to the slowest.

    Points that differ in their number of steps alone count as one.
    """
    alike = [pair for pair in published if not pair.spec.proxy and _same_batch_per_gpu(pair)]
    joined = []
    for same in grouped(alike, lambda pair: (pair.spec.recipe, pair.spec.step_identity())):
        rates = tuple(rate for pair in same for rate in pair.rates)
        joined.append(replace(same[0], rates=rates, measured=median(rates)))
    chosen = [
        max(same, key=lambda pair: (pair.spec.num_gpus, -pair.tokens_per_s_per_gpu))
        for same in grouped(joined, lambda pair: (pair.spec.recipe, pair.spec.precision))
    ]
    return sorted(chosen, key=lambda pair: -pair.tokens_per_s_per_gpu)


def _same_batch_per_gpu(pair: Pair) -> bool:
    """Whether a GPU has as many sequences in a step as in the published run."""
    key, spec = pair.near.entry.key, pair.spec
    if key.gbs is None or key.num_gpus is None:
        return False
    return key.gbs * spec.num_gpus == spec.gbs * key.num_gpus


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
