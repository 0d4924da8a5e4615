"""The GPUs of a run over time: which samples belong to which steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchrun.logs import Log
from benchrun.measure.rows import CompletedRows
from benchrun.measure.samples import Samples, read
from benchrun.measure.statistics import Floats
from benchrun.measure.telemetry import UNDER_LOAD
from benchrun.rundir.folder import RunDir

ZONE_S = 900
"""The zones of clocks differ by a multiple of it."""
COVERED_S = 1.0
"""Seconds before a sample that its utilisation and its power cover."""


BUSY, STILL = 90.0, 10.0
"""Percent of the time with a kernel: of a GPU that works or waits in a collective at
least, of one that has nothing to do at most.
"""


@dataclass(frozen=True, eq=False)
class Gpu:
    """The samples of one GPU."""

    host: str
    index: int
    rank: int | None
    """The rank that uses it; None where several nodes leave that open."""
    samples: Samples

    @property
    def name(self) -> str:
        """Name in a sentence."""
        return f"GPU {self.index} of {self.host}"


@dataclass(frozen=True)
class Course:
    """The samples of every GPU, beside the end of every step."""

    ends: dict[int, float]
    """Number of a step -> its end, in s since 1970."""
    gpus: tuple[Gpu, ...]

    def between(self, gpu: Gpu, start: float, end: float) -> Samples:
        """Samples that cover nothing but the time from ``start`` to ``end``."""
        time = gpu.samples["time"]
        inside: Samples = gpu.samples[(time >= start + COVERED_S) & (time <= end)]
        return inside

    def still(self, start: float, end: float) -> list[Gpu]:
        """The GPUs that a sample between ``start`` and ``end`` shows without a kernel,
        while every other one is busy.
        """
        used = []
        for gpu in self.gpus:
            time = gpu.samples["time"]
            inside = (time > start) & (time <= end)
            used.append(gpu.samples["utilisation_percent"][inside])
        found = []
        for gpu, own in zip(self.gpus, used, strict=True):
            others = [each for each in used if each is not own]
            busy = others and all(len(each) and np.nanmax(each) >= BUSY for each in others)
            if busy and len(own) and np.nanmin(own) <= STILL:
                found.append(gpu)
        return found


def course_of(run: RunDir, log: Log, rows: CompletedRows) -> Course | None:
    """Return the course of ``run``; None if not all of its GPUs were sampled, or the
    log has no date.
    """
    gpus: list[Gpu] = []
    files = run.telemetry()
    for host, text in sorted(files.items()):
        for local, (index, samples) in enumerate(read(text).items()):
            gpus.append(Gpu(host, index, local if len(files) == 1 else None, samples))
    ends = _ends(log, rows)
    if ends is None or len(gpus) != run.spec.num_gpus or not len(ends):
        return None
    samples = np.concatenate([gpu.samples for gpu in gpus])
    loaded = samples["power_w"] >= UNDER_LOAD * np.nanmax(samples["power_w"], initial=0)
    if not loaded.any():
        return None
    zones = round((float(samples["time"][loaded].max()) - ends[-1]) / ZONE_S)
    numbered = zip(rows.step.tolist(), (ends + zones * ZONE_S).tolist(), strict=True)
    return Course(dict(numbered), tuple(gpus))


def _ends(log: Log, rows: CompletedRows) -> Floats | None:
    """End of each row by the log's clock, in s; None if a time or every date is missing.

    A printed date is cut to the whole second before it, so that no step ended earlier:
    the latest of all such bounds is nearest.
    """
    took = rows.step_time_s * rows.interval
    if np.isnan(took).any():
        return None
    since_first = np.cumsum(took) - took[:1]
    if log.facts.ended_at is not None:
        return np.asarray(log.facts.ended_at - since_first[-1:] + since_first)
    if log.began is None:
        return None
    apart = took.copy()
    for row, step in enumerate(rows.step.tolist()):
        if step in log.dated_s:
            apart[row] = np.mean(log.dated_s[step]) * rows.interval[row]
    later = log.began + np.cumsum(apart) - apart[:1] - since_first
    bound: NDArray[np.float64] = np.maximum.accumulate(later)
    if np.ptp(later) < 1:
        bound = np.full(len(later), later.max())
    return since_first + bound
