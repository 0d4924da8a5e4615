"""Choices: what the recipe or the layout costs, with the seconds of a step that another
one would save.
"""

from collections.abc import Iterator

import numpy as np

from benchrun.frameworks.registry import FRAMEWORKS

from .advice import choice
from .evidence import Evidence
from .model import Cause, Name, Part, Saving
from .said import costs
from .saving import between, estimated, filled, saving
from .waits import by_stage, late_rank, of_stages, stages_s
from .waterfall import (
    ATTENTION_AT_PEAK,
    CLOCKS,
    COPIES,
    MATMUL_ALONE,
    MATMUL_AT_PEAK,
    MEMORY_AT_SPEED,
    MEMORY_BEYOND,
    PLAIN,
    SMALL_PRODUCTS,
)

UNUSED: tuple[Name, ...] = (
    "bubble",
    "exposed_tp",
    "exposed_cp",
    "exposed_ep",
    "exposed_dp",
    "host",
)
"""Causes for which GPUs compute nothing, of which another layout or recipe saves all or
most.
"""
LEAST_FUSED, FUSED, LIKELY_FUSED, MOST_FUSED = 2.5, 3.0, 4.0, 6.0
"""Factors over the least time of memory-bound kernels if all are fused: between the first
and the third after a change, the second is the median of the kept runs. A run that means to
have fused kernels has them up to the last, more than any kept run takes (5.6).
"""
LEAST_COPIED = 0.65
"""Share of the time of copies that a step without them saves."""
LAUNCHED_AGAIN = 1.2, 1.5
"""Launches of a pass that is computed again, for each that its share of the FLOPs says."""
FLASH = 3.0
"""Factor over the least time of attention at the peak: 2.5 to 3.1 in kept runs with
BF16 attention.
"""
ALONE = 0.8
"""Share of the clock's peak that large products reach alone: 0.8 in FP8 and 0.87 in
BF16 in the kept runs.
"""


OFFLOADED = (
    "keep the activations on the GPU (training.offload_activations=false) if they fit, with a smaller micro-batch or "
    "recomputation; else check the link to the host: nvidia-smi -q, CPU binding, pinned memory"
)
"""Advice if most of it is copies of activations to host memory and back."""


def choices(run: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Every choice that costs time."""
    busy = _busy(run, parts)
    for name in (*UNUSED, "recompute"):
        own = [part for part in parts if part.cause == name]
        seconds = sum(part.seconds for part in own)
        if seconds and (run.on_gpu or name != "host"):
            saved = filled(seconds, busy)
            if name == "recompute":
                saved = _with_launches(run, parts, estimated(seconds))
            yield choice(name, seconds, _evidence(own, run), saving=saved)
    if uneven := _of_stages(run, busy):
        yield uneven
    yield from _of_memory(run, parts)
    for cause in (*_of_attention(run, parts), *_of_products(run, parts)):
        if cause.seconds >= _host(parts):
            yield cause
    yield from _of_turns(run)
    yield from costs(run)


def _with_launches(run: Evidence, parts: list[Part], computed: Saving) -> Saving:
    """Saving of what is computed again, with the host's time to launch it.

    The forward pass launches more kernels than its share of the FLOPs says.
    """
    least, most = LAUNCHED_AGAIN
    again = run.least.recomputed / (1 + run.least.recomputed)
    launches = again * _host(parts)
    return between(computed.low + least * launches, computed.high + most * launches)


def _host(parts: list[Part]) -> float:
    """Seconds in which the GPUs wait for the host, where faster kernels save nothing."""
    return sum(part.seconds for part in parts if part.cause == "host")


def _busy(run: Evidence, parts: list[Part]) -> float:
    """Share of the step in which the GPUs compute, which a higher clock makes faster."""
    if not run.on_gpu:
        return 0.0
    names = ("matmul", "attention", "memory")
    return sum(part.seconds for part in parts if part.part.startswith(names)) / run.step_s


def _of_memory(run: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Memory-bound kernels beyond those of fused ones, products that are too small, and
    copies that nothing hides.
    """
    seconds = {part.part: part.seconds for part in parts}
    small, (spent, least) = seconds.get(SMALL_PRODUCTS, 0.0), _memory(parts)
    saved = low = high = 0.0
    words = []
    if small:
        words.append(f"products of small micro-batches wait {small:.3g} s for memory")
    if least and spent > _most_fused(run) * least and spent - FUSED * least >= _host(parts):
        saved = spent - FUSED * least
        low, high = max(spent - LIKELY_FUSED * least, 0.0), spent - LEAST_FUSED * least
        words.append(
            f"norms, activations, casts and the optimizer take {spent / least:.1f} times what the memory needs, "
            f"about {FUSED:.0f} where all are fused"
        )
    copies = seconds.get(COPIES, 0.0)
    offloaded = run.spec.training.offload_activations
    if copies:
        of = " of offloaded activations" if offloaded else ""
        words.insert(0, f"nothing but copies{of} runs for {copies:.3g} s")
    elif saved and offloaded:
        words.append(
            "the copies of offloaded activations are among them, and a trace would separate them"
        )
    if words:
        whole = between(low + LEAST_COPIED * copies, small + high + copies)
        cause = choice("memory_bound", small + saved + copies, "; ".join(words), saving=whole)
        mostly_copies = copies > small + saved if copies else bool(saved)
        if offloaded and mostly_copies:
            cause = cause.model_copy(update={"advice": OFFLOADED})
        yield cause


def _memory(parts: list[Part]) -> tuple[float, float]:
    """Seconds that memory-bound kernels take, and the least that they could take."""
    seconds = {part.part: part.seconds for part in parts}
    least = seconds.get(MEMORY_AT_SPEED, 0.0)
    return least + seconds.get(MEMORY_BEYOND, 0.0), least


def _most_fused(run: Evidence) -> float:
    """Factor over the least up to which this run's memory-bound kernels count as fused."""
    training = run.spec.training
    own = FRAMEWORKS.get(run.spec.framework)
    local = training.transformer_impl == "local" or (own is not None and own.memory.fully_sharded)
    if training.fused_kernels and not local:
        return MOST_FUSED
    return FUSED


def _of_attention(run: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Attention beyond what a fused kernel takes.

    Plain attention has memory-bound kernels too, which pass over whole scores: those
    beyond fused ones are counted here, unless the run means to have no fused kernels.
    """
    least = run.least.attention_s or 0.0
    if not least:
        return
    spent = sum(
        part.seconds
        for part in parts
        if part.cause == "attention" or part.part == ATTENTION_AT_PEAK
    )
    words = f"attention takes {spent / least:.1f} times what it takes at the GPU's peak"
    if any(part.part == PLAIN for part in parts):
        memory, smallest = _memory(parts)
        passes = 0.0
        if _most_fused(run) * smallest >= memory:
            passes = memory - FUSED * smallest
        if passes > 0:
            spent += passes
            words = f"no kernel of its own computes attention: whole scores cost {spent:.3g} s in products and memory"
    if spent > FLASH * least:
        yield choice(
            "attention", spent - FLASH * least, f"{words}, about {FLASH * least:.3g} s where fused"
        )


def _of_products(run: Evidence, parts: list[Part]) -> Iterator[Cause]:
    """Products that are too small to be fast, even alone; none without a clock, because
    a low one is as slow.
    """
    if run.clock_mhz is None:
        return
    below = sum(part.seconds for part in parts if part.part == MATMUL_ALONE)
    peak = sum(part.seconds for part in parts if part.part in (MATMUL_AT_PEAK, CLOCKS))
    saved = below - peak * (1 / ALONE - 1)
    if peak and saved > 0:
        share = 100 * peak / (peak + below)
        yield choice(
            "matmul",
            saved,
            f"the products reach {share:.0f} % of the clock's peak alone: they are small",
        )


def _of_stages(run: Evidence, busy: float) -> Cause | None:
    """Pipeline stages of unequal work."""
    seconds = stages_s(run)
    if len(seconds) < 2:
        return None
    apart = max(seconds) - sum(seconds) / len(seconds)
    return choice("imbalance", apart, of_stages(seconds), saving=filled(apart, busy))


def _of_turns(run: Evidence) -> Iterator[Cause]:
    """Ranks of a stage that are slow by turns, as with uneven samples or experts.

    A rank that is always slow is a fault of its own. Where every rank has the same work,
    this is noise of other processes.
    """
    if run.same_work and not run.routed:
        return
    turns = []
    for times in by_stage(run):
        turns.append(np.max(times, axis=0) - np.mean(times, axis=0))
    if turns and run.on_gpu:
        longest = max(turns, key=np.mean)
        if late := late_rank(run):
            longest = longest - late.seconds
        saved = float(np.mean(longest))
        words = (
            f"ranks of a stage are slow by turns: the slowest computes {saved:.3g} s longer than the mean "
            f"({run.ranks_from})"
        )
        cause = choice("imbalance", saved, words)
        yield cause.model_copy(update={"saving_s": saving(saved, longest)})


def _evidence(parts: list[Part], run: Evidence) -> str:
    """The parts of a cause with their shares and sources."""
    largest = sorted(parts, key=lambda part: -part.seconds)[:3]
    return "; ".join(
        f"{part.part} {100 * part.seconds / run.step_s:.1f} % ({part.evidence})" for part in largest
    )
