"""Measuring a run from its files, storing the measurement beside them, and keeping it without names and paths."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from benchrun.compare.verdict import RunResult, Verdict
from benchrun.errors import UserError
from benchrun.frameworks.logs import parse_log
from benchrun.launch.endings import recorded
from benchrun.launch.keep import kept_files, kept_name, write_kept
from benchrun.launch.rundir import RunDir
from benchrun.metrics.bound import Bound, bound
from benchrun.metrics.model import Measurement, Metrics
from benchrun.metrics.setting import setting_of
from benchrun.metrics.summary import measure
from benchrun.metrics.telemetry import Sampled, sampled
from benchrun.parse import Log
from benchrun.report.table import step_lines
from benchrun.spec import artifacts
from benchrun.spec.runspec import TrainingSpec


@dataclass(frozen=True)
class RunMeasurement:
    """One run's log and its numbers."""

    run: RunDir
    log: Log
    metrics: Metrics
    samples: Sampled | None
    """State of the GPUs; None where nothing was sampled."""


def measure_run(run: RunDir, warmup: int | None = None) -> RunMeasurement | None:
    """Measure one run from its log and the files beside it; None without a log. Nothing is written.

    The first ``warmup`` rows are dropped (5 or a tenth of them where None). UserError for a damaged file.
    """
    if not run.logs:
        return None
    log = parse_log(*run.logs)
    metrics = measure(log, setting_of(run.spec), planned_steps=run.spec.planned_steps, warmup=warmup)
    samples = samples_of(run, log, metrics, run.spec.num_gpus)
    beside = {
        "telemetry": samples.over_all if samples else None,
        "bound": _bound(run, metrics),
        "breakdown": run.document(artifacts.BREAKDOWN, artifacts.Breakdown),
    }
    return RunMeasurement(run, log, metrics.model_copy(update=beside), samples)


def store_measurement(measurement: RunMeasurement) -> None:
    """Write steps.jsonl, telemetry.json and metrics.json into the run, where that is allowed."""
    run = measurement.run
    if not run.writable:
        return
    run.write_text(artifacts.STEPS, _steps(measurement.log))
    if measurement.samples:
        run.write_json(artifacts.TELEMETRY_SUMMARY, measurement.samples.model_dump(mode="json"))
    run.write_json(artifacts.METRICS, measurement.metrics.model_dump(mode="json"))


def _steps(log: Log) -> str:
    """The rows of a log, one JSON object per line."""
    return "".join(f"{line}\n" for line in step_lines(log.distinct, "jsonl"))


def samples_of(run: RunDir, log: Log, measured: Measurement, num_gpus: int | None) -> Sampled | None:
    """State of the GPUs in the window of ``measured``; None where nothing was sampled."""
    files, step, window = run.telemetry(), measured.step_time_s, measured.window
    rate = measured.tokens_per_s_per_gpu.median
    if not (files and step and window and rate and num_gpus):
        return None
    steps = window.last_step - window.first_step + 1
    # Tokens of a step are its rate times its time; the product of their means would be too large where steps differ.
    tokens = rate * step.median * num_gpus * steps
    return sampled(files, num_gpus=num_gpus, seconds=step.mean * steps, tokens=tokens, until=log.facts.ended_at)


def _bound(run: RunDir, metrics: Metrics) -> Bound | None:
    """The step beside the ceilings that the run measured before it."""
    ceilings, spec = run.document(artifacts.CEILINGS, artifacts.Ceilings), run.spec
    if ceilings is None or metrics.step_time_s is None or not isinstance(spec, TrainingSpec):
        return None
    return bound(ceilings, spec, metrics.step_time_s.median)


def result_of(run: RunDir) -> RunResult:
    """Measurement, recorded verdict and recorded ending of one run; it is measured anew from its log."""
    verdict = run.document(artifacts.VERDICT, Verdict)
    measurement = measure_run(run, verdict.warmup if verdict else None)
    end = recorded(run)
    metrics = measurement.metrics if measurement else None
    return RunResult(run.run_id, run.spec, metrics, verdict, end.ending.value if end else None)


def keep(run: RunDir, folder: Path) -> RunDir:
    """Write a judged run's measurement into ``folder``, redacted; returns the redacted run.

    UserError where the run has no valid verdict, where it is kept already, and where the redacted files would give
    other numbers.
    """
    verdict = run.document(artifacts.VERDICT, Verdict)
    if verdict is None or verdict.verdict == "invalid_run":
        why = "was not judged" if verdict is None else f"measured nothing: {verdict.reason}"
        raise UserError(f"{run.run_id} {why}", hint=f"benchrun compare {run.run_id}")
    measurement = measure_run(run, verdict.warmup)
    if measurement:
        store_measurement(measurement)
    redacted = write_kept(folder, kept_name(run), kept_files(run))
    again = measure_run(redacted, verdict.warmup)
    if (again and again.metrics) != (measurement and measurement.metrics):
        shutil.rmtree(redacted.path)
        raise UserError(f"{run.run_id} was not kept: without the site's names and paths its log gives other numbers")
    if again:
        (redacted.path / artifacts.STEPS).write_text(_steps(again.log))
    return redacted
