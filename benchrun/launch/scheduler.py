"""What launching needs from a scheduler: three calls, the same for Slurm and for one machine."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from benchrun.launch.rundir import RunDir


class Phase(str, enum.Enum):
    """Where a job is, as far as the scheduler says."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "gone"
    """No longer in the queue, and no accounting that remembers it."""


@dataclass(frozen=True)
class Job:
    """One job as its scheduler describes it."""

    id: str
    phase: Phase
    state: str
    """The scheduler's own word, e.g. ``NODE_FAIL``."""
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    nodes: str = ""
    restarts: int = 0
    ended_at: float | None = None
    """Seconds since the epoch by the scheduler's clock, where it says."""
    unsure: str = ""
    """Of a job that is gone: who could not be asked. Then it is no evidence that nobody knows the job."""


class Scheduler(Protocol):
    """A place that runs jobs."""

    lag_s: float
    """How long after a job's end its files may still change as they are seen from here."""

    def submit(self, run: RunDir) -> str:
        """Start ``job.sh`` of ``run`` in its directory; the job's id.

        MachineError where the job was refused; SchedulerUnavailable where it may have been taken all the same.
        """

    def poll(self, runs: Sequence[RunDir]) -> dict[RunDir, Job]:
        """The job of each run that has one, by the recorded id or, without it, by the run's directory and owner.

        A job of that id in another directory is not the run's. SchedulerUnavailable where there is no answer: that
        says nothing of the jobs.
        """

    def cancel(self, job: str) -> None:
        """Stop a job that ``poll`` gave; a job that has ended already is no error."""
