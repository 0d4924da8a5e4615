"""Explanation of a run, from all that is known about it."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from benchrun.judge.difference import ratio_interval

from .advice import advised, fault
from .buckets import buckets
from .choices import OFFLOADED, choices
from .evidence import Evidence, alike
from .faults import faults
from .model import (
    DIGITS,
    FAULT_SHARE,
    Against,
    Cause,
    Explanation,
    Name,
    Part,
    Saving,
    Stretch,
)
from .onset import FEWEST
from .rise import levels
from .saving import estimated, of_share
from .speed import USUAL, at_limit
from .waits import FEW_STEPS
from .waterfall import waterfall

TIMERS = (
    "timers in the log would separate the loader, the exchange of gradients and computing, and by rank name a slow "
    "one (Megatron: --timing-log-level 2 --timing-log-option all)"
)
OF_MACHINE: tuple[Name, ...] = ("clocks", "power", "comm_bandwidth")
"""Causes whose cure is known whatever else changed."""
SHOWN_SHARE = 0.005
"""Smallest cause that is shown, as a share of the step."""


def explain(
    run: Evidence, against: Against | None = None, other: Evidence | None = None
) -> Explanation:
    """The waterfall and the causes. ``other``: another run of the same work, which
    shows what can be faster.
    """
    parts = waterfall(run)
    faulty = list(faults(run, parts, buckets(run)))
    causes = _once([*faulty, *_without(faulty, choices(run, parts))], run.step_s)
    lacking = list(missing(run))
    if against and other:
        if against.longer:
            causes = _with_longer(causes, slower_parts(*alike(run, other)))
        else:
            lacking.append(_not_slower(against))
    if not any(cause.seconds >= FAULT_SHARE * run.step_s for cause in causes):
        # No setting cures it, so that it comes after all that one does.
        known = {cause.cause for cause in causes}
        causes += [cause for cause in at_limit(parts) if cause.cause not in known]
    spec = None
    if not run.log_alone:
        spec = run.spec
    ranked = []
    for cause in _ordered(causes, run.step_s):
        ranked.append(advised(_rounded(cause, run.step_s), spec, run.times))
    return Explanation(
        run=run.name,
        step_time_s=round(run.step_s, DIGITS),
        waterfall=[
            part.model_copy(update={"seconds": round(part.seconds, DIGITS)}) for part in parts
        ],
        causes=ranked,
        stretches=tuple(_stretches(run, ranked)),
        against=against,
        missing=lacking,
    )


def _stretches(run: Evidence, causes: Sequence[Cause]) -> Iterator[Stretch]:
    """The levels of the run's speed, each with the cause that sets in with it and lasts."""
    found = levels(run)
    if len(found) < 2:
        return
    before = min(level.seconds for level in found)
    name = None
    for level in found:
        if level.seconds >= (1 + FAULT_SHARE) * before:
            for cause in reversed(causes):
                if cause.since_step and abs(cause.since_step - level.first_step) <= FEWEST:
                    name = cause.cause
        elif level.seconds <= (1 - FAULT_SHARE) * before:
            name = None
        before = level.seconds
        yield Stretch(
            first_step=level.first_step,
            last_step=level.last_step,
            step_time_s=round(level.seconds, DIGITS),
            cause=name,
        )


def _without(faulty: list[Cause], costs: Iterable[Cause]) -> Iterator[Cause]:
    """The choices, with less exposed communication if slow links are at fault for it."""
    slow = sum(cause.seconds for cause in faulty if cause.cause == "comm_bandwidth")
    for cost in sorted(costs, key=lambda cause: -cause.seconds):
        if cost.cause.startswith("exposed_"):
            less = min(slow, cost.seconds)
            slow -= less
            cost = _less(cost, less)
        yield cost


def _less(cause: Cause, seconds: float) -> Cause:
    """The cause without ``seconds`` that another one has."""
    left = 1 - min(seconds / cause.seconds, 1.0)
    saved = cause.saving_s and of_share(cause.saving_s, left, left, cause.seconds)
    return cause.model_copy(update={"seconds": left * cause.seconds, "saving_s": saved})


def _with_longer(causes: Sequence[Cause], longer: Iterable[Cause]) -> list[Cause]:
    """The causes, and for each part that takes longer than in another run a fault; what a
    choice of the same name costs is less by it.
    """
    found = list(causes)
    for each in longer:
        same = [cause for cause in found if cause.cause == each.cause]
        if any(cause.kind == "fault" for cause in same):
            continue
        found = [cause for cause in found if cause not in same]
        found += [each, *(_less(cause, each.seconds) for cause in same)]
    return found


def beside(run: Evidence, other: Evidence) -> Against:
    """``run`` beside another one: the medians of their steps, for as many tokens on a GPU."""
    tokens = run.spec.tokens_per_step / run.spec.num_gpus
    scale = tokens * other.spec.num_gpus / other.spec.tokens_per_step
    interval, _ = ratio_interval(scale * other.times, run.times)
    step_s = scale * float(np.median(other.times))
    ratio = float(np.median(run.times)) / step_s
    return Against(name=other.name, step_time_s=step_s, ratio=ratio, interval=interval)


def _not_slower(against: Against) -> str:
    within = "no interval"
    if against.interval:
        within = f"interval {against.interval.low:.3f} to {against.interval.high:.3f}"
    return (
        f"not clearly slower than {against.name} (ratio {against.ratio:.3f}, {within}): "
        "no part that is longer here is a fault"
    )


def slower_parts(run: Evidence, other: Evidence) -> Iterator[Cause]:
    """A fault for each cause that costs this run more than the other one.

    None costs more than the whole step is longer: what other parts gained, its cure would
    not save.
    """
    others = _by_cause(waterfall(other))
    whole = run.step_s - other.step_s
    offloads = run.spec.training.offload_activations and not other.spec.training.offload_activations
    for name, seconds in _by_cause(waterfall(run)).items():
        less = others.get(name, 0.0)
        lost = min(seconds - less, whole)
        if lost <= 0:
            continue
        cause = fault(name, lost, f"{seconds:.3g} s of a step, {less:.3g} s in {other.name}")
        advice = ""
        if offloads and name == "memory_bound":
            advice = OFFLOADED
        elif name not in OF_MACHINE:
            advice = f"benchrun diff {other.name} {run.name} shows what changed"
        yield cause.model_copy(update={"advice": advice})


def _by_cause(parts: list[Part]) -> dict[Name, float]:
    sums: dict[Name, float] = {}
    for part in parts:
        if part.cause is not None:
            sums[part.cause] = sums.get(part.cause, 0.0) + part.seconds
    return sums


def _once(causes: Sequence[Cause], step_s: float) -> list[Cause]:
    """Causes, of one name and rank the first in their order, and none of all ranks behind
    that of one.
    """
    found: dict[tuple[Name, int | None], Cause] = {}
    for cause in _ordered(causes, step_s):
        of_one = cause.rank is None and cause.cause in {name for name, _ in found}
        if not of_one:
            found.setdefault((cause.cause, cause.rank), cause)
    return list(found.values())


def _ordered(causes: Sequence[Cause], step_s: float) -> list[Cause]:
    """Large faults first, then by seconds; without those that are too small to show."""

    def order(cause: Cause) -> tuple[bool, float, bool]:
        faulty = cause.kind == "fault"
        return not (faulty and cause.seconds >= FAULT_SHARE * step_s), -cause.seconds, not faulty

    shown = [cause for cause in causes if cause.seconds >= SHOWN_SHARE * step_s]
    return sorted(shown, key=order)


def _rounded(cause: Cause, step_s: float) -> Cause:
    """Rounded seconds; no cure saves more than a step."""
    saved = cause.saving_s
    if saved is None and cause.cause != "unknown" and cause.advice != USUAL:
        saved = estimated(cause.seconds)
    if saved is not None:
        saved = Saving(**{name: round(min(value, step_s), DIGITS) for name, value in saved})
    return cause.model_copy(update={"seconds": round(cause.seconds, DIGITS), "saving_s": saved})


def _of_log(run: Evidence) -> Iterator[str]:
    """What a log says of the links, and what it lacks."""
    if run.network and run.network.words:
        yield f"NCCL says: {run.network.words}"
    if run.log_alone and run.printed is None:
        yield TIMERS
    if run.log_alone:
        yield f"benchrun compare {run.name} --recipe NAME says how fast this is, beside published numbers"


def missing(run: Evidence) -> Iterator[str]:
    """Say what would make an explanation sharper, one sentence each."""
    yield from _of_log(run)
    if run.breakdown is None and run.fingerprint is None and run.own_worker:
        yield "a profiled step (training.breakdown=true) would separate kernels, communication and idle time"
    if run.spec.training.offload_activations and run.fingerprint is None:
        yield "activations go to host memory and back (training.offload_activations), which only a trace separates"
    if run.on_gpu and run.ceilings is None and run.own_worker:
        yield "ceilings (training.ceilings=true) would separate slow products from slow hardware"
    if run.on_gpu and run.samples is None:
        yield "samples of the GPUs (nvidia-smi in the job) would show clocks, power and idle time"
    if run.spec.num_gpus > 1 and run.ranks is None and run.fingerprint is None:
        yield "compute times by rank would name a slow rank: benchrun's workers write them, and older runs have none"
    if run.on_gpu and run.fingerprint is None:
        verb = f"explain {run.name} --trace FILE"
        if not run.log_alone:
            verb = f"profile {run.spec.recipe}"
        yield f"a trace would separate the rest, and the causes of idle time: benchrun {verb}"
    elif run.fingerprint is not None:
        yield from run.fingerprint.notes
    yield from run.notes
    if len(run.times) < FEW_STEPS:
        yield f"more steps than {len(run.times)} would show slow ones"
