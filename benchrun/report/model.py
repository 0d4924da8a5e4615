"""A report as data: the one source of terminal, Markdown, CSV, JSON, JUnit and HTML."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun.comparison.measured import grouped
from benchrun.comparison.references import load_references
from benchrun.comparison.verdict import RunResult
from benchrun.metrics.registry import tabled
from benchrun.metrics.rows import Measured
from benchrun.metrics.telemetry import Samples
from benchrun.report import figures
from benchrun.report.figure import Figure
from benchrun.report.frameworks import rows_of, side_by_side
from benchrun.report.runs import identified, proxy, ratio_line, table
from benchrun.report.scaling import curves, fsdp_over_3d
from benchrun.report.table import Table
from benchrun.report.terminal import basis_rows, metrics_rows, spec_rows


@dataclass(frozen=True)
class RunData:
    """One run, as far as it was measured."""

    result: RunResult
    rows: Measured | None
    """Its step rows; None without a log."""
    environment: Mapping[str, Any]
    """env.json; empty where it is missing."""
    telemetry: Mapping[str, Mapping[int, Samples]]
    """Samples of each host's GPUs."""


@dataclass(frozen=True)
class RunSection:
    """One run for a reader."""

    run_id: str
    title: str
    judgement: str
    reason: str
    facts: tuple[tuple[str, str], ...]
    """What was measured, and what it was compared with."""
    conditions: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class ReportModel:
    """Everything that a report shows."""

    points: Table
    """One row a point, its repeats together: every column, for programs."""
    readable: Table
    """The same rows in few columns, for readers; a metric that no run has is left out."""
    frameworks: Table
    """Frameworks of one point side by side; no rows where no two ran the same point."""
    ratios: tuple[str, ...]
    """Sentences on FSDP over 3D parallelism."""
    overview: tuple[Figure, ...]
    runs: tuple[RunSection, ...]
    results: tuple[RunResult, ...]

    def rows(self, by: str) -> Table:
        """The table for programs: of points, or of frameworks side by side."""
        return self.frameworks if by == "framework" else self.points


def report_model(runs: Sequence[RunData], history: Sequence[Figure] = ()) -> ReportModel:
    """The report on ``runs``, in their order; ``history`` is plots over time."""
    results = [run.result for run in runs]
    frameworks = side_by_side(rows_of(results))
    ratios = fsdp_over_3d(results, load_references())
    overview = (*_overview(results, frameworks), *history)
    return ReportModel(
        identified(results),
        readable(results),
        frameworks,
        tuple(map(ratio_line, ratios)),
        overview,
        tuple(map(_section, runs)),
        tuple(results),
    )


READ = ("step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu_causal", "mfu_causal_pct", "rank_spread_percent")
"""Metrics that the table for readers has."""


def readable(results: Sequence[RunResult]) -> Table:
    """One row a point in at most nine columns."""
    records = table(results).records()
    names = {metric.key: metric.title or metric.key for metric in tabled() if metric.key in READ}
    shown = {key: name for key, name in names.items() if any(record[key] is not None for record in records)}
    points = grouped(results, lambda result: result.spec.repeat_key())
    rows = [
        (
            *(point_name(point[0]), _brief(record["layout"]), record["runs"]),
            *(METRICS_BY_KEY[key].text(record[key], "") for key in shown),
            ": ".join(filter(None, (record["verdict"].replace("_", " "), record["limits"].replace("_", " ")))),
        )
        for point, record in zip(points, records, strict=True)
    ]
    return Table(("point", "layout", "runs", *shown.values(), "verdict"), rows)


def _brief(layout: str) -> str:
    """A layout without the degrees that are 1."""
    return re.sub(r"\b[a-z]p1 ?", "", layout).strip()


METRICS_BY_KEY = {metric.key: metric for metric in tabled()}


def _overview(results: Sequence[RunResult], frameworks: Table) -> Iterator[Figure]:
    points = grouped(results, lambda result: result.spec.repeat_key())
    compared = [
        (point_name(point[0]), check)
        for point in points
        for check in (point[-1].verdict.checks if point[-1].verdict else ())
    ]
    if figure := figures.published_figure(compared):
        yield figure
    yield from figures.frameworks_figures(frameworks)
    valid = grouped(rows_of(results), lambda run: run.spec.repeat_key())
    yield from figures.scaling_figures(curves(valid))


def point_name(result: RunResult) -> str:
    """Recipe, precision, GPUs and framework."""
    spec = result.spec
    return f"{proxy(spec)}, {spec.precision}, {spec.num_gpus} x {spec.gpu}, {spec.framework}"


def _section(run: RunData) -> RunSection:
    result, metrics = run.result, run.result.metrics
    drawn: list[Figure] = []
    if metrics is not None and run.rows is not None:
        drawn += figures.step_figures(run.rows, metrics)
        drawn += [figure for figure in (figures.breakdown_figure(metrics),) if figure]
    drawn += figures.telemetry_figures(run.telemetry)
    verdict = result.verdict
    facts = [*(basis_rows(verdict) if verdict else ()), *(metrics_rows(metrics) if metrics else ())]
    return RunSection(
        result.run_id,
        point_name(result),
        result.judgement,
        verdict.reason if verdict else "benchrun compare judges it",
        tuple((name.strip(), text) for name, text in facts),
        (*_launched(result.run_id), *spec_rows(result.spec), *_environment(run.environment)),
        tuple(drawn),
    )


def _launched(run_id: str) -> Iterator[tuple[str, str]]:
    """When the run was launched: the time in its id."""
    if stamp := re.search(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)\d\dZ", run_id):
        year, month, day, hour, minute = stamp.groups()
        yield "launched", f"{year}-{month}-{day} {hour}:{minute} UTC"


def _environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Versions and nodes."""
    versions = {
        **(environment.get("worker") or {}),
        "benchrun": environment.get("commit") or environment.get("benchrun"),
    }
    if text := ", ".join(f"{name} {version}" for name, version in versions.items() if version):
        yield "versions", text
    nodes = [node for node in environment.get("nodes") or () if isinstance(node, Mapping)]
    if nodes:
        yield "nodes", ", ".join(str(node.get("host")) for node in nodes)
        drivers = dict.fromkeys(str(node["driver"]) for node in nodes if node.get("driver"))
        if drivers:
            yield "driver", ", ".join(drivers)
