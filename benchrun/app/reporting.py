"""The report on runs: everything that is measured of them, read from their files."""

from collections.abc import Sequence
from datetime import datetime, timezone

from benchrun.app.measurement import measure_run, result_of, rows_of
from benchrun.comparison.verdict import RunResult, Verdict
from benchrun.launch.endings import recorded
from benchrun.launch.rundir import RunDir
from benchrun.metrics.setting import setting_of
from benchrun.metrics.telemetry import read
from benchrun.report.history import Past, history_of
from benchrun.report.history_plot import history_figures
from benchrun.report.model import ReportModel, RunData, report_model
from benchrun.spec.artifacts import ENV, VERDICT


def run_data(run: RunDir, verdict: Verdict | None = None) -> RunData:
    """One run with its steps and its telemetry; ``verdict`` replaces the stored one.

    UserError for a damaged file. Nothing is written.
    """
    verdict, end = verdict or run.document(VERDICT, Verdict), recorded(run)
    measurement = measure_run(run, verdict.warmup if verdict else None)
    result = RunResult(
        run.run_id, run.spec, measurement.metrics if measurement else None, verdict, end.ending.value if end else None
    )
    rows = rows_of(measurement.log, setting_of(run.spec)) if measurement else None
    telemetry = {host: read(text) for host, text in run.telemetry().items()}
    return RunData(result, rows, run.read_json(ENV) or {}, telemetry)


def past_run(run: RunDir) -> Past:
    """One run, for a history; it is measured anew from its log. UserError for a damaged file."""
    created = run.time_of("created")
    launched = None if created is None else datetime.fromtimestamp(created, timezone.utc)
    return Past(result_of(run), run.read_json(ENV) or {}, launched)


def report_on(runs: Sequence[RunData]) -> ReportModel:
    """The report on runs that `run_data` read."""
    history = history_of([Past(run.result, run.environment) for run in runs])
    return report_model(runs, history=tuple(history_figures(history)))
