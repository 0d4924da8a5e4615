"""One run for a reader: verdict, plots, the waterfall with its causes, numbers, conditions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchrun.capabilities.explain.explanation import explain
from benchrun.capabilities.html import run_plots
from benchrun.rundir.artifacts import objects, trained_with
from benchrun.rundir.folder import stamp_of
from benchrun.show.data import RunData, RunSection
from benchrun.show.plot import Plot
from benchrun.show.readable import point_name
from benchrun.show.terminal import basis_rows, metrics_rows, spec_rows


def run_section(run: RunData, *, brief: bool = False) -> RunSection:
    """The section on one run; ``brief``: only steps, waterfall and causes, for a page on many runs."""
    result, metrics, verdict = run.result, run.result.metrics, run.result.verdict
    explanation = explain(run.evidence) if run.evidence else None
    drawn: list[Plot] = []
    if metrics is not None and run.rows is not None:
        drawn += run_plots.step_plots(run.rows, metrics)
    if brief:
        drawn = drawn[:1]
    else:
        drawn += run_plots.breakdown_plots(metrics) if metrics else ()
        drawn += run_plots.telemetry_plots(run.telemetry)
    missing: Sequence[str] = ()
    causes = None
    if explanation:
        drawn.append(run_plots.waterfall_plot(explanation))
        missing = explanation.missing
        causes = run_plots.causes_table(explanation) if explanation.causes else None
    if brief:
        missing = (f"benchrun report {result.run_id} --output run.html draws more of it",)
    rows = basis_rows(verdict) if verdict else []
    rows += metrics_rows(metrics) if metrics else []
    return RunSection(
        run_id=result.run_id,
        title=point_name(result),
        judgement=result.judgement,
        reason=verdict.reason if verdict else "benchrun compare judges it",
        facts=tuple((name.strip(), text) for name, text in rows),
        conditions=(*_launched(result.run_id), *spec_rows(result.spec), *_environment(run.environment)),
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
