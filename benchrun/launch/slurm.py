"""Slurm, through its own commands. Polling is one squeue for all jobs, then one sacct for those that left it.

Named fields in parsable form, because ``--json`` changes its shape between versions. Tried on 22.05.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterable, Sequence

from benchrun.errors import MachineError, SchedulerUnavailable
from benchrun.launch.rundir import RunDir
from benchrun.launch.scheduler import Job, Phase

TIMEOUT_S = 30
_PENDING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_ENDED = (
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"),
    *("PREEMPTED", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"),
)
_OPTIONS = ("SBATCH_", "SLURM_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SCANCEL_")
_SQUEUE = "%i|%T|%r|%N"
_SACCT = "JobID,State,ExitCode,NodeList,Reason,End,Restarts"


class Slurm:
    """The cluster that this machine submits to."""

    def submit(self, run: RunDir) -> str:
        result = _call(["sbatch", "--parsable", f"--chdir={run.path}", f"--job-name={run.run_id}", "job.sh"], run.path)
        if result.returncode != 0:
            if _no_answer(result.stderr):
                raise SchedulerUnavailable(_text(result))
            raise MachineError(f"sbatch refused the job: {_text(result)}", hint=f"the script: {run.path}/job.sh")
        return result.stdout.strip().split(";")[0]

    def poll(self, jobs: Sequence[str]) -> dict[str, Job]:
        if not jobs:
            return {}
        queued = self._squeue(jobs)
        # squeue still lists jobs for a while after their end, but only sacct knows their exit codes.
        left = [job for job in jobs if job not in queued or queued[job].phase is Phase.ENDED]
        remembered = self._sacct(left) if left else {}
        gone = {job: Job(job, Phase.GONE, "UNKNOWN") for job in left}
        return {**gone, **queued, **remembered}

    def cancel(self, job: str) -> None:
        result = _call(["scancel", job])
        if result.returncode != 0 and "Invalid job id" not in result.stderr:
            raise SchedulerUnavailable(_text(result))

    def find(self, run: RunDir) -> str | None:
        name = f"--name={run.run_id}"
        queued = _call(["squeue", "--noheader", "--format=%i", "--states=all", name])
        if queued.returncode != 0:
            raise SchedulerUnavailable(_text(queued))
        if ids := queued.stdout.split():
            return ids[-1]
        past = _call(["sacct", "-X", "--noheader", "--parsable2", "--format=JobID", "--starttime=now-7days", name])
        ids = past.stdout.split() if past.returncode == 0 else []
        if not ids and (done := run.done()):
            ids = [str(done["job_id"])]  # no accounting, and the queue has forgotten it: the job itself knows
        return ids[-1] if ids else None

    def _squeue(self, jobs: Sequence[str]) -> dict[str, Job]:
        """Jobs that are in the queue. One forgotten id makes squeue refuse the whole list: then all jobs are listed."""
        base = ["squeue", "--noheader", "--states=all", f"--format={_SQUEUE}"]
        result = _call([*base, f"--jobs={','.join(jobs)}"])
        if result.returncode != 0 and "Invalid job id" in result.stderr:
            result = _call([*base, f"--user={os.getuid()}"])
        if result.returncode != 0:
            raise SchedulerUnavailable(_text(result))
        found = dict(_squeue_job(line) for line in result.stdout.splitlines() if line.count("|") >= 3)
        return {job: found[job] for job in jobs if job in found}

    def _sacct(self, jobs: Sequence[str]) -> dict[str, Job]:
        """Jobs whose end accounting remembers; none where there is no accounting or it is down.

        Only ends count: of a job that the queue dropped and accounting still calls running, the end was never recorded.
        """
        command = ["sacct", "-X", "--noheader", "--parsable2", f"--format={_SACCT}", f"--jobs={','.join(jobs)}"]
        result = _call(command)
        if result.returncode != 0 and "Restarts" in result.stderr:  # a field that older versions lack
            command[4] = f"--format={_SACCT.removesuffix(',Restarts')}"
            result = _call(command)
        rows = dict(_sacct_jobs(result.stdout.splitlines())) if result.returncode == 0 else {}
        return {job: row for job, row in rows.items() if row.phase is Phase.ENDED}


def phase_of(state: str) -> Phase:
    """The phase of a Slurm state; a word that no manual lists counts as running until the queue drops the job."""
    word = state.split()[0].rstrip("+") if state else ""
    if word in _PENDING:
        return Phase.PENDING
    # sacct cuts a word that is too long for its column: "OUT_OF_ME+".
    return Phase.ENDED if word and any(known.startswith(word) for known in _ENDED) else Phase.RUNNING


def _squeue_job(line: str) -> tuple[str, Job]:
    job, state, reason, nodes = line.split("|", 3)
    return job, Job(job, phase_of(state), state, reason="" if reason == "None" else reason, nodes=nodes)


def _sacct_jobs(lines: Iterable[str]) -> Iterable[tuple[str, Job]]:
    """sacct's rows; the last row of a job is its newest life."""
    for line in lines:
        fields = line.split("|")
        if len(fields) < 6:
            continue
        job, state, code, nodes, reason, end = fields[:6]
        restarts = int(fields[6]) if len(fields) > 6 and fields[6].isdigit() else 0
        exit_code, signal = (int(part) for part in code.split(":")) if re.fullmatch(r"\d+:\d+", code) else (None, None)
        says = "" if reason in ("None", "") else reason
        if "by" in state:  # "CANCELLED by 0": the word is the state, the rest says who
            says = state
        yield job, Job(job, phase_of(state), state.split()[0], exit_code, signal, says, nodes, restarts, _epoch(end))


def _epoch(text: str) -> float | None:
    """Slurm's local time; ``Unknown`` while there is none."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def _call(command: Sequence[str], cwd: os.PathLike[str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run one Slurm command.

    Options that the shell holds for another job (SBATCH_*, SLURM_JOB_*) or that filter what is listed (SQUEUE_USERS)
    must not reach it.
    """
    keep = {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS"}
    env = {name: value for name, value in os.environ.items() if name in keep or not name.startswith(_OPTIONS)}
    try:
        return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise MachineError(
            f"{command[0]} is not on this machine",
            hint="submit from a login node, or use --cluster local",
        ) from None
    except subprocess.TimeoutExpired:
        raise SchedulerUnavailable(f"{command[0]} gave no answer in {TIMEOUT_S} s") from None


def _no_answer(stderr: str) -> bool:
    return any(words in stderr for words in ("Unable to contact slurm controller", "Socket timed out", "timed out"))


def _text(result: subprocess.CompletedProcess[str]) -> str:
    return " ".join((result.stderr or result.stdout).split()) or f"exit code {result.returncode}"
