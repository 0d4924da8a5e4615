"""The parts of a report on several runs: beside each other, beside published numbers, over GPUs, over time."""

from collections.abc import Iterator, Sequence
from typing import Any

from benchrun.capabilities.explain.difference import difference, sides_of
from benchrun.capabilities.explain.view import interval_text
from benchrun.capabilities.html import overview
from benchrun.judge.measured import by_point, grouped
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import Metrics
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.show.curve import CurveView, scaling_plots
from benchrun.show.data import RunData, Section
from benchrun.show.plot import Plot
from benchrun.show.published import Pair
from benchrun.show.readable import point_name
from benchrun.show.runs import distinctions
from benchrun.show.table import Table

FEW = 4
"""The largest number of runs that are drawn into one plot."""
SIZES = ("batch", "micro", "tp", "pp", "cp", "ep")
"""Fields that tell points with the same name apart."""


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
    each = tuple(overview.frameworks_plots(frameworks))
    together = overview.speeds_plot(frameworks) if len(each) > 1 else None
    candidates = (
        Section(
            "published",
            "Beside references",
            "What was compared, with what, and what differs. A verdict counts only numbers of the same conditions.",
            tuple(_compared(results, published)),
        ),
        Section(
            "frameworks",
            "Frameworks",
            "The same point in different frameworks, the fastest first.",
            _known(together, *each),
        ),
        Section(
            "scaling",
            "Scaling",
            "Speed of one GPU over the number of GPUs: a level line is perfect scaling.",
            tuple(scaling_plots(curves)),
        ),
        Section(
            "breakdowns",
            "Breakdowns",
            "One profiled step of each point.",
            _known(overview.breakdowns_plot(_profiled(results))),
        ),
        Section("history", "History", "Each point over time.", tuple(history)),
    )
    for section in candidates:
        if section.plots:
            yield section


def _known(*plots: Plot | None) -> tuple[Plot, ...]:
    """The plots that have something to show."""
    return tuple(plot for plot in plots if plot)


def _beside(runs: Sequence[RunData]) -> Iterator[Section]:
    """A few runs in one plot; of two also where the seconds went and what differs."""
    explained = [run.evidence for run in runs if run.evidence is not None]
    if not 2 <= len(explained) <= FEW:
        return
    steps = overview.steps_plot([(each.name, each.steps.tolist(), each.times.tolist()) for each in explained])
    if len(explained) > 2:
        yield Section("beside", "Side by side", f"{len(explained)} runs in one plot.", _known(steps))
        return
    result = difference(*sides_of(*explained))
    ratio = f"{result.ratio:.3f} times as long as {result.a} for the same tokens{interval_text(result)}"
    rows = [(each.name, each.a, each.b) for each in result.differs]
    differing = Table(("differs", "first", "second"), rows)
    plots = _known(steps, overview.difference_plot(result))
    yield Section("beside", "Side by side", f"{result.b} takes {ratio}.", plots, (differing,))


def _compared(results: Sequence[RunResult], published: Sequence[Pair]) -> Iterator[Plot]:
    """Plots of runs beside the verdict's references; and beside the nearest number for points
    without a published one.
    """
    points = by_point(results)
    judged, with_published = [], set()
    for point, name in zip(points, point_labels(points), strict=True):
        verdict = point[-1].verdict
        for check in verdict.checks if verdict else ():
            judged.append((name, check))
            if not {"measured", "predicted"} & {*check.reference.flags}:
                with_published.add(point[0].spec.repeat_key())
    others = [pair for pair in published if pair.spec.repeat_key() not in with_published]
    yield from _known(overview.verdict_plot(judged), overview.published_plot(others))


def point_labels(points: Sequence[Sequence[RunResult]]) -> list[str]:
    """A name for each point; if several have the same, with what tells them apart."""
    names = [point_name(point[0]) for point in points]
    for tell in (_sizes, distinctions):
        for same in grouped(range(len(points)), lambda index: names[index]):
            more = tell([points[index][0].spec for index in same])
            for index, added in zip(same, more, strict=True):
                names[index] = ", ".join(filter(None, (names[index], added)))
    return names


def _sizes(same: Sequence[RunSpec]) -> list[str]:
    """Batch, micro-batch and degrees of each of several points with one name, as far as they differ."""
    sizes: list[dict[str, Any]] = []
    for spec in same:
        if isinstance(spec, TrainingSpec):
            sizes.append({"batch": spec.gbs, "micro": spec.mbs, **spec.layout.model_dump()})
        else:
            sizes.append({})
    differing = [name for name in SIZES if len({str(each.get(name)) for each in sizes}) > 1]
    return [", ".join(f"{name} {each.get(name)}" for name in differing) for each in sizes]


def _profiled(results: Sequence[RunResult]) -> list[tuple[str, Metrics]]:
    """The first profiled run of each point, with the name of the point."""
    points = by_point([result for result in results if result.numbers])
    profiled = []
    for name, point in zip(point_labels(points), points, strict=True):
        for run in point:
            if run.numbers and run.numbers.breakdown:
                profiled.append((name, run.numbers))
                break
    return profiled
