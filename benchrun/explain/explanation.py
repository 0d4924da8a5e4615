"""What is known about a run -> its explanation."""

from collections.abc import Iterator

from benchrun.explain.advice import advice
from benchrun.explain.buckets import buckets
from benchrun.explain.choices import choices
from benchrun.explain.evidence import Evidence
from benchrun.explain.faults import faults
from benchrun.explain.model import FAULT_SHARE, Against, Cause, Explanation, Name, Part
from benchrun.explain.waterfall import waterfall

SHOWN_SHARE = 0.005
"""Of the step: smaller causes are left out."""
DIGITS = 6


def explain(known: Evidence, against: Against | None = None, other: Evidence | None = None) -> Explanation:
    """The waterfall and the causes. ``other``: another run of the same work, which shows what can be faster."""
    parts = waterfall(known)
    found = [*faults(known, parts, buckets(known)), *choices(known, parts)]
    if other is not None:
        found += slower_parts(known, parts, other)
    return Explanation(
        run=known.name,
        step_time_s=round(known.step_s, DIGITS),
        waterfall=[part.model_copy(update={"seconds": round(part.seconds, DIGITS)}) for part in parts],
        causes=_ranked(found, known.step_s),
        against=against,
        missing=list(missing(known)),
    )


def slower_parts(known: Evidence, parts: list[Part], other: Evidence) -> Iterator[Cause]:
    """A fault for each cause that costs this run more than the other one."""
    theirs = _by_cause(waterfall(other))
    for name, seconds in _by_cause(parts).items():
        if (more := seconds - theirs.get(name, 0.0)) > 0:
            evidence = f"{seconds:.3g} s of a step, {theirs.get(name, 0.0):.3g} s in {other.name}"
            yield Cause(cause=name, kind="fault", seconds=more, evidence=evidence, advice=advice(name))


def _by_cause(parts: list[Part]) -> dict[Name, float]:
    sums: dict[Name, float] = {}
    for part in parts:
        if part.cause is not None:
            sums[part.cause] = sums.get(part.cause, 0.0) + part.seconds
    return sums


def _ranked(found: list[Cause], step_s: float) -> list[Cause]:
    """Large faults first, then by seconds; of causes of one name and rank the first in this order."""

    def order(cause: Cause) -> tuple[bool, float]:
        return not (cause.kind == "fault" and cause.seconds >= FAULT_SHARE * step_s), -cause.seconds

    ranked: dict[tuple[Name, int | None], Cause] = {}
    for cause in sorted(found, key=order):
        if cause.seconds >= SHOWN_SHARE * step_s:
            ranked.setdefault((cause.cause, cause.rank), cause)
    return [cause.model_copy(update={"seconds": round(cause.seconds, DIGITS)}) for cause in ranked.values()]


def missing(known: Evidence) -> Iterator[str]:
    """What would make an explanation sharper, one sentence each."""
    if known.breakdown is None and known.fingerprint is None:
        yield "a profiled step (training.breakdown=true) would separate kernels, communication and idle time"
    if known.on_gpu and known.ceilings is None:
        yield "ceilings (training.ceilings=true) would separate slow products from slow hardware"
    if known.on_gpu and known.samples is None:
        yield "samples of the GPUs (nvidia-smi in the job) would show clocks, power and idle time"
    if known.spec.num_gpus > 1 and known.ranks is None and known.fingerprint is None:
        yield "compute times by rank (framework megatron-core writes them) would name a slow rank"
    if known.on_gpu and known.fingerprint is None:
        yield "a trace would separate the causes of idle time, and transfer from waiting"
    elif known.fingerprint is not None:
        yield from known.fingerprint.notes
    if len(known.times) < FEW_STEPS:
        yield f"more steps than {len(known.times)} would show slow ones"


FEW_STEPS = 20
