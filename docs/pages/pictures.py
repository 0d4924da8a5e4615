"""The pictures of docs/images: plots of the report on our own runs, as files."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isnan
from statistics import median

from benchrun.capabilities.html import overview
from benchrun.capabilities.html.picture import svg_file
from benchrun.capabilities.html.section import evidence_of, run_section
from benchrun.judge.measured import grouped
from benchrun.show.curve import scaling_plots
from benchrun.show.frameworks import valid_runs
from benchrun.show.model import ReportModel
from benchrun.show.plot import Plot
from benchrun.show.published import Pair
from benchrun.show.table import Table

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
    return _halves(overview.published_plot([pair for pair in model.published if pair.spec.proxy]))


def _frameworks(model: ReportModel) -> Iterator[Plot]:
    if plot := overview.speeds_plot(model.frameworks):
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
    yield from _halves(overview.breakdowns_plot([(name, run.metrics) for name, run in named]))


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
        section = run_section(run, evidence_of(run))
        drawn += [
            replace(each, title=section.title) for each in section.plots if each.kind == "waterfall"
        ]
    return drawn


def headline_pairs(published: Sequence[Pair]) -> list[Pair]:
    """One pair per whole model and precision, fastest first: the point with most GPUs; ties go to the slowest.

    Points that differ in their number of steps alone count as one.
    """
    alike = [pair for pair in published if not pair.spec.proxy and pair.same_batch_per_gpu]
    joined = []
    for same in grouped(alike, lambda pair: (pair.spec.recipe, pair.spec.step_identity())):
        rates = tuple(rate for pair in same for rate in pair.rates)
        joined.append(replace(same[0], rates=rates, measured=median(rates)))
    chosen = [
        max(same, key=lambda pair: (pair.spec.num_gpus, -pair.tokens_per_s_per_gpu))
        for same in grouped(joined, lambda pair: (pair.spec.recipe, pair.spec.precision))
    ]
    return sorted(chosen, key=lambda pair: -pair.tokens_per_s_per_gpu)
