"""The typical step by kind of kernel, from what was profiled."""

from dataclasses import dataclass, fields, replace
from statistics import mean

from benchrun.explain.evidence import Evidence
from benchrun.spec.artifacts import BREAKDOWN, Breakdown
from benchrun.trace.model import Fingerprint, RankTime


@dataclass(frozen=True)
class Buckets:
    """Seconds of the typical step; they add up to it."""

    matmul: float
    attention: float
    memory_bound: float
    communication: float
    """That no kernel hides."""
    idle: float
    other: float = 0.0
    """By which the measured step is longer than the profiled one."""
    source: str = ""

    @property
    def busy(self) -> float:
        """Computing."""
        return self.matmul + self.attention + self.memory_bound


def buckets(run: Evidence) -> Buckets | None:
    """From the breakdown, else from a trace; None where nothing was profiled."""
    if run.breakdown is not None:
        return _fitted(_of_breakdown(run.breakdown), run.typical_s, on_gpu=run.on_gpu)
    if run.fingerprint is not None:
        return _of_fingerprint(run.fingerprint, _steps(run.fingerprint, run), run.typical_s)
    return None


def _steps(fingerprint: Fingerprint, run: Evidence) -> int | None:
    """Steps in the window: those that the trace marks, else as many as the run was to profile."""
    return fingerprint.steps or (run.spec.profile.steps if run.spec.profile.tool != "none" else None)


def _of_breakdown(profiled: Breakdown) -> Buckets:
    return Buckets(
        profiled.matmul_s,
        profiled.attention_s,
        profiled.other_s,
        profiled.communication_s,
        profiled.idle_s,
        source=BREAKDOWN,
    )


def _of_fingerprint(fingerprint: Fingerprint, steps: int | None, typical_s: float) -> Buckets:
    """The mean of the ranks' shares, times a step of the trace, fitted to a measured one."""
    each = [_shares(rank) for rank in fingerprint.ranks]
    step_s = fingerprint.window_s / steps if steps else typical_s
    matmul, attention, other, communication, idle = (mean(values) * step_s for values in zip(*each, strict=True))
    return _fitted(Buckets(matmul, attention, other, communication, idle, source="the trace"), typical_s)


def _shares(rank: RankTime) -> tuple[float, float, float, float, float]:
    """Products, attention, other kernels and copies, exposed communication, idle: they add up to 1."""
    matmul = min(rank.classes.matmul, rank.compute)
    attention = min(rank.classes.attention, rank.compute - matmul)
    other = rank.compute - matmul - attention + rank.copies
    return matmul, attention, other, rank.exposed_comm, rank.idle


def _fitted(profiled: Buckets, typical_s: float, *, on_gpu: bool = True) -> Buckets:
    """The parts of a profiled step, fitted to a measured one.

    What the profiled step takes longer is the profiler's: beside a GPU it slows the host first, then whatever waits; on
    a CPU it slows all. What it takes less is of unknown cause.
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
        fitted, excess = replace(fitted, **{name: getattr(fitted, name) - less}), excess - less
    scale = 1 - excess / fitted.busy if fitted.busy else 1.0
    return replace(fitted, **{name: getattr(fitted, name) * scale for name in ("matmul", "attention", "memory_bound")})
