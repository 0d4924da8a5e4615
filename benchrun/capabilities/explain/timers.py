"""What programs print of their own time beside the steps: timers of Megatron and
DeepSpeed, by rank or over all ranks, and reports on slow ranks of Megatron and NeMo.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np

from benchrun.measure.rows import CompletedRows
from benchrun.measure.statistics import Floats
from benchrun.paths import table
from benchrun.rundir.rank_times import RankTime, RankTimes

from .model import Name

ONE_LINE = re.compile(rb"time \(ms\) \|(.+)")
ITEM = re.compile(rb"([a-z][\w /-]*?) ?: ([\d.]+)(?= \||\s|$)")
OVER_RANKS = re.compile(rb"([a-z][\w/-]+) \.{3,}: \(([\d.]+), ([\d.]+)\)")
OF_SLOWEST = re.compile(rb"([a-z][\w/-]+) \.{3,}: ([\d.]+)\s")
BY_RANK = re.compile(rb"([a-z][\w/-]+):\r?\n((?:[^\n]{0,40}?\brank +\d+: [\d.]+\r?\n)+)")
ONE_RANK = re.compile(rb"\brank +(\d+): ([\d.]+)")
STRAGGLER = re.compile(
    rb"MnClk/Rnk: (\d+)MHz/(\d+) \| MxClk/Rnk: (\d+)MHz[^\n]*"
    rb"MnEtpt/Rnk: ([\d.]+)TF/(\d+) \| MxEtpt/Rnk: ([\d.]+)TF"
)
SCORES = re.compile(
    rb"GPU relative performance[^\n]*\n((?:[^\n]*Rank=\d+ Node=\S+ Score=[\d.]+\s*?\n)+)"
)
SCORE = re.compile(rb"Rank=(\d+) Node=(\S+) Score=([\d.]+)")
COMPUTE = ("forward-compute", "backward-compute")
"""Timers of what a rank computes by itself; those of the whole pass hold its waits."""


class Spread(NamedTuple):
    """One timer in one step, in s: of the fastest and of the slowest rank."""

    low: float
    high: float


class Report(NamedTuple):
    """The slowest rank of a report."""

    step: int
    rank: int
    host: str | None
    lost: float
    """Share of the speed that it lacks of the others'."""
    clock: bool
    """Whether its clock is lower by as much."""


@dataclass(frozen=True)
class Printed:
    """What a log prints of its time."""

    timers: Mapping[str, Mapping[int, Spread]] = field(default_factory=dict)
    """Name -> step -> seconds of the step."""
    ranks: RankTimes | None = None
    """What each rank computes, where the timers of all ranks are printed."""
    reports: tuple[Report, ...] = ()

    def sums(self, names: Sequence[str], steps: Floats, slowest: float) -> Floats:
        """Seconds of the timers called ``names`` on the slowest rank, in each of ``steps``: 0
        in a step that has other timers alone, NaN in one without any.

        Megatron stops the clock of its steps while it writes a checkpoint: a timer far
        beyond the ``slowest`` step is of no step.
        """
        total = np.full(len(steps), np.nan)
        for place, step in enumerate(steps):
            stated = {
                name: by_step[int(step)].high
                for name, by_step in self.timers.items()
                if int(step) in by_step
            }
            if stated:
                own = [stated.get(name, 0.0) for name in names]
                total[place] = sum(seconds for seconds in own if seconds <= 2 * slowest)
        return total

    def names(self, cause: Name) -> list[str]:
        """Timers whose time is that of ``cause``."""
        return [name for name in self.timers if cause_of(name) == cause]


def cause_of(timer: str) -> Name | None:
    """The cause that the time of a timer shows, by timers.csv; None for a pass of the
    model and for what contains others.
    """
    for row in table(__file__):
        if re.fullmatch(row["timer"], timer):
            return cast("Name", row["cause"])
    return None


def printed(text: bytes, rows: CompletedRows) -> Printed | None:
    """What the log ``text`` prints of its time; None if nothing."""
    places = _Steps(text, rows)
    timers: dict[str, dict[int, Spread]] = {}
    for at, name, low, high in _timers(text):
        step = places.at(at)
        if step is not None:
            before = timers.setdefault(name, {}).get(step, Spread(0.0, 0.0))
            timers[name][step] = Spread(before.low + low, before.high + high)
    found = Printed(timers, _ranks(text, places), tuple(_reports(text, places)))
    return found if found != Printed() else None


class _Steps:
    """The step to which a place of a log belongs."""

    def __init__(self, text: bytes, rows: CompletedRows) -> None:
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        self.begins = np.concatenate([[0], ends + 1])[np.minimum(rows.line - 1, len(ends))]
        self.steps = rows.step

    def at(self, place: int) -> int | None:
        """Number of the last step that is printed before ``place``; None before the first."""
        row = int(np.searchsorted(self.begins, place, side="right")) - 1
        return int(self.steps[row]) if row >= 0 else None


def _timers(text: bytes) -> Iterator[tuple[int, str, float, float]]:
    """Place, name and seconds of each timer, of the fastest and of the slowest rank."""
    for line in ONE_LINE.finditer(text):
        for name, value in ITEM.findall(line[1]):
            yield line.start(), _name(name), float(value) / 1000, float(value) / 1000
    dotted = text if b"...: " in text else b""  # the search takes long
    for each in OVER_RANKS.finditer(dotted):
        yield each.start(), _name(each[1]), float(each[2]) / 1000, float(each[3]) / 1000
    for each in OF_SLOWEST.finditer(dotted):
        yield each.start(), _name(each[1]), float(each[2]) / 1000, float(each[2]) / 1000
    for each in _by_rank(text):
        values = [float(value) / 1000 for _, value in ONE_RANK.findall(each[2])]
        yield each.start(), _name(each[1]), min(values), max(values)


def _by_rank(text: bytes) -> Iterator[re.Match[bytes]]:
    """Timers with a line for each rank."""
    if ONE_RANK.search(text):  # the longer search takes longer
        yield from BY_RANK.finditer(text)


def _name(name: bytes) -> str:
    return name.decode().strip().replace(" ", "-")


def _ranks(text: bytes, places: _Steps) -> RankTimes | None:
    """What each rank computes in the steps in which every rank printed it."""
    computed: dict[int, dict[int, float]] = {}
    for each in _by_rank(text):
        step = places.at(each.start())
        if step is None or _name(each[1]) not in COMPUTE:
            continue
        of_step = computed.setdefault(step, {})
        for rank, value in ONE_RANK.findall(each[2]):
            of_step[int(rank)] = of_step.get(int(rank), 0.0) + float(value) / 1000
    numbers = set().union(*computed.values())
    whole = {}
    for step, of_step in computed.items():
        if len(of_step) == len(numbers):
            whole[step] = of_step
    if len(numbers) < 2 or not whole:
        return None
    ranks = []
    for rank in sorted(numbers):
        times = tuple(of_step[rank] for of_step in whole.values())
        ranks.append(RankTime(rank=rank, host="", compute_time_s=times, collective_time_s=()))
    return RankTimes(steps=tuple(whole), ranks=tuple(ranks))


def _reports(text: bytes, places: _Steps) -> Iterator[Report]:
    for each in STRAGGLER.finditer(text):
        clock, cold, most_mhz, slow, rank, fast = (float(value) for value in each.groups())
        lost = 1 - slow / fast if fast else 0.0
        slower_clock = cold == rank and 1 - clock / max(most_mhz, 1.0) >= lost / 2
        yield Report(places.at(each.start()) or 0, int(rank), None, lost, slower_clock)
    for each in SCORES.finditer(text):
        scores = [(float(score), int(rank), host) for rank, host, score in SCORE.findall(each[1])]
        usual = float(np.median([score for score, *_ in scores]))
        score, rank, host = min(scores)
        lost = 1 - score / usual if usual else 0.0
        yield Report(places.at(each.start()) or 0, rank, host.decode(), lost, False)
