"""Measuring a run from its files, and storing the measurement beside them."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.app.runs import document_of
from benchrun.frameworks.logs import ended_at, parse_log
from benchrun.launch.rundir import RunDir
from benchrun.metrics.bound import Bound, bound
from benchrun.metrics.measure import measure
from benchrun.metrics.model import Measurement, Metrics
from benchrun.metrics.setting import setting_of
from benchrun.metrics.telemetry import Sampled, sampled
from benchrun.parse import Log
from benchrun.report.steps import lines
from benchrun.spec.artifacts import BREAKDOWN, CEILINGS, METRICS, STEPS, TELEMETRY_SUMMARY, Breakdown, Ceilings


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
    metrics = measure(log, setting_of(run.spec), planned_steps=run.spec.training.steps, warmup=warmup)
    samples = samples_of(run, metrics, run.spec.num_gpus)
    beside = {
        "telemetry": samples.over_all if samples else None,
        "bound": _bound(run, metrics),
        "breakdown": document_of(run, BREAKDOWN, Breakdown),
    }
    return RunMeasurement(run, log, metrics.model_copy(update=beside), samples)


def store_measurement(measurement: RunMeasurement) -> None:
    """Write steps.jsonl, telemetry.json and metrics.json into the run, where that is allowed."""
    run = measurement.run
    if not run.writable:
        return
    run.write_text(STEPS, "".join(f"{line}\n" for line in lines(measurement.log.distinct, "jsonl")))
    if measurement.samples:
        run.write_json(TELEMETRY_SUMMARY, measurement.samples.model_dump(mode="json"))
    run.write_json(METRICS, measurement.metrics.model_dump(mode="json"))


def samples_of(run: RunDir, measured: Measurement, num_gpus: int | None) -> Sampled | None:
    """State of the GPUs in the window of ``measured``; None where nothing was sampled."""
    files, step, window = run.telemetry(), measured.step_time_s, measured.window
    rate = measured.tokens_per_s_per_gpu.median
    if not (files and step and window and rate and num_gpus):
        return None
    steps = window.last_step - window.first_step + 1
    # Tokens of a step are its rate times its time; the product of their means would be too large where steps differ.
    tokens = rate * step.median * num_gpus * steps
    return sampled(files, num_gpus=num_gpus, seconds=step.mean * steps, tokens=tokens, until=ended_at(*run.logs))


def _bound(run: RunDir, metrics: Metrics) -> Bound | None:
    """The step beside the ceilings that the run measured before it."""
    ceilings, spec = document_of(run, CEILINGS, Ceilings), run.spec
    if ceilings is None or metrics.step_time_s is None:
        return None
    return bound(
        ceilings,
        model=spec.model,
        seq_length=spec.seq_length,
        sequences_per_gpu=spec.gbs / spec.num_gpus,
        num_microbatches=spec.num_microbatches,
        precision=spec.precision,
        fp8_attention=spec.training.fp8.dot_product_attention,
        task=spec.task,
        step_time_s=metrics.step_time_s.median,
    )
