"""A sweep of the load of a server: throughput per GPU against the speed that each user
sees, and its Pareto front.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchrun.measure.registry import METRICS
from benchrun.show.plot import Mark, Plot, Series
from benchrun.show.table import Table

from .result import StudyResult
from .view import point_text

PER_USER, PER_GPU = "output_tokens_per_s_per_user", "output_tokens_per_s_per_gpu"
TITLES = (METRICS[PER_USER].title, METRICS[PER_GPU].title)


class Load(NamedTuple):
    """One measured load."""

    name: str
    per_user: float
    per_gpu: float
    front: bool
    """Whether no other load is as good in one and better in the other."""


def loads(study: StudyResult) -> list[Load]:
    """The points that have both rates, the slowest for a user first; empty for a study
    of trainings.
    """
    pairs = []
    for point in study.points:
        pairs.append((point, point.metrics.get(PER_USER), point.metrics.get(PER_GPU)))
    both = []
    for point, user, gpu in pairs:
        if user is not None and gpu is not None:
            both.append((point_text(study, point), user, gpu))
    found = []
    for name, user, gpu in sorted(both, key=lambda each: each[1]):
        found.append(Load(name, user, gpu, _best(user, gpu, both)))
    return found


def _best(user: float, gpu: float, every: Sequence[tuple[str, float, float]]) -> bool:
    return not any(u >= user and g >= gpu and (u, g) != (user, gpu) for _, u, g in every)


def pareto_plots(study: StudyResult) -> Iterator[Plot]:
    """One plot of the loads, with the Pareto front as a line; none for a study of
    trainings.
    """
    points = loads(study)
    if not points:
        return
    front = [load for load in points if load.front]
    rows = []
    for load in points:
        rows.append(
            (load.name, f"{load.per_user:.4g}", f"{load.per_gpu:,.4g}", "yes" if load.front else "")
        )
    speeds = [load.per_user for load in front]
    throughputs = [load.per_gpu for load in front]
    yield Plot(
        "line",
        "Throughput against speed for a user",
        (Series("Pareto front", tuple(throughputs), tuple(speeds)),),
        Table(("load", *TITLES, "Pareto front"), rows),
        x_title=TITLES[0],
        y_title=TITLES[1],
        marks=tuple(Mark(load.per_user, load.per_gpu, load.name) for load in points),
        from_zero=True,
        note="Each mark is a measured load.",
    )
