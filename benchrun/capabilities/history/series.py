"""The history of points: step time over the time of launch, its change points, and what
changed with each.

A point is a workload under the same conditions with the same framework and layout on
the same cluster. Nodes, driver, image, versions, options and environment may differ
between its runs; they are what a change is explained by.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, pairwise
from statistics import median
from typing import Any, Literal

from benchrun.judge.conditions import besides_recipe, conditions
from benchrun.judge.difference import NOTICEABLE
from benchrun.judge.measured import grouped
from benchrun.judge.verdict import RunResult
from benchrun.measure.changes import Cut, changes
from benchrun.model import Frozen
from benchrun.rundir.artifacts import objects, trained_with
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.readable import point_labels
from benchrun.show.runs import proxy, short_layout
from benchrun.vocabulary import by_path

By = Literal["point", "node", "driver", "image", "version"]
"""The column that separates the runs of a point into series; ``point``: none."""
SMALLEST = 0.01
"""A smaller change of the step time, as a fraction, is not listed."""
MOST = 0.8
"""A value belongs to one side of a change if its share of the runs differs by this
much.
"""
CLOCK = "clock (MHz)"
POINT = ("framework", "gpu", "precision", "num_gpus", "seq_length", "gbs")


class HistoryRun(Frozen):
    """One run of a series."""

    run_id: str
    launched: datetime
    step_time_s: float
    """Median of its measured steps."""
    tokens_per_s_per_gpu: float | None
    verdict: str
    clock_mhz: float | None = None
    """Median clock of its GPUs."""
    facts: dict[str, tuple[str, ...]]
    """Node, driver, image, version, options, environment, gpu, kernel, benchrun: the
    values that are recorded.
    """


class Period(Frozen):
    """The runs between two changes."""

    first: datetime
    last: datetime
    runs: int
    step_time_s: float
    """Median of the runs."""
    tokens_per_s_per_gpu: float | None


class Changed(Frozen):
    """A column that differs on the two sides of a change."""

    column: str
    before: tuple[str, ...]
    after: tuple[str, ...]


class Change(Frozen):
    """A change of the step time."""

    launched: datetime
    """Launch of the first run after it."""
    run_id: str
    """The first run after it."""
    percent: float
    """Change of the median step time; positive is slower."""
    chance: float
    """Probability that runs without a change look like this."""
    changed: tuple[Changed, ...]


class Shift(Frozen):
    """The step time of runs beside that of earlier ones, in percent; positive is longer."""

    percent: float
    low: float
    high: float
    """Ends of its interval: the range of the earlier runs, and the 2 % by which repeats
    differ.
    """


class PointHistory(Frozen):
    """The runs of one point, the oldest first."""

    name: str
    """The point in words, which tell it from the other ones."""
    recipe: str
    """Name of the recipe, with what a proxy has less of."""
    framework: str
    gpu: str
    precision: str
    num_gpus: int
    seq_length: int
    gbs: int
    layout: str
    cluster: str
    split: str | None
    """The value that the runs have in common, if they are split."""
    runs: tuple[HistoryRun, ...]
    periods: tuple[Period, ...]
    changes: tuple[Change, ...]
    """One between each two periods."""
    newest: Shift | None = None
    """The newest day beside all days before; null after a change, and for a single day."""

    @property
    def slower_by(self) -> float:
        """Percent by which its newest change, or its newest day, made it slower; 0 if neither."""
        if self.changes:
            return max(self.changes[-1].percent, 0.0)
        if self.newest and self.newest.low > 0:
            return self.newest.percent
        return 0.0

    @property
    def period_of(self) -> list[int]:
        """The number of each run's period, from 0."""
        found = []
        for index, period in enumerate(self.periods):
            for _ in range(period.runs):
                found.append(index)
        return found


class History(Frozen):
    """The histories of all points."""

    schema_version: Literal[1] = 1
    by: By
    series: tuple[PointHistory, ...]
    left_out: tuple[str, ...]
    """Runs without numbers or time of launch, profiled runs, and other work than
    training.
    """

    @property
    def slower(self) -> list[PointHistory]:
        """The points that became slower."""
        return [point for point in self.series if point.slower_by]


def history_of(runs: Sequence[RunResult], by: By = "point") -> History:
    """The history of each point among ``runs``, split ``by`` the values of a column."""
    measured = []
    left_out = []
    for result in runs:
        run = _run(result)
        if run is None:
            left_out.append(result.run_id)
        else:
            measured.append((result.spec, run))
    measured.sort(key=lambda pair: (pair[1].launched, pair[1].run_id))
    points = grouped(measured, lambda pair: _point(pair[0]))
    names = point_labels([point[0][0] for point in points])
    series = []
    for name, point in zip(names, points, strict=True):
        parts: dict[str | None, list[HistoryRun]] = {}
        for _, run in point:
            for value in _values(run, by):
                parts.setdefault(value, []).append(run)
        for value, part in parts.items():
            title = "; ".join(filter(None, (name, value)))
            series.append(_series(title, point[0][0], value, part))
    series.sort(key=lambda one: (-one.slower_by, one.name))
    return History(by=by, series=tuple(series), left_out=tuple(left_out))


def _run(result: RunResult) -> HistoryRun | None:
    spec = result.spec
    numbers = result.numbers
    launched = result.launched
    if (
        not isinstance(spec, TrainingSpec)
        or spec.profiler != "none"
        or numbers is None
        or launched is None
    ):
        return None
    time = numbers.metrics["step_time_s"]
    if time is None:
        return None
    return HistoryRun(
        run_id=result.run_id,
        launched=launched,
        step_time_s=time,
        tokens_per_s_per_gpu=numbers.metrics["tokens_per_s_per_gpu"],
        verdict=result.judgement,
        clock_mhz=getattr(numbers.telemetry, "sm_clock_mhz", None),
        facts={
            column: tuple(dict.fromkeys(filter(None, values)))
            for column, values in _facts(spec, result.environment)
        },
    )


def _facts(spec: TrainingSpec, environment: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The columns by which a change is explained."""
    own = conditions(spec)
    nodes = objects(environment.get("nodes"))
    yield "node", [str(node.get("host") or "") for node in nodes]
    yield "driver", [str(node.get("driver") or "") for node in nodes]
    yield "image", [own.image or ""]
    yield "version", [f"{name} {version}" for name, version in trained_with(environment).items()]
    options = []
    for part in ("training", "data"):
        for name, value in by_path(getattr(spec, part).model_dump(exclude_defaults=True)):
            options.append(f"{part}.{name}={value}")
    yield "options", options
    variables = {**spec.env, **spec.cluster.env}
    yield "environment", [f"{name}={value}" for name, value in variables.items()]
    gpus = []
    for node in nodes:
        for gpu in objects(node.get("gpus")):
            gpus.append(
                " ".join(str(gpu[key]) for key in ("name", "power_limit_w") if gpu.get(key))
            )
    yield "gpu", gpus
    yield "kernel", [str(node.get("kernel") or "") for node in nodes]
    yield "benchrun", [str(environment.get("commit") or environment.get("benchrun") or "")]


def _point(spec: Any) -> tuple[Any, ...]:
    return (
        proxy(spec),
        besides_recipe(conditions(spec)),
        spec.framework,
        short_layout(spec),
        spec.cluster.name,
    )


def _values(run: HistoryRun, by: By) -> list[str | None]:
    """The series that a run belongs to: one for each of its nodes, or one for all its
    drivers, images or versions.
    """
    if by == "point":
        return [None]
    values = run.facts[by] if by == "node" else (", ".join(run.facts[by]),)
    return [value or f"no {by} recorded" for value in values or ("",)]


def _series(name: str, spec: Any, split: str | None, runs: Sequence[HistoryRun]) -> PointHistory:
    cuts = _large(changes([run.step_time_s for run in runs]), runs)
    places = [0, *(cut.place for cut in cuts), len(runs)]
    parts = [runs[start:end] for start, end in pairwise(places)]
    today = runs[-1].launched.date()
    before = [run for run in runs if run.launched.date() != today]
    newest = None
    if before and not cuts:
        newest = shift(before, runs[len(before) :])
    return PointHistory(
        name=name,
        recipe=proxy(spec),
        **{condition: getattr(spec, condition) for condition in POINT},
        layout=short_layout(spec),
        cluster=spec.cluster.name,
        split=split,
        runs=tuple(runs),
        periods=tuple(map(_period, parts)),
        newest=newest,
        changes=tuple(
            _change(cut, *sides) for cut, sides in zip(cuts, pairwise(parts), strict=True)
        ),
    )


def shift(before: Sequence[HistoryRun], after: Sequence[HistoryRun]) -> Shift:
    """How much longer a step takes ``after``."""
    step_s = median(run.step_time_s for run in after)
    earlier = sorted(run.step_time_s for run in before)
    return Shift(
        percent=100 * (step_s / median(earlier) - 1),
        low=100 * (step_s / earlier[-1] - 1 - NOTICEABLE),
        high=100 * (step_s / earlier[0] - 1 + NOTICEABLE),
    )


def _large(cuts: Sequence[Cut], runs: Sequence[HistoryRun]) -> list[Cut]:
    """``cuts`` without those that are too small to matter: the smallest is dropped
    until each counts.
    """
    left = list(cuts)
    while left:
        places = [0, *(cut.place for cut in left), len(runs)]
        times = []
        for start, end in pairwise(places):
            times.append(median(run.step_time_s for run in runs[start:end]))
        sizes = [abs(after / before - 1) for before, after in pairwise(times)]
        if min(sizes) >= SMALLEST:
            break
        left.pop(sizes.index(min(sizes)))
    return left


def _period(runs: Sequence[HistoryRun]) -> Period:
    rates = [run.tokens_per_s_per_gpu for run in runs if run.tokens_per_s_per_gpu]
    return Period(
        first=runs[0].launched,
        last=runs[-1].launched,
        runs=len(runs),
        step_time_s=median(run.step_time_s for run in runs),
        tokens_per_s_per_gpu=median(rates) if rates else None,
    )


def _change(cut: Cut, before: Sequence[HistoryRun], after: Sequence[HistoryRun]) -> Change:
    ratio = _period(after).step_time_s / _period(before).step_time_s
    return Change(
        launched=after[0].launched,
        run_id=after[0].run_id,
        percent=100 * (ratio - 1),
        chance=cut.chance,
        changed=tuple(changed_between(before, after)),
    )


def changed_between(before: Sequence[HistoryRun], after: Sequence[HistoryRun]) -> Iterator[Changed]:
    """The columns with values that most runs of one side have and few of the other, and the
    clock of the GPUs if it differs noticeably.
    """
    clocks = []
    for side in (before, after):
        known = [run.clock_mhz for run in side if run.clock_mhz]
        if known:
            clocks.append(median(known))
    if len(clocks) == 2 and abs(clocks[1] / clocks[0] - 1) >= NOTICEABLE:
        first, second = (f"{clock:.0f}" for clock in clocks)
        yield Changed(column=CLOCK, before=(first,), after=(second,))
    for column in before[0].facts:
        one = _shares(run.facts[column] for run in before)
        other = _shares(run.facts[column] for run in after)
        gone = tuple(value for value in one if one[value] - other.get(value, 0) >= MOST)
        new = tuple(value for value in other if other[value] - one.get(value, 0) >= MOST)
        if gone or new:
            yield Changed(column=column, before=gone, after=new)


def _shares(runs: Iterable[Sequence[str]]) -> dict[str, float]:
    """The share of the runs that have each value."""
    listed = list(runs)
    found = {}
    for value in dict.fromkeys(chain(*listed)):
        found[value] = sum(value in run for run in listed) / len(listed)
    return found
