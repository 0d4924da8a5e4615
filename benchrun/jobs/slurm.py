"""Slurm, through its own commands. Polling is one squeue for all jobs, then sacct for
those that left it.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchrun.errors import MachineError, SchedulerUnavailable, SubmitLimit
from benchrun.rundir.artifacts import JOB
from benchrun.rundir.folder import RunDir

from .commands import call
from .scheduler import COMPLETING, Job, Phase
from .slurm_text import SACCT, SQUEUE, jobs, limited, refused, submitted

ACCOUNTING_TIMEOUT_S = 10
"""Seconds that sacct may take: few, because accounting only adds to the queue and
done.json.
"""
_REQUEUED = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL")
"""Ends of a life in accounting after which Slurm may put the job into the queue again.
"""
_NO_ACCOUNTING = "accounting storage is disabled"


class Slurm:
    """The cluster that this machine submits to."""

    lag_s = 60.0
    """NFS clients may cache attributes for a minute (acregmax, acdirmax)."""

    def __init__(self) -> None:
        self._unsure = ""
        """Reason why accounting gave no answer. After that it is not asked again."""

    def submit(self, run: RunDir) -> str:
        result = call(
            ["sbatch", "--parsable", f"--chdir={run.path}", f"--job-name={run.run_id}", JOB],
            run.path,
        )
        if result.returncode != 0:
            if limited(result.stderr):
                raise SubmitLimit(
                    f"sbatch refused the job for now: {_text(result)}", hint="submit it again later"
                )
            if refused(result.stderr):
                raise MachineError(
                    f"sbatch refused the job: {_text(result)}", hint=f"the script: {run.path}/{JOB}"
                )
            raise SchedulerUnavailable(_text(result))
        if (job := submitted(result.stdout)) is None:
            raise SchedulerUnavailable(f"sbatch gave no job id: {_text(result)}")
        return job

    def poll(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        queued = self._queued(runs) if runs else {}
        # squeue still lists jobs for a while after their end, but only sacct knows
        # their exit codes.
        left = []
        for run in runs:
            if run not in queued or _may_have_ended(queued[run]):
                left.append(run)
        remembered = self._remembered(left)
        found = {}
        for run in runs:
            if job := self._job(run, queued.get(run), remembered.get(run)):
                found[run] = job
        return found

    def _job(self, run: RunDir, queued: Job | None, remembered: Job | None) -> Job | None:
        """The job of ``run``; GONE if neither queue nor accounting has the recorded id
        or the one in done.json.
        """
        if remembered and remembered.phase is Phase.ENDED and _has_ended(run, queued, remembered):
            return remembered
        if queued is not None:
            return queued
        done = run.done()
        if remembered and not (
            remembered.phase is Phase.RUNNING and done and done.job_id == remembered.id
        ):
            return replace(remembered, reason="accounting lists the job, the queue does not")
        job = run.job_id or (done.job_id if done else None)
        if not job:
            return None
        return Job(job, Phase.GONE, "UNKNOWN", unsure=self._unsure)

    def cancel(self, job: str) -> bool:
        result = call(["scancel", job])
        known = "Invalid job id" not in result.stderr
        if result.returncode != 0 and known:
            raise SchedulerUnavailable(_text(result))
        return known

    def _queued(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        """Jobs in the queue. One unknown id makes squeue refuse the whole list: then
        all jobs are listed.
        """
        base = [
            "squeue",
            "--noheader",
            "--all",
            "--states=all",
            f"--format={'|'.join(SQUEUE.values())}",
        ]
        ids = [run.job_id for run in runs if run.job_id]
        for which in ([f"--jobs={','.join(ids)}"] if len(ids) == len(runs) else [], []):
            result = call([*base, *which])
            rows = jobs(result.stdout, [*SQUEUE])
            own = _own(runs, rows)
            # A row of no run: its id was reused by another job, and the run's job may
            # have a new one.
            if result.returncode == 0 and (not which or len(own) == len(rows)):
                return own
            if result.returncode != 0 and "Invalid job id" not in result.stderr:
                break
        raise SchedulerUnavailable(_text(result))

    def _remembered(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        """Jobs in accounting; none if there is no accounting or it is down."""
        ids = [run.job_id for run in runs if run.job_id]
        own = _own(runs, self._sacct(f"--jobs={','.join(ids)}")) if ids else {}
        # The name narrows the search; the directory and the owner decide.
        if names := [run.run_id for run in runs if run not in own]:
            own |= _own(runs, self._sacct("--starttime=now-30days", f"--name={','.join(names)}"))
        return own

    def _sacct(self, *which: str) -> list[Job]:
        """Jobs of accounting, the oldest run of each first."""
        if self._unsure:
            return []
        command = ["sacct", "-X", "--duplicates", "--noheader", "--parsable2", *which]
        # Older versions lack it.
        for fields in (
            SACCT,
            [field for field in SACCT if field != "Restarts"],
        ):
            try:
                result = call(
                    [*command, f"--format={','.join(fields)}"], timeout_s=ACCOUNTING_TIMEOUT_S
                )
            except SchedulerUnavailable as error:
                self._unsure = error.message
                return []
            except MachineError:  # no sacct here: the same as no accounting
                return []
            if result.returncode == 0:
                return jobs(result.stdout, fields)
            if "Restarts" not in result.stderr:
                break
        self._unsure = "" if _NO_ACCOUNTING in result.stderr else _text(result)
        return []


def _own(runs: Iterable[RunDir], rows: Iterable[Job]) -> dict[RunDir, Job]:
    """The job of each run among ``rows``: its recorded id in its directory, else its
    owner's newest job there.
    """
    by_name: dict[str, list[Job]] = {}
    for row in rows:
        by_name.setdefault(row.work_dir.rpartition("/")[2], []).append(row)
    own = {}
    for run in runs:
        job = run.job_id
        named = by_name.get(run.run_id, [])
        here = [row for row in named if _same_directory(row.work_dir, run.path)]
        recorded = [row for row in here if row.id == job] or [
            row for row in named if _moved(row, run, job)
        ]
        if candidates := recorded or sorted(
            (row for row in here if row.uid == run.owner), key=lambda row: int(row.id)
        ):
            own[run] = candidates[-1]
    return own


def _may_have_ended(job: Job) -> bool:
    """Whether accounting may know the end of a job that the queue lists."""
    return job.phase is Phase.ENDED or job.state == COMPLETING


def _has_ended(run: RunDir, queued: Job | None, remembered: Job) -> bool:
    """Whether the end that accounting states holds although the queue may list the job
    still.

    A job in COMPLETING has ended if done.json says so too: its epilog may hang for
    ever.
    """
    if queued is None or queued.phase is Phase.ENDED:
        return True
    done = run.done()
    return done is not None and done.job_id == remembered.id and remembered.state not in _REQUEUED


def _same_directory(work_dir: str, path: Path) -> bool:
    """Whether both names are one directory: it may have a link or a second mount."""
    with contextlib.suppress(OSError, ValueError):
        return work_dir == str(path) or path.samefile(work_dir)
    return False


def _moved(row: Job, run: RunDir, job: str | None) -> bool:
    """Whether a job is the recorded one, and the folder where it was submitted, of the
    run's name, is there no more.
    """
    return row.id == job and row.uid == run.owner and not os.path.lexists(row.work_dir)


def _text(result: subprocess.CompletedProcess[str]) -> str:
    return (
        " ".join((result.stderr or result.stdout).split())[:500] or f"exit code {result.returncode}"
    )
