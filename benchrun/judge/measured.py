"""Our own measurements in results/measured: references if none is published."""

import functools
import json
import statistics
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from benchrun import kept, paths
from benchrun.errors import UserError, reading
from benchrun.frameworks.registry import framework
from benchrun.logs import Log, Step
from benchrun.logs.rows import WRITTEN
from benchrun.measure.model import Metrics
from benchrun.rundir.artifacts import (
    CEILINGS,
    ENV,
    FINGERPRINT,
    METRICS,
    SPEC,
    STEPS,
    Ceilings,
    objects,
    trained_with,
)
from benchrun.rundir.find import KEPT, day_of, stamp_of
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.runspec.spec import RunSpec

from .conditions import Conditions, besides_recipe, conditions, with_machine
from .references import Reference, Source

T = TypeVar("T")


class _OfRun(Protocol):
    @property
    def spec(self) -> RunSpec: ...


R = TypeVar("R", bound=_OfRun)
COMPARED_ROWS = 4096
"""Rows by which a copy of a log is recognised."""
OF_THE_SYSTEM = frozenset({"python", "cuda", "nccl", "peft", "accelerate"})
"""Versions in env.json that a description of the machine leaves out."""


@dataclass(frozen=True)
class MeasuredRun:
    """One kept run, judged valid when it was kept."""

    name: str
    spec: RunSpec
    metrics: Metrics
    env: dict[str, Any]
    ceilings: Ceilings | None
    folder: Path
    """The path that names it; `benchrun.kept` reads its files, packed or not."""
    log: Log | None = None
    """Log of a run that is not kept; it has the rows of steps.jsonl."""

    @functools.cached_property
    def fingerprint(self) -> Fingerprint | None:
        """Fingerprint of a profiled run."""
        return _document(self.folder / FINGERPRINT, Fingerprint.model_validate_json)

    @property
    def launched(self) -> str:
        """The time in its name; empty if there is none."""
        return stamp_of(self.name)

    @property
    def date(self) -> str:
        """The day it was launched."""
        return day_of(self.name)

    @functools.cached_property
    def steps(self) -> frozenset[tuple[float | None, ...]]:
        """The first rows of its log."""
        if self.log is not None:
            return _rows(self.log.distinct)
        lines = _needed(self.folder / STEPS, bytes.splitlines)
        return _rows(Step(**json.loads(line)) for line in lines)

    @property
    def losses(self) -> list[float]:
        """The loss of each step that its log gives one for, in order."""
        lines = _needed(self.folder / STEPS, bytes.splitlines)
        chosen = []
        for line in lines:
            if (loss := json.loads(line)["loss"]) is not None:
                chosen.append(loss)
        return chosen

    @property
    def machine(self) -> str:
        """GPU and driver as the node named them, and the versions of what trained."""
        node = next(iter(objects(self.env.get("nodes"))), {})
        gpus = objects(node.get("gpus")) or [{}]
        gpu = gpus[0].get("name") or node.get("cpu") or self.spec.gpu
        driver = f", driver {node['driver']}" if node.get("driver") else ""
        packages = trained_with(self.env)
        named = sorted(
            (name for name in packages if name not in OF_THE_SYSTEM),
            key=lambda name: name == "torch",
        )
        versions = "".join(f", {name} {packages[name]}" for name in named)
        return f"{gpu}{driver}{versions}"


@functools.cache
def load_measured(folder: Path | None = None) -> tuple[MeasuredRun, ...]:
    """Every training run kept in ``folder`` (benchrun's own by default), oldest first.
    UserError: a file is damaged.

    Kept runs of other workloads stand in reports; nothing is compared with them.
    """
    runs = list(filter(None, map(_read, kept.runs(folder or paths.MEASURED))))
    return tuple(sorted(runs, key=lambda run: (run.launched, run.name)))


def _read(folder: Path) -> MeasuredRun | None:
    """The run called ``folder``; None for one of another workload than training."""
    spec = _needed(folder / SPEC, RunSpec.model_validate_json)
    if not spec.stepped:
        return None
    metrics = _needed(folder / METRICS, Metrics.model_validate_json)
    env = _needed(folder / ENV, json.loads)
    ceilings = _document(folder / CEILINGS, Ceilings.model_validate_json)
    return MeasuredRun(folder.name, spec, metrics, env, ceilings, folder)


def _needed(file: Path, read: Callable[[bytes], T]) -> T:
    document = _document(file, read)
    if document is None:
        raise UserError("cannot be read: No such file or directory", where=file)
    return document


def _document(file: Path, read: Callable[[bytes], T]) -> T | None:
    """A document of a kept run; None if it has none."""
    with reading(file):
        content = kept.read(file)
    if content is None:
        return None
    try:
        return read(content)
    except UserError as error:
        raise UserError(error.message, hint=error.hint, where=file) from None
    except ValueError as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        hint = "benchrun compare on the directory measures it anew"
        raise UserError(f"not what benchrun writes: {first}", where=file, hint=hint) from None


def repeats(runs: Sequence[MeasuredRun]) -> list[list[MeasuredRun]]:
    """Group the runs of one point, in the order given; the number of steps does not
    part them.
    """
    return grouped(runs, lambda run: (run.spec.recipe, run.spec.step_identity()))


def by_point(runs: Iterable[R]) -> list[list[R]]:
    """The repeats of each point together, in the order given: runs that measure the
    same, on one site.
    """
    return grouped(runs, lambda run: run.spec.repeat_key())


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """The items with one key together, in the order given."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def copies(logs: Sequence[Log], runs: Sequence[MeasuredRun], own: Conditions) -> set[str]:
    """Names of the kept ``runs`` under our conditions whose steps equal those of one of
    ``logs``.
    """
    same = [run for run in runs if besides_recipe(conditions(run.spec)) == besides_recipe(own)]
    judged = [_rows(log.distinct) for log in logs] if same else []
    pairs = ((run, rows) for run in same for rows in judged)
    # More than half of the shorter one's rows: times and losses never agree by chance.
    chosen = set()
    for run, rows in pairs:
        if 2 * len(rows & run.steps) > min(len(rows), len(run.steps)):
            chosen.add(run.name)
    return chosen


def _rows(steps: Iterable[Step]) -> frozenset[tuple[float | None, ...]]:
    """The first rows of a log as a file of steps has them, without where they stood."""
    rows = (row._replace(line=0, segment=0) for row in islice(steps, COMPARED_ROWS))
    return frozenset(row[: len(WRITTEN)] for row in rows)


def measured_references(
    runs: Sequence[MeasuredRun], without: Collection[str] = (), baseline: str | None = None
) -> tuple[Reference, ...]:
    """One reference per point: the median step time of its repeats; none of a profiled
    run, nor of those named.

    ``baseline`` is what the user named; None for the runs that benchrun keeps.
    """
    counted = []
    for run in runs:
        if run.name not in without and run.spec.profiler == "none":
            counted.append(run)
    timed = [run for run in counted if run.metrics.step_time_s]
    return tuple(_reference(group, baseline) for group in repeats(timed))


def _reference(group: Sequence[MeasuredRun], baseline: str | None) -> Reference:
    newest = max(group, key=lambda run: run.date)
    times = []
    for run in group:
        if run.metrics.step_time_s:
            times.append(run.metrics.step_time_s.median)
    version = framework(newest.spec.framework).release(trained_with(newest.env))
    count = f"{len(group)} run{'s' if len(group) > 1 else ''}"
    source, place = ("own run of", f"results/measured/{newest.name}")
    if baseline is not None:
        source, place = (f"baseline {baseline}", newest.name)
    return Reference(
        id=newest.name if baseline is not None else f"{KEPT}{newest.name}",
        metric="step_time_s",
        value=statistics.median(times),
        better="lower",
        key=with_machine(conditions(newest.spec), newest.env).model_copy(
            update={"framework_version": version}
        ),
        source=Source(
            who=source,
            where=f"{place}, {count}, {newest.machine}",
            date=newest.date,
        ),
        flags=("measured" if baseline is None else "baseline",),
    )
