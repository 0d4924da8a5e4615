"""Whether a trace or a document can be of the run beside which it lies: its GPU, its
ranks, its step, its products.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from benchrun import hardware
from benchrun.model.operators import MULTIPLY_ADD
from benchrun.rundir.artifacts import BREAKDOWN, CEILINGS, HOST, RANKS, Breakdown, Ceilings
from benchrun.rundir.fingerprint import Fingerprint
from benchrun.rundir.rank_times import HostTimes, RankTimes

from .evidence import Evidence
from .work import products_flops

SHORTEST, LONGEST = 0.5, 2.5
"""Factors on the measured step outside of which a profiled step is of another run.

A profiler costs up to 33 % in results/measured, and more if the host is late.
"""
TO_ITSELF = 0.02
"""Share of the profiled step: more than the collectives of one rank with itself take.
"""
WHOLE = 1.1
"""Limit of a part of the step, or of a rate as a share of the peak: nothing exceeds it,
rounding and faster clocks included.
"""
SUM_TOLERANCE = 0.05
"""Share of the profiled step by which the sum of its parts may differ from it, because
of rounding.
"""
WORK_TOLERANCE = 0.01
"""Share by which the FLOPs of the ceilings may differ from those of the run's products,
because of rounding.
"""


def without_foreign(run: Evidence) -> Evidence:
    """``run`` without the trace and the documents that cannot be its own, and with a
    note for each.
    """
    checks: tuple[tuple[str, str, Callable[[Any, Evidence], str | None]], ...] = (
        ("fingerprint", "the trace", foreign_trace),
        ("breakdown", BREAKDOWN, foreign_breakdown),
        ("ceilings", CEILINGS, foreign_ceilings),
        ("ranks", RANKS, foreign_ranks),
        ("hosts", HOST, foreign_hosts),
    )
    for name, title, why_foreign in checks:
        document = getattr(run, name)
        if document is not None and (why := why_foreign(document, run)):
            without: dict[str, Any] = dict.fromkeys(
                (name, "bound") if name == "ceilings" else (name,)
            )
            run = replace(run, **without, notes=(*run.notes, f"{title} is left out: {why}"))
    return run


def foreign_hosts(hosts: HostTimes, run: Evidence) -> str | None:
    """Reason why the times of hosts are not of ``run``; None if they can be."""
    if why := _more_ranks(hosts.ranks, run):
        return why
    step_s = max(run.step_s, median(run.times))  # the mean is the shorter one if speed changed
    for each in hosts.ranks:
        for times in filter(None, (each.data_s, each.garbage_s, each.between_s)):
            if (waited := median(times)) > WHOLE * step_s:
                return f"rank {each.rank} waits {waited:.4g} s in a step of {step_s:.4g} s"
    return None


def foreign_ceilings(measured: Ceilings, run: Evidence) -> str | None:
    """Reason why ceilings are not of ``run``; None if they can be."""
    if why := _other_gpu(measured.device, run):
        return why
    gpu = hardware.gpu(run.spec.gpu)
    for precision, rates in (
        (name, rates) for each in measured.gemms for name, rates in each.tflops.items()
    ):
        peak = None
        if gpu:
            peak = gpu.peak_tflops(precision)
        if peak and (rate := max(rates.values())) > WHOLE * peak:
            return f"a product in {precision} has {rate:.4g} TFLOPS, the peak of {run.spec.gpu} is {peak:.4g}"
    flops = sum(each.count * MULTIPLY_ADD * each.m * each.n * each.k for each in measured.gemms)
    own = products_flops(run.spec)
    if math.isclose(flops, own, rel_tol=WORK_TOLERANCE):
        return None
    return f"its products have {flops:.4g} FLOPs in a micro-batch, those of the run {own:.4g}"


def foreign_ranks(times: RankTimes, run: Evidence) -> str | None:
    """Reason why the times of ranks are not of ``run``; None if they can be."""
    if why := _more_ranks(times.ranks, run):
        return why
    longest = max(
        (median(each.compute_time_s) for each in times.ranks if each.compute_time_s), default=0.0
    )
    if longest > LONGEST * run.inner_s:
        return f"a rank computes {longest:.4g} s, a step takes {run.inner_s:.4g} s"
    return None


def foreign_trace(trace: Fingerprint, run: Evidence) -> str | None:
    """Reason why ``trace`` is not of ``run``; None if it can be."""
    for device in dict.fromkeys(rank.gpu for rank in trace.ranks if rank.gpu):
        if why := _other_gpu(device, run):
            return why
    if why := _more_ranks(trace.ranks, run):
        return why
    if not trace.steps:
        return None
    return _other_step(trace.window_s / trace.steps, run)


def _more_ranks(ranks: Sequence[object], run: Evidence) -> str | None:
    """Reason why a measurement of these ``ranks`` is not of ``run``."""
    if len(ranks) > run.spec.num_gpus:
        return f"it has {len(ranks)} ranks, the run {run.spec.num_gpus}"
    return None


def _other_gpu(device: str, run: Evidence) -> str | None:
    """Reason why a measurement on ``device`` is not of ``run``."""
    name = hardware.name_of(device)
    if name is not None and name != run.spec.gpu and (hardware.gpu(run.spec.gpu) or not run.on_gpu):
        return f"it is of {name} ({device}), the run of {run.spec.gpu}"
    return None


def foreign_breakdown(profiled: Breakdown, run: Evidence) -> str | None:
    """Reason why ``profiled`` is not of ``run``; None if it can be."""
    parts = profiled.parts.values()
    sent = (profiled.communication_s, profiled.hidden_s, *profiled.communication_of_ranks_s)
    of_hosts = (*profiled.data_of_ranks_s, *profiled.queued_of_ranks_s)
    if not all(map(math.isfinite, (profiled.step_s, *parts, *sent, *of_hosts))):
        return "it holds a value that is not finite"
    if why := _other_step(profiled.step_s, run):
        return why
    if abs(sum(parts) - profiled.step_s) > SUM_TOLERANCE * profiled.step_s:
        return f"its parts add up to {sum(parts):.4g} s, its step takes {profiled.step_s:.4g} s"
    longest = max(sent)
    if longest > LONGEST * profiled.step_s:
        return f"it has {longest:.4g} s of communication in a step of {profiled.step_s:.4g} s"
    if (
        profiled.data_of_ranks_s
        and (waited := max(profiled.data_of_ranks_s)) > WHOLE * profiled.step_s
    ):
        return f"a rank waits {waited:.4g} s for data in a step of {profiled.step_s:.4g} s"
    if run.spec.num_gpus == 1 and longest > TO_ITSELF * profiled.step_s:
        return f"it has {longest:.4g} s of communication, the run has 1 GPU"
    return None


def _other_step(step_s: float, run: Evidence) -> str | None:
    """Reason why a profiled step of ``step_s`` is not of ``run``."""
    if SHORTEST * run.inner_s <= step_s <= LONGEST * run.inner_s:
        return None
    allowed = f"{SHORTEST} to {LONGEST} times as long belongs to it"
    return f"its step takes {step_s:.4g} s, the measured one {run.inner_s:.4g} s: what is {allowed}"
