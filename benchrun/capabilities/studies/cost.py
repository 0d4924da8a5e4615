"""Cost of a run before it is launched: its time limit and, if a number is known, the
time of its steps.
"""

import functools

from benchrun.judge.choice import choose
from benchrun.judge.conditions import conditions
from benchrun.judge.measured import load_measured, measured_references
from benchrun.judge.references import Reference, load_references, matching
from benchrun.model import Frozen
from benchrun.runspec.spec import RunSpec, TrainingSpec
from benchrun.vocabulary import HOUR_S


class Hours(Frozen):
    """GPU-hours of one run."""

    limit: float
    """Hours that the time limit allows: the most that it can take."""
    steps: float | None = None
    """Planned steps times the step time of a reference, without the start of the job;
    null if there is none.
    """
    basis: str | None = None
    """Id of that reference."""


def hours(spec: RunSpec) -> Hours:
    """GPU-hours of one run of ``spec``."""
    limit = spec.num_gpus * spec.cluster.time_limit_s / HOUR_S
    step = _step(spec)
    if step is None:
        return Hours(limit=limit)
    return Hours(
        limit=limit,
        steps=spec.num_gpus * step[0] * (spec.planned_steps or 0) / HOUR_S,
        basis=step[1],
    )


@functools.cache
def _own_measurements() -> list[Reference]:
    """Our own measurements."""
    return list(measured_references(load_measured()))


def _step(spec: RunSpec) -> tuple[float, str] | None:
    """Seconds per step by our own measurement of such a run, else by a published one,
    and its id.
    """
    if not isinstance(spec, TrainingSpec):
        return None
    own = conditions(spec)
    for entries in (_own_measurements(), load_references()):
        timed = []
        for entry in matching(own, entries):
            if entry.metric in ("step_time_s", "tokens_per_s_per_gpu"):
                timed.append(entry)
        if best := choose(timed, own):
            rate = best.value * spec.num_gpus
            return (
                best.value if best.metric == "step_time_s" else spec.tokens_per_step / rate
            ), best.id
    return None
