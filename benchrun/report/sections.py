"""The parts of a report on several runs: beside each other, beside published numbers, over GPUs, over time."""

from collections.abc import Iterator, Sequence

from benchrun.comparison.measured import by_point, grouped
from benchrun.comparison.verdict import RunResult
from benchrun.explain.difference import difference, sides_of
from benchrun.explain.evidence import Evidence
from benchrun.metrics.model import Metrics
from benchrun.report import overview
from benchrun.report.curve import CurveView, scaling_plots
from benchrun.report.data import RunData, Section
from benchrun.report.explanation import interval_text
from benchrun.report.plot import Plot
from benchrun.report.published import Pair
from benchrun.report.readable import point_name
from benchrun.report.runs import distinctions
from benchrun.report.table import Table
from benchrun.spec.runspec import TrainingSpec

FEW = 4
"""The largest number of runs that are drawn into one plot."""
SIZES = ("batch", "micro", "tp", "pp", "cp", "ep")
"""What tells points with one name apart."""


def sections(
    runs: Sequence[RunData],
    frameworks: Table,
    published: Sequence[Pair],
    curves: Sequence[CurveView],
    history: Sequence[Plot] = (),
) -> Iterator[Section]:
    """Every section that has something to show."""
    results = [run.result for run in runs]
    yield from _beside(runs)
    if drawn := tuple(_compared(results, published)):
        text = "What was compared, with what, and what differs. A verdict counts only numbers of the same conditions."
        yield Section("published", "Beside references", text, drawn)
    each = tuple(overview.frameworks_plots(frameworks))
    together = overview.speeds_plot(frameworks) if len(each) > 1 else None
    if drawn := (*((together,) if together else ()), *each):
        yield Section("frameworks", "Frameworks", "The same point in different frameworks, the fastest first.", drawn)
    if drawn := tuple(scaling_plots(curves)):
        text = "Speed of one GPU over the number of GPUs: a level line is perfect scaling."
        yield Section("scaling", "Scaling", text, drawn)
    if plot := overview.breakdowns_plot(_profiled(results)):
        yield Section("breakdowns", "Breakdowns", "One profiled step of each point.", (plot,))
    if history:
        yield Section("history", "History", "Each point over time.", tuple(history))


def _beside(runs: Sequence[RunData]) -> Iterator[Section]:
    """A few runs in one plot; of two also where the seconds went and what differs."""
    explained = [run.evidence for run in runs if run.evidence is not None]
    if not 2 <= len(explained) <= FEW:
        return
    drawn = [overview.steps_plot([(each.name, each.steps.tolist(), each.times.tolist()) for each in explained])]
    text, tables = f"{len(explained)} runs in one plot.", []
    if len(explained) == 2:
        text, plot, differing = _two(*explained)
        drawn.append(plot)
        tables.append(differing)
    yield Section("beside", "Side by side", text, tuple(filter(None, drawn)), tuple(tables))


def _two(first: Evidence, second: Evidence) -> tuple[str, Plot | None, Table]:
    """The ratio in words, the parts, and what differs."""
    result = difference(*sides_of(first, second))
    ratio = f"{result.ratio:.3f} times as long as {result.a} for the same tokens{interval_text(result)}"
    text = f"{result.b} takes {ratio}."
    rows = [(each.name, each.a, each.b) for each in result.differs]
    return text, overview.difference_plot(result), Table(("differs", "first", "second"), rows)


def _compared(results: Sequence[RunResult], published: Sequence[Pair]) -> Iterator[Plot]:
    """Beside the verdict's references; and for points that have no published one, beside the nearest."""
    points = by_point(results)
    named = dict(zip((point[0].spec.repeat_key() for point in points), point_labels(points), strict=True))
    checks = [(point, check) for point in points if point[-1].verdict for check in point[-1].verdict.checks]
    judged = [(named[point[0].spec.repeat_key()], check) for point, check in checks]
    if plot := overview.verdict_plot(judged):
        yield plot
    own = {"measured", "predicted"}
    by_published = {point[0].spec.repeat_key() for point, check in checks if not own & {*check.reference.flags}}
    others = [pair for pair in published if pair.spec.repeat_key() not in by_published]
    if plot := overview.published_plot(others):
        yield plot


def point_labels(points: Sequence[Sequence[RunResult]]) -> list[str]:
    """A name for each point; where several have the same, with what tells them apart."""
    names = [point_name(point[0]) for point in points]
    for tell in (_sizes, lambda same: distinctions([each.spec for each in same])):
        for same in grouped(range(len(points)), lambda index: names[index]):
            more = tell([points[index][0] for index in same])
            for index, added in zip(same, more, strict=True):
                names[index] = ", ".join(filter(None, (names[index], added)))
    return names


def _sizes(same: Sequence[RunResult]) -> list[str]:
    """For each of several points with one name its batch, micro-batch and degrees, as far as they differ."""
    sizes = [
        {"batch": each.spec.gbs, "micro": each.spec.mbs, **each.spec.layout.model_dump()}
        if isinstance(each.spec, TrainingSpec)
        else {}
        for each in same
    ]
    differing = [name for name in SIZES if len({str(each.get(name)) for each in sizes}) > 1]
    return [", ".join(f"{name} {each.get(name)}" for name in differing) for each in sizes]


def _profiled(results: Sequence[RunResult]) -> list[tuple[str, Metrics]]:
    points = by_point([result for result in results if result.numbers])
    profiled = [next((run.numbers for run in point if run.numbers and run.numbers.breakdown), None) for point in points]
    return [(name, metrics) for name, metrics in zip(point_labels(points), profiled, strict=True) if metrics]
