"""Steps that are far slower than the others: pauses of the job, or of the machine."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchrun.explain import waits
from benchrun.explain.advice import fault
from benchrun.explain.evidence import Evidence
from benchrun.explain.model import Cause
from benchrun.metrics.statistics import Floats, robust_deviation

HALF = 0.5
OUTLIER_DEVIATIONS, OUTLIER_SHARE = 6.0, 0.05
"""A step is slow beyond the noise if it is above the typical one by these deviations and this share of it."""
FEWEST = 2
"""Slow steps that are no accident."""
PAUSE = 5
"""Times the typical step: a single step that takes so much longer had a pause."""
SCATTERED, UPPER = 0.1, 0.9
"""Share of the step by which the mean of many steps is above their median where steps of any length occur; and the
quantile that says how long they are. Kept runs reach 0.07."""
FEW_STEPS = 20
"""Fewer say little about how steps differ."""
WHOLE_STEP = 1.0
"""Of the typical step: on CPUs a pause is longer. Other processes share their cores, caches and memory: steps of
healthy runs took up to 2.4 times the typical one on a busy machine."""
ASYNC = "write checkpoints less often, or to faster storage: they are written asynchronously already"
"""Advice where the job waits for a checkpoint all the same: it is copied first, and the one before must have ended."""


def slow_steps(run: Evidence, since: int | None = None) -> Iterator[Cause]:
    """Yield at most one fault: what all steps would save, were they as the typical one.

    ``since``: the step from which on a rank is late, which explains all that follow.
    A pause of the machine is none. On CPUs it is the machine's unless something shows that the job made it: a rank was
    longer in its own code, and had a core, or the pauses have a fixed distance.
    """
    typical = float(np.median(run.times))
    explained = run.steps >= since if since is not None else np.zeros(len(run.times), bool)
    excess, again = np.where(explained, 0.0, run.times - typical), _comes_back(run)
    limit = max(OUTLIER_DEVIATIONS * robust_deviation(run.times), OUTLIER_SHARE * typical, run.resolution_s)
    if not run.on_gpu:
        limit = max(limit, WHOLE_STEP * typical)
        again = again if again > WHOLE_STEP * typical else 0.0
    slow = (excess > limit) & ~_queued(run, excess)
    if not run.on_gpu and not again:
        slow &= _computed(run, excess)
    if slow.sum() >= FEWEST or excess[slow].max(initial=0.0) > PAUSE * typical:
        numbers = ", ".join(str(int(step)) for step in run.steps[slow][:5])
        longest = f"the longest took {run.times.max():.3g} s"
        evidence = f"{slow.sum()} of {len(excess)} {_rows(run)} are slow (steps {numbers}), {longest}"
        yield _by_rank(run, _of_pauses(run, float(np.sum(excess[slow])) / len(excess), evidence), excess, slow)
    elif again and run.steadiness and run.steadiness.period:
        yield _of_pauses(run, again / run.steadiness.period, run.steadiness.detail)
    elif run.on_gpu and len(run.times) >= FEW_STEPS:
        scattered = float(np.mean(np.where(_queued(run, excess), 0.0, excess)))
        if scattered > SCATTERED * run.step_s:
            longer = np.quantile(run.times, UPPER) / typical
            yield _of_pauses(
                run, scattered, f"a tenth of the {_rows(run)} takes {longer:.2g} times the median or longer"
            )


def _rows(run: Evidence) -> str:
    """What a time is of: a log may print one row for several steps."""
    apart = int(np.median(np.diff(run.steps))) if len(run.steps) > 1 else 1
    return f"rows, {apart} steps apart," if apart > 1 else "steps"


def _comes_back(run: Evidence) -> float:
    """By how many seconds the steps at a fixed distance are slower; 0 where none are."""
    return (run.steadiness.periodic_excess_s if run.steadiness and run.steadiness.period else None) or 0.0


def _of_pauses(run: Evidence, seconds: float, evidence: str) -> Cause:
    garbage = waits.garbage(run)
    if garbage is not None and garbage.seconds > HALF * seconds:
        return fault("host", seconds, f"{evidence}; {garbage.evidence}")
    if not run.saves:
        return fault("jitter", seconds, evidence)
    cause = fault("checkpoint", seconds, f"{evidence}; the log says that a checkpoint was written")
    return cause.model_copy(update={"advice": ASYNC}) if run.saves_async else cause


def _by_rank(run: Evidence, cause: Cause, excess: Floats, slow: NDArray[np.bool_]) -> Cause:
    """Return ``cause`` with the rank whose own time makes most of the slow steps slow; as it is where none does."""
    for rank in run.ranks.ranks if run.ranks else ():
        numbered = dict(zip(run.ranks.steps if run.ranks else (), rank.compute_time_s, strict=True))
        usual = float(np.median(rank.compute_time_s)) if rank.compute_time_s else 0.0
        longer = np.array([numbered.get(int(step), usual) - usual for step in run.steps])
        if float(np.mean(longer[slow] > HALF * excess[slow])) > HALF:
            evidence = f"{cause.evidence}; rank {rank.rank} is longer in its own code in these steps"
            return cause.model_copy(update={"rank": rank.rank, "host": rank.host, "evidence": evidence})
    return cause


def _queued(run: Evidence, excess: Floats) -> NDArray[np.bool_]:
    """The steps whose excess is for the most part the wait of some rank for a core of its node, which others use."""
    waited = np.zeros(len(run.times))
    for rank in run.hosts.ranks if run.hosts else ():
        numbered = dict(enumerate(rank.queued_s, run.hosts.first_step if run.hosts else 1))
        usual = float(np.median(rank.queued_s)) if rank.queued_s else 0.0
        waited = np.maximum(waited, [numbered.get(int(step), usual) - usual for step in run.steps])
    return (waited > 0) & (waited > HALF * excess)


def _computed(run: Evidence, excess: Floats) -> NDArray[np.bool_]:
    """The steps whose excess is for the most part a rank's own: out of collectives, whose threads wait for cores too.

    None where waits for a core were not counted, because such a wait is in that time.
    """
    longer = np.zeros(len(run.times))
    for rank in run.ranks.ranks if run.ranks and run.cores_counted else ():
        numbered = dict(zip(run.ranks.steps if run.ranks else (), rank.compute_time_s, strict=True))
        usual = float(np.median(rank.compute_time_s)) if rank.compute_time_s else 0.0
        longer = np.maximum(longer, [numbered.get(int(step), usual) - usual for step in run.steps])
    return longer > HALF * excess
