"""Frameworks side by side: runs of one point, launched with different frameworks on the
same GPUs.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from benchrun.frameworks.registry import framework
from benchrun.judge.conditions import conditions
from benchrun.judge.measured import grouped
from benchrun.judge.ratio import ratio
from benchrun.judge.verdict import RunResult
from benchrun.measure.model import Metrics
from benchrun.rundir.artifacts import objects
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.runspec.spec import TrainingSpec

from .readable import brief, told_apart
from .repeats import median_of
from .runs import proxy, short_layout
from .table import Table

TITLES = (
    "recipe",
    "gpu",
    "precision",
    "num_gpus",
    "seq_length",
    "gbs",
    "layout",
    "framework",
    "options",
    "runs",
    "step_time_s",
    "speed",
    "speed_low",
    "speed_high",
    "tokens_per_s_per_gpu",
    "tflops_per_gpu_causal",
    "memory_gib",
    "tokens_per_joule",
    "loss",
    "profiled_step",
    "longer_than_the_fastest",
)
"""``framework`` names its release if several ran. ``runs``: those launched within a day
of its last one.

``options`` are those with which the framework was fastest, e.g. ``cuda_graphs=layers``,
except defaults and those that all frameworks of the point have.

``speed`` is relative to the fastest framework of the point, with its 95 % interval
``speed_low`` to ``speed_high``: that of repeats, which may be from several machines,
or, of single runs, that of their steps. ``memory_gib`` is the most that a GPU had in
use.

``profiled_step`` has the seconds of each part of a profiled step, and
``longer_than_the_fastest`` those parts that take longer than in the fastest framework
that has them, the longest first.
"""
PARTS = {
    "matmul": "matmul_s",
    "attention": "attention_s",
    "other kernels": "other_s",
    "communication": "communication_s",
    "nothing": "idle_s",
}
"""The parts of a step -> fields of a breakdown: kernels, communication that none hides,
no kernel at all.
"""
A_DAY = timedelta(days=1)
SMALLEST = 0.01
"""Share of the fastest framework's step by which a part must be longer to explain
anything.
"""
READ = {
    "framework": "framework",
    "options": "options",
    "runs": "runs",
    "step_time_s": "step time s",
    "tokens_per_s_per_gpu": "tokens/s/GPU",
    "speed": "speed",
    "speed_low": "low",
    "speed_high": "high",
    "memory_gib": "memory GiB",
}
"""Columns for readers, with their titles."""
POINT = TITLES.index("framework")
"""Columns before this one name the point."""


class ValidRun(NamedTuple):
    """A training with valid numbers, to stand beside others."""

    spec: TrainingSpec
    metrics: Metrics
    fingerprint: Fingerprint | None = None
    launched: datetime | None = None
    versions: Mapping[str, str] = {}

    @property
    def release(self) -> str | None:
        """The version of the framework; None if nothing says it."""
        return framework(self.spec.framework).release(self.versions)

    @property
    def parts(self) -> dict[str, float]:
        """Seconds of each part of a profiled step, by the worker's own profile or the
        run's traces; empty without.
        """
        step = self.metrics.breakdown or (self.fingerprint.breakdown if self.fingerprint else None)
        if not step:
            return {}
        return {name: getattr(step, field) for name, field in PARTS.items()}


def valid_runs(results: Sequence[RunResult]) -> list[ValidRun]:
    """The valid trainings among ``results``."""
    found = []
    for result in results:
        if result.numbers and isinstance(result.spec, TrainingSpec):
            found.append(
                ValidRun(
                    result.spec,
                    result.numbers,
                    result.fingerprint,
                    result.launched,
                    result.versions,
                )
            )
    return found


def side_by_side(runs: Sequence[ValidRun]) -> Table:
    """One row per framework of every point that at least two frameworks ran, the
    fastest first; medians of repeats.
    """
    points: dict[tuple[Any, ...], dict[str, list[ValidRun]]] = {}
    for run in runs:
        if run.metrics.step_time_s:
            points.setdefault(point_of(run.spec), {}).setdefault(run.spec.framework, []).append(run)
    rows = []
    for point, by_framework in points.items():
        if len(by_framework) < 2:
            continue
        fastest = itertools.chain.from_iterable(map(_fastest, by_framework.values()))
        ordered = sorted(fastest, key=_time)
        names = [repeats[0].spec.framework for repeats in ordered]
        shared = set.intersection(*(set(_options(repeats)) for repeats in ordered))
        parts = []
        for repeats in ordered:
            parts.append(next((run.parts for run in repeats if run.parts), {}))
        for repeats, why in zip(ordered, _reasons(parts), strict=True):
            release = None
            if names.count(repeats[0].spec.framework) > 1:
                release = repeats[0].release
            rows.append([*point, *_row(repeats, ordered[0], shared, release), *why])
    return Table(TITLES, rows)


def frameworks_table(table: Table) -> Table:
    """The side-by-side table in few columns, for readers."""
    names = []
    details = []
    for record in table.records():
        layout = brief(record["layout"])
        point = f"{record['recipe']}, {record['precision']}, {record['num_gpus']} x {record['gpu']}"
        names.append(point + f", batch {record['gbs']}" + f", {layout}" * bool(layout))
        details.append({"seq": f"sequence {record['seq_length']}", "layout": record["layout"]})
    rows = []
    for name, record in zip(told_apart(names, details), table.records(), strict=True):
        rows.append((name, *(_read(record[title]) for title in READ)))
    return Table(("point", *READ.values()), rows)


def _read(value: Any) -> Any:
    """A number with four digits, or whole with a comma."""
    if not isinstance(value, float):
        return value
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _fastest(runs: Sequence[ValidRun]) -> Iterator[list[ValidRun]]:
    """The latest repeats of each release of a framework, with the options with which it
    was fastest.

    Where some runs say their release, those that do not are left out.
    """
    named = [run for run in runs if run.release] or runs
    for release in grouped(named, lambda run: run.release):
        by_options = grouped(release, lambda run: _options([run]))
        yield min(map(_latest, by_options), key=_time)


def _latest(runs: Sequence[ValidRun]) -> list[ValidRun]:
    """Runs launched within a day of the last one: the program was another before.

    All, if no time is known.
    """
    newest = max((run.launched for run in runs if run.launched), default=None)
    found = []
    for run in runs:
        if not (newest and run.launched) or newest - run.launched < A_DAY:
            found.append(run)
    return found


def _options(repeats: Sequence[ValidRun]) -> tuple[str, ...]:
    return conditions(repeats[0].spec).options or ()


def _time(repeats: Sequence[ValidRun]) -> float:
    return median_of("step_time_s", [run.metrics for run in repeats]) or 0.0


def _reasons(parts: Sequence[Mapping[str, float]]) -> Iterator[tuple[str | None, str | None]]:
    """The last two cells of each framework, the fastest first; None if it has no
    profiled step.
    """
    first = next(filter(None, parts), {})
    for each in parts:
        longer = {}
        for name in each:
            if each is not first:
                longer[name] = each[name] - first[name]
        least = SMALLEST * sum(first.values())
        shown = sorted(
            (item for item in longer.items() if item[1] >= least), key=lambda item: -item[1]
        )
        yield _seconds(each.items()), _seconds(shown)


def _seconds(parts: Iterable[tuple[str, float]]) -> str | None:
    return ", ".join(f"{name} {seconds:.3g} s" for name, seconds in parts if seconds) or None


def point_of(spec: TrainingSpec) -> tuple[Any, ...]:
    """What runs of several frameworks have in common, to stand side by side."""
    return (
        proxy(spec),
        spec.gpu,
        spec.precision,
        spec.num_gpus,
        spec.seq_length,
        spec.gbs,
        short_layout(spec),
    )


def alike(results: Sequence[RunResult]) -> list[RunResult]:
    """Runs of each point, whose oldest comes first, that are alike: with the driver that most
    of its frameworks ran with, the newest of these (of a framework that never had it, all);
    of those, of each framework the runs with the newest versions. Runs without numbers
    stay, and those of unknown versions.
    """
    found = []
    for group in grouped(results, _work):
        frameworks: dict[frozenset[str], set[str]] = {}
        for run in group:
            if run.numbers:
                # The newest stands last.
                names = frameworks.pop(_drivers(run), set())
                frameworks[_drivers(run)] = {*names, run.spec.framework}
        chosen = max(reversed(frameworks), key=lambda each: len(frameworks[each]), default=None)
        for run in group:
            other = chosen is not None and run.spec.framework in frameworks[chosen]
            if not (other and run.numbers) or _drivers(run) == chosen:
                found.append(run)
    known = {run.spec.repeat_key(): run.versions for run in found if run.numbers and run.versions}
    same = []
    for run in found:
        newest = known.get(run.spec.repeat_key())
        if not (run.numbers and run.versions) or run.versions == newest:
            same.append(run)
    return same


def left_out(results: Sequence[RunResult]) -> str:
    """Sentence on the runs that `alike` leaves out."""
    number = len(results) - len(alike(results))
    if not number:
        return ""
    runs = f"{number} run{'s' * (number > 1)}"
    return f" Left out: {runs} with another driver or versions than the newest of their point."


def _work(run: RunResult) -> tuple[object, ...]:
    """Key that runs of a point share, whatever their framework."""
    if isinstance(run.spec, TrainingSpec):
        return (*point_of(run.spec), run.spec.cluster.name)
    return (run.spec.repeat_key(),)


def _drivers(run: RunResult) -> frozenset[str]:
    """The drivers of the nodes of a run."""
    nodes = objects(run.environment.get("nodes"))
    return frozenset(str(node["driver"]) for node in nodes if node.get("driver"))


def _row(
    repeats: Sequence[ValidRun], fastest: Sequence[ValidRun], shared: Set[str], release: str | None
) -> list[Any]:
    """Row from the framework to the losses; ``fastest``: the repeats with the shortest
    step of the point.
    """
    name = " ".join(filter(None, (repeats[0].spec.framework, release)))
    time = _time(repeats)
    metrics = [run.metrics for run in repeats]
    speed = ratio(metrics, [run.metrics for run in fastest])
    options = ", ".join(option for option in _options(repeats) if option not in shared)
    memory = []
    for run in metrics:
        if run.telemetry and run.telemetry.memory_gib:
            memory.append(run.telemetry.memory_gib)
    first = metrics[0].first_loss
    last = metrics[0].final_loss
    return [
        name,
        options or None,
        len(repeats),
        time,
        _time(fastest) / time,
        *((speed.low, speed.high) if speed and repeats is not fastest else (None, None)),
        *(median_of(name, metrics) for name in ("tokens_per_s_per_gpu", "tflops_per_gpu_causal")),
        max(memory, default=None),
        median_of("tokens_per_joule", metrics),
        None if first is None or last is None else f"{first:.4g} -> {last:.4g}",
    ]
