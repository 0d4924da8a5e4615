"""Every way a job can end is one name here, with the evidence for it. Total: nothing falls through."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from benchrun.launch.documents import Done
from benchrun.launch.scheduler import Job, Phase


class Ending(str, enum.Enum):
    """How a job ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY_HOST = "out_of_memory_host"
    OUT_OF_MEMORY_GPU = "out_of_memory_gpu"
    NODE_FAILURE = "node_failure"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"
    """It ran more than once: what it measured is not one measurement."""
    LAUNCH_FAILED = "launch_failed"
    """Slurm or the runtime could not start the command."""
    IMAGE_MISSING = "image_missing"
    HUNG = "hung"
    """It ended by its deadline without a step; or by its limit or by hand long after its log had fallen silent."""
    INCOMPLETE = "incomplete"
    """Exit code 0, but not all planned steps."""
    LOST = "lost"
    """Neither queue nor accounting nor the job's own files know how it ended."""


@dataclass(frozen=True)
class End:
    """An ending and what it rests on."""

    ending: Ending
    evidence: tuple[str, ...]
    exit_code: int | None = None
    last_step: int | None = None
    """The number of the last step in its log."""
    final: bool = True
    """It rests on the scheduler's final state, on the job's own word, or on a refusal; otherwise it is a guess."""


UNKNOWN_JOB = "neither queue nor accounting knows the job"


def recorded(document: Mapping[str, Any] | None) -> End | None:
    """The ending that ``ending.json`` holds; None where the file is missing or damaged: then it is asked for anew.

    So is one that was lost: that is a guess, whoever wrote it down.
    """
    if document is None:
        return None
    ending, evidence, code = document.get("ending"), document.get("evidence"), document.get("exit_code")
    if ending not in _RECORDABLE or not isinstance(evidence, list) or not isinstance(code, int | None):
        return None
    step = document.get("last_step")
    return End(Ending(ending), tuple(str(each) for each in evidence), code, step if isinstance(step, int) else None)


# Slurm's final states (man squeue, JOB STATE CODES, 22.05 to 26.05) that say by themselves what happened.
_STATES = {
    "TIMEOUT": Ending.TIMEOUT,
    "DEADLINE": Ending.TIMEOUT,
    "OUT_OF_MEMORY": Ending.OUT_OF_MEMORY_HOST,
    "NODE_FAIL": Ending.NODE_FAILURE,
    "BOOT_FAIL": Ending.NODE_FAILURE,
    "PREEMPTED": Ending.PREEMPTED,
    "CANCELLED": Ending.CANCELLED,
    "REVOKED": Ending.CANCELLED,
    "LAUNCH_FAILED": Ending.LAUNCH_FAILED,
    "RECONFIG_FAIL": Ending.LAUNCH_FAILED,
}
# What the log says of a job that failed, the most telling first: a crash of a rank follows from each of the others.
_SYMPTOMS = (
    ("image_missing", Ending.IMAGE_MISSING),
    ("mount_failed", Ending.LAUNCH_FAILED),
    ("launch_failed", Ending.LAUNCH_FAILED),
    ("cuda_oom", Ending.OUT_OF_MEMORY_GPU),
    ("host_oom", Ending.OUT_OF_MEMORY_HOST),
)
# What Slurm writes into the log of a job that it ends, where neither queue nor accounting can tell any more.
_ENDED_BY = (
    ("time_limit", Ending.TIMEOUT),
    ("preempted", Ending.PREEMPTED),
    ("node_failure", Ending.NODE_FAILURE),
    ("cancelled", Ending.CANCELLED),
)
_RECORDABLE = tuple(ending.value for ending in Ending if ending is not Ending.LOST)
SILENT_S = 600
"""A job that ends by its limit after this long without a line was hung."""


def classify(
    job: Job,
    done: Done | None,
    *,
    symptoms: Mapping[str, str] = MappingProxyType({}),
    steps_seen: int = 0,
    steps_planned: int = 0,
    quiet_s: float = 0.0,
) -> End:
    """How a job that is no longer in the queue ended.

    ``job`` is the scheduler's last word, ``done`` what the job's EXIT trap wrote, ``symptoms`` the kinds of problems
    found in its log with the first line of each, ``quiet_s`` how long the log had been silent when the job was ended.
    """
    # The script's own code first: of a job that it ended itself Slurm says 0:0.
    code = done["exit_code"] if done else job.exit_code
    stalled_s = done.get("no_step_s") if done else None
    evidence = _evidence(job, done, symptoms)
    if steps_planned and 0 < steps_seen < steps_planned:
        evidence.append(f"{steps_seen} of {steps_planned} steps")
    ending = _ending(job, done, symptoms, steps_seen, steps_planned, quiet_s)
    if stalled_s is not None:
        evidence.append(f"no step for the last {stalled_s} s, longer than step_deadline_s allows")
    elif ending is Ending.HUNG:
        evidence.append(f"no line in its log for the last {quiet_s:.0f} s")
    return End(ending, tuple(evidence), code, final=_rests_on_evidence(job, done, ending))


def _rests_on_evidence(job: Job, done: Done | None, ending: Ending) -> bool:
    """Whether the scheduler or the job itself said so. A script that was sent TERM does not know why."""
    if job.phase is Phase.GONE and done is not None:
        return not (done.get("signal") and ending is Ending.FAILED)
    return job.phase is Phase.ENDED


def _ending(
    job: Job,
    done: Done | None,
    symptoms: Mapping[str, str],
    steps_seen: int,
    steps_planned: int,
    quiet_s: float,
) -> Ending:
    by_state = _STATES.get(job.state)
    if done and done.get("no_step_s") is not None:
        return Ending.HUNG
    if by_state in (Ending.TIMEOUT, Ending.CANCELLED) and quiet_s >= SILENT_S:
        return Ending.HUNG
    restarted = max(job.restarts, done.get("restarts", 0) if done else 0) > 0
    # Of a job that was preempted and ran again, accounting may still list the first life alone.
    if by_state is not None and not (by_state is Ending.PREEMPTED and restarted):
        return by_state
    if restarted:
        return Ending.REQUEUED
    if job.phase is Phase.GONE and done is None:
        return Ending.LOST
    if job.phase is Phase.GONE and done and done.get("signal"):
        return next((ending for kind, ending in _ENDED_BY if kind in symptoms), Ending.FAILED)
    failed = job.state not in ("COMPLETED", "UNKNOWN") or bool(done and done["exit_code"])
    if failed:
        return next((ending for kind, ending in _SYMPTOMS if kind in symptoms), Ending.FAILED)
    return Ending.COMPLETED if steps_seen >= steps_planned else Ending.INCOMPLETE


def _evidence(job: Job, done: Done | None, symptoms: Mapping[str, str]) -> list[str]:
    says = []
    if job.phase is Phase.GONE:
        says.append(UNKNOWN_JOB)
    else:
        says.append(f"scheduler: {job.state}")
    if job.exit_code is not None or job.signal:
        says.append(f"exit code {job.exit_code}" + (f", signal {job.signal}" if job.signal else ""))
    if job.reason and job.reason != job.state:
        says.append(f"reason: {job.reason}")
    if job.restarts:
        says.append(f"restarted {job.restarts} times")
    if done is None:
        says.append("the job wrote no done.json")
    else:
        sign = f", signal {done['signal']}" if done.get("signal") else ""
        says.append(f"done.json: exit code {done.get('exit_code')}{sign}, restarts {done.get('restarts', 0)}")
    return [*says, *(f"{kind}: {detail}" for kind, detail in symptoms.items())]
