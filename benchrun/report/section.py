"""One run for a reader: verdict, plots, the waterfall with its causes, numbers, conditions."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchrun.explain.explanation import explain
from benchrun.launch.rundir import stamp_of
from benchrun.report import run_plots
from benchrun.report.data import RunData, RunSection
from benchrun.report.plot import Plot
from benchrun.report.readable import point_name
from benchrun.report.terminal import basis_rows, metrics_rows, spec_rows
from benchrun.spec.artifacts import objects, trained_with


def run_section(run: RunData, *, brief: bool = False) -> RunSection:
    """The section on one run; ``brief``: only steps, waterfall and causes, for a page on many runs."""
    result, metrics, verdict = run.result, run.result.metrics, run.result.verdict
    explanation = explain(run.evidence) if run.evidence else None
    drawn: list[Plot] = []
    if metrics is not None and run.rows is not None:
        drawn += [each for each in run_plots.step_plots(run.rows, metrics) if not (brief and each.kind == "histogram")]
    if metrics is not None and not brief and (breakdown := run_plots.breakdown_plot(metrics)):
        drawn.append(breakdown)
    drawn += () if brief else run_plots.telemetry_plots(run.telemetry)
    if explanation:
        drawn.append(run_plots.waterfall_plot(explanation))
    return RunSection(
        run_id=result.run_id,
        title=point_name(result),
        judgement=result.judgement,
        reason=verdict.reason if verdict else "benchrun compare judges it",
        facts=tuple(
            (name.strip(), text)
            for name, text in [
                *(basis_rows(verdict) if verdict else ()),
                *(metrics_rows(metrics) if metrics else ()),
            ]
        ),
        conditions=(*_launched(result.run_id), *spec_rows(result.spec), *_environment(run.environment)),
        plots=tuple(drawn),
        causes=run_plots.causes_table(explanation) if explanation and explanation.causes else None,
        missing=(f"benchrun report {result.run_id} --output run.html draws more of it",)
        if brief
        else tuple(explanation.missing if explanation else ()),
    )


def _launched(run_id: str) -> Iterator[tuple[str, str]]:
    """When the run was launched."""
    if stamp := stamp_of(run_id):
        yield "launched", f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]} {stamp[9:11]}:{stamp[11:13]} UTC"


def _environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Versions and nodes."""
    versions = {
        **trained_with(environment),
        "benchrun": environment.get("commit") or environment.get("benchrun"),
    }
    if text := ", ".join(f"{name} {version}" for name, version in versions.items() if version):
        yield "versions", text
    nodes = objects(environment.get("nodes"))
    if nodes:
        yield "nodes", ", ".join(str(node.get("host")) for node in nodes)
        drivers = dict.fromkeys(str(node["driver"]) for node in nodes if node.get("driver"))
        if drivers:
            yield "driver", ", ".join(drivers)
