"""Launching runs and polling them: stateless, so that any shell can continue what
another began.
"""

import contextlib
import math
import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchrun import __version__, clock, paths
from benchrun.errors import MachineError, SchedulerUnavailable, UserError
from benchrun.render import render, unmountable
from benchrun.rundir.artifacts import DONE, ENV, PROBE, PROGRESS, Done, Environment, Progress
from benchrun.rundir.folder import RunDir, as_object, read_text
from benchrun.runspec.spec import RunSpec

from .commands import output, require
from .create import create
from .endings import SILENT_S, UNKNOWN_JOB, recorded
from .local import Local
from .scheduler import COMPLETING, Job, Phase, Scheduler
from .slurm import Slurm

GRACE_S = 60
"""An unknown job counts as lost only after this long: accounting may lag behind the
queue.
"""
ECHOED_WITHIN = 16 << 20
"""Bytes of a log that are searched for the worker's versions."""
SCHEDULERS: dict[str, type[Scheduler]] = {"slurm": Slurm, "local": Local}


@dataclass(frozen=True)
class Observation:
    """The state of a run now."""

    run: RunDir
    job: Job | None
    """Job that the scheduler reports; None if it gave no answer, or never had the job.
    """
    over: bool
    """The job has ended, or neither the scheduler nor its files have it any more."""
    note: str = ""
    """Reason why nothing more is known."""
    quiet_s: float = 0.0
    """Seconds since the job's last line."""
    settled: bool = False
    """The run's files cannot change any more: an ending that rests on them is final."""


def start(spec: RunSpec, root: Path | None = None) -> RunDir:
    """Render ``spec`` and submit its job; the new run directory lies below ``root``
    (the runs folder if None).

    UserError if nothing can be written. MachineError if there is no Slurm, before
    anything is written, and if the job is refused: the run's events hold the reason.
    """
    return submit(prepare(spec, root))


def prepare(spec: RunSpec, root: Path | None = None) -> RunDir:
    """Render ``spec`` into a new run directory below ``root``; nothing is submitted.
    UserError as in `start`.
    """
    root = root or paths.runs_dir()
    check(spec, root)
    if spec.cluster.scheduler == "slurm":
        require("sbatch")
    return create(root, spec, render(spec))


def submit(run: RunDir) -> RunDir:
    """Submit the job of a prepared run. MachineError as in `start`."""
    spec = run.spec
    try:
        job = SCHEDULERS[spec.cluster.scheduler]().submit(run)
    except SchedulerUnavailable as error:
        # It may have accepted the job all the same: the next poll searches for it by
        # its directory.
        error.hint = f"Slurm may still have accepted the job; check in a minute: benchrun status {run.run_id}"
        error.where = run.run_id
        _append(run, "unanswered", reason=error.message)
        raise
    except MachineError as error:
        error.where = run.run_id
        if refusal(run) != error.message:
            _append(run, "refused", reason=error.message)
        raise
    try:
        run.append_event("submitted", job=job)
    except OSError as error:
        message = (
            f"job {job} of {run.run_id} was accepted, but cannot be recorded: {error.strerror}"
        )
        stop = f"benchrun cancel {run.run_id}" + (f" (or scancel {job})" if job.isdigit() else "")
        raise MachineError(
            message, hint=f"benchrun status finds the job anyway; to stop it: {stop}"
        ) from error
    return run


def observe(runs: Sequence[RunDir]) -> list[Observation]:
    """The state of each of ``runs``: one poll per kind of scheduler."""
    observations: dict[RunDir, Observation] = {}
    left: dict[str, list[RunDir]] = {}
    for run in runs:
        if recorded(run):  # not polled: schedulers forget
            observations[run] = Observation(run, None, over=True)
        elif refused := refusal(run):
            observations[run] = Observation(run, None, over=True, note=refused, settled=True)
        else:
            left.setdefault(run.spec.cluster.scheduler, []).append(run)
    for kind, group in left.items():
        observations |= _polled(SCHEDULERS[kind](), group)
    return [observations[run] for run in runs]


def _polled(scheduler: Scheduler, runs: Sequence[RunDir]) -> dict[RunDir, Observation]:
    try:
        jobs = scheduler.poll(runs)
    except MachineError as error:
        note = f"the scheduler does not answer: {error.message}"
        found = {}
        for run in runs:
            job = _ended_without_answer(run, error)
            if job is None:
                found[run] = Observation(run, None, over=False, note=note)
            else:
                found[run] = _observation(run, job, math.inf)
        return found
    return {run: _observation(run, jobs.get(run), scheduler.lag_s) for run in runs}


def _ended_without_answer(run: RunDir, error: MachineError) -> Job | None:
    """The job of a run whose done.json says that it ended; None if it may run on.

    A copy on a machine without Slurm has nothing else. A Slurm that is silent for a
    while may have started a job again that was stopped by a signal.
    """
    done = run.done()
    if done is None or (done.job_id and run.job_id not in (None, done.job_id)):
        return None
    if done.signal and isinstance(error, SchedulerUnavailable):
        return None
    return Job(done.job_id or run.job_id or "", Phase.GONE, "UNKNOWN")


def refusal(run: RunDir) -> str | None:
    """Reason why the scheduler refused the run's job; None if it did not, or may have
    accepted it later.
    """
    for event in reversed(run.events()):
        if event["event"] == "refused":
            return str(event["reason"])
        if event["event"] in ("unanswered", "submitted"):
            break
    return None


def _append(run: RunDir, event: str, **facts: str) -> None:
    """Add an event. A full or read-only disk is no error."""
    with contextlib.suppress(OSError):
        run.append_event(event, **facts)


def cancel(run: RunDir) -> bool:
    """Ask the scheduler to stop the job; whether there was one to stop. MachineError if
    that is unknown.
    """
    ended = recorded(run) is not None or refusal(run) is not None
    scheduler = SCHEDULERS[run.spec.cluster.scheduler]()
    try:
        job = scheduler.poll([run]).get(run)
    except MachineError:
        if ended:
            return False
        raise
    if job is None or job.phase is Phase.ENDED:
        return False
    if job.phase is Phase.GONE:
        if ended or done_of(run, job) is not None:
            return False
        hint = None
        if job.id.isdigit():
            hint = f"if the job still runs: scancel {job.id}"
        raise MachineError(
            f"job {job.id}: {job.unsure or UNKNOWN_JOB}", hint=hint, where=run.run_id
        )
    if not scheduler.cancel(job.id):  # accounting, which may lag behind, lists it still
        return False
    _note_job(run, job)  # the queue will soon forget it
    if job.state != COMPLETING:  # a completing job has ended already, by another cause
        _append(run, "cancel_asked", job=job.id)
    return True


def check(spec: RunSpec, root: Path) -> None:
    """UserError if a secret is not set, or if Slurm or the container runtime would
    misread a path of the run.

    The name of the recipe is a part of it.
    """
    for name in missing_secrets(spec):
        hint = f"export {name}=... before launching, or remove it from cluster.secrets"
        raise UserError(f"cluster.secrets: {name} is not set in this shell", hint=hint)
    data = None
    if spec.reads_files:
        data = os.environ.get("BENCHRUN_DATA")
    slurm = spec.cluster.scheduler == "slurm"
    interpreted = "%\\" if slurm else ""
    runtime = spec.cluster.container.runtime
    where = "set {} to a path without it"
    parts = {
        where.format("BENCHRUN_RESULTS"): str(paths.given(root)),
        where.format("BENCHRUN_DATA"): data or "",
        "rename the recipe's file": spec.recipe,
    }
    for hint, path in parts.items():
        if slurm and not path.isprintable():  # its lists are read line by line, as UTF-8
            raise UserError(
                f"the path {path!r} contains characters that Slurm's job lists cannot print",
                hint=hint,
            )
        # In the path of a log Slurm expands % and takes \\ as an escape.
        if bad := sorted(set(path) & set(interpreted)):
            raise UserError(
                f"the path {path} contains {bad[0]!r}, which Slurm interprets", hint=hint
            )
        if bad := sorted(set(path) & set(unmountable(runtime))):
            raise UserError(
                f"the path {path} contains {bad[0]!r}, which {runtime} takes as a separator",
                hint=hint,
            )


def missing_secrets(spec: RunSpec) -> list[str]:
    """Names of the secrets that the job needs and that are not set in this shell."""
    return [name for name in spec.cluster.secrets if not os.environ.get(name)]


def asked_to_cancel(run: RunDir, job: Job) -> bool:
    """Whether `cancel` has stopped this job."""
    asked = run.last_event("cancel_asked")
    return asked is not None and asked["job"] == job.id


def done_of(run: RunDir, job: Job) -> Done | None:
    """done.json, if it is this job's. A local job is identified by its directory."""
    done = run.done()
    if done and (done.job_id == job.id or not job.id.isdigit()):
        return done
    return None


def backoff(polls: int) -> float:
    """Seconds until the next poll: from 1 s to 30 s, to spare the scheduler."""
    return min(1.3 ** min(polls, 100), 30.0)


def _observation(run: RunDir, job: Job | None, lag_s: float) -> Observation:
    at = run.clock()
    if job is None:
        over = _seconds(run.created, at or clock.now()) > GRACE_S
        killed = ""
        if over:
            killed = ": its launcher was probably killed before it submitted one"
        return Observation(
            run, None, over=over, note=f"the scheduler has no job with this run's directory{killed}"
        )
    _note_change(run, job)
    done = done_of(run, job)
    last_line = _written(*run.logs)
    new_state = run.time_of("state")
    unchanged_s = _seconds(new_state and max(new_state, last_line), at)
    if job.phase is Phase.ENDED or (job.phase is Phase.GONE and done is not None):
        with contextlib.suppress(OSError):
            write_env(run)
        quiet_s = _silent_s(run, job, (done and _written(run.path / DONE)) or job.ended_at)
        return Observation(
            run, job, over=True, quiet_s=quiet_s, settled=not lag_s or unchanged_s >= lag_s
        )
    if job.phase is Phase.GONE:
        over = not job.unsure and unchanged_s > GRACE_S
        return Observation(run, job, over=over, note=job.unsure or UNKNOWN_JOB, settled=over)
    quiet_s = _seconds(max(last_line, job.started_at or 0.0), at)
    silent = quiet_s > SILENT_S and job.phase is Phase.RUNNING
    note = f"the log has had no new line for {quiet_s:.0f} s" if silent else job.reason
    return Observation(run, job, over=False, note=note, quiet_s=quiet_s)


def _silent_s(run: RunDir, job: Job, ended_at: float | None) -> float:
    """Seconds for which a job that has ended had written no line, of those in which it
    ran.
    """
    started_at = job.started_at or 0.0
    # The watchdog counts neither the lines that Slurm writes at the end nor the time in
    # which the job was suspended. Its file may be of an earlier life.
    if _written(run.path / PROGRESS) >= started_at and (watched := run.read(PROGRESS, Progress)):
        return watched.quiet_s
    return _seconds(max(_written(*run.logs), started_at), ended_at)


def _note_change(run: RunDir, job: Job) -> None:
    """Record the job, and each new state of it. A full or read-only disk is no error."""
    _note_job(run, job)
    last = run.last_event("state")
    if last is None or last["state"] != job.state:
        _append(
            run, "state", state=job.state, phase=job.phase.value, reason=job.reason, nodes=job.nodes
        )


def _note_job(run: RunDir, job: Job) -> None:
    """Record the job of a run whose submission had no answer."""
    if run.job_id != job.id:
        _append(run, "submitted", job=job.id, found_by="work directory")


def _written(*files: Path) -> float:
    """Time of the last write to one of ``files``, in seconds since the epoch by their
    file system; 0 without any.
    """
    times = [0.0]
    for file in files:
        with contextlib.suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times)


def _seconds(start: float | None, end: float | None) -> float:
    """Seconds between two times; 0 if one is unknown."""
    if end and start:
        return max(end - start, 0.0)
    return 0.0


def write_env(run: RunDir) -> None:
    """Write env.json, unless it has all nodes: their files may reach a shared file
    system after the end of the job.

    It holds no environment variables, which may be secret.
    """
    if described(run):
        return
    probes = sorted((run.path / PROBE).glob("*.json"))
    damaged = "the node's own description is not valid JSON"
    environment = Environment(
        benchrun=__version__,
        commit=commit(),
        image=run.spec.container_image,
        submit_host=platform.node(),
        python=platform.python_version(),
        worker=_worker(run),
        nodes=tuple(
            as_object(read_text(path)) or {"host": path.stem, "error": damaged} for path in probes
        ),
        network=run.network(),
    )
    run.write_json(ENV, environment.document())


def described(run: RunDir) -> bool:
    """Whether env.json is written and holds every node of the run."""
    nodes = (run.read_json(ENV) or {}).get("nodes")
    return isinstance(nodes, list) and len(nodes) >= run.spec.num_nodes


def _worker(run: RunDir) -> dict[str, Any] | None:
    """The versions that the worker printed at its start (torch, megatron-core, CUDA
    ...).
    """
    for log in run.logs:
        text = read_text(log, ECHOED_WITHIN) or ""
        if match := re.search(r"benchrun config: (.*)", text):
            versions = (as_object(match[1]) or {}).get("versions")
            return versions if isinstance(versions, dict) else None
    return None


def commit() -> str | None:
    """The commit of this checkout, ``+dirty`` with uncommitted changes; in a wheel or
    copy ``$BENCHRUN_COMMIT``.
    """
    if not (paths.DATA / ".git").exists():
        return os.environ.get("BENCHRUN_COMMIT")
    return output(
        "git",
        "-C",
        str(paths.DATA),
        "describe",
        "--always",
        "--dirty=+dirty",
        "--abbrev=12",
        "--exclude=*",
    )
