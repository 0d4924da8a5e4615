"""Causes by what the log itself prints: timers, and reports on slow ranks."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .advice import choice, fault
from .evidence import Evidence
from .model import FAULT_SHARE, Cause, Name
from .saving import saving
from .timers import COMPUTE, Printed, Report, cause_of

NOTICED = 0.1
"""Share of the step from which a timer counts: healthy loaders and exchanges take less."""
REPORTED = 0.05
"""Share of the speed that a reported rank lacks: healthy GPUs differ by 1 to 3 %."""
HALF = 0.5


def said(run: Evidence, rank_named: bool) -> Iterator[Cause]:
    """Faults that the log's own timers and reports show."""
    if run.printed is None:
        return
    for name in ("data", "checkpoint"):
        if cause := _of_timers(run, run.printed, name):
            yield cause
    exchange = _of_timers(run, run.printed, "exposed_dp")
    if exchange and run.network and run.network.tcp:
        evidence = f"{exchange.evidence}; NCCL sends over {run.network.tcp}, which is TCP"
        yield exchange.model_copy(update={"cause": "comm_bandwidth", "evidence": evidence})
    if not rank_named:
        yield from _of_reports(run, run.printed)
        yield from _of_spread(run, run.printed)


def costs(run: Evidence) -> Iterator[Cause]:
    """Choices that the log's timers show: exchanges that nothing hides, waits of stages."""
    names: tuple[Name, ...] = ("exposed_dp", "bubble")
    for name in names if run.printed else ():
        if run.printed and (cause := _of_timers(run, run.printed, name)):
            yield choice(name, cause.seconds, cause.evidence)


def _of_timers(run: Evidence, printed: Printed, name: Name) -> Cause | None:
    """What the timers of a cause take of the step, if that is noticeable."""
    spent = run.timed_s(printed.names(name))
    if not len(spent):
        return None
    seconds = min(float(np.mean(spent)), run.step_s)
    if seconds < NOTICED * run.step_s:
        return None
    timers = " and ".join(sorted(printed.names(name))[:3])
    evidence = f"the log's timers {timers} take {seconds:.3g} s of a step"
    return fault(name, seconds, evidence, saving=saving(seconds, spent))


def _of_reports(run: Evidence, printed: Printed) -> Iterator[Cause]:
    """The rank that most reports name, if it lacks much of the others' speed."""
    slow = []
    for each in printed.reports:
        if each.lost >= REPORTED:
            slow.append(each)
    if not slow:
        return
    (rank, times), *_ = Counter(each.rank for each in slow).most_common(1)
    since = _since(printed.reports, rank)
    following = sum(each.step >= (since or 0) for each in printed.reports)
    if times <= HALF * following:
        return
    own = [each for each in slow if each.rank == rank]
    lost = float(np.median([each.lost for each in own]))
    share = float(np.mean(run.steps >= (since or 0)))
    evidence = (
        f"{times} of {len(printed.reports)} reports in the log name rank {rank}: "
        f"{100 * lost:.0f} % slower than the others"
    )
    name: Name = "clocks" if all(each.clock for each in own) else "slow_rank"
    cause = fault(name, lost * run.typical_s * share, evidence, rank, own[0].host)
    yield cause.model_copy(update={"since_step": since})


def _since(reports: tuple[Report, ...], rank: int) -> int | None:
    """Step of the first report that names ``rank``, if others came before it."""
    for number, each in enumerate(reports):
        if each.rank == rank and each.lost >= REPORTED:
            return each.step if number else None
    return None


def _of_spread(run: Evidence, printed: Printed) -> Iterator[Cause]:
    """Ranks whose own timers differ, where the log has only the fastest and the slowest."""
    if run.spec.layout.pp > 1 or printed.ranks:
        return
    for name in COMPUTE:
        behind = []
        for step in run.steps:
            if each := printed.timers.get(name, {}).get(int(step)):
                behind.append(each.high - each.low)
        apart = np.array(behind)
        if len(apart) and (seconds := float(np.median(apart))) > NOTICED * run.step_s:
            evidence = (
                f"the slowest rank takes {seconds:.3g} s longer for {name} than the fastest; "
                "--timing-log-option all would name it"
            )
            yield fault("imbalance", seconds, evidence, saving=saving(seconds, apart))


def of_growth(run: Evidence, slow: NDArray[np.bool_], seconds: float) -> tuple[Name, str] | None:
    """The cause whose timers grew by half of ``seconds`` and more in the ``slow`` steps,
    and words for it; None if the log has no timers that did.
    """
    if run.printed is None:
        return None
    grown = _grown(run, run.printed, slow)
    by_cause: dict[Name, list[str]] = {}
    for timer in grown:
        if cause := cause_of(timer):
            by_cause.setdefault(cause, []).append(timer)
    for cause, timers in by_cause.items():
        if sum(grown[timer] for timer in timers) >= HALF * seconds:
            longest = max(timers, key=lambda timer: grown[timer])
            return cause, f"the log's timer {longest} grew by {grown[longest]:.3g} s meanwhile"
    computing = [timer for timer in COMPUTE if grown.get(timer, 0.0) > FAULT_SHARE * seconds]
    more = sum(grown[timer] for timer in computing)
    if more < HALF * seconds:
        return None
    return "unknown", (
        f"the log's timers {' and '.join(computing)} grew by {more:.3g} s: it is neither the loader nor the "
        "exchange of gradients; clocks by node (nvidia-smi) and timers by rank "
        "(--timing-log-option all) would say where"
    )


def _grown(run: Evidence, printed: Printed, slow: NDArray[np.bool_]) -> dict[str, float]:
    """Seconds by which each timer is longer in the ``slow`` steps."""
    found = {}
    for timer, by_step in printed.timers.items():
        sides = []
        for chosen in (slow, ~slow):
            times = []
            for step in run.steps[chosen]:
                if each := by_step.get(int(step)):
                    times.append(each.high)
            sides.append(times)
        if all(sides):
            found[timer] = float(np.median(sides[0]) - np.median(sides[1]))
    return found
