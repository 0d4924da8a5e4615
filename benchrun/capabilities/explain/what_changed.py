"""Changes of a rank, a GPU or a host since the steps take longer."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchrun.measure.samples import Samples
from benchrun.measure.statistics import ranks
from benchrun.rundir.artifacts import HOST, RANKS

from .advice import fault
from .course import BUSY, Course, Gpu
from .evidence import IN_USE, Evidence
from .model import Cause, Name
from .onset import FEWEST
from .rise import HALF, LASTING, ROUTED, Rise, timed
from .said import of_growth
from .waits import DELAYS

GROWN, STEADILY = 0.15, 0.95
"""Share of its first steps by which a step has grown at least, and the least correlation
of its order with that of time.
"""
FELL = 10.0
"""Least points by which a GPU that has nothing to do loses of the time with a kernel."""
WORKS, WAITS = 0.8, 0.8
"""Least power of a GPU that computes, after the rise, as a share of that before; and
the most that one which waits in a collective has, as a share of that one's.
"""
UNSEEN = (
    "look at what the host does since then: its loader, or its own code, which the GPUs' samples do not tell apart; "
    "Megatron's timers (--timing-log-level 2) and benchrun's worker do"
)
SLIGHT = 0.2
"""Share of what steps lose that a GPU may wait longer, and still be the slow one."""
ACCUMULATES = (
    "look for what accumulates: tensors kept alive in a list, a log or an index that is read from its beginning, "
    "memory that fragments; profiles of an early and of a late step show which part grows"
)


def growing(run: Evidence) -> Cause | None:
    """A step that grows all the time; None if it does not."""
    times, steps = timed(run)
    if not run.same_work or len(times) < 2 * LASTING:
        return None
    parts = [np.median(part) for part in np.array_split(times, len(times) // FEWEST)]
    order = np.corrcoef(np.arange(len(parts)), ranks(np.array(parts)))[0, 1]
    first, last = float(np.median(times[:FEWEST])), float(np.median(times[-FEWEST:]))
    share = ROUTED if run.routed else GROWN
    if order < STEADILY or last - first < share * first:
        return None
    seconds = run.step_s - first
    early, late = (float(np.median(half)) for half in np.array_split(times, 2))
    found = Rise(int(steps[(len(steps) + 1) // 2]), None, early, late, HALF)
    evidence = f"the step grows all the time, from {first:.3g} s to {last:.3g} s"
    cause = fault("unknown", seconds, evidence)
    if changed := _delayed(run, found) or _changed(run, found):
        cause = fault(
            changed.name, seconds, f"{evidence}; {changed.words}", changed.rank, changed.host
        )
    return cause.model_copy(update={"since_step": int(steps[0]), "advice": ACCUMULATES})


def of_rise(run: Evidence, found: Rise) -> Cause:
    """The fault behind a rise: what the single ranks or GPUs changed at that step, else
    unknown."""
    until, others = "on", "before"
    if found.until_step is not None:
        until, others = f"to {found.until_step}", "beside them"
    evidence = (
        f"steps take {found.after_s:.3g} s from step {found.since_step} {until}, "
        f"{found.before_s:.3g} s {others}"
    )
    cause = fault("unknown", found.seconds, evidence)
    if changed := _delayed(run, found) or _changed(run, found):
        cause = fault(
            changed.name, found.seconds, f"{evidence}; {changed.words}", changed.rank, changed.host
        )
    elif grown := of_growth(run, found.covers(run.steps), found.after_s - found.before_s):
        name, words = grown
        cause = fault(name, found.seconds, f"{evidence}; {words}")
    advice = UNSEEN if cause.cause == "host" and not run.hosts else ""
    return cause.model_copy(update={"since_step": found.since_step, "advice": advice})


class _Change(NamedTuple):
    """Change that came with a rise."""

    name: Name
    words: str
    rank: int | None = None
    host: str | None = None

    @classmethod
    def of(cls, name: Name, gpu: Gpu | None, words: str) -> "_Change":
        """A change that samples of the GPUs show, of one of them or of all."""
        words = f"{words} (telemetry)"
        if gpu is None:
            return cls(name, words)
        return cls(name, words, gpu.rank, gpu.host)


def _delayed(run: Evidence, found: Rise) -> _Change | None:
    """Work of a rank's host that took longer in the rise (host.json)."""
    hosts = run.hosts
    if hosts is None:
        return None
    for name, field, words in DELAYS:
        longer = []
        for rank in hosts.ranks:
            times = getattr(rank, field)
            more = _growth(range(hosts.first_step, hosts.first_step + len(times)), times, found)
            if more >= HALF * (found.after_s - found.before_s):
                longer.append((more, rank))
        if longer:
            more, rank = max(longer, key=lambda each: each[0])
            said = f"rank {rank.rank} {words} {more:.3g} s longer in them ({HOST})"
            if len(longer) > 1:
                return _Change(name, said)
            return _Change(name, said, rank.rank, rank.host)
    return None


class _Sides(NamedTuple):
    """Samples of one GPU beside a rise (``before``) and in it (``after``)."""

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


def _changed(run: Evidence, found: Rise) -> _Change | None:
    """Change of the GPUs in the rise, by their samples and the ranks' own times."""
    sides = _sides(run.course, run, found) if run.course else []
    for find in (_still, _slowed, _working) if sides else ():
        if changed := find(sides, 1 - found.before_s / found.after_s):
            return changed
    return _computing(run, found, sides)


def _computing(run: Evidence, found: Rise, sides: list[_Sides]) -> _Change | None:
    """The one rank that takes longer for the same work, although its GPU never waits."""
    slower = _slower_ranks(run, found)
    if len(slower) != 1:
        return None
    words = f"rank {slower[0]} computes longer ({RANKS})"
    if not run.on_gpu:
        return _Change("slow_rank", words, slower[0])
    mine = [side for side in sides if side.gpu.rank == slower[0]]
    if not mine:
        return None
    before, after = mine[0].means("utilisation_percent")
    lost = 100 * (1 - found.before_s / found.after_s)
    if after < BUSY or before - after > SLIGHT * lost:
        return None
    words = (
        f"{mine[0].gpu.name} has a kernel nearly all the time and takes longer for the same work: "
        "another process on it, more work of its own, or the GPU itself"
    )
    return _Change.of("slow_rank", mine[0].gpu, words)


def _slower_ranks(run: Evidence, found: Rise) -> list[int]:
    """The ranks whose computing grew as the steps did."""
    if run.ranks is None:
        return [0] if run.spec.num_gpus == 1 else []
    slower = []
    for rank in run.ranks.ranks:
        more = _growth(run.ranks.steps, rank.compute_time_s, found)
        if more >= HALF * (found.after_s - found.before_s):
            slower.append(rank.rank)
    return slower


def _growth(numbers: Sequence[int], times: Sequence[float], found: Rise) -> float:
    """Seconds by which ``times`` of the steps ``numbers`` are longer in the rise; 0 if it
    covers all of them, or none."""
    series = np.array(times)[1:]  # the first step compiles
    inside = found.covers(np.array(numbers[1:], dtype=float))
    if inside.all() or not inside.any():
        return 0.0
    return float(np.median(series[inside]) - np.median(series[~inside]))


def _sides(course: Course, run: Evidence, found: Rise) -> list[_Sides]:
    """Samples of each GPU in the rise and beside it; none if there are too few."""
    numbers = sorted(course.ends)
    if found.since_step not in numbers:
        return []
    first = numbers.index(found.since_step)
    last = numbers[-1] if found.until_step is None else found.until_step
    if last not in course.ends:
        return []
    rose, fell = course.ends[numbers[max(first - 1, 0)]], course.ends[last]
    start, end = course.ends[numbers[0]], course.ends[numbers[-1]]
    sides = []
    for gpu in course.gpus:
        beside = [course.between(gpu, start, rose), course.between(gpu, fell, end)]
        before = np.concatenate(beside)
        after = course.between(gpu, rose + found.before_s, fell)
        if not len(before) or len(after) < FEWEST:
            return []
        sides.append(_Sides(gpu, before, after))
    return sides


def _still(sides: list[_Sides], lost: float) -> _Change | None:
    """GPUs that have nothing to do for a part of the time since: one, or all."""
    fell = []
    for side in sides:
        before, after = side.means("utilisation_percent")
        if before - after >= max(FELL, 100 * HALF * lost):
            fell.append(side)
    if not fell or len(fell) not in (1, len(sides)):
        return None
    used = np.concatenate([side.after["utilisation_percent"] for side in fell])
    busy = False
    for side in sides:
        if side not in fell:
            busy = True
            before, after = side.means("utilisation_percent")
            if after < min(BUSY, before):
                return None
    where = fell[0].gpu.name if busy else "every GPU"
    words = f"{where} has had a kernel for {np.mean(used):.0f} % of the time since then"
    if busy:
        words += ", the others for nearly all of it"
    return _Change.of("host", fell[0].gpu if busy else None, words)


def _slowed(sides: list[_Sides], lost: float) -> _Change | None:
    """GPUs whose clock fell by about as much as the steps slowed down: one, or all."""
    fell = [side for side in sides if 1 - side.clock >= HALF * lost]
    if len(fell) not in (1, len(sides)):
        return None
    where = fell[0].gpu.name if len(fell) < len(sides) else "every GPU"
    words = f"the clock of {where} fell to {100 * fell[0].clock:.0f} %"
    return _Change.of("clocks", fell[0].gpu if len(fell) < len(sides) else None, words)


def _working(sides: list[_Sides], lost: float) -> _Change | None:
    """The one GPU that works as before, while the others wait for it."""
    *waiting, works = sorted(sides, key=lambda side: side.power)
    if not waiting or works.power < WORKS or waiting[-1].power > WAITS * works.power:
        return None
    words = (
        f"{works.gpu.name} draws {100 * works.power:.0f} % of its power before, "
        f"the others {100 * waiting[-1].power:.0f} % or less: they wait for it"
    )
    return _Change.of("slow_rank", works.gpu, words)
