"""Grouping of files that are logs of one run.

Two logs with steps are one run if they contradict each other in nothing that both state
(facts, batch, date of the first step, and what they print of the steps that both have),
and one prints the other's steps or goes on where it ends. A log without a step belongs
to the run of its stem in its folder, else to the only run of its folder, or of the
nearest folder above that holds one. What belongs to no run, or to several, stands alone
if the file was named, and is left out if only its folder was.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path

import numpy as np

from .columns import NO_COUNT, NO_VALUE, Column
from .inputs import LogFile
from .records import Facts, Log

_ENDINGS = re.compile(r"([-_.](log|out|err|txt|stdout|stderr|gz|zst|xz))+$")
SAMPLE = 1 << 12
"""Rows at each end of a log that are compared."""
SAME_LOSS = 5e-4
"""Relative tolerance of a loss; some programs print four digits of a loss in one place
and seven in another.
"""
SAME_TIME = 1e-3
"""Relative tolerance of a time. Two runs differ by more, unless their steps vary by
less.
"""
SAME_DIGITS = 1e-9
"""Relative difference that two floats of one printed number may have."""
SAME_DATE_S = 60.0
"""The ranks of a run print a step within this time."""


class Part:
    """One file, read alone, and its steps in the order of their numbers: at most SAMPLE
    rows at either end.
    """

    def __init__(self, source: LogFile, log: Log, stated: Mapping[str, Facts]) -> None:
        """``stated``: framework -> facts by its dialect, as a log without a step does
        not identify its framework.
        """
        self.source, self.log, self.stated = source, log, stated
        self.file = source.file.absolute()
        self.stem = self.file.parent, _ENDINGS.sub("", self.file.name)
        """Folder, and name without the endings that tell the streams of a job apart."""
        names = "step", "loss", "step_time_s", "tokens_per_s_per_gpu", "global_batch_size"
        rows = np.array(log.distinct.columns(*names), np.float64)
        if rows.shape[1] > 2 * SAMPLE:
            rows = np.concatenate([rows[:, :SAMPLE], rows[:, -SAMPLE:]], axis=1)
        self.step, self.loss, self.time, self.rate, self.batch = rows
        self.first, self.last = (
            (int(self.step[0]), int(self.step[-1])) if len(self.step) else (0, 0)
        )
        self.distance = int(np.median(np.diff(self.step))) if len(self.step) > 1 else 1
        """Steps from one row to the next."""


@dataclass
class _Run:
    framework: str
    parts: list[Part] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    tracks: list[Part] = field(default_factory=list)
    """Parts that others are compared with: one of a thousand ranks that print the same
    steps.
    """
    steps_made: int = 0
    stems: set[tuple[Path, str]] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)
    """All that its files with steps lie in, up to the root."""

    def add(self, part: Part) -> None:
        self.parts.append(part)
        self.stems.add(part.stem)
        self.folders.update(part.file.parents)
        self.facts.fill(part.log.facts)
        self.steps_made = max(self.steps_made, part.log.steps_made)
        if all((part.first, part.last) != (other.first, other.last) for other in self.tracks):
            self.tracks.append(part)

    def begins_at(self, step: int) -> bool:
        """Whether the first step of one of its logs is this one."""
        return any(track.first == step for track in self.tracks)

    def holds(self, part: Part) -> bool:
        """Whether a log with steps is one of this run."""
        log = part.log
        return (
            log.framework == self.framework
            and not self.facts.contradict(log.facts)
            and not self.uses_others(log.facts)
            and self.steps_made <= (log.planned_steps or inf)
            and log.steps_made <= (self.facts.planned_steps or inf)
            and all(compatible(other, part) for other in self.tracks)
            and any(in_touch(other, part) for other in self.tracks)
        )

    def uses_others(self, facts: Facts) -> bool:
        """Whether both print their arguments, and one uses an option that the other
        does not.
        """
        printed = self.facts.num_layers and facts.num_layers
        return bool(printed) and self.facts.used != facts.used

    def admits(self, part: Part) -> bool:
        """Whether a log without a step states nothing else."""
        stated = part.stated.get(self.framework)
        return stated is None or not self.facts.contradict(stated)


def grouped(parts: Sequence[Part], *, jobs: bool = False) -> tuple[list[list[Part]], list[Part]]:
    """The runs, each with its parts in the order given, and the parts that are left
    out. With ``jobs`` a log that goes on with another is another job's, and one without
    a step belongs only to the run of its stem.
    """
    runs: list[_Run] = []
    for part in sorted((part for part in parts if len(part.step)), key=lambda part: part.first):
        fitting = [run for run in runs if not jobs or run.begins_at(part.first)]
        run = next((run for run in fitting if run.holds(part)), None)
        if run is None:
            runs.append(run := _Run(part.log.framework))
        run.add(part)
    groups, left_out = [run.parts for run in runs], []
    for part in parts:
        if len(part.step):
            continue
        owner = _owner(part, runs, jobs=jobs)
        if owner is not None:
            owner.parts.append(part)
        elif part.source.named:
            groups.append([part])
        else:
            left_out.append(part)
    place = {part: number for number, part in enumerate(parts)}.__getitem__
    groups = [sorted(group, key=place) for group in groups]
    return sorted(groups, key=lambda group: place(group[0])), left_out


def _owner(part: Part, runs: Sequence[_Run], *, jobs: bool) -> _Run | None:
    """The run that a log without a step belongs to."""
    fitting = [run for run in runs if run.admits(part)]
    twins = [run for run in fitting if part.stem in run.stems]
    if len(twins) == 1:
        return twins[0]
    if jobs or (".txt" in part.file.suffixes and not part.source.named):
        return None  # a text of a folder is a job's output only if it has a job's name
    for folder in part.file.parents:
        if any(folder in run.folders for run in runs):
            inside = [run for run in fitting if folder in run.folders]
            if len(inside) == 1:
                return inside[0]
            return None
    return None


def in_touch(one: Part, other: Part) -> bool:
    """Whether some steps are in both, or one begins where the other ends."""
    earlier, later = sorted((one, other), key=lambda part: part.first)
    return later.first <= earlier.last + max(earlier.distance, later.distance)


def compatible(one: Part, other: Part) -> bool:
    """Whether nothing that both print shows two runs.

    A run that was resumed repeats steps with other values, but later. Otherwise the
    same steps have the same loss and the same time: the very same if one rank prints
    it; else ranks time one step, and differ by far less than the steps of a run vary.
    """
    earlier, later = sorted((one, other), key=lambda part: part.first)
    batches = [np.unique(part.batch[part.batch != NO_COUNT]) for part in (earlier, later)]
    if all(len(sizes) == 1 for sizes in batches) and batches[0] != batches[1]:
        return False
    began, later_began = earlier.log.began, later.log.began
    dated = began is not None and later_began is not None
    waited = (later_began or 0.0) - (began or 0.0)
    if earlier.first < later.first and earlier.last < later.last:
        return not dated or waited >= 0
    if dated and earlier.first == later.first and abs(waited) > SAME_DATE_S:
        return False
    _, first, second = np.intersect1d(earlier.step, later.step, return_indices=True)
    if not _near(earlier.loss[first], later.loss[second], SAME_LOSS):
        return False
    times, rates = (
        (earlier.time[first], later.time[second]),
        (earlier.rate[first], later.rate[second]),
    )
    if earlier.log.whole_seconds or later.log.whole_seconds:
        return _as_long(*times)
    if earlier.log.one_rank_prints and later.log.one_rank_prints:
        return _near(*times, SAME_DIGITS)
    return all(_near(a, b, max(SAME_TIME, _variation(a) / 2)) for a, b in (times, rates))


def _as_long(one: Column, other: Column) -> bool:
    """Whether the same steps took as long in all, by two clocks of whole seconds."""
    both = np.isfinite(one) & np.isfinite(other)
    return bool(abs(one[both].sum() - other[both].sum()) <= 2 + SAME_TIME * one[both].sum())


def _near(one: Column, other: Column, tolerance: float) -> bool:
    """Whether the values that both have differ, relative, by at most ``tolerance`` in
    half of the rows.
    """
    both = np.isfinite(one) & np.isfinite(other)
    one, other = one[both], other[both]
    size = np.maximum(np.abs(one), np.abs(other))
    return not len(one) or bool(
        np.median(np.abs(one - other) / np.where(size > 0, size, 1.0)) <= tolerance
    )


def _variation(values: Column) -> float:
    """Median deviation from the median, relative; 0 without a value."""
    values = values[values != NO_VALUE]
    middle = float(np.median(values)) if len(values) else 0.0
    if middle > 0:
        return float(np.median(np.abs(values - middle))) / middle
    return 0.0
