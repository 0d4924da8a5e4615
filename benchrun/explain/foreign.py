"""Whether a trace or a breakdown can be of the run beside which it lies: its GPU, its ranks, its step."""

import math
from dataclasses import replace

from benchrun import hardware
from benchrun.explain.evidence import Evidence
from benchrun.spec.artifacts import BREAKDOWN, Breakdown
from benchrun.trace.model import Fingerprint

SHORTEST, LONGEST = 0.5, 2.5
"""Times the measured step: a profiled step outside of this is of another run. A profiler costs up to 33 % in
results/measured, and more where the host is late."""
SUM_TOLERANCE = 0.05
"""Of the profiled step: its parts add up to it, but for rounding."""
TRACE = "the trace is left out"


def without_foreign(run: Evidence) -> Evidence:
    """``run`` without the trace and the breakdown that cannot be its own, and with a note for each."""
    if run.fingerprint is not None and (why := foreign_trace(run.fingerprint, run)):
        run = replace(run, fingerprint=None, notes=(*run.notes, f"{TRACE}: {why}"))
    if run.breakdown is not None and (why := foreign_breakdown(run.breakdown, run)):
        run = replace(run, breakdown=None, notes=(*run.notes, f"{BREAKDOWN} is left out: {why}"))
    return run


def foreign_trace(trace: Fingerprint, run: Evidence) -> str | None:
    """Why ``trace`` is not of ``run``; None where it can be."""
    for device in dict.fromkeys(rank.gpu for rank in trace.ranks if rank.gpu):
        name = hardware.name_of(device)
        if name is not None and name != run.spec.gpu and (hardware.gpu(run.spec.gpu) or not run.on_gpu):
            return f"it is of {name} ({device}), the run of {run.spec.gpu}"
    if len(trace.ranks) > run.spec.num_gpus:
        return f"it has {len(trace.ranks)} ranks, the run {run.spec.num_gpus}"
    return _other_step(trace.window_s / trace.steps, run) if trace.steps else None


def foreign_breakdown(profiled: Breakdown, run: Evidence) -> str | None:
    """Why ``profiled`` is not of ``run``; None where it can be."""
    parts = (
        profiled.matmul_s,
        profiled.attention_s,
        profiled.other_s,
        profiled.communication_s,
        profiled.idle_s,
    )
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
    if run.spec.num_gpus == 1 and longest > 0:
        return f"it has {longest:.4g} s of communication, the run has 1 GPU"
    return None


def _other_step(step_s: float, run: Evidence) -> str | None:
    """Why a profiled step of ``step_s`` is not of ``run``."""
    if SHORTEST * run.inner_s <= step_s <= LONGEST * run.inner_s:
        return None
    allowed = f"{SHORTEST} to {LONGEST} times as long belongs to it"
    return f"its step takes {step_s:.4g} s, the measured one {run.inner_s:.4g} s: what is {allowed}"
