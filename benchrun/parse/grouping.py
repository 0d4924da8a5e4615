"""Which files are logs of one run.

Two logs with steps are one run where they contradict each other in nothing that both state (facts, batch, date of the
first step, and what they print of the steps that both have), and one prints the other's steps or goes on where it ends.
A log without a step belongs to the run of its stem in its folder, else to the only run of its folder, or of the nearest
folder above that holds one. What belongs to no run, or to several, stands alone where the file was named, and is left
out where only its folder was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchrun.parse.inputs import LogFile
from benchrun.parse.records import Facts, Log
from benchrun.parse.tracks import Track, compatible, in_touch, track_of

_ENDINGS = re.compile(r"([-_.](log|out|err|txt|stdout|stderr|gz|zst|xz))+$")
_OF_EACH_PROCESS = frozenset({"run_time_s"})
"""Facts that each process of a run measures by itself."""


@dataclass(frozen=True)
class Part:
    """One file, read alone."""

    source: LogFile
    log: Log
    stated: Mapping[str, Facts] = field(default_factory=dict)
    """Framework -> facts as its dialect reads them: a log without a step does not identify its framework."""


@dataclass
class _Run:
    framework: str
    parts: list[Part] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    tracks: list[Track] = field(default_factory=list)
    steps_made: int = 0
    stems: set[tuple[Path, str]] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)
    """All that its files with steps lie in, up to the root."""

    def add(self, part: Part, track: Track) -> None:
        self.parts.append(part)
        file = part.source.file.absolute()
        self.stems.add(_stem(file))
        self.folders.update(file.parents)
        self.facts.fill(part.log.facts)
        self.steps_made = max(self.steps_made, part.log.steps_made)
        # Of a thousand ranks that print the same steps one is compared with the next.
        if all((track.first, track.last) != (other.first, other.last) for other in self.tracks):
            self.tracks.append(track)

    def holds(self, log: Log, track: Track) -> bool:
        """Whether a log with steps is one of this run."""
        return (
            log.framework == self.framework
            and not contradict(self.facts, log.facts)
            and not _beyond(self.steps_made, log.planned_steps)
            and not _beyond(log.steps_made, self.facts.planned_steps)
            and all(compatible(other, track) for other in self.tracks)
            and any(in_touch(other, track) for other in self.tracks)
        )

    def admits(self, part: Part) -> bool:
        """Whether a log without a step states nothing else."""
        stated = part.stated.get(self.framework)
        return stated is None or not contradict(self.facts, stated)


def grouped(parts: Sequence[Part]) -> tuple[list[list[Part]], list[Part]]:
    """The runs, each with its parts in the order given, and the parts that are left out."""
    tracks = [(track_of(part.log), part) for part in parts if len(part.log.steps)]
    runs: list[_Run] = []
    for track, part in sorted(tracks, key=lambda pair: pair[0].first):
        run = next((run for run in runs if run.holds(part.log, track)), None)
        if run is None:
            runs.append(run := _Run(part.log.framework))
        run.add(part, track)
    found, left_out = [list(run.parts) for run in runs], []
    for part in parts:
        if len(part.log.steps):
            continue
        owner = _owner(part, runs)
        if owner is not None:
            found[owner].append(part)
        elif part.source.named:
            found.append([part])
        else:
            left_out.append(part)
    order = {id(part): number for number, part in enumerate(parts)}
    found = [sorted(each, key=lambda part: order[id(part)]) for each in found]
    return sorted(found, key=lambda each: order[id(each[0])]), left_out


def contradict(one: Facts, other: Facts) -> bool:
    """Whether both state some fact, and not the same."""
    pairs = ((value, getattr(other, name)) for name, value in vars(one).items() if name not in _OF_EACH_PROCESS)
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def _beyond(made: int, planned: int | None) -> bool:
    return planned is not None and made > planned


def _owner(part: Part, runs: Sequence[_Run]) -> int | None:
    """The number of the run that a log without a step belongs to."""
    file = part.source.file.absolute()
    twins = [n for n, run in enumerate(runs) if _stem(file) in run.stems and run.admits(part)]
    if len(twins) == 1:
        return twins[0]
    if ".txt" in file.suffixes and not part.source.named:
        return None  # a text of a folder is a job's output only where it has a job's name
    for folder in file.parents:
        inside = [n for n, run in enumerate(runs) if folder in run.folders]
        if inside:
            fitting = [n for n in inside if runs[n].admits(part)]
            return fitting[0] if len(fitting) == 1 else None
    return None


def _stem(file: Path) -> tuple[Path, str]:
    """Folder, and name without the endings that tell the streams of a job apart."""
    return file.parent, _ENDINGS.sub("", file.name)
