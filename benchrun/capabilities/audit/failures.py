"""Cost of failures: work that was not kept or made again, checkpoints, coming back.

The accounting proves how long a job had its nodes, the log which steps it made. What is
left is the start, which every job needs, and what a failure cost.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchrun.measure.statistics import robust_deviation

from .effects import Z90
from .entry import Entry, Kind
from .model import Range

WORDS = ("FAILED", "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED")
"""Slurm's words for the end of a job that did not do all its work."""

ROUNDED_S = 0.4
"""Standard deviation of a job's time, whose start and end are printed in whole seconds."""
MEDIAN = 1.2533
"""Standard error of a median, of that of a mean."""


class Normal(NamedTuple):
    """A value that is not the same each time."""

    middle: float = 0.0
    spread: float = 0.0
    error: float = 0.0
    """Standard error of the middle, the same for every job."""


@dataclass(frozen=True)
class Failure:
    """GPU-hours that one job lost to failures, and what shows it."""

    gpu_hours: float = 0.0
    low: float = 0.0
    """The least that what is not known allows, e.g. which checkpoint was the last."""
    high: float = 0.0
    error: float = 0.0
    """Standard deviation of what is estimated."""
    kept: float = np.inf
    """The last step that counts."""
    evidence: str = ""


def failures(entries: Sequence[Entry]) -> list[Failure]:
    """Cost of failures of each of the jobs, which are in the order of their start."""
    cluster = _Cluster(entries)
    later: dict[object, list[Entry]] = defaultdict(list)
    found = []
    for entry in reversed(entries):
        line = _line(entry)
        found.append(cluster.failure(entry, later[line]))
        if entry.reading:
            later[line].append(entry)
    return found[::-1]


def total_failure(found: Sequence[Failure]) -> Range:
    """Cost of failures of all jobs; what is not known may be the same for each."""
    half = Z90 * float(np.sqrt(sum(each.error**2 for each in found)))
    low = sum(each.low for each in found) - half
    high = sum(each.high for each in found) + half
    return Range(median=sum(each.gpu_hours for each in found), low=max(low, 0.0), high=high)


def failed(entry: Entry) -> bool:
    """Whether a job ended before its work was done."""
    if entry.reading is not None and entry.reading.complete:
        return False
    crashed = entry.reading is not None and entry.reading.problem is not None
    if not entry.rows or entry.state == "CANCELLED":
        return crashed
    return entry.state in WORDS


class _Cluster:
    """Times of a start and of a checkpoint, from the jobs without a failure."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        dated: dict[Kind | None, list[float]] = defaultdict(list)
        self.saving: set[Kind | None] = set()
        """Kinds whose logs tell of checkpoints."""
        for entry in entries:
            if entry.reading and sum(entry.reading.saves):
                self.saving.add(entry.kind)
            if entry.reading and entry.reading.saves[0]:
                dated[entry.kind].append(entry.reading.checkpoint_s / entry.reading.saves[0])
        self.save = {kind: _normal(values) for kind, values in dated.items()}
        idle: dict[Kind | None, list[float]] = defaultdict(list)
        every = []
        for entry in entries:
            if entry.reading and entry.seconds and not (failed(entry) or _came_back(entry)):
                steps_s = entry.steps_s + self.unseen(entry).middle
                every.append(max(entry.seconds - steps_s, 0.0))
                idle[entry.kind].append(every[-1])
        self.every = _normal(every)
        self.idle = {kind: _normal(values) for kind, values in idle.items()}

    def unseen(self, entry: Entry) -> Normal:
        """Time of the checkpoints of which the log has no dates."""
        reading = entry.reading
        if reading is None or not reading.saves[1]:
            return Normal()
        known, unknown = reading.saves
        usual = self.save.get(entry.kind, Normal())
        middle = reading.checkpoint_s / known if known else usual.middle
        return Normal(unknown * middle, float(np.sqrt(unknown)) * usual.spread)

    def failure(self, entry: Entry, later: list[Entry]) -> Failure:
        """Cost of failures of a job. ``later``: jobs that may go on with its work, the
        last one first.
        """
        reading = entry.reading
        if reading is None:
            if not failed(entry):
                return Failure()
            hours = entry.gpu_hours or 0.0
            return Failure(
                hours, hours, hours, 0.0, -np.inf, f"{entry.state} without a training step"
            )
        if failed(entry):
            return self._unfinished(entry, later)
        steps_s = float(reading.seconds.sum())
        unseen = self.unseen(entry)
        parts = {"steps made again": reading.repeated_s}
        parts["checkpoints"] = reading.checkpoint_s + unseen.middle
        spread, same = unseen.spread, 0.0
        if _came_back(entry):
            start = self.idle.get(entry.kind, self.every)
            back = float(np.nan_to_num(reading.restart_s))
            if entry.seconds is not None:
                earlier_s = _overwritten_s(entry)
                back = entry.seconds - steps_s - sum(parts.values()) - start.middle - earlier_s
                spread = float(np.hypot(start.spread, ROUNDED_S))
                same = _hours(entry, Z90 * start.error)
            parts["coming back"] = max(back, 0.0)
        words = [f"{name} {seconds:.0f} s" for name, seconds in parts.items() if seconds >= 1]
        lost_s = min(sum(parts.values()), (entry.seconds or np.inf) - steps_s)
        hours = _hours(entry, lost_s)
        error = _hours(entry, spread)
        return Failure(hours, hours - same, hours + same, error, evidence=", ".join(words))

    def _unfinished(self, entry: Entry, later: list[Entry]) -> Failure:
        """Loss of a job that ended before its work was done: all but the steps that
        were kept.
        """
        reading = entry.reading
        assert reading is not None
        total_s = entry.seconds or entry.steps_s
        kept, least, most, why = _kept(entry, later, entry.kind in self.saving)
        times = []
        for last in (kept, most, least):
            times.append(float(reading.seconds[reading.step <= last].sum()))
        lost, low, high = (_hours(entry, total_s - each) for each in times)
        evidence = f"{reading.problem or entry.state}; {why}"
        return Failure(lost, low, high, _hours(entry, ROUNDED_S), kept, evidence)


def _came_back(entry: Entry) -> bool:
    """Whether a job went on after a failure."""
    reading = entry.reading
    return len(entry.rows) > 1 or bool(reading and reading.restarts)


def _overwritten_s(entry: Entry) -> float:
    """Time of the steps that a requeued job made before those of its log."""
    reading = entry.reading
    assert reading is not None
    earlier_s = sum(row.seconds or 0.0 for row in entry.rows[:-1])
    rows = reading.step
    if len(rows) < 2 or reading.restarts or not reading.step_time_s:
        return 0.0
    before = max(int(rows[0] - np.median(np.diff(rows))), 0)
    return min(before * reading.step_time_s, earlier_s)


def _kept(entry: Entry, later: list[Entry], tells: bool) -> tuple[float, float, float, str]:
    """The last step of a failed job that was of use, the first and the last one that it
    can be, and what shows it. ``tells``: logs of its kind tell of checkpoints.
    """
    reading = entry.reading
    assert reading is not None
    saved = max(reading.saved, default=-1)
    last = int(reading.step[-1])
    for other in reversed(later):
        if other.reading is None or not len(other.reading.step):
            continue
        if (other.start or 0.0) < (entry.end or 0.0):
            continue
        first = int(other.reading.step[0])
        if max(saved, reading.step[0]) < first <= last + 1:
            later.remove(other)  # it goes on with the last one before it that fits
            return first - 1, first - 1, first - 1, f"{other.name} goes on at step {first}"
    begun = sorted(reading.begun)
    if reading.saved:
        most = max(saved, *begun, -1)
        return saved, saved, most, f"the last checkpoint is of step {saved}"
    if begun:
        before = begun[-2] if len(begun) > 1 else -np.inf
        why = f"a checkpoint was begun at step {begun[-1]}; no line says that it was written"
        return begun[-1], before, begun[-1], why
    if tells:
        return -np.inf, -np.inf, -np.inf, "it failed before its first checkpoint"
    return -np.inf, -np.inf, last, "no checkpoint is known"


def _line(entry: Entry) -> object:
    """Key that jobs share which go on with one training."""
    reading = entry.reading
    name = entry.rows[-1].name if entry.rows else reading and reading.name
    return entry.kind, name, reading and reading.planned


def _normal(values: Sequence[float]) -> Normal:
    if not values:
        return Normal()
    spread = robust_deviation(np.array(values))
    return Normal(float(np.median(values)), spread, MEDIAN * spread / len(values) ** 0.5)


def _hours(entry: Entry, seconds: float) -> float:
    return max(seconds, 0.0) * (entry.num_gpus or 0) / 3600
