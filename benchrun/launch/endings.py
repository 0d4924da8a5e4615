"""How a job ended, with the evidence: a total classification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from benchrun.launch.scheduler import Job, Phase
from benchrun.spec.artifacts import DONE, Done, EndingRecord
from benchrun.spec.artifacts import Ending as Ending


@dataclass(frozen=True)
class End:
    """An ending and its evidence."""

    ending: Ending
    evidence: tuple[str, ...]
    exit_code: int | None = None
    last_step: int | None = None
    """The number of the last step in its log."""
    final: bool = True
    """Based on the scheduler's final state, on done.json, or on a refusal; otherwise it is a guess."""


UNKNOWN_JOB = "neither queue nor accounting knows the job"


def recorded(document: Mapping[str, Any] | None) -> End | None:
    """The ending that ``ending.json`` holds; None where the file is missing or damaged, or holds a guess (lost)."""
    try:
        record = EndingRecord.model_validate(document)
    except ValidationError:
        return None
    if record.ending is Ending.LOST:
        return None
    return End(record.ending, record.evidence, record.exit_code, record.last_step)


def record(end: End) -> EndingRecord:
    """``end`` as ``ending.json`` holds it."""
    return EndingRecord(ending=end.ending, evidence=end.evidence, exit_code=end.exit_code, last_step=end.last_step)


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
# Problems in the log of a job that failed, causes before consequences: each of them can crash a rank.
_SYMPTOMS = (
    ("image_missing", Ending.IMAGE_MISSING),
    ("mount_failed", Ending.LAUNCH_FAILED),
    ("launch_failed", Ending.LAUNCH_FAILED),
    ("cuda_oom", Ending.OUT_OF_MEMORY_GPU),
    ("host_oom", Ending.OUT_OF_MEMORY_HOST),
)
# Lines that Slurm writes into the log of a job that it ends; needed where queue and accounting have forgotten it.
_ENDED_BY = (
    ("time_limit", Ending.TIMEOUT),
    ("preempted", Ending.PREEMPTED),
    ("node_failure", Ending.NODE_FAILURE),
    ("cancelled", Ending.CANCELLED),
)
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

    ``job``: the scheduler's last answer. ``done``: what the job's EXIT trap wrote. ``symptoms``: problems in the log,
    the first line of each kind. ``quiet_s``: how long the log had been silent when the job was ended.
    """
    # The script's own code first: of a job that it ended itself Slurm says 0:0.
    code = done.exit_code if done else job.exit_code
    stalled_s = done.no_step_s if done else None
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
    """Whether the scheduler or the job itself states it. A script that was sent TERM does not know why."""
    if job.phase is Phase.GONE and done is not None:
        return not (done.signal and ending is Ending.FAILED)
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
    if done and done.no_step_s is not None:
        return Ending.HUNG
    if by_state in (Ending.TIMEOUT, Ending.CANCELLED) and quiet_s >= SILENT_S:
        return Ending.HUNG
    restarted = max(job.restarts, done.restarts if done else 0) > 0
    # Of a job that was preempted and ran again, accounting may still list the first life alone.
    if by_state is not None and not (by_state is Ending.PREEMPTED and restarted):
        return by_state
    if restarted:
        return Ending.REQUEUED
    if job.phase is Phase.GONE and done is None:
        return Ending.LOST
    if job.phase is Phase.GONE and done and done.signal:
        return next((ending for kind, ending in _ENDED_BY if kind in symptoms), Ending.FAILED)
    failed = job.state not in ("COMPLETED", "UNKNOWN") or bool(done and done.exit_code)
    if failed:
        return next((ending for kind, ending in _SYMPTOMS if kind in symptoms), Ending.FAILED)
    return Ending.COMPLETED if steps_seen >= steps_planned else Ending.INCOMPLETE


def _evidence(job: Job, done: Done | None, symptoms: Mapping[str, str]) -> list[str]:
    facts = [UNKNOWN_JOB if job.phase is Phase.GONE else f"scheduler: {job.state}"]
    if job.exit_code is not None or job.signal:
        facts.append(f"exit code {job.exit_code}" + (f", signal {job.signal}" if job.signal else ""))
    if job.reason and job.reason != job.state:
        facts.append(f"reason: {job.reason}")
    if job.restarts:
        facts.append(f"restarted {job.restarts} times")
    if done is None:
        facts.append(f"the job wrote no {DONE}")
    else:
        sign = f", signal {done.signal}" if done.signal else ""
        facts.append(f"{DONE}: exit code {done.exit_code}{sign}, restarts {done.restarts}")
    return [*facts, *(f"{kind}: {detail}" for kind, detail in symptoms.items())]
