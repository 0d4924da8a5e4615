"""Whether a run fits its GPU: a refusal if it cannot, a warning if it may not."""

from __future__ import annotations

from collections.abc import Iterator

from benchrun import hardware
from benchrun.frameworks.registry import framework
from benchrun.memory.estimate import estimate
from benchrun.spec.runspec import TrainingSpec
from benchrun.spec.training import Recompute

NEARLY_FULL = 0.9
ESTIMATE_ERROR = 0.1
"""Largest error of the estimate, as a fraction of the peak. Peaks measured on H100 and H200 (tests/memory,
tests/recipe/test_hf.py) differ less: the worst estimates are 6 % too low and 2 % too high."""


def impossible(spec: TrainingSpec) -> str | None:
    """Why a run cannot fit, whatever the error of the estimate; None if it may fit, or the GPU has no row."""
    gpu, memory = hardware.gpu(spec.gpu), estimate(spec)
    if gpu is None:
        return None
    if memory.states > gpu.memory_gib:
        return (
            f"weights, gradients and optimizer states alone take {memory.states:.0f} GiB per GPU, and {spec.gpu} has "
            f"{gpu.memory_gib:g}: spread them over more GPUs (tp, pp, fsdp, more data-parallel ranks)"
        )
    if memory.total <= gpu.memory_gib * (1 + ESTIMATE_ERROR):
        return None
    options = [f"{what} would need {size:.0f}" for what, size in _smaller(spec, gpu.memory_gib)]
    advice = f"{', '.join(options)}, or " if options else ""
    return (
        f"it needs about {memory.total:.0f} GiB per GPU, and {spec.gpu} has {gpu.memory_gib:g}; the estimate is at "
        f"most {ESTIMATE_ERROR:.0%} off: {advice}spread the model over more GPUs (tp, pp, cp, fsdp)"
    )


def _smaller(spec: TrainingSpec, available_gib: float) -> Iterator[tuple[str, float]]:
    """Changes that would fit into ``available_gib`` on the same GPUs, with what they would need in GiB."""
    full = Recompute(granularity="full", method="uniform", num_layers=1)
    recomputing = spec.model_copy(update={"training": spec.training.model_copy(update={"recompute": full})})
    if (size := estimate(recomputing).total) <= available_gib:
        yield "full recompute", size
    if not framework(spec.framework).memory.micro_batches:
        return
    for mbs in range(spec.mbs // 2, 0, -1):
        update = {"mbs": mbs, "num_microbatches": spec.num_microbatches * spec.mbs // mbs}
        if spec.mbs % mbs == 0 and (size := estimate(spec.model_copy(update=update)).total) <= available_gib:
            yield f"mbs {mbs}", size
            return  # the largest that fits


def warning(spec: TrainingSpec) -> str | None:
    """A warning for a job that may run out of GPU memory; None if it fits, or the GPU has no row."""
    gpu = hardware.gpu(spec.gpu)
    total = estimate(spec).total
    if gpu is None or total <= NEARLY_FULL * gpu.memory_gib:
        return None
    return f"{spec.recipe} needs about {total:.0f} GiB per GPU, and {spec.gpu} has {gpu.memory_gib:g}"
