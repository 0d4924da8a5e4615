"""What failures cost one job: work that was not kept or made again, checkpoints, coming
back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .entry import Entry

WORDS = ("FAILED", "NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE", "PREEMPTED")
"""Slurm's words for the end of a job that did not do all its work."""


@dataclass(frozen=True)
class Failure:
    """GPU-hours that one job lost to failures, and what shows it."""

    gpu_hours: float
    kept_s: float
    """Time of the steps that count."""
    evidence: str = ""


def failure_of(entry: Entry, later: Iterable[Entry], usual_s: float) -> Failure:
    """What failures cost a job. ``later``: jobs of its kind and name that started after
    it; ``usual_s``: time without steps that a job of its kind has without a failure.
    """
    reading = entry.reading
    if reading is None:
        if failed(entry):
            return Failure(entry.gpu_hours or 0.0, 0.0, f"{entry.state} without a training step")
        return Failure(0.0, 0.0)
    steps_s = float(reading.seconds.sum())
    total_s = entry.seconds or steps_s + reading.repeated_s + reading.checkpoint_s
    rest_s = max(total_s - steps_s - reading.repeated_s - reading.checkpoint_s - usual_s, 0.0)
    if failed(entry):
        kept, why = _kept(entry, later)
        kept_s = float(reading.seconds[reading.step <= kept].sum())
        lost_s = total_s - kept_s - (min(usual_s, total_s) if kept_s else 0.0)
        evidence = f"{reading.problem or entry.state}; {why}"
        return Failure(_hours(entry, lost_s), kept_s, evidence)
    parts = {"steps made again": reading.repeated_s, "checkpoints": reading.checkpoint_s}
    if reading.restarts or len(entry.rows) > 1:
        dated = reading.restart_s if np.isfinite(reading.restart_s) else rest_s
        parts["coming back"] = rest_s if entry.rows else dated
    lost_s = sum(parts.values())
    words = [f"{name} {seconds:.0f} s" for name, seconds in parts.items() if seconds >= 1]
    return Failure(_hours(entry, lost_s), steps_s, ", ".join(words))


def failed(entry: Entry) -> bool:
    """Whether a job ended before its work was done."""
    if entry.reading is not None and entry.reading.complete:
        return False
    crashed = entry.reading is not None and entry.reading.problem is not None
    if not entry.rows or entry.state == "CANCELLED":
        return crashed
    return entry.state in WORDS


def _kept(entry: Entry, later: Iterable[Entry]) -> tuple[float, str]:
    """The last step of a failed job that was of use, and what shows it."""
    reading = entry.reading
    assert reading is not None
    for other in later:
        if other.reading is None or not len(other.reading.step):
            continue
        first = int(other.reading.step[0])
        if reading.step[0] < first <= reading.step[-1] + 1:
            return first - 1, f"{other.name} goes on at step {first}"
    if reading.saved is not None:
        return reading.saved, f"the last checkpoint is of step {reading.saved}"
    return -np.inf, "no checkpoint is known"


def _hours(entry: Entry, seconds: float) -> float:
    return max(seconds, 0.0) * (entry.num_gpus or 0) / 3600
