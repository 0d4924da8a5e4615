"""The pictures of docs/images: plots of the report on our own runs, as files."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from html import escape
from statistics import median

from benchrun.comparison.measured import grouped
from benchrun.report import overview
from benchrun.report.drawing import WIDTH, text, wrapped
from benchrun.report.figure import Figure
from benchrun.report.frameworks import valid_runs
from benchrun.report.model import ReportModel
from benchrun.report.published import Pair
from benchrun.report.style import FILE
from benchrun.report.svg import height, svg

GAP = 28
"""Pixels between two plots."""
COLUMNS = 2
SAME = ("num_gpus", "gpu", "gbs", "framework")
"""What the runs of two waterfalls side by side share."""
TITLE = 16
"""Height of a line of a title."""


def pictures(model: ReportModel) -> dict[str, str]:
    """File name in docs/images -> the picture; without those that have nothing to show."""
    drawn = {
        "measured-proxies.svg": ("Proxies: speed over that of the published number", _proxies(model)),
        "measured-frameworks.svg": ("Frameworks side by side", _frameworks(model)),
        "measured-scaling.svg": ("Scaling, measured and predicted", overview.scaling_figures(model.curves)),
        "measured-waterfall.svg": ("From the GPU's peak to the measured step", waterfalls(model)),
        "measured-breakdowns.svg": ("Where the time of a profiled step goes", _breakdowns(model)),
    }
    figures = {name: (title, list(each)) for name, (title, each) in drawn.items()}
    return {name: grid(title, each) for name, (title, each) in figures.items() if each}


def grid(title: str, figures: Sequence[Figure]) -> str:
    """Plots in two columns, each below its title, as one file."""
    places, bottom = [], 0.0
    for row in range(0, len(figures), COLUMNS):
        line = figures[row : row + COLUMNS]
        top = max(TITLE * len(wrapped(each.title, WIDTH)) for each in line) + 6
        places += [(column * (WIDTH + GAP), bottom, top, each) for column, each in enumerate(line)]
        bottom += top + max(map(height, line)) + GAP
    width = min(len(figures), COLUMNS) * (WIDTH + GAP) - GAP
    marks = [part for number, place in enumerate(places) for part in _placed(*place, f"p{number}")]
    described = "; ".join(f"{each.title}: {each.description}" for each in figures)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-14 -14 {width + 28} {bottom - GAP + 28:.0f}" '
    head += f'width="{width + 28}" role="img" aria-labelledby="t" aria-describedby="d">'
    paper = f'<rect class="paper" x="-14" y="-14" width="{width + 28}" height="{bottom - GAP + 28:.0f}"/>'
    names = f'<title id="t">{escape(title)}</title><desc id="d">{escape(described)}</desc>'
    return "\n".join(
        [head + names, f"<style>{FILE}.title text {{ font-weight: 600 }}</style>", paper, *marks, "</svg>\n"]
    )


def _placed(x: float, y: float, top: float, figure: Figure, identity: str) -> Iterator[str]:
    """One plot with its title above it."""
    yield f'<g transform="translate({x} {y:.0f})"><g class="title">'
    yield from (text(0, 12 + TITLE * index, part) for index, part in enumerate(wrapped(figure.title, WIDTH)))
    box = f'<svg y="{top:.0f}" width="{WIDTH}" height="{height(figure)}" '
    yield "</g>" + svg(figure, identity).replace("<svg ", box, 1) + "</g>"


def _halves(figure: Figure | None) -> Iterator[Figure]:
    """Two plots of half the bars each; the second without a title."""
    if figure is None:
        return
    middle = (len(figure.labels) + 1) // 2
    for part, title in ((slice(0, middle), figure.title), (slice(middle, None), "and")):
        if figure.labels[part]:
            yield overview.part_of(figure, part, title)


def _proxies(model: ReportModel) -> Iterator[Figure]:
    return _halves(overview.published_figure([pair for pair in model.published if pair.spec.proxy]))


def _frameworks(model: ReportModel) -> Iterator[Figure]:
    if figure := overview.speeds_figure(model.frameworks):
        yield from _halves(figure)


def _breakdowns(model: ReportModel) -> Iterator[Figure]:
    """One bar for each workload and precision: the most complete model, on most GPUs."""
    runs = [run for run in valid_runs(model.results) if run.metrics.breakdown and run.spec.framework == "megatron-core"]
    chosen = [
        max(same, key=lambda run: (run.spec.model.num_layers, run.spec.num_gpus))
        for same in grouped(runs, lambda run: (run.spec.recipe, run.spec.precision))
    ]
    named = [(f"{run.spec.recipe}, {run.spec.precision}, {run.spec.num_gpus} x {run.spec.gpu}", run) for run in chosen]
    yield from _halves(overview.breakdowns_figure([(name, run.metrics) for name, run in named]))


def waterfalls(model: ReportModel) -> list[Figure]:
    """Of one whole model in two precisions: the pair of points on most GPUs whose precisions differ."""
    sections = {run.run_id: run for run in model.runs}
    whole = [run for run in model.results if run.numbers and not getattr(run.spec, "proxy", True)]
    points = grouped(whole, lambda run: (run.spec.recipe, *(getattr(run.spec, name) for name in SAME)))
    both = [same for same in points if len({run.spec.precision for run in same}) > 1]
    if not both:
        return []
    chosen = max(both, key=lambda same: (same[0].spec.num_gpus, len(same)))
    firsts = {run.spec.precision: run for run in reversed(chosen)}
    drawn = []
    for precision in sorted(firsts):
        section = sections[firsts[precision].run_id]
        drawn += [replace(each, title=section.title) for each in section.figures if each.kind == "waterfall"]
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
