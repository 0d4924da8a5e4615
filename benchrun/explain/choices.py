"""Choices: what the recipe or the layout costs, with the seconds of a step that another one would save."""

from collections.abc import Iterator

from benchrun.explain.advice import advice
from benchrun.explain.evidence import Evidence
from benchrun.explain.model import Cause, Name, Part
from benchrun.frameworks.registry import framework

WHOLE: tuple[Name, ...] = ("bubble", "recompute", "exposed_tp", "exposed_cp", "exposed_ep", "exposed_dp", "host")
"""Another layout or recipe can save all of these."""
FUSED = 3.0
"""Times the least that memory-bound kernels take where all are fused: the median of the kept runs."""
UNFUSED = 6.0
"""Of a run whose kernels are fused no more than this is expected."""
ALONE = 0.8
"""Share of the clock's peak that large products reach alone."""


SMALL, LEAST = "products bound by memory", "memory-bound kernels at the memory's speed"
BEYOND = "memory-bound kernels beyond it"
"""Parts of the waterfall."""


def choices(run: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Every choice that costs time."""
    for name in WHOLE:
        own = [part for part in parts if part.cause == name]
        if seconds := sum(part.seconds for part in own):
            yield _choice(name, seconds, _evidence(own, run))
    yield from _of_memory(run, parts)
    yield from _of_products(run, parts)


def _of_memory(run: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Memory-bound kernels beyond those of fused ones, and products that are too small."""
    seconds = {part.part: part.seconds for part in parts}
    small, least = seconds.get(SMALL, 0.0), seconds.get(LEAST, 0.0)
    training = run.spec.training
    local = training.transformer_impl == "local" or framework(run.spec.framework).memory.fully_sharded
    fused = training.fused_kernels and not local
    spent = least + seconds.get(BEYOND, 0.0)
    saved = max(spent - (UNFUSED if fused else FUSED) * least, 0.0) if least else 0.0
    words = [f"products of small micro-batches wait {small:.3g} s for memory"] if small else []
    if saved:
        words.append(
            f"norms, activations, casts and the optimizer take {spent / least:.1f} times what the memory needs, "
            f"about {FUSED:.0f} where all are fused"
        )
    if words:
        yield _choice("memory_bound", small + saved, "; ".join(words))


def _of_products(run: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Products that are too small to be fast, even alone."""
    below = sum(part.seconds for part in parts if part.part == "matmul alone below the peak")
    peak = sum(part.seconds for part in parts if part.part in ("matmul at the GPU's peak", "clocks and power"))
    saved = below - peak * (1 / ALONE - 1)
    if peak and saved > 0:
        share = 100 * peak / (peak + below)
        yield _choice("matmul", saved, f"the products reach {share:.0f} % of the clock's peak alone: they are small")


def _choice(cause: Name, seconds: float, evidence: str) -> Cause:
    return Cause(cause=cause, kind="choice", seconds=seconds, evidence=evidence, advice=advice(cause))


def _evidence(parts: list[Part], run: Evidence) -> str:
    """The parts of a cause with their shares and sources."""
    listed = sorted(parts, key=lambda part: -part.seconds)
    return "; ".join(f"{part.part} {100 * part.seconds / run.step_s:.1f} % ({part.evidence})" for part in listed[:3])
