"""Acceptance plans: the runs that decide about a cluster, how often each is made, and
what they must reach.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from pydantic_core import PydanticCustomError

from benchrun import paths
from benchrun.capabilities.studies.resolved import ResolvedPoint, ResolvedStudy, resolved_points
from benchrun.errors import UserError
from benchrun.judge.conditions import conditions
from benchrun.judge.references import load_references, matching
from benchrun.measure.registry import METRICS
from benchrun.model import Frozen
from benchrun.recipes.catalogue import checked
from benchrun.recipes.files import cluster_document, default_cluster, find
from benchrun.recipes.resolve import resolve, resolve_nodes
from benchrun.recipes.schema import UNKNOWN_NAME, FrameworkName, Study, SuiteRun, Values
from benchrun.recipes.select import Request
from benchrun.recipes.study import Expanded, StudyPoint, point_of
from benchrun.recipes.study_rules import OF_REQUEST
from benchrun.recipes.yamlfile import Document, load
from benchrun.runspec.cluster import Cluster, Line
from benchrun.runspec.spec import RunSpec
from benchrun.vocabulary import MOST_REPEATS, Better, Precision

Percent = Annotated[float, Field(gt=0, le=100)]


def _metric(worse: Better, name: str) -> str:
    """``name`` of a metric that may have a limit on this side. ``worse``: of metrics
    whose limit is on the other.
    """
    legal = tuple(metric.name for metric in METRICS.values() if metric.better != worse)
    if name not in legal:
        raise PydanticCustomError(UNKNOWN_NAME, "no such metric", {"legal": legal})
    return name


Least = Annotated[Line, AfterValidator(partial(_metric, "lower"))]
Most = Annotated[Line, AfterValidator(partial(_metric, "higher"))]


class Criteria(Frozen):
    """Criteria that every point of a plan must reach.

    The values of a run replace those of the plan; null removes one.
    """

    at_least: dict[Least, PositiveFloat | None] = Field(default_factory=dict)
    """Metric -> the least that the median over the repeats reaches, e.g.
    ``tokens_per_s_per_gpu: 12000``.
    """
    at_most: dict[Most, PositiveFloat | None] = Field(default_factory=dict)
    """Metric -> the most that the median over the repeats has, e.g. ``step_time_s:
    1.9`` or ``peak_memory_gib: 76``.
    """
    max_below_reference_percent: Annotated[NonNegativeFloat, Field(lt=100)] | None = None
    """Most percent by which a point may be slower than its reference number."""
    max_spread_percent: PositiveFloat | None = None
    """The largest range of the repeats' step times, in percent of their median; needs
    two repeats.
    """
    min_scaling_efficiency_percent: Percent | None = None
    """The least tokens/s/GPU in percent of those on the fewest GPUs of the same workload."""
    max_failed_runs: NonNegativeInt = 0
    """Runs of a point that may fail: a crash, a fatal problem in the log, a step that
    never came. Retries count.
    """
    max_throttled_runs: NonNegativeInt | None = None
    """Runs of a point in which a GPU may lower its clocks because of heat or a hardware
    fault.
    """

    def with_those_of(self, other: "Criteria | None") -> "Criteria":
        """Return these criteria with those that ``other`` states in their place."""
        stated = {name: getattr(other, name) for name in (other.model_fields_set if other else ())}
        for name in ("at_least", "at_most"):
            if name in stated:
                stated[name] = {**getattr(self, name), **stated[name]}
        return self.model_copy(update=stated)


class PlanRun(Frozen):
    """One workload of a plan, on one or several numbers of GPUs."""

    recipe: Line
    """Name or path of the recipe."""
    gpu: Line | None = None
    """GPU; needed if the recipe has points for several and the cluster is not named."""
    precision: Precision | None = None
    """Precision; needed if there are several."""
    num_gpus: Values[PositiveInt] | None = None
    """Numbers of GPUs: each is a point. Needed if the recipe has several."""
    framework: FrameworkName | None = None
    """Framework; the recipe's first with such a point if not given."""
    set: dict[Line, Any] = Field(default_factory=dict)
    """``key: value`` as with ``--set``."""
    criteria: Criteria | None = None
    """Criteria of this run, on top of the plan's."""


class AcceptancePlan(Frozen):
    """A plan: the cluster is accepted if every criterion of every point is met."""

    description: Line
    """One line for `benchrun list`."""
    cluster: Line | None = None
    """Name or path of the site file; ``--cluster`` replaces it."""
    runs: tuple[PlanRun, ...] = Field(min_length=1)
    """The runs, in order."""
    nodes_check: PositiveInt | None = None
    """Number of nodes that are checked before the first run, as by `benchrun nodes`;
    null for no check.
    """
    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 3
    """Runs of each point."""
    price_per_gpu_hour: PositiveFloat | None = None
    """Price of a GPU for an hour, in any currency; null if it is not known."""
    criteria: Criteria = Criteria()
    """Criteria that every point must reach."""


@dataclass(frozen=True)
class ResolvedPlan:
    """A plan with its points resolved."""

    name: str
    file: AcceptancePlan
    study: ResolvedStudy
    """Points of the plan as a study, which launches and resumes them; its directory is
    ``NAME.plan.study``.
    """
    check: ResolvedStudy
    """The check of nodes as a study of one point, in the same directory; without a
    point if the plan has none.
    """

    @property
    def numbered(self) -> dict[int, ResolvedPoint]:
        """The points by their position from 1; 0 is the check of nodes."""
        points = (*self.check.points, *self.study.points)
        return dict(enumerate(points, 1 - len(self.check.points)))

    def criteria(self, number: int) -> Criteria:
        """The criteria of the point at position ``number``, from 1."""
        run = self.study.points[number - 1].point.run
        return self.file.criteria.with_those_of(self.file.runs[run].criteria)

    def fewest(self, number: int) -> int:
        """Position, from 1, of the point with the fewest GPUs of the same workload."""
        points = self.study.points
        own = []
        for other, each in enumerate(points, 1):
            if _workload(each.point) == _workload(points[number - 1].point):
                own.append(other)
        return min(own, key=lambda other: points[other - 1].spec.num_gpus)  # type: ignore[union-attr]


def _workload(point: StudyPoint) -> Request:
    return replace(point.request, num_gpus=None, cluster=None)


def read_plan(name: str) -> tuple[str, AcceptancePlan, Document]:
    """The name of a plan, the plan, and its document with the line of every value.
    UserError with every problem.
    """
    path = find(name, paths.PLANS, "plan")
    document = load(path)
    file = checked(AcceptancePlan, document)
    _raise(list(_contradictions(file, document)))
    return path.stem, file, document


def on_nodes(file: AcceptancePlan, num_nodes: int, cluster: str | None) -> AcceptancePlan:
    """``file`` for a cluster of ``num_nodes``: the numbers of GPUs that fit, and all of
    them where a run has such a point. A run that needs more is left out.

    No number is published for most sizes of a cluster: there the scaling decides alone.
    """
    name = cluster or file.cluster
    if name is None:
        raise UserError("a number of nodes needs the cluster", hint="--cluster FILE")
    most = num_nodes * checked(Cluster, cluster_document(name)).gpus_per_node
    runs = []
    for index, run in enumerate(file.runs):
        fit = [number for number in run.num_gpus or () if number <= most]
        if fit:
            runs.append(run.model_copy(update={"num_gpus": tuple(fit)}))
        elif run.num_gpus is None:
            runs.append(run)
        if fit and most not in fit and (spec := _point(index, run, most, name)):
            own: dict[str, Any] = {"num_gpus": (most,)}
            if not matching(conditions(spec), load_references()):
                unknown = {"max_below_reference_percent": None}
                own["criteria"] = (run.criteria or Criteria()).model_copy(update=unknown)
            runs.append(run.model_copy(update=own))
    if not runs:
        raise UserError(f"no run of this plan fits {num_nodes} nodes")
    checked_nodes = file.nodes_check and num_nodes
    return file.model_copy(update={"runs": tuple(runs), "nodes_check": checked_nodes})


def _point(index: int, run: PlanRun, num_gpus: int, cluster: str) -> RunSpec | None:
    """The point of ``run`` on ``num_gpus``, listed or scaled; None if it has none."""
    stated = {key: getattr(run, key) for key in OF_REQUEST if key != "num_gpus"}
    one = SuiteRun(**stated, num_gpus=num_gpus, set=run.set)
    try:
        return resolve(point_of(index, one, {}, Request(run.recipe, cluster=cluster), "").request)
    except UserError:
        return None


def planned(
    name: str, file: AcceptancePlan, document: Document, changes: Mapping[int, Mapping[str, Any]]
) -> ResolvedPlan:
    """``file`` with its points resolved. UserError names every point that breaks a
    rule.

    ``changes``: values of `Request` by the position of a point, from 1; those of 0 are
    for all points.
    """
    points: list[StudyPoint] = []
    for index, run in enumerate(file.runs):
        place = document.where(("runs", index))
        stated = {key: getattr(run, key) for key in OF_REQUEST if key != "num_gpus"}
        for num_gpus in sorted(run.num_gpus) if run.num_gpus else (None,):
            one = SuiteRun(**stated, num_gpus=num_gpus, set=run.set)
            point = point_of(index, one, {}, Request(run.recipe, cluster=file.cluster), place)
            changed = {**changes.get(0, {}), **changes.get(len(points) + 1, {})}
            points.append(replace(point, request=replace(point.request, **changed)))
    runs = tuple(SuiteRun(recipe=run.recipe) for run in file.runs)
    study = Study(
        description=file.description,
        runs=runs,
        repeats=file.repeats,
        price_per_gpu_hour=file.price_per_gpu_hour,
    )
    expanded = Expanded(f"{name}.plan", study, tuple(points))
    resolved = resolved_points(expanded)
    _raise(
        [
            UserError(each.refused, hint=each.hint, where=each.point.place)
            for each in resolved
            if not each.spec
        ]
    )
    if len({each.spec.cluster.name for each in resolved if each.spec}) > 1:
        raise UserError(
            "the runs are of several clusters", hint="name the one that is accepted: cluster: FILE"
        )
    once = replace(expanded, study=study.model_copy(update={"repeats": 1}))
    check = ResolvedStudy(once, _check(file.nodes_check, resolved[0]))
    return ResolvedPlan(name, file, ResolvedStudy(expanded, resolved), check)


def _check(num_nodes: int | None, first: ResolvedPoint) -> tuple[ResolvedPoint, ...]:
    """The check of ``num_nodes`` nodes on the cluster of the plan's ``first`` point."""
    if num_nodes is None or first.spec is None:
        return ()
    request = first.point.request
    cluster = request.cluster or default_cluster(first.spec.gpu)
    sets = tuple(each for each in request.overrides if each.startswith("cluster."))
    return (ResolvedPoint(first.point, resolve_nodes(cluster, num_nodes, sets)),)


def _contradictions(file: AcceptancePlan, document: Document) -> Iterator[UserError]:
    """Find errors that no single value of a plan shows."""
    several = [
        index for index, run in enumerate(file.runs) if run.num_gpus and len(run.num_gpus) > 1
    ]
    places: list[tuple[Criteria, tuple[str | int, ...], bool]] = [
        (file.criteria, ("criteria",), bool(several))
    ]
    for index, run in enumerate(file.runs):
        if run.num_gpus and len(set(run.num_gpus)) < len(run.num_gpus):
            yield UserError(
                "'num_gpus' has a value twice", where=document.where(("runs", index, "num_gpus"))
            )
        if run.criteria:
            places.append((run.criteria, ("runs", index, "criteria"), index in several))
        for key in run.set:
            if key in OF_REQUEST:
                yield UserError(
                    f"'{key}' stands beside set, not in it",
                    where=document.where(("runs", index, "set")),
                )
    for criteria, loc, scales in places:
        if criteria.max_spread_percent is not None and file.repeats == 1:
            where = document.where((*loc, "max_spread_percent"))
            yield UserError("a spread needs at least two repeats", hint="repeats: 3", where=where)
        if criteria.min_scaling_efficiency_percent is not None and not scales:
            where = document.where((*loc, "min_scaling_efficiency_percent"))
            yield UserError(
                "a scaling efficiency needs a run with several num_gpus",
                hint="num_gpus: [8, 16]",
                where=where,
            )


E = TypeVar("E", bound=UserError)


def _raise(errors: list[E]) -> None:
    """Raise the first error with the others, if there is one."""
    if errors:
        errors[0].others = tuple(errors[1:])
        raise errors[0]
