"""Every way a job can end is one name here, with the evidence for it. Total: nothing falls through."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

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


def recorded(document: Mapping[str, Any] | None) -> End | None:
    """The ending that ``ending.json`` holds; None where the file is missing or damaged: then it is asked for anew."""
    try:
        if not document:
            return None
        code, last_step = document["exit_code"], document.get("last_step")
        return End(Ending(document["ending"]), tuple(document["evidence"]), code, last_step)
    except (KeyError, TypeError, ValueError):
        return None


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
SILENT_S = 600
"""A job that ends by its limit after this long without a line was hung."""


def classify(
    job: Job,
    done: dict[str, Any] | None,
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
    code = (done or {}).get("exit_code", job.exit_code)
    stalled_s = (done or {}).get("no_step_s")
    evidence = _evidence(job, done, symptoms)
    if steps_planned and 0 < steps_seen < steps_planned:
        evidence.append(f"{steps_seen} of {steps_planned} steps")
    ending = _ending(job, done, symptoms, steps_seen, steps_planned, quiet_s)
    if stalled_s is not None:
        evidence.append(f"no step for the last {stalled_s} s, longer than step_deadline_s allows")
    elif ending is Ending.HUNG:
        evidence.append(f"no line in its log for the last {quiet_s:.0f} s")
    return End(ending, tuple(evidence), code)


def _ending(
    job: Job,
    done: dict[str, Any] | None,
    symptoms: Mapping[str, str],
    steps_seen: int,
    steps_planned: int,
    quiet_s: float,
) -> Ending:
    by_state = _STATES.get(job.state)
    if (done or {}).get("no_step_s") is not None:
        return Ending.HUNG
    if by_state in (Ending.TIMEOUT, Ending.CANCELLED) and quiet_s >= SILENT_S:
        return Ending.HUNG
    if by_state is not None and by_state is not Ending.CANCELLED:
        return by_state
    if by_state is Ending.CANCELLED:
        return Ending.CANCELLED
    if max(job.restarts, (done or {}).get("restarts", 0)) > 0:
        return Ending.REQUEUED
    if job.phase is Phase.GONE and done is None:
        return Ending.LOST
    failed = job.state not in ("COMPLETED", "UNKNOWN") or bool((done or {}).get("exit_code"))
    if failed:
        return next((ending for kind, ending in _SYMPTOMS if kind in symptoms), Ending.FAILED)
    return Ending.COMPLETED if steps_seen >= steps_planned else Ending.INCOMPLETE


def _evidence(job: Job, done: dict[str, Any] | None, symptoms: Mapping[str, str]) -> list[str]:
    says = []
    if job.phase is Phase.GONE:
        says.append("neither queue nor accounting knows the job")
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
