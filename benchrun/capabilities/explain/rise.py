"""Where the speed of a run changes: steps that take longer from some step on, for good or
for a while. The other steps show what the same work can take.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.measure.changes import SHORTEST, changes
from benchrun.measure.samples import Samples
from benchrun.measure.statistics import Floats

from .advice import fault
from .course import BUSY, STILL, Course, Gpu
from .evidence import IN_USE, Evidence
from .model import FAULT_SHARE, Cause, Name
from .onset import FEWEST, LONGEST, rise
from .said import of_growth

CHANCE = 0.01
"""Largest chance of a rise among steps in any order: every run is tested."""
LASTING = 8
"""Steps that a rise for good has at least: late hosts of kept runs slowed down five."""
AT_ONCE = 0.7
"""Share of a rise that the nearest steps show: a drift of clocks, data or routing takes
longer.
"""
ROUTED = 0.2
"""Share of the step by which steps with experts must rise: the router's choice makes
smaller rises.
"""
FELL = 10.0
"""Least points by which a GPU that has nothing to do loses of the time with a kernel."""
WORKS, WAITS = 0.8, 0.8
"""Least power of a GPU that computes, after the rise, as a share of that before; and
the most that one which waits in a collective has, as a share of that one's.
"""
HALF = 0.5
ACCUMULATES = (
    "look for what accumulates: tensors kept alive in a list, a log or an index that is read from its beginning, "
    "memory that fragments; profiles of an early and of a late step show which part grows"
)


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
    bounds = [0]
    for cut in changes(times):
        if cut.chance <= CHANCE:
            bounds.append(cut.place)
    bounds.append(len(times))
    while len(bounds) > 2 and (weakest := _weakest(run, times, bounds)):
        bounds.remove(weakest)
    for number in range(1, len(bounds) - 1):
        bounds[number] = _between(times, *bounds[number - 1 : number + 2])
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
    """The bound between the two levels that differ least, if that is too little or one of
    them too short for a level.
    """
    medians = [float(np.median(times[begin:end])) for begin, end in pairwise(bounds)]
    weak = []
    for number, bound in enumerate(bounds[1:-1], 1):
        before, after = medians[number - 1], medians[number]
        short = min(bound - bounds[number - 1], bounds[number + 1] - bound) < LASTING
        if short or abs(after - before) < _least(run, min(before, after)):
            weak.append((abs(after - before), bound))
    return min(weak)[1] if weak else None


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
        if not len(before) or len(after) < LASTING:
            continue
        usual = float(np.median(before))
        higher = rise(times, place, _least(run, usual))
        if higher and cut.chance <= CHANCE and _at_once(before, after):
            since = int(steps[place])
            share = float(np.mean(run.steps >= since))
            return Rise(since, None, usual, float(np.median(after)), share)
    return None


def growing(run: Evidence) -> Cause | None:
    """A step that grows all the time, level by level; None if it does not."""
    found = levels(run)
    first = found[0] if len(found) >= FEWEST else None
    if first is None or any(after.seconds < before.seconds for before, after in pairwise(found)):
        return None
    last = found[-1]
    seconds = run.step_s - first.seconds
    if seconds < ROUTED * run.step_s:
        return None
    evidence = (
        f"the step grows all the time, from {first.seconds:.3g} s in steps {first.first_step} to "
        f"{first.last_step} to {last.seconds:.3g} s in steps {last.first_step} to {last.last_step}"
    )
    cause = fault("unknown", seconds, evidence)
    return cause.model_copy(update={"since_step": found[1].first_step, "advice": ACCUMULATES})


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


def of_rise(run: Evidence, found: Rise) -> Cause:
    """The fault behind a rise: what the single GPUs changed at that step, else unknown."""
    until, others = "on", "before"
    if found.until_step is not None:
        until, others = f"to {found.until_step}", "beside them"
    evidence = (
        f"steps take {found.after_s:.3g} s from step {found.since_step} {until}, "
        f"{found.before_s:.3g} s {others}"
    )
    cause = fault("unknown", found.seconds, evidence)
    changed = _changed(run, found)
    if changed is not None:
        name, gpu, words = changed
        host = gpu.host if gpu else None
        rank = gpu.rank if gpu else None
        cause = fault(name, found.seconds, f"{evidence}; {words} (telemetry)", rank, host)
    elif grown := of_growth(run, found.covers(run.steps), found.after_s - found.before_s):
        name, words = grown
        cause = fault(name, found.seconds, f"{evidence}; {words}")
    return cause.model_copy(update={"since_step": found.since_step})


class _Sides(NamedTuple):
    """Samples of one GPU before and after a rise."""

    gpu: Gpu
    before: Samples
    after: Samples

    def means(self, column: str) -> tuple[float, float]:
        return float(np.nanmean(self.before[column])), float(np.nanmean(self.after[column]))

    @property
    def power(self) -> float:
        before, after = self.means("power_w")
        return after / before

    @property
    def clock(self) -> float:
        """Clock after the rise, as a share of that before; 1 if it is not known."""
        medians = []
        for side in (self.before, self.after):
            used = side[side["utilisation_percent"] >= IN_USE]["sm_clock_mhz"]
            medians.append(float(np.median(used)) if len(used) else np.nan)
        return medians[1] / medians[0] if np.isfinite(medians).all() else 1.0


def _changed(run: Evidence, found: Rise) -> tuple[Name, Gpu | None, str] | None:
    """Change that came with the rise: a cause, the one GPU that has it, and words for it."""
    sides = _sides(run.course, run, found) if run.course else []
    if not sides:
        return None
    for find in (_still, _slowed, _working):
        if changed := find(sides, 1 - found.before_s / found.after_s):
            return changed
    return None


def _sides(course: Course, run: Evidence, found: Rise) -> list[_Sides]:
    """Samples of each GPU before and after; none if there are too few."""
    numbers = sorted(course.ends)
    if found.since_step not in numbers[1:]:
        return []
    first = numbers.index(found.since_step)
    last = numbers[-1] if found.until_step is None else found.until_step
    if last not in course.ends:
        return []
    rose, end = course.ends[numbers[first - 1]], course.ends[last]
    start = course.ends[numbers[0]]
    sides = []
    for gpu in course.gpus:
        before = course.between(gpu, start, rose)
        after = course.between(gpu, rose + found.before_s, end)
        if not len(before) or len(after) < FEWEST:
            return []
        sides.append(_Sides(gpu, before, after))
    return sides


def _still(sides: list[_Sides], lost: float) -> tuple[Name, Gpu | None, str] | None:
    """GPUs that have nothing to do for a part of the time since: one, or all."""
    fell = []
    for side in sides:
        before, after = side.means("utilisation_percent")
        if before - after >= max(FELL, 100 * HALF * lost):
            fell.append(side)
    if not fell or len(fell) not in (1, len(sides)):
        return None
    used = np.concatenate([side.after["utilisation_percent"] for side in fell])
    busy = [side.means("utilisation_percent")[1] for side in sides if side not in fell]
    if busy and min(busy) < BUSY:
        return None
    # A loader lets the GPU wait once in a step, a late host between all kernels.
    whole = float(np.mean((used <= STILL) | (used >= IN_USE))) > HALF
    name: Name = "data" if whole and (used <= STILL).any() else "host"
    where = fell[0].gpu.name if busy else "every GPU"
    words = f"{where} has had a kernel for {np.mean(used):.0f} % of the time since then"
    if busy:
        words += ", the others for nearly all of it"
    if name == "data":
        words += "; it stands still in whole stretches, as for a loader or a stopped process"
    return name, fell[0].gpu if busy else None, words


def _slowed(sides: list[_Sides], lost: float) -> tuple[Name, Gpu | None, str] | None:
    """GPUs whose clock fell by about as much as the steps slowed down: one, or all."""
    fell = [side for side in sides if 1 - side.clock >= HALF * lost]
    if len(fell) not in (1, len(sides)):
        return None
    where = fell[0].gpu.name if len(fell) < len(sides) else "every GPU"
    words = f"the clock of {where} fell to {100 * fell[0].clock:.0f} %"
    return "clocks", fell[0].gpu if len(fell) < len(sides) else None, words


def _working(sides: list[_Sides], lost: float) -> tuple[Name, Gpu | None, str] | None:
    """The one GPU that works as before, while the others wait for it."""
    *waiting, works = sorted(sides, key=lambda side: side.power)
    if not waiting or works.power < WORKS or waiting[-1].power > WAITS * works.power:
        return None
    words = (
        f"{works.gpu.name} draws {100 * works.power:.0f} % of its power before, "
        f"the others {100 * waiting[-1].power:.0f} % or less: they wait for it"
    )
    return "slow_rank", works.gpu, words
