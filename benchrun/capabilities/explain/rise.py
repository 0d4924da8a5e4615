"""Where the speed of a run changes: steps that take longer from some step on, for good or
for a while. The other steps show what the same work can take.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.measure.changes import SHORTEST, bunched, chance_of_change, changes
from benchrun.measure.statistics import Floats

from .evidence import Evidence
from .model import FAULT_SHARE
from .onset import FEWEST, LONGEST, rise

CHANCE = 0.01
"""Largest chance of a rise among steps in any order: every run is tested."""
LASTING = 8
"""Steps that a rise for good has at least: late hosts of kept runs slowed down five."""
MUCH, BRIEF = 0.5, 6
"""Share of the step by which as few steps as these must rise, to be more than a pause."""
AT_ONCE = 0.7
"""Share of a rise that the nearest steps show: a drift of clocks, data or routing takes
longer.
"""
ROUTED = 0.2
"""Share of the step by which steps with experts must rise: the router's choice makes
smaller rises.
"""
HALF = 0.5


class Rise(NamedTuple):
    """A stretch of slower steps."""

    since_step: int
    until_step: int | None
    """Last step of it; None if it lasts to the end."""
    before_s: float
    after_s: float
    share: float
    """Share of the measured steps that have it."""

    @property
    def seconds(self) -> float:
        """Seconds of the mean step that it costs."""
        return (self.after_s - self.before_s) * self.share

    def covers(self, steps: Floats) -> NDArray[np.bool_]:
        """Whether each of ``steps`` lies in it."""
        until = np.inf if self.until_step is None else self.until_step
        inside: NDArray[np.bool_] = (steps >= self.since_step) & (steps <= until)
        return inside


class Level(NamedTuple):
    """Steps in a row of one speed."""

    first_step: int
    last_step: int
    seconds: float
    """Median step."""
    rows: int


def timed(run: Evidence) -> tuple[Floats, Floats]:
    """Times and numbers of all steps after the start; of a long run medians of as many
    steps, by the first of them.
    """
    times = np.concatenate([run.earlier, run.times])
    steps = np.concatenate([run.earlier_steps, run.steps])
    together = -(-len(times) // LONGEST)
    if together < 2:
        return times, steps
    begins = np.arange(0, len(times), together)
    joined = [np.median(times[begin : begin + together]) for begin in begins]
    return np.array(joined), steps[begins]


def levels(run: Evidence) -> list[Level]:
    """The run, split where its speed changes for long; empty without enough steps."""
    times, steps = timed(run)
    if not run.same_work or len(times) < SHORTEST:
        return []
    places = {cut.place for cut in (*changes(times), *bunched(times))}
    bounds = [0, *sorted(places), len(times)]
    while len(bounds) > 2:
        for number in range(1, len(bounds) - 1):
            bounds[number] = _between(times, *bounds[number - 1 : number + 2])
        weakest = _weakest(run, times, bounds)
        if weakest is None:
            break
        bounds.remove(weakest)
    last = float(run.steps[-1])
    found = []
    for begin, end in pairwise(bounds):
        until = steps[end] - 1 if end < len(steps) else last
        level = Level(
            int(steps[begin]), int(until), float(np.median(times[begin:end])), end - begin
        )
        found.append(level)
    return found


def _weakest(run: Evidence, times: Floats, bounds: list[int]) -> int | None:
    """The bound between the two levels that differ least, if that is too little, not sure,
    or one of them too short for a level.
    """
    weak = []
    for begin, bound, end in zip(bounds, bounds[1:], bounds[2:], strict=False):
        before = float(np.median(times[begin:bound]))
        after = float(np.median(times[bound:end]))
        change, usual = abs(after - before), min(before, after)
        slow, fast = (
            (end - bound, bound - begin) if after > before else (bound - begin, end - bound)
        )
        short = slow < _fewest(change, usual) or fast < FEWEST
        if short or change < _least(run, usual) or chance_of_change(times[begin:end]) > CHANCE:
            weak.append((change, bound))
    return min(weak)[1] if weak else None


def _fewest(change: float, usual: float) -> int:
    """Steps that a slow level has at least, which takes ``change`` more than ``usual``."""
    return BRIEF if change > MUCH * usual else LASTING


def _between(times: Floats, begin: int, bound: int, end: int) -> int:
    """The place near ``bound`` that divides two levels best."""
    low, high = np.median(times[begin:bound]), np.median(times[bound:end])

    def misfit(place: int) -> float:
        return float(np.abs(times[begin:place] - low).sum() + np.abs(times[place:end] - high).sum())

    return min(range(max(bound - LASTING, begin + 1), min(bound + LASTING, end)), key=misfit)


def _least(run: Evidence, usual: float) -> float:
    """Seconds by which a step must be longer than the ``usual`` one."""
    share = FAULT_SHARE
    if run.routed:
        share = ROUTED
    return max(share * usual, run.resolution_s)


def risen(run: Evidence) -> Rise | None:
    """The rise that lasts to the end, else the costliest stretch of slower steps before
    faster ones; None if the steps have none that is sure.
    """
    return _lasting(run) or _passing(run)


def _lasting(run: Evidence) -> Rise | None:
    times, steps = timed(run)
    if not run.same_work or len(times) < SHORTEST:
        return None
    for cut in changes(times):
        place = _begin(times, cut.place)
        before, after = times[:place], times[place:]
        if not len(before) or not len(after):
            continue
        usual = float(np.median(before))
        if len(after) < _fewest(float(np.median(after)) - usual, usual):
            continue
        higher = rise(times, place, _least(run, usual))
        if higher and cut.chance <= CHANCE and _at_once(before, after):
            since = int(steps[place])
            share = float(np.mean(run.steps >= since))
            return Rise(since, None, usual, float(np.median(after)), share)
    return None


def _passing(run: Evidence) -> Rise | None:
    """The costliest level that is slower than those beside it. The first one must end at once:
    a start may settle slowly.
    """
    found = []
    course = levels(run)
    times, steps = timed(run)
    for place, slow in enumerate(course[:-1]):
        beside = [*course[max(place - 1, 0) : place], course[place + 1]]
        usual = max(level.seconds for level in beside)
        if slow.seconds - usual >= _least(run, usual):
            stretch = Rise(slow.first_step, slow.last_step, usual, slow.seconds, 0.0)
            share = float(np.mean(stretch.covers(run.steps)))
            faster = (steps > slow.last_step) & (steps <= course[place + 1].last_step)
            back = times[faster][::-1], times[stretch.covers(steps)][::-1]
            sure = rise(np.concatenate(back), len(back[0]), _least(run, usual))
            if place or (sure and _at_once(*back)):
                found.append(stretch._replace(share=share))
    return max(found, key=lambda rise: rise.seconds, default=None)


def _begin(times: Floats, place: int) -> int:
    """First step of a rise at ``place``: some of its first steps may be as fast as
    before.
    """
    middle = (np.median(times[:place]) + np.median(times[place:])) / 2
    slow = times > middle
    for earlier in range(max(place - FEWEST, 0), place):
        if slow[earlier] and np.mean(slow[earlier:place]) >= HALF:
            return earlier
    return place


def _at_once(before: Floats, after: Floats) -> bool:
    near = float(np.median(after[:FEWEST]) - np.median(before[-FEWEST:]))
    return near >= AT_ONCE * float(np.median(after) - np.median(before))
