"""Explanation of a run, from all that is known about it."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from benchrun.judge.difference import NOTICEABLE, ratio_interval

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
    causes = [*faulty, *_without(faulty, choices(run, parts))]
    lacking = list(missing(run))
    if other is not None:
        equal = _not_slower(run, other)
        if equal is None:
            causes += slower_parts(*alike(run, other))
        else:
            lacking.append(equal)
    if not any(cause.seconds >= FAULT_SHARE * run.step_s for cause in causes):
        # No setting cures it, so that it comes after all that one does.
        causes += at_limit(parts)
    spec = None
    if not run.log_alone:
        spec = run.spec
    ranked = [advised(cause, spec, run.times) for cause in _ranked(causes, run.step_s)]
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
            left = 1 - less / cost.seconds
            saved = cost.saving_s and of_share(cost.saving_s, left, left, cost.seconds)
            cost = cost.model_copy(update={"seconds": cost.seconds - less, "saving_s": saved})
        yield cost


def _not_slower(run: Evidence, other: Evidence) -> str | None:
    """Evidence that ``run`` is not clearly slower than ``other``, for as many tokens on
    a GPU; None if it is slower.
    """
    own_tokens = run.spec.tokens_per_step / run.spec.num_gpus
    other_tokens = other.spec.tokens_per_step / other.spec.num_gpus
    times = run.times * other_tokens / own_tokens
    interval, _ = ratio_interval(other.times, times)
    ratio = float(np.median(times) / np.median(other.times))
    if interval is not None and interval.low > 1 and ratio >= 1 + NOTICEABLE:
        return None
    within = "no interval"
    if interval:
        within = f"interval {interval.low:.3f} to {interval.high:.3f}"
    return f"not clearly slower than {other.name} (ratio {ratio:.3f}, {within}): no part that is longer here is a fault"


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
        if offloads and name == "memory_bound":
            cause = cause.model_copy(update={"advice": OFFLOADED})
        yield cause


def _by_cause(parts: list[Part]) -> dict[Name, float]:
    sums: dict[Name, float] = {}
    for part in parts:
        if part.cause is not None:
            sums[part.cause] = sums.get(part.cause, 0.0) + part.seconds
    return sums


def _ranked(causes: list[Cause], step_s: float) -> list[Cause]:
    """Large faults first, then by seconds; of causes of one name and rank the first in
    this order, and none of all ranks behind that of one.
    """

    def order(cause: Cause) -> tuple[bool, float, bool]:
        faulty = cause.kind == "fault"
        return not (faulty and cause.seconds >= FAULT_SHARE * step_s), -cause.seconds, not faulty

    ranked: dict[tuple[Name, int | None], Cause] = {}
    for cause in sorted(causes, key=order):
        of_one = cause.rank is None and cause.cause in {name for name, _ in ranked}
        if cause.seconds >= SHOWN_SHARE * step_s and not of_one:
            ranked.setdefault((cause.cause, cause.rank), cause)
    return [_rounded(cause, step_s) for cause in ranked.values()]


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
