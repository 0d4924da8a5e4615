"""Result of a study: one row per point, compared with its baseline."""

from collections.abc import Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any, Literal

from benchrun.judge.ratio import Ratio, ratio
from benchrun.judge.verdict import RunResult
from benchrun.measure.metric import OURS, Metric
from benchrun.measure.model import Metrics
from benchrun.measure.registry import METRICS
from benchrun.model import Frozen

from .cost import Hours
from .resolved import ResolvedPoint, ResolvedStudy
from .schedule import Attempt, PointState, state_of
from .state import Slot

TABLED = tuple(
    METRICS[name]
    for name in ("step_time_s", "tokens_per_s_per_gpu", "mfu_percent", "peak_memory_gib")
)
"""Metrics of a point, medians over its repeats."""
_SHOWN = (
    "output_tokens_per_s_per_gpu",
    "total_tokens_per_s_per_gpu",
    "output_tokens_per_s_per_user",
    "goodput_requests_per_s",
    "mean_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p99_tpot_ms",
)
SERVED = tuple(METRICS[name] for name in _SHOWN)
"""Metrics of a point that serves."""


class PointResult(Frozen):
    """One point of a study."""

    key: str
    """Names the point in the study's directory; empty for a refused one."""
    settings: dict[str, Any]
    """Its values of the columns; without those that it does not state."""
    baseline: int | None
    """Position of the point that it is compared with, from 1; null if that one is
    excluded.
    """
    state: PointState
    reason: str | None
    """Reason why it was refused, has failed, or gives no number."""
    runs: tuple[str, ...]
    """Every run that was launched for it."""
    measured: int
    """Runs that gave numbers."""
    hours: Hours | None
    """GPU-hours of one run; null for a refused point."""
    metrics: dict[str, float | None]
    """Medians over the measured runs; null if nothing was measured."""
    ratio: Ratio | None
    """Speed relative to the baseline; null for the baseline itself, and if one of the
    two has no speed.
    """
    gpu_hours_used: float | None = None
    """GPU-hours that its runs took, failed ones too; null if none has recorded its
    start and its end.
    """


class StudyResult(Frozen):
    """A study, what it may take, and what came out."""

    schema_version: Literal[1] = 1
    study: str
    """Name of the study."""
    description: str
    directory: str
    """Directory that notes which run belongs to which point."""
    columns: tuple[str, ...]
    """Keys whose values differ between points."""
    repeats: int
    """Runs of each point."""
    points: tuple[PointResult, ...]
    gpu_hours_limit: float
    """Sum of the time limits: the most that all runs can take."""
    gpu_hours_steps: float | None
    """Sum of the known times of all steps, without starting; null if none is known."""
    runs: int
    """Runs of all legal points."""
    runs_with_known_steps: int
    """Runs that ``gpu_hours_steps`` covers."""
    gpu_hours_used: float | None = None
    """GPU-hours that the runs took so far, failed ones too; null if none has recorded
    its start and its end.
    """
    price_per_gpu_hour: float | None
    """Price as stated, in any currency."""
    notes: tuple[str, ...] = ()
    """Damaged files of its runs that were left out."""

    @property
    def complete(self) -> bool:
        """Whether every run of every legal point gave numbers."""
        return all(
            point.measured >= self.repeats
            for point in self.points
            if point.state is not PointState.REFUSED
        )


def result(
    resolved: ResolvedStudy,
    directory: str,
    price: float | None,
    attempts: Mapping[Slot, Sequence[Attempt]],
    runs: Mapping[str, Sequence[RunResult]],
    retries: int = 0,
    used: Mapping[str, float] = MappingProxyType({}),
    foreign: Mapping[str, str] = MappingProxyType({}),
    notes: Sequence[str] = (),
) -> StudyResult:
    """Collect what is known of a study.

    By the key of a point: ``runs``, its launched runs; ``used``, their GPU-hours;
    ``foreign``, why a run that the directory lists is not of the point, or cannot be
    read.
    """
    study = resolved.expanded.study
    hours = resolved.hours()
    expected = [each.steps for each in hours.values() if each.steps is not None]
    points = []
    for planned in resolved.points:
        point = _point(resolved, planned, hours, attempts, runs, retries, foreign)
        if planned.spec and planned.key in used:
            point = point.model_copy(update={"gpu_hours_used": used[planned.key]})
        points.append(point)
    return StudyResult(
        study=resolved.expanded.name,
        description=study.description,
        directory=directory,
        columns=resolved.expanded.columns,
        repeats=study.repeats,
        points=tuple(points),
        gpu_hours_limit=study.repeats * sum(each.limit for each in hours.values()),
        gpu_hours_steps=study.repeats * sum(expected) if expected else None,
        runs=len(resolved.slots),
        runs_with_known_steps=study.repeats * len(expected),
        gpu_hours_used=sum(used.values()) if used else None,
        price_per_gpu_hour=study.price_per_gpu_hour if price is None else price,
        notes=tuple(notes),
    )


def _point(
    resolved: ResolvedStudy,
    planned: ResolvedPoint,
    hours: Mapping[str, Hours],
    attempts: Mapping[Slot, Sequence[Attempt]],
    runs: Mapping[str, Sequence[RunResult]],
    retries: int,
    foreign: Mapping[str, str],
) -> PointResult:
    key = ""
    stated = planned.point.settings
    states = []
    repeats = resolved.expanded.study.repeats
    if planned.spec:
        key = planned.key
        for repeat in range(1, repeats + 1):
            states.append(state_of(attempts.get((key, repeat), ()), retries))
    launched = runs.get(key, ())
    own = _measured(launched)
    reason = planned.refused or None
    if reason is None and len(own) < repeats:
        reason = _reason(launched) or foreign.get(key)
    place = _baseline(resolved, planned)
    compared = None
    if place is not None:
        other = resolved.points[place - 1]
        if other.spec and other is not planned:
            compared = ratio(own, _measured(runs.get(other.key, ())))
    return PointResult(
        key=key,
        settings={
            column: stated[column] for column in resolved.expanded.columns if column in stated
        },
        baseline=place,
        state=_state(states),
        reason=reason,
        runs=tuple(each.run_id for each in launched),
        measured=len(own),
        hours=hours.get(key),
        metrics={metric.key: _median(own, metric) for metric in TABLED} | _of_servers(own),
        ratio=compared,
    )


def _measured(runs: Sequence[RunResult]) -> list[Metrics]:
    return [run.numbers for run in runs if run.numbers]


def _baseline(resolved: ResolvedStudy, planned: ResolvedPoint) -> int | None:
    """Number of the point that it is compared with, from 1; None if that one is
    excluded.
    """
    point = resolved.expanded.baseline(planned.point)
    for number, each in enumerate(resolved.points, 1):
        if each.point is point:
            return number
    return None


def _state(states: Sequence[PointState]) -> PointState:
    """The state of a point from those of its repeats; refused if it has none."""
    for state in (PointState.GOING, PointState.WAITING, PointState.FAILED, PointState.COMPLETED):
        if state in states:
            return state
    return PointState.REFUSED


def _reason(runs: Sequence[RunResult]) -> str | None:
    """Reason why the newest run that has ended gives no number; None if it does."""
    for run in reversed(runs):
        if run.ending is not None and not run.numbers:
            return f"{run.run_id}: {run.broken}"
    return None


def _of_servers(runs: Sequence[Metrics]) -> dict[str, float | None]:
    """Metrics that only servers have; empty for trainings."""
    medians = {metric.key: _median(runs, metric) for metric in SERVED}
    return {key: value for key, value in medians.items() if value is not None}


def _median(runs: Sequence[Metrics], metric: Metric) -> float | None:
    values = [metric.read(run, OURS) for run in runs]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return median(known)
