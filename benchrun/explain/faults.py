"""Faults: other ranks or steps of the run, the ceilings or the hardware table show that the same work can be faster."""

from collections.abc import Iterator

import numpy as np

from benchrun.explain import waits
from benchrun.explain.advice import advice
from benchrun.explain.buckets import Buckets
from benchrun.explain.evidence import Evidence
from benchrun.explain.links import slow_links
from benchrun.explain.model import Cause, Name, Part
from benchrun.metrics.statistics import robust_deviation
from benchrun.spec.artifacts import CEILINGS, HOST, TELEMETRY_SUMMARY

MIN_WAIT_S = 0.002
"""For the data of a micro-batch: what a loader takes that keeps up."""
IDLE_SHARE = 0.1
"""Of the step: a GPU that is longer without a kernel has a host that is too slow. Healthy runs are below 6 %."""
QUEUE_SHARE = 0.1
"""Of the step that the threads of every rank wait for a core."""
HALF = 0.5
LOW_CLOCK = 0.9
"""Of the clock at which the peak holds; a GPU below it whose power is not at its limit is slowed by something else."""
LOW_POWER = 0.95
OUTLIER_DEVIATIONS, OUTLIER_SHARE = 6.0, 0.05
"""A step is slow beyond the noise from so many deviations and this share of the typical step above it."""


def faults(known: Evidence, parts: list[Part], divided: Buckets | None) -> Iterator[Cause]:
    """Every fault, also small ones, with the seconds of a step that a cure would save."""
    late = waits.late_rank(known)
    if late is not None:
        yield _of_late(known, late)
    yield from _of_data(known, divided, late)
    yield from _of_host(known, parts, divided)
    yield from slow_links(known, divided)
    yield from _of_clocks(known, parts)
    yield from _of_products(known, parts)
    yield from _of_steps(known)


def fault(cause: Name, seconds: float, evidence: str, rank: int | None = None, host: str | None = None) -> Cause:
    """A cause of kind ``fault``."""
    return Cause(
        cause=cause, kind="fault", seconds=seconds, rank=rank, host=host, evidence=evidence, advice=advice(cause)
    )


def _of_late(known: Evidence, late: waits.Late) -> Cause:
    """A rank that is behind: by its data, its host, its clock, its node; else it is just slow."""
    for name, field, words in (
        ("data", "data_s", "waits for its loader"),
        ("host", "queued_s", "has threads waiting for a core"),
        ("host", "garbage_s", "collects garbage"),
    ):
        by_rank = known.mean_host_s(field) if field == "garbage_s" else known.host_s(field)
        more = _beyond_others(by_rank, late.rank)
        if more > HALF * late.seconds:
            evidence = f"{late.evidence}; it {words} {more:.3g} s longer than they do ({HOST})"
            return fault(_cause(name), late.seconds, evidence, late.rank, late.host)
    if cause := _idle_of(known, late):
        return fault(cause, late.seconds, f"{late.evidence}; its GPU is idle meanwhile", late.rank, late.host)
    if slower := _slower_clock(known, late):
        return fault("clocks", late.seconds, f"{late.evidence}; {slower}", late.rank, late.host)
    if peers := _slow_node(known, late):
        return fault("slow_node", late.seconds, f"{late.evidence}; {peers}", late.rank, late.host)
    return fault("slow_rank", late.seconds, late.evidence, late.rank, late.host)


def _cause(name: str) -> Name:
    return "data" if name == "data" else "host"


def _beyond_others(by_rank: dict[int, float], rank: int) -> float:
    others = [value for other, value in by_rank.items() if other != rank]
    return by_rank[rank] - float(np.median(others)) if rank in by_rank and others else 0.0


def _idle_of(known: Evidence, late: waits.Late) -> Name | None:
    """``data`` or ``host`` where the trace shows that the late rank's GPU is idle longer for it than the others'."""
    if known.fingerprint is None:
        return None
    for name in ("data", "host"):
        by_rank = {
            rank.rank: getattr(rank.idle_by_cause, name) + (rank.idle_by_cause.launch_gap if name == "host" else 0)
            for rank in known.fingerprint.ranks
            if rank.idle_by_cause
        }
        if _beyond_others(by_rank, late.rank) * known.typical_s > HALF * late.seconds:
            return _cause(name)
    return None


def _slower_clock(known: Evidence, late: waits.Late) -> str | None:
    """Words on a GPU whose clock is lower than the others' by about as much as its rank is behind."""
    gpus = [gpu for gpu in known.samples.gpus if gpu.sm_clock_mhz] if known.samples else []
    per_node = known.spec.cluster.gpus_per_node
    own = [gpu for gpu in gpus if gpu.host == late.host and gpu.gpu == late.rank % per_node]
    others = [gpu.sm_clock_mhz or 0.0 for gpu in gpus if gpu not in own]
    if not own or not others or not own[0].sm_clock_mhz:
        return None
    lost = 1 - own[0].sm_clock_mhz / float(np.median(others))
    if lost * known.typical_s < HALF * late.seconds:
        return None
    words = f"its clock is {own[0].sm_clock_mhz:.0f} MHz, the others' {np.median(others):.0f} ({TELEMETRY_SUMMARY})"
    return f"{words}, {own[0].temperature_c:.0f} C" if own[0].temperature_c else words


def _slow_node(known: Evidence, late: waits.Late) -> str | None:
    """Words on a node whose ranks are all slower than those of the other nodes."""
    ranks = known.ranks.ranks if known.ranks else ()
    own = [rank.compute_time_s for rank in ranks if rank.host == late.host]
    others = [rank.compute_time_s for rank in ranks if rank.host != late.host]
    if len(own) < 2 or not others or min(own) < max(others):
        return None
    return f"every rank of {late.host} takes longer than any of the other nodes"


def _of_data(known: Evidence, divided: Buckets | None, late: waits.Late | None) -> Iterator[Cause]:
    wait = waits.data_wait(known)
    if wait is None or wait.seconds < MIN_WAIT_S * known.spec.num_microbatches:
        return
    seconds = min(wait.seconds, _idle_s(known, divided))
    if late is not None and (by_rank := known.host_s("data_s")) and _beyond_others(by_rank, late.rank) > HALF * seconds:
        return  # one rank alone waits, and the others wait for it
    yield fault("data", seconds, wait.evidence)


def _idle_s(known: Evidence, divided: Buckets | None) -> float:
    """The most that a step loses while no kernel runs. On a CPU what a host does takes the step's own time.

    A rank without data keeps the others in their collectives, so that these count too.
    """
    if not known.on_gpu:
        return known.typical_s
    if divided is not None:
        return divided.idle + divided.communication + divided.other
    return known.typical_s if known.idle_of_telemetry_s is None else known.idle_of_telemetry_s


def _of_host(known: Evidence, parts: list[Part], divided: Buckets | None) -> Iterator[Cause]:
    idle = _idle_s(known, divided)
    if (wait := waits.garbage(known)) and wait.seconds > 0:
        yield fault("host", min(wait.seconds, idle), wait.evidence)
    if (wait := waits.queue(known)) and wait.seconds > QUEUE_SHARE * known.typical_s:
        yield fault("host", min(wait.seconds, idle), wait.evidence)
    unused = [part for part in parts if part.cause == "host"]
    seconds = sum(part.seconds for part in unused)
    if known.on_gpu and seconds > IDLE_SHARE * known.typical_s:
        share = 100 * seconds / known.step_s
        largest = max(unused, key=lambda part: part.seconds)
        evidence = f"the GPUs have no kernel in {share:.0f} % of the step; {largest.part} ({largest.evidence})"
        yield fault("host", seconds, evidence)


def _of_clocks(known: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Clocks below what other GPUs reach that compute: throttled, locked, or with less power than the data sheet."""
    clock, state = known.clock, known.samples.over_all if known.samples else None
    if state is None or clock is None or not state.sm_clock_mhz:
        return
    computing = sum(part.seconds for part in parts if "matmul" in part.part or "attention" in part.part)
    lost = computing * (1 - min(state.sm_clock_mhz / clock.peak_clock_mhz, 1.0))
    capped = state.reasons.get("power_cap", 0.0)
    at = f"{state.sm_clock_mhz:.0f} MHz, the peak holds at {clock.peak_clock_mhz:.0f}"
    if state.fault:
        yield fault("clocks", lost * max(state.throttled, HALF), f"{state.fault}; {at}")
    elif capped < HALF and state.sm_clock_mhz < LOW_CLOCK * clock.peak_clock_mhz:
        yield fault("clocks", lost, f"{at}, and the power is not at its limit: a limit of the clock is set")
    elif state.power_limit_w and state.power_limit_w < LOW_POWER * clock.power_w and capped >= HALF:
        usual = f"the power limit is {state.power_limit_w:.0f} W, the data sheet has {clock.power_w:.0f}; {at}"
        yield fault("power", lost * (1 - state.power_limit_w / clock.power_w), usual)


def _of_products(known: Evidence, parts: list[Part]) -> Iterator[Cause]:
    for part in parts:
        if part.part == "matmul in training below that alone" and known.on_gpu:
            evidence = f"the same products alone, on all ranks at once, took {part.seconds:.3g} s less ({CEILINGS})"
            yield fault("matmul", part.seconds, evidence)


def _of_steps(known: Evidence) -> Iterator[Cause]:
    """Steps far above the others: what all steps would save, were they as the typical one."""
    typical = float(np.median(known.times))
    limit = max(OUTLIER_DEVIATIONS * robust_deviation(known.times), OUTLIER_SHARE * typical)
    slow = known.times - typical > limit
    if len(known.times) < 5 or not slow.any():
        return
    seconds = float(np.sum(known.times[slow] - typical)) / len(known.times)
    numbers = ", ".join(str(int(step)) for step in known.steps[slow][:5])
    evidence = (
        f"{slow.sum()} of {len(known.times)} steps are slow (steps {numbers}), the longest {known.times.max():.3g} s"
    )
    garbage = waits.garbage(known)
    if garbage is not None and garbage.seconds > HALF * seconds:
        yield fault("host", seconds, f"{evidence}; {garbage.evidence}")
    else:
        yield fault("checkpoint" if known.saves else "jitter", seconds, evidence)
