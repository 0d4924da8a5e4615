"""The typical step by kind of kernel, from what was profiled."""

from dataclasses import dataclass, fields, replace
from statistics import mean

from benchrun.rundir.artifacts import BREAKDOWN, Breakdown
from benchrun.rundir.fingerprint import Fingerprint, RankShares

from .evidence import Evidence

KNOWN = ("matmul", "attention", "memory_bound", "communication", "idle", "copies")
"""The buckets except the one of unknown cause."""
COPIES = 0.02
"""Share of a trace in which nothing but copies runs, from which on they are a part of
their own: offloaded activations. Fewer count with the memory-bound kernels, as all do
in a breakdown.
"""


@dataclass(frozen=True)
class Buckets:
    """Seconds of the typical step from its begin to its end; they add up to it."""

    matmul: float
    attention: float
    memory_bound: float
    communication: float
    """Seconds of communication that no kernel hides."""
    idle: float
    copies: float = 0.0
    """Seconds of copies beside which no kernel runs; known from a trace alone."""
    other: float = 0.0
    """Seconds by which the measured step is longer than the profiled one."""
    source: str = ""

    @property
    def busy(self) -> float:
        """Computing."""
        return self.matmul + self.attention + self.memory_bound


def buckets(run: Evidence) -> Buckets | None:
    """Divide the profiled step, by the breakdown or else by a trace; None if nothing
    was profiled.

    Where the step of the breakdown was shorter than the measured ones, a trace of
    others shows what took longer.
    """
    traced = None
    if run.fingerprint is not None:
        traced = _of_fingerprint(run.fingerprint, _steps(run.fingerprint, run), run.inner_s)
    if run.breakdown is None:
        return traced
    share = 0.0
    if run.fingerprint:
        share = mean(_copies(rank) for rank in run.fingerprint.ranks)
    own = _fitted(_of_breakdown(run.breakdown, share), run.inner_s, on_gpu=run.on_gpu)
    if not traced:
        return own
    return _filled(own, traced)


def _filled(own: Buckets, traced: Buckets) -> Buckets:
    """``own``, whose time of unknown cause goes to the parts that take longer in the
    trace, up to that difference.
    """
    more = {}
    for name in KNOWN:
        more[name] = max(getattr(traced, name) - getattr(own, name), 0.0)
    total = sum(more.values())
    if not total:
        return own
    share = min(own.other / total, 1.0)
    longer = {}
    for name, seconds in more.items():
        longer[name] = getattr(own, name) + share * seconds
    return replace(own, **longer, other=own.other - share * total)


def _steps(fingerprint: Fingerprint, run: Evidence) -> int | None:
    """Steps in the window: those that the trace marks, else as many as the run was to
    profile.
    """
    if fingerprint.steps or run.spec.profile.tool == "none":
        return fingerprint.steps
    return run.spec.profile.steps


def _of_breakdown(profiled: Breakdown, share_of_copies: float) -> Buckets:
    copies = min(share_of_copies * profiled.step_s, profiled.other_s)
    return Buckets(
        profiled.matmul_s,
        profiled.attention_s,
        profiled.other_s - copies,
        profiled.communication_s,
        profiled.idle_s,
        copies,
        source=BREAKDOWN,
    )


def _of_fingerprint(fingerprint: Fingerprint, steps: int | None, typical_s: float) -> Buckets:
    """The mean of the ranks' shares, times a step of the trace, fitted to a measured
    one.
    """
    each = [_shares(rank) for rank in fingerprint.ranks]
    step_s = fingerprint.window_s / steps if steps else typical_s
    matmul, attention, other, communication, idle, copies = (
        mean(values) * step_s for values in zip(*each, strict=True)
    )
    return _fitted(
        Buckets(matmul, attention, other, communication, idle, copies, source="the trace"),
        typical_s,
    )


def _shares(rank: RankShares) -> tuple[float, ...]:
    """Products, attention, other kernels, exposed communication, idle, copies: they add
    up to 1.
    """
    matmul = min(rank.classes.matmul, rank.compute)
    copies = _copies(rank)
    attention = min(rank.classes.attention, rank.compute - matmul)
    other = rank.compute - matmul - attention + rank.copies - copies
    return matmul, attention, other, rank.exposed_comm, rank.idle, copies


def _copies(rank: RankShares) -> float:
    """Share of the copies, if they are a part of their own."""
    if rank.copies >= COPIES:
        return rank.copies
    return 0.0


def _fitted(profiled: Buckets, typical_s: float, *, on_gpu: bool = True) -> Buckets:
    """The parts of a profiled step, fitted to a measured one.

    What the profiled step takes longer is the profiler's: beside a GPU it slows the
    host first, then whatever waits; on a CPU it slows all. What it takes less is of
    unknown cause.
    """
    names = [field.name for field in fields(Buckets) if field.name != "source"]
    excess = sum(getattr(profiled, name) for name in names) - typical_s
    if excess <= 0:
        return replace(profiled, other=-excess)
    if not on_gpu:
        share = typical_s / (typical_s + excess)
        return replace(profiled, **{name: getattr(profiled, name) * share for name in names})
    fitted = profiled
    for name in ("idle", "communication"):
        less = min(excess, getattr(fitted, name))
        fitted = replace(fitted, **{name: getattr(fitted, name) - less})
        excess = excess - less
    works = ("matmul", "attention", "memory_bound", "copies")
    busy = sum(getattr(fitted, name) for name in works)
    scale = 1.0
    if busy:
        scale = 1 - excess / busy
    return replace(fitted, **{name: getattr(fitted, name) * scale for name in works})
