"""Criteria of an acceptance plan -> one verdict: a pure function of what the runs
measured.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from pydantic import Field

from benchrun.capabilities.nodes.fleet import Fleet
from benchrun.jobs.endings import NO_ANSWER
from benchrun.judge.checks import LEARNED, Check
from benchrun.judge.ratio import ratio
from benchrun.judge.verdict import RunResult, Verdict
from benchrun.measure.metric import Basis
from benchrun.measure.model import Metrics
from benchrun.measure.registry import METRICS
from benchrun.measure.statistics import spread_percent
from benchrun.model import Frozen
from benchrun.runspec.spec import RunSpec
from benchrun.vocabulary import Exit

from .plan import Criteria, ResolvedPlan

Answer = Literal["accepted", "not_accepted", "inconclusive"]


class Criterion(Frozen):
    """One criterion of one point."""

    point: int
    """Position of the point in the plan, from 1; 0 is the check of nodes."""
    criterion: str
    """Its key in the plan; for a limit on a metric ``at_least`` or ``at_most`` with the
    metric's name.
    """
    threshold: float
    """The limit; a value equal to it passes."""
    measured: float | None
    """Null if nothing was measured."""
    unit: str
    """Unit of both."""
    passed: bool | None
    """Null if the measurement gives no answer."""
    reason: str | None = None
    """Reason why there is no answer, or which run failed."""
    runs: tuple[str, ...] = ()
    """The runs that were measured."""


class PointSummary(Frozen):
    """One point of a plan."""

    point: int
    """Position in the plan, from 1."""
    recipe: str
    """Name of the recipe."""
    gpu: str
    """GPU, as named in the hardware table."""
    precision: str
    """Precision of the computation."""
    num_gpus: int
    """Ranks: one per GPU, or CPU processes."""
    num_nodes: int
    """Nodes of each job."""
    framework: str
    """Name of the framework."""
    repeats: int
    """Runs that the plan wants."""
    runs: tuple[str, ...]
    """Runs that gave numbers."""
    other_runs: tuple[str, ...]
    """Runs that have ended without numbers."""
    verdict: str | None
    """The verdict against the reference numbers, with its limits; null if nothing was
    measured.
    """

    @property
    def name(self) -> str:
        """The point in words."""
        return f"{self.recipe}, {self.precision}, {self.num_gpus} x {self.gpu}, {self.framework}"


class Acceptance(Frozen):
    """The verdict on a cluster, with every criterion."""

    schema_version: Literal[1] = 1
    """Version of this document's schema."""
    plan: str
    """Name of the plan."""
    description: str
    """The plan's own words."""
    verdict: Answer
    """``not_accepted`` if a criterion is not met, else ``inconclusive`` if one has no
    answer.
    """
    points: tuple[PointSummary, ...]
    """Points in the order of the plan."""
    criteria: tuple[Criterion, ...]
    """Criteria of all points, in the order of the points."""
    nodes: dict[str, tuple[bool | None, str]] = Field(default_factory=dict)
    """Node -> whether the check finds it sound (null: nobody can tell), and why not."""

    @property
    def exit_code(self) -> Exit:
        """OK, SLOW if a criterion is not met, else INCONCLUSIVE."""
        return {"accepted": Exit.OK, "not_accepted": Exit.SLOW, "inconclusive": Exit.INCONCLUSIVE}[
            self.verdict
        ]


@dataclass(frozen=True)
class PointEvidence:
    """Measurements of one point."""

    spec: RunSpec
    criteria: Criteria
    runs: tuple[RunResult, ...] = ()
    """Every run that has ended."""
    verdict: Verdict | None = None
    """Verdict on the runs with numbers together; None if there is none."""

    @property
    def invalid(self) -> str | None:
        """Reason why the numbers of all runs count for nothing; None if they do count."""
        if self.verdict and self.verdict.verdict == "invalid_run":
            return self.verdict.reason
        return None

    @property
    def valid(self) -> list[RunResult]:
        """The runs that gave numbers."""
        if self.invalid:
            return []
        return [run for run in self.runs if run.numbers]

    @property
    def numbers(self) -> list[Metrics]:
        """Their measurements."""
        return [run.numbers for run in self.valid if run.numbers]


def judged(
    plan: ResolvedPlan, evidence: Sequence[PointEvidence], checks: Mapping[str, Fleet]
) -> Acceptance:
    """The verdict on ``evidence``, one item for each point of ``plan``, in its order,
    and on the last one of the ``checks`` of nodes, by run.
    """
    by_number = dict(enumerate(evidence, 1))
    points = []
    criteria: list[Criterion] = []
    nodes = {}
    for fleet in checks.values():
        nodes = fleet.verdicts
    answers = [answer for answer, _ in nodes.values()]
    if plan.file.nodes_check:
        criteria.append(_sound(plan.file.nodes_check, answers, checks))
    for number, each in by_number.items():
        points.append(_summary(number, each, plan.file.repeats))
        criteria += _criteria(plan, number, by_number)
    return Acceptance(
        plan=plan.name,
        description=plan.file.description,
        verdict=_verdict([each.passed for each in criteria]),
        points=tuple(points),
        criteria=tuple(criteria),
        nodes=nodes,
    )


def _verdict(answers: Sequence[bool | None]) -> Answer:
    if False in answers:
        return "not_accepted"
    if None in answers:
        return "inconclusive"
    return "accepted"


def _sound(num_nodes: int, answers: Sequence[bool | None], runs: Iterable[str]) -> Criterion:
    """Whether every node is sound, by the check's own rule."""
    count = answers.count(True)
    passed = None
    if False in answers:
        passed = False
    elif None not in answers and count >= num_nodes:
        passed = True
    return Criterion(
        point=0,
        criterion="nodes_check",
        threshold=num_nodes,
        measured=count,
        unit="nodes",
        passed=passed,
        reason=", ".join(runs) or "no check has ended",
        runs=tuple(runs),
    )


def _summary(number: int, evidence: PointEvidence, repeats: int) -> PointSummary:
    spec = evidence.spec
    valid = evidence.valid
    return PointSummary(
        point=number,
        **{
            name: getattr(spec, name)
            for name in ("recipe", "gpu", "precision", "num_gpus", "num_nodes", "framework")
        },
        repeats=repeats,
        runs=tuple(run.run_id for run in valid),
        other_runs=tuple(run.run_id for run in evidence.runs if run not in valid),
        verdict=evidence.verdict.headline if evidence.verdict else None,
    )


def _criteria(
    plan: ResolvedPlan, number: int, evidence: Mapping[int, PointEvidence]
) -> Iterator[Criterion]:
    """The criteria of one point: that its runs were made, then those that its plan
    states.
    """
    one = evidence[number]
    names = tuple(run.run_id for run in one.valid)

    def criterion(name: str, threshold: float, unit: str, answer: "_Answer") -> Criterion:
        return Criterion(
            point=number, criterion=name, threshold=threshold, unit=unit, runs=names, **vars(answer)
        )

    limits = one.criteria
    repeats = plan.file.repeats
    yield criterion("repeats", repeats, "runs", _made(one, repeats))
    yield criterion(
        "max_failed_runs", limits.max_failed_runs, "runs", _failed(one, limits.max_failed_runs)
    )
    for side, metrics in (("at_least", limits.at_least), ("at_most", limits.at_most)):
        for metric, limit in metrics.items():
            if limit is not None:
                answer = _metric(one, metric, limit, side == "at_least")
                yield criterion(f"{side} {metric}", limit, METRICS[metric].unit, answer)
    below = limits.max_below_reference_percent
    spread = limits.max_spread_percent
    efficiency = limits.min_scaling_efficiency_percent
    throttled = limits.max_throttled_runs
    if below is not None:
        yield criterion("max_below_reference_percent", below, "%", _below_reference(one, below))
    if spread is not None:
        yield criterion("max_spread_percent", spread, "%", _spread(one, spread))
    if efficiency is not None and plan.fewest(number) != number:
        answer = _efficiency(one, evidence[plan.fewest(number)], efficiency)
        yield criterion("min_scaling_efficiency_percent", efficiency, "%", answer)
    if throttled is not None:
        yield criterion("max_throttled_runs", throttled, "runs", _throttled(one, throttled))


@dataclass(frozen=True)
class _Answer:
    """Measurement for a criterion, and what follows."""

    measured: float | None
    passed: bool | None
    reason: str | None = None


UNMEASURED = _Answer(None, None, "no run gave numbers")


def _made(one: PointEvidence, repeats: int) -> _Answer:
    """Answer for a point with fewer runs than planned: none."""
    count = len(one.valid)
    if count >= repeats:
        return _Answer(count, True)
    for run in one.runs:
        if not run.numbers:
            return _Answer(count, None, f"{run.run_id}: {run.broken}")
    return _Answer(count, None, f"{repeats - count} of {repeats} runs are missing")


def _failed(one: PointEvidence, most: int) -> _Answer:
    """Runs that show a fault; a run that a user or the scheduler ended is none."""
    failed = []
    for run in one.runs:
        if (one.invalid or not run.numbers) and run.ending not in NO_ANSWER:
            failed.append(run)
    reason = None
    if failed:
        reason = f"{failed[0].run_id}: {one.invalid or failed[0].broken}"
    return _Answer(len(failed), len(failed) <= most, reason)


def _metric(one: PointEvidence, name: str, limit: float, least: bool) -> _Answer:
    """The median over the repeats beside its limit."""
    basis = Basis(gbs=getattr(one.spec, "gbs", None))
    values = [METRICS[name].read(run, basis) for run in one.numbers]
    present = [value for value in values if value is not None]
    if not values:
        return UNMEASURED
    if len(present) < len(values):
        return _Answer(
            None, None, f"{len(values) - len(present)} of {len(values)} runs have no {name}"
        )
    measured = median(present)
    passed = measured >= limit if least else measured <= limit
    return _Answer(measured, passed)


def _below_reference(one: PointEvidence, most: float) -> _Answer:
    """Percentage by which the point is slower than its reference; negative if it is
    faster.
    """
    if one.verdict is None or not one.valid:
        return UNMEASURED
    checks = [check for check in one.verdict.checks if check.metric not in LEARNED]
    if not checks:
        return _Answer(None, None, f"no reference number: {one.verdict.reason}")
    check = checks[0]
    below = 100 * (1 - check.ratio)
    source = f"{check.reference.id}: {check.reference.value:g} {check.reference.unit}"
    if check.verdict == "faster_than_expected":
        return _Answer(below, None, f"faster than credible ({source})")
    return _Answer(below, _within(check, below, most), source)


def _within(check: Check, below: float, most: float) -> bool | None:
    """A mean that includes the start-up may hide a faster step."""
    if below <= most:
        return True
    if check.high is None:
        return None
    return False


def _spread(one: PointEvidence, most: float) -> _Answer:
    """The range of the repeats' step times, in percent of their median."""
    times = [run.step_time_s.median for run in one.numbers if run.step_time_s]
    measured = spread_percent(times)
    if measured is None:
        return _Answer(None, None, f"{len(times)} of at least 2 runs have a step time")
    return _Answer(measured, measured <= most)


def _efficiency(one: PointEvidence, base: PointEvidence, least: float) -> _Answer:
    """Tokens/s/GPU relative to those on the fewest GPUs."""
    speed = ratio(one.numbers, base.numbers)
    if speed is None:
        return _Answer(None, None, f"no speed on {one.spec.num_gpus} or {base.spec.num_gpus} GPUs")
    return _Answer(
        100 * speed.value, 100 * speed.value >= least, f"relative to {base.spec.num_gpus} GPUs"
    )


def _throttled(one: PointEvidence, most: int) -> _Answer:
    """Runs whose telemetry shows a fault that lowered clocks."""
    samples = [run.telemetry for run in one.numbers]
    if not samples:
        return UNMEASURED
    faults = [sample.fault for sample in samples if sample and sample.fault]
    if len(faults) > most:
        return _Answer(len(faults), False, faults[0])
    unseen = samples.count(None)
    if unseen:
        return _Answer(len(faults), None, f"{unseen} runs have no telemetry")
    return _Answer(len(faults), True)
