"""The interface of a scheduler: three calls, the same for Slurm and for one machine."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from benchrun.rundir.folder import RunDir

COMPLETING = "COMPLETING"
"""Slurm's state of a job that has ended while its epilog runs, or that will be requeued
after it.
"""


class Phase(str, enum.Enum):
    """The phase of a job, as its scheduler reports it."""

    PENDING = "pending"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ENDED = "ended"
    GONE = "gone"
    """Neither in the queue nor in accounting."""


@dataclass(frozen=True)
class Job:
    """One job as its scheduler describes it."""

    id: str
    phase: Phase
    state: str
    """The scheduler's name of the state, e.g. ``NODE_FAIL``."""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    nodes: str = ""
    restarts: int = 0
    started_at: float | None = None
    """Seconds since the epoch by the scheduler's clock at which its last life began; None
    if it is unknown. A life that ended in the queue began when it ended.
    """
    ended_at: float | None = None
    """Seconds since the epoch by the scheduler's clock; None if it is unknown."""
    unsure: str = ""
    """Source that gave no answer, so that a job that is GONE may exist all the same."""
    uid: int | None = None
    """Its owner; with ``work_dir`` it identifies the run."""
    work_dir: str = ""


class Scheduler(Protocol):
    """A place that runs jobs."""

    lag_s: float
    """Seconds after a job's end during which its files, as seen from here, may still
    change.
    """

    def submit(self, run: RunDir) -> str:
        """Start ``job.sh`` of ``run`` in its directory; the job's id.

        MachineError if the job was refused, SubmitLimit if only for now;
        SchedulerUnavailable if it may have been accepted all the same.
        """

    def poll(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        """The job of each run that has one, by its recorded id in the run's directory,
        else by directory and owner.

        SchedulerUnavailable if there is no answer; the jobs may exist all the same.
        """

    def cancel(self, job: str) -> bool:
        """Stop a job that ``poll`` gave; False if the scheduler has it no more."""
