"""Launching runs and asking how they are: stateless, so that any shell can pick up what another began."""

from __future__ import annotations

import calendar
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchrun.errors import BenchrunError, SchedulerUnavailable
from benchrun.launch.endings import SILENT_S, recorded
from benchrun.launch.env import write_env
from benchrun.launch.local import Local
from benchrun.launch.rundir import ENDING, RunDir, create
from benchrun.launch.scheduler import Job, Phase, Scheduler
from benchrun.launch.shell import check
from benchrun.launch.slurm import Slurm
from benchrun.recipe.spec import RunSpec

GRACE_S = 60
"""A job that nobody knows is lost only after this long: accounting may lag behind the queue."""


@dataclass(frozen=True)
class Observation:
    """What is known of a run now."""

    run: RunDir
    job: Job | None
    """None where the scheduler gave no answer, or never had the job."""
    over: bool
    """The job has ended, one way or another."""
    note: str = ""
    """What stands in the way of knowing more."""
    quiet_s: float = 0.0
    """Seconds since the job's last line."""


def launch(spec: RunSpec, files: Mapping[str, str], root: Path) -> RunDir:
    """Make the run directory and submit. A refused job leaves a run whose events say why."""
    check(spec, root)
    run = create(root, spec, files)
    try:
        job = _scheduler(spec).submit(run)
    except SchedulerUnavailable as error:
        # It may have taken the job all the same: whoever looks next asks for it by name.
        hint = f"the job may have been taken all the same; look in a minute: benchrun status {run.run_id}"
        raise SchedulerUnavailable(error.message, hint=hint) from error
    except Exception as error:
        run.append_event("refused", reason=error.message if isinstance(error, BenchrunError) else str(error))
        raise
    run.append_event("submitted", job=job)
    return run


def observe(runs: Sequence[RunDir]) -> list[Observation]:
    """Ask about all ``runs``: one poll for each kind of scheduler."""
    # A run whose ending is written down is asked about no more: schedulers forget.
    found = {run.run_id: Observation(run, None, over=True) for run in runs if recorded(run.read_json(ENDING))}
    for kind in {run.spec.cluster.scheduler for run in runs}:
        group = [run for run in runs if run.spec.cluster.scheduler == kind and run.run_id not in found]
        if not group:
            continue
        scheduler = _scheduler(group[0].spec)
        try:
            jobs = {run.run_id: _job_id(run, scheduler) for run in group}
            polled = scheduler.poll([job for job in jobs.values() if job is not None])
        except SchedulerUnavailable as error:
            note = f"the scheduler does not answer: {error.message}"
            found |= {run.run_id: Observation(run, None, over=False, note=note) for run in group}
            continue
        for run in group:
            job = jobs[run.run_id]
            found[run.run_id] = _observation(run, polled[job] if job is not None else None)
    return [found[run.run_id] for run in runs]


def cancel(run: RunDir) -> bool:
    """Ask the scheduler to stop the job; whether there was one that had not ended."""
    if recorded(run.read_json(ENDING)):
        return False
    scheduler = _scheduler(run.spec)
    job = _job_id(run, scheduler)
    if job is None:
        return False
    scheduler.cancel(job)
    run.append_event("cancel_asked", job=job)
    return True


def backoff(polls: int) -> float:
    """Seconds to wait before the next poll: 1 s at first, 30 s in the end, so that a scheduler is never pressed."""
    return min(1.0 * 1.3**polls, 30.0)


def _scheduler(spec: RunSpec) -> Scheduler:
    """The scheduler that the run's cluster profile names."""
    return Slurm() if spec.cluster.scheduler == "slurm" else Local()


def _job_id(run: RunDir, scheduler: Scheduler) -> str | None:
    """The id from the events; where the launcher died before it wrote one, the scheduler is asked by name."""
    event = run.last_event("submitted")
    if event:
        return str(event["job"])
    if run.last_event("refused"):
        return None
    job = scheduler.find(run)
    if job is not None:
        run.append_event("submitted", job=job, found_by="name")
    return job


def _observation(run: RunDir, job: Job | None) -> Observation:
    if job is None:
        refused = run.last_event("refused")
        if refused:
            return Observation(run, None, over=True, note=str(refused["reason"]))
        over = _age_s(run.path / "events.jsonl") > GRACE_S
        return Observation(run, None, over=over, note="the scheduler never took a job of this name")
    _note_change(run, job)
    if job.phase is Phase.ENDED:
        # The last lines and done.json may reach a shared file system after the scheduler's word.
        _note_env(run)
        return Observation(run, job, over=True, quiet_s=_quiet_s(run, job.ended_at))
    if job.phase is Phase.GONE:
        known = run.done() is not None
        waited = known or _waited_s(run) > GRACE_S
        note = "" if known else "neither queue nor accounting knows the job"
        if waited:
            _note_env(run)
        return Observation(run, job, over=waited, note=note)
    quiet_s = _quiet_s(run, time.time())
    note = f"its log has been silent for {quiet_s:.0f} s" if quiet_s > SILENT_S else job.reason
    return Observation(run, job, over=False, note=note, quiet_s=quiet_s)


def _note_change(run: RunDir, job: Job) -> None:
    """Write an event when the scheduler's word is a new one. A disk that is full or read-only hides no run."""
    last = run.last_event("state")
    if last is None or last["state"] != job.state:
        with contextlib.suppress(OSError):
            run.append_event("state", state=job.state, phase=job.phase.value, reason=job.reason, nodes=job.nodes)


def _note_env(run: RunDir) -> None:
    with contextlib.suppress(OSError):
        write_env(run)


def _waited_s(run: RunDir) -> float:
    """Seconds since the job was first found gone."""
    last = run.last_event("state")
    if last is None or last["phase"] != Phase.GONE.value:
        return 0.0
    return time.time() - calendar.timegm(time.strptime(last["time"], "%Y-%m-%dT%H:%M:%SZ"))


def _quiet_s(run: RunDir, until: float | None) -> float:
    """Seconds from the job's last line until then; 0 where nobody knows."""
    if until is None or not run.logs:
        return 0.0
    return max(until - max(path.stat().st_mtime for path in run.logs), 0.0)


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime if path.exists() else 0.0
