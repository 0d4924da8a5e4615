"""The report on runs: everything that is measured of them, read from their files."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.usecase import evidence
from benchrun.capabilities.history.plot import history_plots
from benchrun.capabilities.history.series import Past, history_of
from benchrun.errors import NoNumberError
from benchrun.judge.verdict import Verdict
from benchrun.measure.samples import read
from benchrun.measure.setting import setting_of
from benchrun.rundir.artifacts import ENV
from benchrun.rundir.folder import RunDir
from benchrun.runspec.spec import TrainingSpec
from benchrun.show.data import RunData
from benchrun.show.model import ReportModel, report_model
from benchrun.usecases.measurement import RunMeasurement, fingerprint_if_readable, measured_result, result_of, rows_of
from benchrun.usecases.scaling import measured_scaling


def run_data(run: RunDir, verdict: Verdict | None = None, *, drawn: bool = True) -> RunData:
    """One run; if it is ``drawn`` with its steps, its telemetry and what explains it.

    ``verdict`` replaces the stored one. UserError for a damaged file. Nothing is written.
    """
    measurement, result = measured_result(run, verdict)
    result = replace(result, fingerprint=fingerprint_if_readable(run))
    environment = run.read_json(ENV) or {}
    if not drawn:
        return RunData(result, environment=environment)
    rows = rows_of(measurement.log, setting_of(run.spec)) if measurement else None
    telemetry = {host: read(text) for host, text in run.telemetry().items()}
    return RunData(result, rows, environment, telemetry, _evidence(run, measurement))


def _evidence(run: RunDir, measurement: RunMeasurement | None) -> Evidence | None:
    """Evidence for the explanation of a run; None if it is no training, has no measured step, or
    gives no number.
    """
    if measurement is None or measurement.metrics.step_time_s is None or not isinstance(run.spec, TrainingSpec):
        return None
    try:
        return evidence(run, measurement=measurement)
    except NoNumberError:
        return None


def past_run(run: RunDir) -> Past:
    """One run, for a history; it is measured anew from its log. UserError for a damaged file."""
    created = run.time_of("created")
    launched = None if created is None else datetime.fromtimestamp(created, timezone.utc)
    return Past(result_of(run), run.read_json(ENV) or {}, launched)


def report_on(runs: Sequence[RunData], *, drawn: bool = True, scaling: bool = True) -> ReportModel:
    """The report on runs that `run_data` read.

    With their curves over the number of GPUs if ``scaling``, and their history if it is ``drawn``.
    """
    curves = measured_scaling([run.result for run in runs]) if scaling else ()
    history = history_plots(history_of([Past(run.result, run.environment) for run in runs])) if drawn else ()
    return report_model(runs, curves, tuple(history))
