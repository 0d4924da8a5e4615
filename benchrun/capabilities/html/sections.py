"""The parts of a report on several runs: beside each other, beside published numbers,
over GPUs, over time.
"""

from collections.abc import Iterator, Sequence

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.sides import sides_of
from benchrun.capabilities.explain.view import interval_text
from benchrun.capabilities.history.plot import history_plots
from benchrun.capabilities.history.series import history_of
from benchrun.judge.difference import difference
from benchrun.judge.measured import by_point
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import Metrics
from benchrun.show.curve import scaling_plots
from benchrun.show.model import ReportModel
from benchrun.show.plot import Plot
from benchrun.show.published import Pair
from benchrun.show.readable import point_labels
from benchrun.show.section import Section
from benchrun.show.table import Table

from . import overview

FEW = 4
"""The largest number of runs that are drawn into one plot."""


def sections(
    report: ReportModel, explained: Sequence[Evidence | None] = (), *, history: bool = True
) -> Iterator[Section]:
    """Every section on several runs that has something to show; ``explained``: what is
    known about each run.
    """
    yield from _beside(list(filter(None, explained)))
    each = tuple(overview.frameworks_plots(report.frameworks))
    together = None
    if len(each) > 1:
        together = overview.speeds_plot(report.frameworks)
    over_time = history_plots(history_of(report.results)) if history else ()
    candidates = (
        Section(
            "published",
            "Beside references",
            "What was compared, with what, and what differs. A verdict counts only numbers of the same conditions.",
            tuple(_compared(report.results, report.published)),
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
            tuple(scaling_plots(report.curves)),
        ),
        Section(
            "breakdowns",
            "Breakdowns",
            "One profiled step of each point.",
            _known(overview.breakdowns_plot(_profiled(report.results))),
        ),
        Section("history", "History", "Each point over time.", tuple(over_time)),
    )
    for section in candidates:
        if section.plots:
            yield section


def _known(*plots: Plot | None) -> tuple[Plot, ...]:
    """The plots that have something to show."""
    return tuple(filter(None, plots))


def _beside(explained: Sequence[Evidence]) -> Iterator[Section]:
    """A few runs in one plot; of two also where the seconds went and what differs."""
    if not 2 <= len(explained) <= FEW:
        return
    steps = overview.steps_plot(
        [(each.name, each.steps.tolist(), each.times.tolist()) for each in explained]
    )
    if len(explained) > 2:
        yield Section(
            "beside", "Side by side", f"{len(explained)} runs in one plot.", _known(steps)
        )
        return
    result = difference(*sides_of(*explained))
    ratio = (
        f"{result.ratio:.3f} times as long as {result.a} for the same tokens{interval_text(result)}"
    )
    rows = [(each.name, each.a, each.b) for each in result.differs]
    differing = Table(("differs", "first", "second"), rows)
    plots = _known(steps, overview.difference_plot(result))
    yield Section("beside", "Side by side", f"{result.b} takes {ratio}.", plots, (differing,))


def _compared(results: Sequence[RunResult], published: Sequence[Pair]) -> Iterator[Plot]:
    """Plots of runs beside the verdict's references; and beside the nearest number for
    points without a published one.
    """
    points = by_point(results)
    judged = []
    with_published = set()
    for point, name in zip(points, point_labels(points), strict=True):
        verdict = point[-1].verdict
        for check in verdict.checks if verdict else ():
            judged.append((name, check))
            if not {"measured", "predicted"} & {*check.reference.flags}:
                with_published.add(point[0].spec.repeat_key())
    others = []
    for pair in published:
        if pair.spec.repeat_key() not in with_published:
            others.append(pair)
    yield from _known(overview.verdict_plot(judged), overview.published_plot(others))


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
