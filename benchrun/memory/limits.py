"""Whether a run fits its GPU: a refusal where it cannot, a warning where it may not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchrun import hardware
from benchrun.frameworks.registry import framework
from benchrun.memory.estimate import estimate
from benchrun.spec.runspec import RunSpec
from benchrun.spec.training import Recompute

NEARLY_FULL = 0.9
ESTIMATE_ERROR = 0.1
"""How far the estimate may be from the peak, as a fraction of it. No peak that was measured on H100 and H200 is further
off (tests/memory, tests/recipe/test_hf.py): the worst estimates are 6 % too low and 2 % too high."""


def impossible(spec: RunSpec) -> str | None:
    """Why a run cannot fit, even if the estimate errs; None where it may fit, or the GPU is not listed."""
    gpu, memory = hardware.gpu(spec.gpu), estimate(spec)
    if gpu is None:
        return None
    if memory.states > gpu.memory_gib:
        return (
            f"weights, gradients and optimizer states alone take {memory.states:.0f} GiB a GPU, and {spec.gpu} has "
            f"{gpu.memory_gib:g}: spread them over more GPUs (tp, pp, fsdp, more data-parallel ranks)"
        )
    if memory.total <= gpu.memory_gib * (1 + ESTIMATE_ERROR):
        return None
    instead = [f"{what} would need {size:.0f}" for what, size in _smaller(spec, gpu.memory_gib)]
    spread = "spread the model over more GPUs (tp, pp, cp, fsdp)"
    advice = f"{', '.join(instead)}, or {spread}" if instead else spread
    return (
        f"it needs about {memory.total:.0f} GiB a GPU, and {spec.gpu} has {gpu.memory_gib:g}; the estimate is at most "
        f"{ESTIMATE_ERROR:.0%} off: {advice}"
    )


def _smaller(spec: RunSpec, available_gib: float) -> Iterator[tuple[str, float]]:
    """Changes that would fit into ``available_gib`` on the same GPUs, with what they would need in GiB."""
    full = Recompute(granularity="full", method="uniform", num_layers=1)
    changes: list[tuple[str, dict[str, Any]]] = [
        ("full recompute", {"training": spec.training.model_copy(update={"recompute": full})}),
    ]
    if framework(spec.framework).memory.micro_batches:
        smaller = [mbs for mbs in range(spec.mbs // 2, 0, -1) if spec.mbs % mbs == 0]
        more = {mbs: spec.num_microbatches * spec.mbs // mbs for mbs in smaller}
        changes += [(f"mbs {mbs}", {"mbs": mbs, "num_microbatches": more[mbs]}) for mbs in smaller]
    for what, update in changes:
        size = estimate(spec.model_copy(update=update)).total
        if size <= available_gib:
            yield what, size
            if what.startswith("mbs"):
                return  # the largest that fits


def warning(spec: RunSpec) -> str | None:
    """A warning for a job that may run out of GPU memory; None where it fits, or the GPU is not listed."""
    gpu = hardware.gpu(spec.gpu)
    total = estimate(spec).total
    if gpu is None or total <= NEARLY_FULL * gpu.memory_gib:
        return None
    return f"{spec.recipe} needs about {total:.0f} GiB a GPU, and {spec.gpu} has {gpu.memory_gib:g}"
