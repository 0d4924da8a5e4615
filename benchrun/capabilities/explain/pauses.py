"""Steps that are far slower than the others: pauses of the job, or of the machine."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchrun.capabilities.explain import waits
from benchrun.capabilities.explain.advice import fault
from benchrun.capabilities.explain.course import Gpu
from benchrun.capabilities.explain.evidence import Evidence
from benchrun.capabilities.explain.model import FAULT_SHARE, Cause, Saving
from benchrun.capabilities.explain.saving import saving
from benchrun.measure.statistics import Floats, robust_deviation
from benchrun.rundir.rank_times import HostTime, RankTime

HALF = 0.5
OUTLIER_DEVIATIONS, OUTLIER_SHARE = 6.0, 0.05
"""A step is slow beyond the noise if it is above the typical one by these deviations
and this share of it.
"""
TWO_THIRDS, NORMAL_TWO_THIRDS = 2 / 3, 0.4307
"""Quantile that shows how far steps scatter upwards, and its distance from the median
in deviations of a normal distribution.
"""
FEWEST = 2
"""Slow steps that are no accident."""
PAUSE = 5
"""Factor on the typical step from which a single step had a pause."""
SCATTERED, UPPER = 0.1, 0.9
"""Share of the step by which the mean of many steps is above their median where steps
of any length occur; and the quantile that says how long they are. Kept runs reach 0.07.
"""
WHOLE_STEP = 1.0
"""Length of a pause on CPUs, in typical steps.

Other processes share their cores, caches and memory: steps of healthy runs took up to
2.4 times the typical one on a busy machine.
"""
ASYNC = (
    "write checkpoints less often, or to faster storage: they are written asynchronously already"
)
"""Advice if the job waits for a checkpoint all the same: it is copied first, and the
one before must have ended.
"""


def slow_steps(run: Evidence, explained: NDArray[np.bool_]) -> Iterator[Cause]:
    """Yield at most one fault: what all steps would save, were they as the typical one.

    ``explained``: the steps in which a rank is late, or all are slower. On CPUs, which
    other processes use, a pause is the machine's unless something shows that the job
    made it: a rank was longer in its own code, and had a core, or the pauses have a
    fixed distance. On GPUs a single slow step counts if one rank's own
    time shows it and all steps lose enough by it.
    """
    typical = float(np.median(run.times))
    excess, again = run.times - typical, _comes_back(run)
    excess = np.where(explained, 0.0, excess)
    noise_s, waited = _noise_limit(run.times), _waited(run)
    if not run.on_gpu:
        # What other processes take of a core scatters, and hides a pause.
        noise_s = max(min(noise_s, _noise_limit(run.times - waited)), WHOLE_STEP * typical)
    limit = max(noise_s, OUTLIER_SHARE * typical, run.resolution_s)
    if not run.on_gpu:
        again = again if again > WHOLE_STEP * typical else 0.0
    slow = excess > limit
    if not run.on_gpu:
        slow &= waited <= HALF * excess
    if not run.on_gpu and not again:
        slow &= _computed(run, excess)
    own, lost = _rank_of(run, excess, slow), float(np.sum(excess[slow])) / len(excess)
    by_rank = run.on_gpu and own is not None and lost > FAULT_SHARE * run.step_s
    if slow.sum() >= FEWEST or by_rank or excess[slow].max(initial=0.0) > PAUSE * typical:
        numbers = ", ".join(str(int(step)) for step in run.steps[slow][:5])
        longest = f"the longest took {run.times.max():.3g} s"
        evidence = (
            f"{slow.sum()} of {len(excess)} {_rows(run)} are slow (steps {numbers}), {longest}"
        )
        saved = saving(lost, np.where(slow, excess, 0.0))
        yield _named(_of_pauses(run, lost, evidence, saved), own)
    elif again and run.steadiness and run.steadiness.period:
        lost = again / run.steadiness.period
        saved = saving(lost, np.where(excess > HALF * again, excess, 0.0))
        yield _of_pauses(run, lost, run.steadiness.detail, saved)
    elif run.on_gpu and len(run.times) >= waits.FEW_STEPS:
        scattered = float(np.mean(excess))
        if scattered > SCATTERED * run.step_s:
            longer = np.quantile(run.times, UPPER) / typical
            evidence = f"a tenth of the {_rows(run)} takes {longer:.2g} times the median or longer"
            saved = saving(scattered, run.times, _above_median)
            yield _of_pauses(run, scattered, evidence, saved)


def _above_median(times: Floats, *, axis: int) -> Floats:
    """Distance of the mean step from the median one."""
    above: Floats = np.mean(times, axis=axis) - np.median(times, axis=axis)
    return above


def _noise_limit(times: Floats) -> float:
    """Seconds above the median from which a step is beyond the noise of the others.

    A late host makes steps longer, never shorter: where many steps scatter upwards, the
    longest ones are no pauses. Kept runs with short steps do so.
    """
    above = float(np.quantile(times, TWO_THIRDS, method="lower") - np.median(times))
    return OUTLIER_DEVIATIONS * max(robust_deviation(times), above / NORMAL_TWO_THIRDS)


def _rows(run: Evidence) -> str:
    """Name of what one time covers: a log may print one row for several steps."""
    if len(run.steps) < 2:
        return "steps"
    apart = int(np.median(np.diff(run.steps)))
    return f"rows, {apart} steps apart," if apart > 1 else "steps"


def _comes_back(run: Evidence) -> float:
    """Seconds by which steps at a fixed distance are slower; 0 if none are."""
    if run.steadiness is None or not run.steadiness.period:
        return 0.0
    return run.steadiness.periodic_excess_s or 0.0


def _of_pauses(run: Evidence, seconds: float, evidence: str, saved: Saving | None) -> Cause:
    garbage = waits.garbage(run)
    if garbage is not None and garbage.seconds > HALF * seconds:
        return fault("host", seconds, f"{evidence}; {garbage.evidence}", saving=saved)
    if not run.saves:
        return fault("jitter", seconds, evidence, saving=saved)
    evidence += "; the log says that a checkpoint was written"
    cause = fault("checkpoint", seconds, evidence, saving=saved)
    if run.saves_async:
        cause = cause.model_copy(update={"advice": ASYNC})
    return cause


class _Own(NamedTuple):
    """The rank that makes steps slow."""

    rank: int
    host: str | None
    shown: str
    """Words for its own time that is longer than usual."""


def _rank_of(run: Evidence, excess: Floats, slow: NDArray[np.bool_]) -> _Own | None:
    """The rank that is longer than usual, beyond the others, by most of ``excess`` in
    most of the ``slow`` steps.
    """
    if not slow.any():
        return None
    for longer, shown in (
        (_computed_s(run), "is longer in its own code"),
        (_queued_s(run), "waits for a core"),
    ):
        if len(longer) < 2:
            continue
        for rank, own in longer.items():
            others = [other for each, other in longer.items() if each != rank]
            beyond = own - np.median(others, axis=0)
            if float(np.mean(beyond[slow] > HALF * excess[slow])) > HALF:
                hosts = {each.rank: each.host for each in _recorded(run)}
                return _Own(rank, hosts[rank], shown)
    return _still_gpu(run, slow)


def _still_gpu(run: Evidence, slow: NDArray[np.bool_]) -> _Own | None:
    """The rank whose GPU alone stood still in most of the ``slow`` steps, while the
    others were busy: they waited for it in a collective.

    None if another GPU did so in any of them, and in a single step.
    """
    if run.course is None or slow.sum() < FEWEST:
        return None
    stood: Counter[Gpu] = Counter()
    for row in np.flatnonzero(slow):
        end = run.course.ends.get(int(run.steps[row]))
        if end is None:
            return None
        still = run.course.still(end - float(run.times[row]), end)
        if len(still) == 1:
            stood[still[0]] += 1
        elif still:
            return None
    if len(stood) != 1:
        return None
    ((gpu, often),) = stood.items()
    if gpu.rank is None or often <= HALF * slow.sum() or often < FEWEST:
        return None
    return _Own(gpu.rank, gpu.host, f"has an idle GPU ({gpu.name}), the others busy ones,")


def _recorded(run: Evidence) -> list[RankTime | HostTime]:
    """Records of every rank: computing, and waiting on the host."""
    records: list[RankTime | HostTime] = []
    if run.ranks:
        records += run.ranks.ranks
    if run.hosts:
        records += run.hosts.ranks
    return records


def _named(cause: Cause, own: _Own | None) -> Cause:
    """``cause`` with the rank that has it."""
    if own is None:
        return cause
    evidence = f"{cause.evidence}; rank {own.rank} {own.shown} in these steps"
    return cause.model_copy(update={"rank": own.rank, "host": own.host, "evidence": evidence})


def _computed_s(run: Evidence) -> dict[int, Floats]:
    """Seconds that each rank computes in a measured step beyond its usual time, by
    rank.
    """
    if run.ranks is None:
        return {}
    return {
        rank.rank: _beyond(run, run.ranks.steps, rank.compute_time_s) for rank in run.ranks.ranks
    }


def _queued_s(run: Evidence) -> dict[int, Floats]:
    """Seconds that each rank waits for a core in a measured step beyond its usual wait,
    by rank.
    """
    if run.hosts is None:
        return {}
    return {
        rank.rank: _beyond(run, count(run.hosts.first_step), rank.queued_s)
        for rank in run.hosts.ranks
    }


def _beyond(run: Evidence, steps: Iterable[int], seconds: Sequence[float]) -> Floats:
    """Distance of ``seconds`` from their median in the measured steps; 0 if they were
    not recorded.
    """
    numbered = dict(zip(steps, seconds, strict=False))
    usual = float(np.median(seconds)) if seconds else 0.0
    return np.array([numbered.get(int(step), usual) - usual for step in run.steps])


def _waited(run: Evidence) -> Floats:
    """Seconds of each step that some rank waits for a core of its node, which others use."""
    return np.asarray(np.max([np.zeros(len(run.times)), *_queued_s(run).values()], axis=0))


def _computed(run: Evidence, excess: Floats) -> NDArray[np.bool_]:
    """The steps whose excess is for the most part a rank's own: out of collectives,
    whose threads wait for cores too.

    None if waits for a core were not counted, because such a wait is in that time.
    """
    own = _computed_s(run).values() if run.cores_counted else ()
    return np.asarray(np.max([np.zeros(len(run.times)), *own], axis=0) > HALF * excess)
