"""A sweep of the load of a server: throughput per GPU against the speed that each user sees, and its Pareto front."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchrun.metrics.registry import METRICS
from benchrun.report.figure import Figure, Series
from benchrun.report.picture import picture, save
from benchrun.report.study import point_text
from benchrun.report.table import Table
from benchrun.study.result import StudyResult

PER_USER, PER_GPU = "output_tokens_per_s_per_user", "output_tokens_per_s_per_gpu"
TITLES = (METRICS[PER_USER].title, METRICS[PER_GPU].title)


class Load(NamedTuple):
    """One measured load."""

    name: str
    per_user: float
    per_gpu: float
    front: bool
    """No other load is as good in one and better in the other."""


def loads(study: StudyResult) -> list[Load]:
    """The points that have both rates, the slowest for a user first; empty for a study of trainings."""
    pairs = [(point, point.metrics.get(PER_USER), point.metrics.get(PER_GPU)) for point in study.points]
    both = [(point_text(study, point), user, gpu) for point, user, gpu in pairs if user is not None and gpu is not None]
    return [Load(name, user, gpu, _best(user, gpu, both)) for name, user, gpu in sorted(both, key=lambda each: each[1])]


def _best(user: float, gpu: float, every: Sequence[tuple[str, float, float]]) -> bool:
    return not any(u >= user and g >= gpu and (u, g) != (user, gpu) for _, u, g in every)


def pareto_figures(study: StudyResult) -> Iterator[Figure]:
    """One plot of the loads, with the Pareto front as a line; none for a study of trainings."""
    points = loads(study)
    if not points:
        return
    front = [load for load in points if load.front]
    rows = [(load.name, f"{load.per_user:.4g}", f"{load.per_gpu:,.4g}", "yes" if load.front else "") for load in points]
    yield Figure(
        "line",
        "Throughput against speed for a user",
        (Series("Pareto front", tuple(load.per_gpu for load in front), tuple(load.per_user for load in front)),),
        Table(("load", *TITLES, "Pareto front"), rows),
        x_title=TITLES[0],
        y_title=TITLES[1],
        marks=tuple((load.per_user, load.per_gpu) for load in points),
        from_zero=True,
        note="Each mark is a measured load.",
    )


def plot_pareto(study: StudyResult, path: Path) -> None:
    """Write the loads and their Pareto front to ``path``, in the format that its name ends in.

    UserError where matplotlib is missing, or the file cannot be written.
    """
    points = loads(study)
    front = [load for load in points if load.front]
    figure = picture(7, 5)
    axes = figure.subplots()
    axes.plot([load.per_user for load in front], [load.per_gpu for load in front], color="0.6", label="Pareto front")
    axes.plot([load.per_user for load in points], [load.per_gpu for load in points], "o", color="0.2")
    for load in points:
        at = load.per_user, load.per_gpu
        axes.annotate(load.name, at, textcoords="offset points", xytext=(5, 4), fontsize=8)
    axes.set_xlabel(TITLES[0])
    axes.set_ylabel(TITLES[1])
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.suptitle(f"{study.study}: {study.description}", fontsize=10)
    save(figure, path)
