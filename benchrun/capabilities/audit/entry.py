"""A job as its log and the accounting show it together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from benchrun.measure.setting import Setting

from .accounting import Allocation
from .kinds import Kind, completed, kind_of
from .reading import Reading


@dataclass(frozen=True, eq=False)
class Entry:
    """One job."""

    job_id: str | None
    reading: Reading | None
    rows: Sequence[Allocation]
    kind: Kind | None
    setting: Setting

    @property
    def name(self) -> str:
        """Its id, or its log's name."""
        if self.job_id:
            return f"job {self.job_id}"
        return self.reading.log if self.reading else "?"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes on which its steps were measured."""
        if self.rows:
            return self.rows[-1].nodes
        return self.reading.nodes if self.reading else ()

    @property
    def num_gpus(self) -> int | None:
        """GPUs that it had."""
        allocated = self.rows[-1].num_gpus if self.rows else None
        return allocated or self.setting.num_gpus

    @property
    def start(self) -> float | None:
        """Its start, or else its first step; in s since 1970."""
        if self.rows:
            return self.rows[0].start
        return self.reading.began if self.reading else None

    @property
    def seconds(self) -> float | None:
        """Time that it had its nodes; None if no accounting tells."""
        ended = [row.seconds for row in self.rows if row.seconds is not None]
        return sum(ended) if ended else None

    @property
    def end(self) -> float | None:
        """Its end."""
        if self.rows:
            return self.rows[-1].end
        return None if self.start is None else self.start + self.steps_s

    @property
    def steps_s(self) -> float:
        """Time of all steps and checkpoints."""
        reading = self.reading
        if reading is None:
            return 0.0
        return float(reading.seconds.sum()) + reading.repeated_s + reading.checkpoint_s

    def at(self, row: int) -> float | None:
        """Date at which the steps of a row begin; of the first one the job's start."""
        reading, start = self.reading, self.start
        if start is None or reading is None or not row:
            return start
        first = start + max((self.seconds or 0.0) - self.steps_s, 0.0)
        if reading.began is not None and start <= reading.began <= (self.end or reading.began):
            first = reading.began - float(reading.seconds[0])
        return first + float(reading.seconds[:row].sum())

    @property
    def gpu_hours(self) -> float | None:
        """GPUs times hours; by its steps if no accounting tells; None for unknown GPUs."""
        seconds = self.seconds or self.steps_s
        return seconds * self.num_gpus / 3600 if self.num_gpus else None

    @property
    def state(self) -> str | None:
        """Slurm's word for its end, or what the log shows."""
        if self.rows:
            return self.rows[-1].state
        if self.reading is None or self.reading.complete:
            return "COMPLETED"
        return "FAILED" if self.reading.problem else None


def entry_of(reading: Reading | None, rows: Sequence[Allocation]) -> Entry:
    """A job of its log, its allocations, or both."""
    if reading is None:
        return Entry(rows[-1].job_id, None, rows, None, completed(Setting(), rows[-1]))
    kind, setting = kind_of(reading, rows[-1] if rows else None)
    return Entry(reading.job_id, reading, rows, kind, setting)


def date_text(seconds: float | None) -> str | None:
    """A local time as sacct prints it."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
