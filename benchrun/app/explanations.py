"""Why a run takes as long as it does, and two runs beside each other."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchrun import paths
from benchrun.app.measurement import RunMeasurement, measure_run, rows_of
from benchrun.app.traces import fingerprint_of
from benchrun.compare.references import Reference, load_references
from benchrun.errors import UserError
from benchrun.explain.difference import difference
from benchrun.explain.evidence import Evidence
from benchrun.explain.explanation import explain
from benchrun.explain.model import Against, Difference, Explanation
from benchrun.launch.rundir import RunDir, open_run, unpacked
from benchrun.metrics.registry import METRICS, OURS
from benchrun.metrics.setting import setting_of
from benchrun.spec import artifacts
from benchrun.spec.runspec import TrainingSpec
from benchrun.trace.model import Fingerprint
from benchrun.trace.read import files_of

PROFILE = "profile"
"""The folder of a run's traces."""
MEASURED = "measured:"
"""The ids of our own kept runs begin so."""
SAVING = (b"saving checkpoint", b"successfully saved checkpoint", b"Saving model checkpoint", b"checkpoint saved")


def explain_run(run: RunDir, traces: Sequence[Path] = (), against: str | None = None) -> Explanation:
    """Where the time of a step of ``run`` goes, and why.

    ``traces``: files or directories of the run's profile, where they do not lie in its folder ``profile``. ``against``:
    another run, or the id of a published number. UserError for a run without measured steps or of another workload,
    and for an ``against`` that does not exist or has no speed.
    """
    own = evidence(run, traces)
    if against is None:
        return explain(own)
    if reference := next((entry for entry in load_references() if entry.id == against), None):
        return explain(own, _published(run, own, reference))
    kept = paths.MEASURED / against.removeprefix(MEASURED)
    other = evidence(open_run(str(kept) if against.startswith(MEASURED) else against))
    tokens = other.spec.tokens_per_step / other.spec.num_gpus
    step = other.step_s * own.spec.tokens_per_step / own.spec.num_gpus / tokens
    beside = Against(name=other.name, step_time_s=step, ratio=own.step_s / step)
    return explain(own, beside, other if _same_work(own.spec, other.spec) else None)


def differ(a: RunDir, b: RunDir) -> Difference:
    """The second run against the first. UserError for a run without measured steps."""
    return difference(evidence(a), evidence(b))


def evidence(run: RunDir, traces: Sequence[Path] = ()) -> Evidence:
    """Everything that the files of ``run`` hold."""
    spec = run.spec
    if not isinstance(spec, TrainingSpec):
        raise UserError(f"{run.run_id} is no training, and has no steps to explain")
    measurement = measure_run(run)
    times, steps = _steps(measurement, spec)
    if not len(times):
        raise UserError(f"{run.run_id} has no measured step", hint=f"benchrun status {run.run_id}")
    assert measurement is not None
    profile = run.path / PROFILE
    return Evidence(
        name=run.run_id,
        spec=spec,
        times=times,
        steps=steps,
        steadiness=measurement.metrics.steadiness,
        samples=measurement.samples,
        ceilings=run.document(artifacts.CEILINGS, artifacts.Ceilings),
        bound=measurement.metrics.bound,
        breakdown=measurement.metrics.breakdown,
        ranks=run.document(artifacts.RANKS, artifacts.RankTimes),
        hosts=run.document(artifacts.HOST, artifacts.HostTimes),
        fingerprint=_fingerprint([*traces] if traces else [profile] if profile.is_dir() else []),
        env={**spec.env, **spec.cluster.env},
        saves=any(word in text for log in run.logs for text in [unpacked(log)] for word in SAVING),
    )


def _steps(measurement: RunMeasurement | None, spec: TrainingSpec) -> tuple[np.ndarray, np.ndarray]:
    """Times and numbers of the measured steps."""
    if measurement is None or (window := measurement.metrics.window) is None:
        return np.empty(0), np.empty(0)
    rows = rows_of(measurement.log, setting_of(spec))
    inside = (rows.step >= window.first_step) & (rows.step <= window.last_step)
    rows = rows.chosen(inside & ~rows.impossible & ~np.isnan(rows.step_time_s))
    return rows.step_time_s, rows.step


def _fingerprint(traces: Sequence[Path]) -> Fingerprint | None:
    """Of the marked steps where the traces mark them; None for traces without events of a GPU in a run's own folder."""
    if not traces:
        return None
    try:
        files_of(traces)
        return fingerprint_of(traces, "steps")[0]
    except UserError as error:
        if "no event of a GPU" in str(error) or "no trace in this directory" in str(error):
            return None
    return fingerprint_of(traces, "device")[0]


def _same_work(a: TrainingSpec, b: TrainingSpec) -> bool:
    """Whether the steps of two runs compute the same on each GPU."""
    return (a.model, a.seq_length, a.gbs / a.num_gpus, a.task) == (b.model, b.seq_length, b.gbs / b.num_gpus, b.task)


def _published(run: RunDir, own: Evidence, reference: Reference) -> Against:
    """A published number as a step of this run."""
    metric, measurement = METRICS[reference.metric], measure_run(run)
    value = metric.read(measurement.metrics, OURS) if measurement else None
    if not metric.comparable or value is None or reference.metric == "final_loss":
        raise UserError(f"{reference.id} has no speed that this run has too", hint="benchrun show lists references")
    ratio = value / reference.value if reference.better == "lower" else reference.value / value
    return Against(name=reference.id, step_time_s=own.step_s / ratio, ratio=ratio)
