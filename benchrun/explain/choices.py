"""Choices: what the recipe or the layout costs, with the seconds of a step that another one would save."""

from collections.abc import Iterator

from benchrun.explain.advice import advice
from benchrun.explain.evidence import Evidence
from benchrun.explain.model import Cause, Name, Part

WHOLE: tuple[Name, ...] = ("bubble", "recompute", "exposed_tp", "exposed_cp", "exposed_ep", "exposed_dp", "host")
"""Another layout or recipe can save all of these."""
FUSED = 3.0
"""Times the least that memory-bound kernels take where all are fused: the median of the kept runs."""
UNFUSED = 6.0
"""Of a run whose kernels are fused no more than this is expected."""
ALONE = 0.8
"""Share of the clock's peak that large products reach alone."""


def choices(known: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Every choice that costs time."""
    for name in WHOLE:
        own = [part for part in parts if part.cause == name]
        if seconds := sum(part.seconds for part in own):
            yield _choice(name, seconds, _evidence(own, known))
    yield from _of_memory(known, parts)
    yield from _of_products(known, parts)


def _of_memory(known: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Memory-bound kernels beyond those of fused ones."""
    least = sum(part.seconds for part in parts if part.part == "memory-bound kernels at the memory's speed")
    spent = least + sum(part.seconds for part in parts if part.cause == "memory_bound")
    if not least or not known.on_gpu:
        return
    fused = known.spec.training.fused_kernels and known.spec.framework != "hf"
    saved = spent - (UNFUSED if fused else FUSED) * least
    if saved > 0:
        usual = f"norms, activations, casts and the optimizer take {spent / least:.1f} times what the memory needs"
        yield _choice("memory_bound", saved, f"{usual}; fused kernels take about {FUSED:.0f} times")


def _of_products(known: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Products that are too small to be fast, even alone."""
    below = sum(part.seconds for part in parts if part.part == "matmul alone below the peak")
    peak = sum(part.seconds for part in parts if part.part in ("matmul at the GPU's peak", "clocks and power"))
    saved = below - peak * (1 / ALONE - 1)
    if peak and saved > 0:
        share = 100 * peak / (peak + below)
        yield _choice("matmul", saved, f"the products reach {share:.0f} % of the clock's peak alone: they are small")


def _choice(cause: Name, seconds: float, evidence: str) -> Cause:
    return Cause(cause=cause, kind="choice", seconds=seconds, evidence=evidence, advice=advice(cause))


def _evidence(parts: list[Part], known: Evidence) -> str:
    largest = max(parts, key=lambda part: part.seconds)
    share = 100 * sum(part.seconds for part in parts) / known.step_s
    return f"{share:.1f} % of the step; {largest.part}: {largest.evidence}"
