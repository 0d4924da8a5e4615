"""Slurm, through its own commands. Polling is one squeue for all jobs, then sacct for those that left it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchrun.errors import MachineError, SchedulerUnavailable
from benchrun.launch.rundir import RunDir
from benchrun.launch.scheduler import Job, Phase
from benchrun.launch.slurm_text import SACCT_FIELDS, SQUEUE_FORMAT, Row, refused, sacct_rows, squeue_rows, submitted
from benchrun.spec.artifacts import JOB

TIMEOUT_S = 30
ACCOUNTING_TIMEOUT_S = 10
"""Short, because accounting only adds to the queue and done.json."""
_OPTIONS = ("SBATCH_", "SLURM_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SCANCEL_")
_NO_ACCOUNTING = "accounting storage is disabled"


class Slurm:
    """The cluster that this machine submits to."""

    lag_s = 60.0
    """NFS clients may cache attributes for a minute (acregmax, acdirmax)."""

    def __init__(self) -> None:
        self._unsure = ""
        """Why accounting gave no answer. After that it is not asked again."""

    def submit(self, run: RunDir) -> str:
        result = _call(["sbatch", "--parsable", f"--chdir={run.path}", f"--job-name={run.run_id}", JOB], run.path)
        if result.returncode != 0:
            if refused(result.stderr):
                raise MachineError(f"sbatch refused the job: {_text(result)}", hint=f"the script: {run.path}/{JOB}")
            raise SchedulerUnavailable(_text(result))
        job = submitted(result.stdout)
        if job is None:
            raise SchedulerUnavailable(f"sbatch gave no job id: {_text(result)}")
        return job

    def poll(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        queued = self._queued(runs) if runs else {}
        # squeue still lists jobs for a while after their end, but only sacct knows their exit codes.
        left = [run for run in runs if run not in queued or queued[run].phase is Phase.ENDED]
        remembered = self._remembered(left)
        jobs = {}
        for run in runs:
            job, row = queued.get(run), remembered.get(run)
            if row is not None and row.phase is Phase.ENDED:
                job = row
            elif row is not None and job is None and not (row.phase is Phase.RUNNING and _wrote_done(run, row.id)):
                job = replace(row, reason="accounting lists the job, the queue does not")
            job = job or self._gone(run)
            if job is not None:
                jobs[run] = job
        return jobs

    def cancel(self, job: str) -> None:
        result = _call(["scancel", job])
        if result.returncode != 0 and "Invalid job id" not in result.stderr:
            raise SchedulerUnavailable(_text(result))

    def _gone(self, run: RunDir) -> Job | None:
        """A job that is in neither queue nor accounting, by its recorded id or the one in done.json."""
        done = run.done()
        job = run.job_id or (done.job_id if done else None)
        return Job(job, Phase.GONE, "UNKNOWN", unsure=self._unsure) if job else None

    def _queued(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        """Jobs in the queue. One unknown id makes squeue refuse the whole list: then all jobs are listed."""
        base = ["squeue", "--noheader", "--all", "--states=all", f"--format={SQUEUE_FORMAT}"]
        ids = [run.job_id for run in runs if run.job_id]
        if len(ids) == len(runs):
            result = _call([*base, f"--jobs={','.join(ids)}"])
            rows = list(squeue_rows(result.stdout))
            jobs = _own(runs, rows)
            # A row of no run: its id was reused by another job, and the run's job may have a new one.
            if result.returncode == 0 and len(jobs) == len(rows):
                return jobs
            if result.returncode != 0 and "Invalid job id" not in result.stderr:
                raise SchedulerUnavailable(_text(result))
        result = _call(base)
        if result.returncode != 0:
            raise SchedulerUnavailable(_text(result))
        return _own(runs, squeue_rows(result.stdout))

    def _remembered(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        """Jobs in accounting; none where there is no accounting or it is down."""
        ids = [run.job_id for run in runs if run.job_id]
        jobs = _own(runs, self._sacct(f"--jobs={','.join(ids)}")) if ids else {}
        # The name narrows the search; the directory and the owner decide.
        if names := [run.run_id for run in runs if run not in jobs]:
            jobs |= _own(runs, self._sacct("--starttime=now-30days", f"--name={','.join(names)}"))
        return jobs

    def _sacct(self, *which: str) -> list[Row]:
        if self._unsure:
            return []
        for restarts in (True, False):  # older versions lack the field
            fields = [*SACCT_FIELDS, *(["Restarts"] if restarts else []), "WorkDir"]
            command = ["sacct", "-X", "--duplicates", "--noheader", "--parsable2", f"--format={','.join(fields)}"]
            try:
                result = _call([*command, *which], timeout_s=ACCOUNTING_TIMEOUT_S)
            except SchedulerUnavailable as error:
                self._unsure = error.message
                return []
            except MachineError:  # no sacct here: the same as no accounting
                return []
            if result.returncode == 0:
                return list(sacct_rows(result.stdout, restarts))
            if "Restarts" not in result.stderr:
                break
        self._unsure = "" if _NO_ACCOUNTING in result.stderr else _text(result)
        return []


def _own(runs: Iterable[RunDir], rows: Iterable[Row]) -> dict[RunDir, Job]:
    """The job of each run among ``rows``: its recorded id in its directory, else its owner's newest job there."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row.work_dir.rpartition("/")[2], []).append(row)
    jobs = {}
    for run in runs:
        here = [row for row in by_name.get(run.run_id, []) if _same_directory(row.work_dir, run.path)]
        own = [row for row in here if row.job.id == run.job_id]
        own = own or sorted((row for row in here if row.uid == run.owner), key=lambda row: int(row.job.id))
        if own:
            jobs[run] = own[-1].job
    return jobs


def _same_directory(work_dir: str, path: Path) -> bool:
    """Whether both names are one directory: it may have a link or a second mount."""
    try:
        return work_dir == str(path) or path.samefile(work_dir)
    except (OSError, ValueError):
        return False


def _wrote_done(run: RunDir, job: str) -> bool:
    done = run.done()
    return done is not None and done.job_id == job


def _call(
    command: Sequence[str], cwd: os.PathLike[str] | None = None, timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Run one Slurm command without the shell's options for another job (SBATCH_*, SLURM_JOB_*) or list (SQUEUE_*)."""
    keep = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS"}
    env = {name: value for name, value in os.environ.items() if name in keep or not name.startswith(_OPTIONS)}
    try:
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        hint = "submit from a login node, or use --cluster local"
        raise MachineError(f"{command[0]} is not on this machine", hint=hint) from None
    except OSError as error:
        raise MachineError(f"{command[0]} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise SchedulerUnavailable(f"{command[0]} gave no answer in {timeout_s:g} s") from None


def _text(result: subprocess.CompletedProcess[str]) -> str:
    return " ".join((result.stderr or result.stdout).split())[:500] or f"exit code {result.returncode}"
