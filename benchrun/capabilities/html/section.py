"""One run for a reader: verdict, plots, the waterfall with its causes, numbers,
conditions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.explanation import explain
from benchrun.capabilities.explain.usecase import evidence
from benchrun.errors import NoNumberError
from benchrun.judge.verdict import RunResult
from benchrun.measure.samples import read
from benchrun.measure.setting import setting_of
from benchrun.rundir.artifacts import objects, trained_with
from benchrun.rundir.find import stamp_of
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.numbers import metrics_rows
from benchrun.show.plot import Plot
from benchrun.show.readable import point_name
from benchrun.show.table import Table
from benchrun.show.terminal import basis_rows, spec_rows
from benchrun.usecases.measurement import rows_of

from . import run_plots


@dataclass(frozen=True)
class RunSection:
    """One run for a reader."""

    run_id: str
    title: str
    judgement: str
    reason: str
    facts: tuple[tuple[str, str], ...]
    """The measured values, and the references that they were compared with."""
    conditions: tuple[tuple[str, str], ...]
    plots: tuple[Plot, ...]
    causes: Table | None = None
    """Explanation of a step's time; None if nothing explains it."""
    missing: tuple[str, ...] = ()
    """Measurements that would make the explanation sharper."""


def evidence_of(run: RunResult) -> Evidence | None:
    """The input of an explanation of ``run``; None if it is no training, has no
    measured step, or gives no number.
    """
    measurement = run.measurement
    if (
        measurement is None
        or measurement.metrics.step_time_s is None
        or not isinstance(run.spec, TrainingSpec)
    ):
        return None
    try:
        return evidence(measurement.run, measurement=measurement)
    except NoNumberError:
        return None


def run_section(
    result: RunResult, explained: Evidence | None, *, brief: bool = False
) -> RunSection:
    """The section on one run, with its `evidence_of`.

    ``brief``: only steps, waterfall and causes, for a page on many runs.
    """
    metrics = result.metrics
    verdict = result.verdict
    measurement = result.measurement
    explanation = None
    if explained:
        explanation = explain(explained)
    drawn: list[Plot] = []
    if metrics is not None and measurement is not None:
        drawn += run_plots.step_plots(rows_of(measurement.log, setting_of(result.spec)), metrics)
    if brief:
        drawn = drawn[:1]
    else:
        if metrics:
            drawn += run_plots.breakdown_plots(metrics)
        files = measurement.run.telemetry() if measurement else {}
        drawn += run_plots.telemetry_plots({host: read(text) for host, text in files.items()})
    missing: Sequence[str] = ()
    causes = None
    if explanation:
        drawn.append(run_plots.waterfall_plot(explanation))
        missing = explanation.missing
        causes = None
        if explanation.causes:
            causes = run_plots.causes_table(explanation)
    if brief:
        missing = (f"benchrun report {result.run_id} --output run.html draws more of it",)
    rows = basis_rows(verdict) if verdict else []
    if metrics:
        rows += metrics_rows(metrics)
    return RunSection(
        run_id=result.run_id,
        title=point_name(result),
        judgement=result.judgement,
        reason=verdict.reason if verdict else "benchrun compare judges it",
        facts=tuple((name.strip(), text) for name, text in rows),
        conditions=(
            *_launched(result.run_id),
            *spec_rows(result.spec),
            *_environment(result.environment),
        ),
        plots=tuple(drawn),
        causes=causes,
        missing=tuple(missing),
    )


def _launched(run_id: str) -> Iterator[tuple[str, str]]:
    """Time of the run's launch."""
    stamp = stamp_of(run_id)
    if stamp:
        yield "launched", f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]} {stamp[9:11]}:{stamp[11:13]} UTC"


def _environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Versions and nodes."""
    versions = {
        **trained_with(environment),
        "benchrun": environment.get("commit") or environment.get("benchrun"),
    }
    known = [f"{name} {version}" for name, version in versions.items() if version]
    if known:
        yield "versions", ", ".join(known)
    nodes = objects(environment.get("nodes"))
    if nodes:
        yield "nodes", ", ".join(str(node.get("host")) for node in nodes)
        drivers = dict.fromkeys(str(node["driver"]) for node in nodes if node.get("driver"))
        if drivers:
            yield "driver", ", ".join(drivers)
