"""What launching needs from a scheduler: four calls, the same for Slurm and for one machine."""

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
    """Seconds since the epoch, where the scheduler says."""


class Scheduler(Protocol):
    """A place that runs jobs."""

    def submit(self, run: RunDir) -> str:
        """Start ``job.sh`` of ``run`` in its directory; the job's id. MachineError where it is refused."""

    def poll(self, jobs: Sequence[str]) -> dict[str, Job]:
        """Every job asked for. SchedulerUnavailable where there is no answer: that says nothing of the jobs."""

    def cancel(self, job: str) -> None:
        """Stop a job; a job that has ended already is no error."""

    def find(self, run: RunDir) -> str | None:
        """The job of a run whose launcher died before it wrote down the id."""
