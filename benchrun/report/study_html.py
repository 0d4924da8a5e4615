"""A study as one HTML file: its points as plots and as a table, then the report on its runs."""

from collections.abc import Iterator

from benchrun.comparison.ratio import Ratio
from benchrun.report.data import Section
from benchrun.report.figure import Figure, Series
from benchrun.report.html import page
from benchrun.report.model import ReportModel
from benchrun.report.pareto import pareto_figures
from benchrun.report.study import NAMES, filled, planned_line, point_text, remarks, sentences, study_table
from benchrun.report.table import Table
from benchrun.study.result import StudyResult


def study_html(study: StudyResult, report: ReportModel) -> str:
    """The whole file; ``report`` is on the runs of the study.

    They were made to differ, so that they are no history.
    """
    return page(report.without("history").headed(study_section(study)), f"Study {study.study}")


def study_section(study: StudyResult) -> Section:
    """The points of a study for a report: plots of their metrics and ratios, the whole table, and what it supports."""
    text = " ".join((f"{study.description}.", planned_line(study), *sentences(study), *remarks(study)))
    return Section("study", "Study", text, tuple(study_figures(study)), (filled(study_table(study)),))


def study_figures(study: StudyResult) -> Iterator[Figure]:
    """Bars of the ratio, the speed and the memory of each measured point; of loads of a server their Pareto front."""
    yield from pareto_figures(study)
    points = [point for point in study.points if point.measured]
    ratios = [(point, point.ratio) for point in points if point.ratio]
    if ratios:
        rows = [(point_text(study, point), f"{r.value:.3f}", *_interval(r)) for point, r in ratios]
        yield Figure(
            "bars",
            "Speed relative to the baseline",
            (Series("", tuple(ratio.value for _, ratio in ratios)),),
            Table(("point", "ratio", "low", "high"), rows, "-"),
            labels=tuple(point_text(study, point) for point, _ in ratios),
            level=1.0,
            note="Dashed: equal speed.",
        )
    for key, title in (("tokens_per_s_per_gpu", "Tokens/s/GPU"), ("peak_memory_gib", "Peak memory (GiB)")):
        values = [(point_text(study, point), point.metrics[key]) for point in points]
        drawn = [(name, value) for name, value in values if value is not None]
        if drawn:
            yield Figure(
                "bars",
                title,
                (Series("", tuple(value for _, value in drawn)),),
                Table(("point", title), [(name, NAMES[key].text(value)) for name, value in drawn]),
                labels=tuple(name for name, _ in drawn),
            )


def _interval(ratio: Ratio) -> tuple[str | None, str | None]:
    low, high = (None if each is None else f"{each:.3f}" for each in (ratio.low, ratio.high))
    return low, high
