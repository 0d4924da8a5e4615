"""Numbers of runs and of bare logs. A run's are stored beside its log, or kept without
names and paths.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchrun import extensions, kept
from benchrun.errors import UserError, reading, writing
from benchrun.frameworks.logs import parse_log, parse_logs
from benchrun.jobs.endings import recorded_name
from benchrun.judge.verdict import RunResult, Verdict
from benchrun.logs import Log
from benchrun.measure.bound import bound
from benchrun.measure.machine import other_gpus, slow_links
from benchrun.measure.model import Measurement, Metrics, ProblemEntry, Summary
from benchrun.measure.ranks import RankSpread, rank_spread
from benchrun.measure.rows import CompletedRows, completed_rows
from benchrun.measure.run import RunMeasurement
from benchrun.measure.setting import Setting, setting_of, setting_of_log
from benchrun.measure.summary import measure, summarise
from benchrun.measure.telemetry import Sampled, sampled
from benchrun.rundir import artifacts, rank_times
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.rundir.folder import RunDir
from benchrun.show.table import step_lines

from .keep import kept_files, kept_name


def measure_run(run: RunDir, warmup: int | None = None) -> RunMeasurement | None:
    """Measure one run from its log and the files beside it; None without a log. Nothing
    is written.

    The first ``warmup`` rows are dropped (5 or a tenth of them if None). UserError for
    a damaged file.
    """
    if not run.logs:
        return None
    log = parse_log(*run.logs)
    environment = run.read_json(artifacts.ENV) or {}
    metrics = measure(
        log, setting_of(run.spec), planned_steps=run.spec.planned_steps, warmup=warmup
    )
    samples = _samples(run, log, metrics, run.spec.num_gpus)
    beside = {
        "telemetry": samples.over_all if samples else None,
        "bound": bound(
            run.document(artifacts.CEILINGS, artifacts.Ceilings), run.spec, metrics.step_time_s
        ),
        "breakdown": run.document(artifacts.BREAKDOWN, artifacts.Breakdown),
        "problems": (
            *metrics.problems,
            *_missing_trace(run),
            *other_gpus(environment, run.spec.gpu),
            *slow_links(environment, run.spec.cluster.fabric),
        ),
        "ranks": ranks_of(run, metrics),
    }
    return RunMeasurement(run, log, metrics.model_copy(update=beside), samples)


def _missing_trace(run: RunDir) -> Iterator[ProblemEntry]:
    """A problem if the profiled ranks left their folder empty; a kept run has no such
    folder.
    """
    folder = run.path / artifacts.PROFILE
    if folder.is_dir() and not any(file.is_file() for file in folder.rglob("*")):
        yield ProblemEntry(
            kind="no_trace", line=None, detail=f"{artifacts.PROFILE} is empty; the logs may say why"
        )


def store_measurement(measurement: RunMeasurement) -> None:
    """Write steps.jsonl, telemetry.json and metrics.json into the run, if that is
    allowed.
    """
    run = measurement.run
    if not run.writable:
        return
    run.write_text(artifacts.STEPS, steps_text(measurement.log))
    if measurement.samples:
        run.write_json(artifacts.TELEMETRY_SUMMARY, measurement.samples.document())
    run.write_json(artifacts.METRICS, measurement.metrics.document())


def steps_text(log: Log) -> str:
    """The rows of a log, one JSON object per line."""
    return "".join(f"{line}\n" for line in step_lines(log.distinct, "jsonl"))


def _samples(run: RunDir, log: Log, numbers: Measurement, num_gpus: int | None) -> Sampled | None:
    """State of the GPUs in the window of ``numbers``; None if nothing was sampled."""
    files = run.telemetry()
    step = numbers.step_time_s
    window = numbers.window
    rate = numbers.tokens_per_s_per_gpu.median
    if not (files and step and window and rate and num_gpus):
        return None
    if log.profiled_after is not None and log.facts.ended_at is None:
        return None  # profiled steps followed: the last sample under load is not of the window
    steps = window.last_step - window.first_step + 1
    # Tokens of a step are its rate times its time; the product of their means would be
    # too large if steps differ.
    tokens = rate * step.median * num_gpus * steps
    return sampled(
        files, num_gpus=num_gpus, seconds=step.mean * steps, tokens=tokens, until=log.facts.ended_at
    )


def ranks_of(run: RunDir, numbers: Measurement) -> RankSpread | None:
    """Compute time of each rank of ``run`` in the window of ``numbers``; None if it was
    not measured.
    """
    if (window := numbers.window) is None:
        return None
    return rank_spread(
        run.document(artifacts.RANKS, rank_times.RankTimes), (window.first_step, window.last_step)
    )


def result_of(run: RunDir, verdict: Verdict | None = None, *, with_log: bool = False) -> RunResult:
    """One run, measured anew from its log, with its ending and its verdict; ``verdict``
    replaces the recorded one.

    UserError for a damaged file. Nothing is written.
    """
    verdict = verdict or run.document(artifacts.VERDICT, Verdict)
    measurement = measure_run(run, verdict.warmup if verdict else None)
    metrics = None
    if measurement:
        metrics = measurement.metrics
    environment = run.read_json(artifacts.ENV) or {}
    created = run.time_of("created")
    return RunResult(
        run.run_id,
        run.spec,
        metrics,
        verdict,
        recorded_name(run),
        environment=environment,
        created=None if created is None else datetime.fromtimestamp(created, timezone.utc),
        measurement=measurement if with_log else None,
    )


def fingerprint_if_readable(run: RunDir) -> Fingerprint | None:
    """Fingerprint of a run; None if it has none, and if its traces cannot be read."""
    try:
        if not (run.path / artifacts.PROFILE).is_dir():
            return run.document(artifacts.FINGERPRINT, Fingerprint)
        result: Fingerprint | None = extensions.capability("traces.usecase", "fingerprint_of_run")(
            run
        )
    except UserError:
        return None
    return result


def keep(run: RunDir, folder: Path) -> RunDir:
    """Write a judged run's measurement into ``folder``, redacted; returns the redacted
    run.

    Of a profile the fingerprint is kept. UserError if the run has no valid verdict, if
    it is kept already, and if the redacted files would give other numbers.
    """
    verdict = run.document(artifacts.VERDICT, Verdict)
    if verdict is None or verdict.verdict == "invalid_run":
        why = "was not judged"
        if verdict is not None:
            why = f"measured nothing: {verdict.reason}"
        raise UserError(f"{run.run_id} {why}", hint=f"benchrun compare {run.run_id}")
    measurement = measure_run(run, verdict.warmup)
    if measurement:
        store_measurement(measurement)
    path = folder / kept_name(run)
    if path.exists() or path in kept.runs(folder):
        raise UserError(
            f"{path} exists", hint="a measurement is never overwritten; remove it first if you must"
        )
    files = {**kept_files(run), **_kept_profile(run)}
    if kept.is_packed(folder):
        with tempfile.TemporaryDirectory() as temporary:
            redacted = _write_redacted(Path(temporary, path.name), files, measurement, verdict)
            kept.add(folder, index_entry(redacted), kept.files_of(redacted.path))
        redacted = RunDir(kept.place(path.resolve()), read_only=True)
    else:
        redacted = _write_redacted(path.resolve(), files, measurement, verdict)
    return redacted


def _kept_profile(run: RunDir) -> dict[str, bytes]:
    """The kept file of a profile, by name."""
    if not (run.path / artifacts.PROFILE).is_dir() and run.read_json(artifacts.FINGERPRINT) is None:
        return {}
    files: dict[str, bytes] = extensions.capability("traces.kept", "keep_profile")(run)
    return files


def _write_redacted(
    path: Path, files: Mapping[str, bytes], measurement: RunMeasurement | None, verdict: Verdict
) -> RunDir:
    """Write the redacted ``files`` of a run into the new directory ``path``.

    UserError if they give other numbers than its ``measurement``; then nothing stays.
    """
    redacted = RunDir(path)
    with writing(path), contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, path, ignore_errors=True)
        for file, content in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_bytes(content)
        again = measure_run(redacted, verdict.warmup)
        if not same_numbers(again, measurement):
            why = "without the site's names and paths its log gives other numbers"
            raise UserError(f"{path.name} is not kept: {why}")
        if again:
            (path / artifacts.STEPS).write_text(steps_text(again.log), encoding="utf-8")
        undo.pop_all()
    return redacted


def index_entry(run: RunDir) -> kept.Entry:
    """Line of a kept run in the index of packed runs: code chooses runs by it, without
    their files.
    """
    metrics = run.document(artifacts.METRICS, Metrics)
    verdict = run.document(artifacts.VERDICT, Verdict)
    step = None
    if metrics:
        step = metrics.step_time_s
    return {
        "id": run.run_id,
        "recipe": run.spec.recipe,
        "workload": run.spec.workload,
        "framework": run.spec.framework,
        "gpu": run.spec.gpu,
        "num_gpus": run.spec.num_gpus,
        "precision": run.spec.precision,
        "step_time_s": step.median if step else None,
        "verdict": verdict.verdict if verdict else None,
    }


def same_numbers(one: RunMeasurement | None, other: RunMeasurement | None) -> bool:
    """Whether a run and its redacted copy, whose hosts have other names, give the same
    metrics, or both none.
    """
    hosts: Any = {"ranks": {"ranks": {"__all__": {"host"}}, "slowest": {"host"}}}
    a = one and one.metrics.model_dump(exclude=hosts)
    b = other and other.metrics.model_dump(exclude=hosts)
    return a == b


def read_logs(files: Sequence[Path], framework: str | None = None) -> tuple[list[Log], list[Path]]:
    """One log for each run in these files and directories, and the files that belong to
    none.

    The framework is recognised if it is not named. UserError for a file that cannot be
    read, and for a directory of several runs, which would be read as one.
    """
    for path in files:
        with reading(path):
            runs = kept.runs(path) if path.is_dir() else []
        if len(runs) > 1:
            raise UserError(
                f"holds {len(runs)} runs",
                where=path,
                hint=f"name one of them, e.g. {runs[-1]}",
            )
    logs, left_out = parse_logs(*map(kept.place, files), framework=framework)
    return [replace(log, file=kept.shown(log.file)) for log in logs], left_out


def read_log(path: Path, framework: str | None = None) -> Log:
    """The log in a file or in a run's directory. UserError if it holds several."""
    logs, _ = read_logs([path], framework)
    if len(logs) != 1:
        raise UserError(f"holds {len(logs)} logs", where=path, hint="name one file per run")
    return logs[0]


def summarise_log(
    log: Log, given: Setting, files: Sequence[Path] = (), warmup: int | None = None
) -> Summary:
    """Numbers of one log; what it states wins over ``given``. Of a run directory also
    what lies beside its log.
    """
    summary = summarise(log, warmup=warmup, given=given)
    places = []
    for path in map(kept.place, files):
        if kept.shown(str(path)) == log.file:
            places.append(path)
    run = next((path for path in places if (path / artifacts.SPEC).is_file()), None)
    if run is None:
        return summary
    samples = _samples(RunDir(run), log, summary, summary.num_gpus)
    beside = {
        "telemetry": samples.over_all if samples else None,
        "ranks": ranks_of(RunDir(run), summary),
    }
    return summary.model_copy(update=beside)


def rows_of(log: Log, given: Setting) -> CompletedRows:
    """The step rows, with times and rates completed from each other."""
    return completed_rows(log, setting_of_log(log, given))
