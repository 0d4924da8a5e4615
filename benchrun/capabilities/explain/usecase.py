"""Explaining a run, and comparing runs with each other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchrun import kept
from benchrun.capabilities.explain.course import course_of
from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.traces.usecase import fingerprint_of_steps, sound_fingerprint, trace_hint
from benchrun.errors import NoNumberError, UserError
from benchrun.jobs.endings import recorded_name
from benchrun.judge.checks import LEARNED, broken_run, unreliable
from benchrun.judge.conditions import conditions
from benchrun.judge.difference import Difference, Side, difference
from benchrun.judge.references import Reference, load_references
from benchrun.judge.verdict import Verdict
from benchrun.measure.metric import OURS
from benchrun.measure.model import Summary
from benchrun.measure.registry import METRICS
from benchrun.measure.rows import CompletedRows
from benchrun.measure.run import RunMeasurement
from benchrun.measure.setting import setting_of
from benchrun.rundir import artifacts, rank_times
from benchrun.rundir.find import KEPT, open_run
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.rundir.folder import RunDir, TolerantRun, unpacked
from benchrun.runspec.spec import TrainingSpec
from benchrun.usecases.baselines import baseline_run, is_published
from benchrun.usecases.measurement import measure_run, read_log, rows_of, summarise_log
from benchrun.usecases.settings import NOTHING
from benchrun.vocabulary import NO_WORK, by_path

from .explanation import beside, explain
from .foreign import foreign_trace, without_foreign
from .log_evidence import (
    earlier_of,
    joined_times,
    resolution_s,
    saves,
    saves_async,
    stages_of,
    steps_of,
)
from .model import Against, Explanation
from .sides import sides_of
from .timers import printed

STATED = (
    "task",
    "framework",
    "framework_version",
    "gpu",
    "precision",
    "num_gpus",
    "seq_length",
    "global_batch_size",
    "micro_batch_size",
    "layout",
    "unknown_options",
)
"""Facts that a log may state about its run."""
WORK = ("recipe", "task", "num_layers", "dimensions")
"""Conditions that a published number must share with a run."""


def explain_run(
    run: RunDir, traces: Sequence[Path] = (), against: str | None = None
) -> Explanation:
    """Explain where the time of a step of ``run`` goes, and why.

    ``traces``: files or directories of the run's profile, if they do not lie in its
    folder ``profile``. ``against``: another run, a folder of runs, of which the newest
    with the same settings counts, or the id of a published number; by default the
    reference of the run's verdict. NoNumberError for a run without measured steps;
    UserError for one of another workload, and for an ``against`` that does not exist or
    has no speed.
    """
    if run.spec.workload == "post-training":
        if traces or against is not None:
            raise UserError(
                f"{run.run_id} is a post-training: its stages are explained without a trace or another run"
            )
        measured = measure_run(run)
        return stages_of(run.run_id, measured.metrics if measured else None)
    own = evidence(run, traces)
    named, against = against is not None, against or _reference(run)
    if against is None:
        return explain(own)
    for reference in load_references():
        if reference.id == against:
            if not named and _other_work(own.spec, reference):
                return explain(own)
            return explain(own, _published(run, own, reference))
    other = evidence(baseline_run(against, run))
    notes = [f"{other.name}: {note}" for note in other.notes]
    if own.spec.step_identity() != other.spec.step_identity():
        notes.append(f"{other.name} has other settings, which benchrun diff shows")
    own = replace(own, notes=(*own.notes, *notes))
    return explain(own, beside(own, other), other if _same_work(own.spec, other.spec) else None)


def differ(names: Sequence[str]) -> list[Difference]:
    """Each of the runs or logs except the first, against the first.

    Of two runs with everything that their files hold; a log is compared with a run's
    log. UserError for a name that is neither a run nor a file, and for a file of
    several logs; NoNumberError without a measured step.
    """
    first, *others = names
    if all(map(_is_run, names)):
        own, *rest = (evidence(open_run(name)) for name in names)
        return [difference(*sides_of(own, other)) for other in rest]
    return [difference(_side_of_log(first), _side_of_log(other)) for other in others]


def _is_run(name: str) -> bool:
    """Whether ``name`` is no file, so that it has to be a run."""
    return not kept.place(Path(name)).is_file()


def _side_of_log(name: str) -> Side:
    """A log by itself: that of a run, or a file."""
    path = open_run(name).path if _is_run(name) else Path(name)
    log = read_log(path)
    summary = summarise_log(log, NOTHING, [path])
    times = joined_times(log, NOTHING, summary.window)
    if not len(times):
        why = None
        if len(log.steps):
            why = unreliable(summary)
        raise NoNumberError(why or "has no measured step", where=name, hint=trace_hint(Path(name)))
    tokens = None
    if summary.seq_length and summary.global_batch_size and summary.num_gpus:
        tokens = summary.seq_length * summary.global_batch_size / summary.num_gpus
    return Side(
        name,
        times,
        tokens,
        dict(by_path({field: getattr(summary, field) for field in STATED})) | _dimensions(summary),
        work=_stated_work(summary),
        unreliable=unreliable(summary),
    )


def _dimensions(summary: Summary) -> dict[str, Any]:
    """The sizes of the model that a log states, by name; how many positions it has room
    for is none of them.
    """
    sizes = by_path({"model": summary.model}) if summary.model else ()
    found = {}
    for name, size in sizes:
        if name.partition(".")[2] not in NO_WORK:
            found[name] = size
    return found


def _stated_work(summary: Summary) -> dict[str, Any]:
    """Facts about the work that a log states, by name; a vocabulary may be padded."""
    stated: dict[str, Any] = {"set of unknown options": summary.unknown_options}
    stated["task"] = "lora" if summary.task == "lora" else "all weights"
    sizes = {}
    for name, size in _dimensions(summary).items():
        if name != "model.vocab_size":
            sizes[name] = size
    if not sizes:
        return stated
    return stated | {"model": sizes}


def evidence(
    run: RunDir, traces: Sequence[Path] = (), measurement: RunMeasurement | None = None
) -> Evidence:
    """Everything that the files of ``run`` hold; it is measured anew if no
    ``measurement`` is given.

    A damaged document, and a breakdown or a trace of another run, is left out with a
    note. UserError if one of the given ``traces`` is of another run.
    """
    run = TolerantRun(run.path, run.read_only)
    spec = run.spec
    if not isinstance(spec, TrainingSpec):
        if not spec.stepped:
            hint = f"benchrun report {run.path} shows what it measured"
            raise UserError(f"{run.run_id} has no steps to explain", hint=hint)
        hint = f"name logs in place of runs: {run.path / artifacts.STDOUT}"
        raise UserError(f"of {run.run_id} no layout is known, which explains its steps", hint=hint)
    measurement, rows = _measured(run, measurement or measure_run(run))
    times, steps = steps_of(rows, measurement.metrics.window)
    fingerprint, notes = _fingerprint(run, traces)
    whole = Evidence(
        name=run.run_id,
        spec=spec,
        times=times,
        steps=steps,
        **earlier_of(measurement.log, rows, measurement.metrics.window),
        course=course_of(run, measurement.log, rows),
        steadiness=measurement.metrics.steadiness,
        samples=measurement.samples,
        ceilings=run.document(artifacts.CEILINGS, artifacts.Ceilings),
        bound=measurement.metrics.bound,
        breakdown=measurement.metrics.breakdown,
        ranks=run.document(artifacts.RANKS, rank_times.RankTimes),
        printed=printed(unpacked(run.logs[0]), rows),
        network=artifacts.stated_network(run.read_json(artifacts.ENV) or {}) or run.network(),
        hosts=run.document(artifacts.HOST, rank_times.HostTimes),
        fingerprint=fingerprint,
        env={**spec.env, **spec.cluster.env},
        machine=artifacts.machine(run.read_json(artifacts.ENV) or {}),
        saves=any(map(saves, run.logs)),
        saves_async=any(map(saves_async, run.logs)),
        resolution_s=resolution_s(measurement.metrics, steps),
    )
    if traces and fingerprint and (why := foreign_trace(fingerprint, whole)):
        raise UserError(
            f"the trace is not of {run.run_id}: {why}", where=", ".join(map(str, traces))
        )
    damaged = [f"{name} is damaged and left out: {why}" for name, why in run.damaged.items()]
    return without_foreign(replace(whole, notes=(*notes, *damaged)))


def _measured(
    run: RunDir, measurement: RunMeasurement | None
) -> tuple[RunMeasurement, CompletedRows]:
    """``measurement`` with its rows. NoNumberError if it has no measured step, or no
    number.
    """
    rows = None
    if measurement:
        rows = rows_of(measurement.log, setting_of(run.spec))
        times, _ = steps_of(rows, measurement.metrics.window)
    if measurement is None or rows is None or not len(times):
        raise NoNumberError(
            f"{run.run_id} has no measured step", hint=f"benchrun status {run.run_id}"
        )
    if reason := broken_run(measurement.metrics, recorded_name(run)):
        raise NoNumberError(
            f"{run.run_id} gives no number: {reason}", hint=f"benchrun compare {run.run_id}"
        )
    return measurement, rows


def _fingerprint(run: RunDir, traces: Sequence[Path]) -> tuple[Fingerprint | None, list[str]]:
    """Fingerprint of the given traces, or of the run's own if none are given; and why
    traces of the run were left out.
    """
    if traces:
        return fingerprint_of_steps(traces), []
    try:
        fingerprint, damaged = sound_fingerprint(run)
    except UserError as error:
        return None, [f"the traces in {artifacts.PROFILE} tell nothing: {error.message}"]
    return fingerprint, [f"a trace is left out: {why}" for why in damaged]


def _reference(run: RunDir) -> str | None:
    """The reference of the speed in a run's stored verdict; None if there is none that
    can be read.
    """
    verdict = run.document(artifacts.VERDICT, Verdict)
    of_speed = [each for each in verdict.checks if each.metric not in LEARNED] if verdict else []
    if not of_speed:
        return None
    name = of_speed[0].reference.id
    if is_published(name):
        return name
    try:
        return str(baseline_run(name.removeprefix(KEPT), run).path)
    except UserError:
        return None


def _same_work(a: TrainingSpec, b: TrainingSpec) -> bool:
    """Whether the steps of two runs compute the same on each GPU."""
    return (a.model, a.seq_length, a.gbs / a.num_gpus, a.task) == (
        b.model,
        b.seq_length,
        b.gbs / b.num_gpus,
        b.task,
    )


def _other_work(spec: TrainingSpec, reference: Reference) -> list[str]:
    """Conditions of the work in which a published number differs from a run, in words."""
    stated = conditions(spec)
    other = []
    for name in WORK:
        there = getattr(reference.key, name)
        here = getattr(stated, name)
        if there != here:
            other.append(f"{name} {there} there, {here} here")
    return other


def _published(run: RunDir, own: Evidence, reference: Reference) -> Against:
    """A published number as a step of this run."""
    if other := _other_work(own.spec, reference):
        hint = "benchrun compare says what a proxy reached"
        raise UserError(f"{reference.id} is of other work: {'; '.join(other)}", hint=hint)
    if reference.tokens_per_s_per_gpu:
        step = own.spec.tokens_per_step / own.spec.num_gpus / reference.tokens_per_s_per_gpu
        ratio = float(np.median(own.times)) / step
        return Against(name=reference.id, step_time_s=step, ratio=ratio)
    metric = METRICS[reference.metric]
    measurement = measure_run(run)
    value = None
    if measurement:
        value = metric.read(measurement.metrics, OURS)
    if not metric.comparable or value is None or reference.metric == "final_loss":
        raise UserError(
            f"{reference.id} has no speed that this run has too",
            hint="benchrun show lists references",
        )
    ratio = reference.value / value
    if reference.better == "lower":
        ratio = value / reference.value
    step = float(np.median(own.times)) / ratio
    return Against(name=reference.id, step_time_s=step, ratio=ratio)
