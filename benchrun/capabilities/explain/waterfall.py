"""Waterfall from the GPU's peak to the measured step: parts that add up to it."""

from collections.abc import Iterator
from statistics import mean

from benchrun.measure.bound import Bound
from benchrun.rundir.artifacts import CEILINGS, RANKS, TELEMETRY_SUMMARY

from . import waits
from .buckets import Buckets, buckets
from .evidence import Evidence
from .model import UNSEPARATED, Name, Part
from .timers import COMPUTE
from .work import Work, weights_of_groups

LAW = "operator list and data sheet"
MATMUL_AT_PEAK, CLOCKS, MATMUL_ALONE = (
    "matmul at the GPU's peak",
    "clocks and power",
    "matmul alone below the peak",
)
MATMUL_IN_TRAINING, SMALL_PRODUCTS = (
    "matmul in training below that alone",
    "products bound by memory",
)
ATTENTION_AT_PEAK, PLAIN = "attention at the GPU's peak", "attention as plain products"
MEMORY_AT_SPEED, MEMORY_BEYOND = (
    "memory-bound kernels at the memory's speed",
    "memory-bound kernels beyond it",
)
COPIES = "copies"
"""The parts of a step from which `choices` derives causes."""
OF_GROUP: dict[str, Name] = {
    "tp": "exposed_tp",
    "cp": "exposed_cp",
    "ep": "exposed_ep",
    "dp": "exposed_dp",
    "pp": "bubble",
}
TIMED: dict[Name, str] = {
    "bubble": "pipeline bubble",
    "data": "waiting for data",
    "exposed_dp": "exposed dp communication",
}
"""Parts that a log's timers show: cause -> part."""
COMPUTING = "computing beyond that: slower kernels, tp communication"


class Ledger:
    """A time that is divided into parts, none larger than what is left."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self.parts: list[Part] = []

    def take(self, part: str, seconds: float | None, cause: Name | None, evidence: str) -> float:
        """Add a part of at most ``seconds``; what it got."""
        taken = min(max(seconds or 0.0, 0.0), self.left)
        if taken > 0:
            self.left -= taken
            self.parts.append(Part(part=part, seconds=taken, cause=cause, evidence=evidence))
        return taken

    def rest(self, part: str, cause: Name | None, evidence: str) -> float:
        """Add a part with all that is left."""
        return self.take(part, self.left, cause, evidence)


def waterfall(run: Evidence) -> list[Part]:
    """The parts of the mean step, in the order of the contract; they add up to it."""
    least = run.least
    divided = buckets(run)
    parts = list(_profiled(run, least, divided) if divided else _of_log(run, least))
    if wait := waits.between_steps(run):
        parts.append(
            Part(part="between steps", seconds=wait.seconds, cause="host", evidence=wait.evidence)
        )
    slower = run.step_s - run.typical_s
    if slower > 0:
        parts.append(
            Part(
                part="slower steps",
                seconds=slower,
                cause="jitter",
                evidence="mean less median of the log",
            )
        )
    return parts


def _profiled(run: Evidence, least: Work, divided: Buckets) -> Iterator[Part]:
    source = divided.source
    plain = _plain_attention(run, least, divided)
    if plain:
        words = f"{source}: next to no attention kernel ran, so that plain products compute it"
        yield Part(part=PLAIN, seconds=plain, cause="attention", evidence=words)
    yield from _products(run, least, divided.matmul - plain, source)
    attention = Ledger(divided.attention)
    again = least.recomputed_attention
    attention.take(
        "attention, computed again", divided.attention * again / (1 + again), "recompute", source
    )
    attention.take(ATTENTION_AT_PEAK, least.attention_s, None, LAW)
    attention.rest(
        "attention below the peak" if least.attention_s else "attention", "attention", source
    )
    yield from attention.parts
    memory = Ledger(divided.memory_bound)
    share = least.recomputed_memory / (1 + least.recomputed_memory)
    memory.take(
        "memory-bound kernels, computed again", divided.memory_bound * share, "recompute", source
    )
    memory.take(MEMORY_AT_SPEED, least.memory_s, None, _memory_of(run))
    memory.rest(MEMORY_BEYOND if least.memory_s else "memory-bound kernels", "memory_bound", source)
    yield from memory.parts
    if divided.copies:
        words = "the trace: nothing else runs meanwhile"
        yield Part(part=COPIES, seconds=divided.copies, cause="memory_bound", evidence=words)
    yield from _waiting(run, least, divided)
    if divided.other:
        differs = "the measured step is longer than the profiled one"
        yield Part(
            part="not in the profiled step",
            seconds=divided.other,
            cause="unknown",
            evidence=differs,
        )


def _memory_of(run: Evidence) -> str:
    """Source of the memory's speed."""
    if run.ceilings:
        return CEILINGS
    return LAW


def _plain_attention(run: Evidence, least: Work, divided: Buckets) -> float:
    """Seconds that attention takes of the products if no kernel of its own computes it.

    With ceilings what the products take longer than alone, from once to twice the least
    that whole scores take; without as much as the work of both says.
    """
    if not least.attention_s or not least.matmul_s or divided.attention >= least.attention_s:
        return 0.0  # no kernel is faster than the peak
    whole = least.plain_attention_s
    if run.bound is not None:
        return min(
            max(divided.matmul - run.bound.matmul_s * (1 + least.recomputed), whole),
            2 * whole,
            divided.matmul,
        )
    return divided.matmul * whole / (whole + least.matmul_s)


def _products(run: Evidence, least: Work, seconds: float, source: str) -> Iterator[Part]:
    """The products: at the peak, at the clock, alone, beside the rest of the step,
    again.
    """
    products = Ledger(seconds)
    products.take(
        "products, computed again",
        seconds * least.recomputed / (1 + least.recomputed),
        "recompute",
        source,
    )
    peak = products.take(MATMUL_AT_PEAK, least.matmul_s, None, LAW)
    small = "their matrices take longer to read and write than to multiply"
    lost = products.take(SMALL_PRODUCTS, least.products_memory_s, "memory_bound", f"{LAW}: {small}")
    lost += products.take(*_clocks(run, peak))
    if run.bound is not None:
        products.take(*_alone(run.bound, peak, lost))
        products.rest(MATMUL_IN_TRAINING, "matmul", source)
    else:
        products.rest(
            "matmul below the peak" if peak else "matmul", "matmul" if peak else None, source
        )
    yield from products.parts


def _clocks(run: Evidence, peak_s: float) -> tuple[str, float, Name, str]:
    """Loss of the products at the measured clock against that of the peak."""
    clock = run.clock_mhz
    if not clock or run.clock is None:
        return CLOCKS, 0.0, "clocks", ""
    evidence = (
        f"{clock:.0f} MHz, the peak holds at {run.clock.peak_clock_mhz:.0f} ({TELEMETRY_SUMMARY})"
    )
    capped = run.samples is not None and run.samples.over_all.reasons.get("power_cap", 0) > 0.5
    lost = peak_s * (run.clock.peak_clock_mhz / clock - 1)
    return CLOCKS, lost, "power" if capped else "clocks", evidence


def _alone(bound: Bound, peak_s: float, lost_s: float) -> tuple[str, float, Name | None, str]:
    """Seconds that the products take alone beyond the peak, at the clock; all of it if
    no peak is known.
    """
    if not peak_s:
        return "matmul as fast as alone", bound.matmul_s, None, CEILINGS
    return MATMUL_ALONE, bound.matmul_s - peak_s - lost_s, "matmul", CEILINGS


def _waiting(run: Evidence, least: Work, divided: Buckets) -> Iterator[Part]:
    """Exposed communication and idle time: a slow rank, the pipeline, groups, data,
    host.
    """
    sent = Ledger(divided.communication)
    idle = Ledger(divided.idle)
    source = divided.source
    bubble = (
        divided.busy + divided.idle
    ) * least.bubble  # a stage takes as long as its kernels and its host
    ranks = run.spec.num_gpus
    taken = _sending(run, least, sent, bubble, source, waiting=(ranks - 1) / ranks)
    idle.take(
        "pipeline bubble, no kernel",
        (bubble - taken) / (1 + least.bubble),
        "bubble",
        _law_of_bubble(least),
    )
    yield from sent.parts
    yield from _idle(run, idle, source)


def _law_of_bubble(least: Work) -> str:
    return f"(pp - 1) / (vp * micro-batches) = {least.bubble:.3g} of computing"


def _sending(
    run: Evidence, least: Work, sent: Ledger, bubble_s: float, source: str, waiting: float = 1.0
) -> float:
    """Divide exposed communication: a slow rank, the pipeline bubble, groups. The
    bubble's part, in s.

    ``waiting``: share of the ranks of ``sent`` that wait for a slow one; less than 1 in
    a mean that includes it.
    """
    if late := waits.late_rank(run):
        sent.take(
            f"waiting for rank {late.rank}", late.seconds * waiting, "slow_rank", late.evidence
        )
    elif wait := waits.others_without_core(run):
        sent.take("waiting for a rank without a core", wait.seconds, _of_cores(run), wait.evidence)
    # The other stages wait for the slowest one, and exchange nothing.
    if len(stages := waits.stages_s(run)) > 1:
        wait_s = max(stages) - (min(stages) if waiting == 1 else mean(stages))
        sent.take("waiting for the slowest stage", wait_s, "imbalance", waits.of_stages(stages))
    taken = sent.take("pipeline bubble", bubble_s, "bubble", _law_of_bubble(least))
    exposed = sent.left
    for group, weight in weights_of_groups(run.spec, least.bytes_sent).items():
        sent.take(f"exposed {group} communication", exposed * weight, OF_GROUP[group], source)
    sent.rest("exposed communication", "unknown", source)
    return taken


def _idle(run: Evidence, idle: Ledger, source: str) -> Iterator[Part]:
    for words, wait, cause in _host_waits(run):
        if wait is not None:
            idle.take(words, wait.seconds, cause, wait.evidence)
    # A mean over the ranks has only its share of what one rank loses.
    if late := waits.late_rank(run):
        idle.take(
            f"rank {late.rank} stands still",
            late.seconds / run.spec.num_gpus,
            "slow_rank",
            late.evidence,
        )
    cores = run.breakdown.queued_of_ranks_s if run.breakdown and run.hosts is None else ()
    waited = ""
    if cores and not run.on_gpu:
        waited = f"; its threads waited {mean(cores):.3g} s for a core"
    idle.rest("no kernel: the host", "host", f"{source}{waited}")
    yield from idle.parts


def _of_cores(run: Evidence) -> Name:
    """Name the cause of waiting for a core: on a laptop, which others share, it is no
    fault of the host.
    """
    if run.on_gpu or waits.bound(run):
        return "host"
    return "jitter"


def _host_waits(run: Evidence) -> list[tuple[str, waits.Wait | None, Name]]:
    return [
        ("waiting for data", waits.data_wait(run), "data"),
        ("garbage collection", waits.garbage(run), "host"),
        ("waiting for a core", waits.queue(run), _of_cores(run)),
        ("launches too late", waits.launching(run), "host"),
        ("synchronising", waits.synchronising(run), "host"),
    ]


def _recorded(run: Evidence, least: Work, left: float) -> list[Part]:
    """Communication and bubble: as the ranks or the log's timers recorded them, else by
    law; at most what is ``left``.
    """
    bubble = run.inner_s * least.bubble / (1 + least.bubble)
    if run.collective_s is not None:
        sent = Ledger(min(left, run.collective_s))
        _sending(run, least, sent, bubble, RANKS)
        return sent.parts
    step = Ledger(left)
    for name, part in TIMED.items():
        law_s = bubble if name == "bubble" else 0.0
        timed_s = run.mean_timed_s(run.printed.names(name)) if run.printed else 0.0
        if timed_s > law_s:
            step.take(part, timed_s, name, "the log's timers, waits included")
        else:
            step.take(part, law_s, name, _law_of_bubble(least))
    return step.parts


def _of_log(run: Evidence, least: Work) -> Iterator[Part]:
    """Parts of a step without a profile: what the work takes at the least, what was
    recorded, and the rest.
    """
    step = Ledger(run.inner_s)
    peak = step.take(MATMUL_AT_PEAK, least.matmul_s, None, LAW)
    lost = step.take(*_clocks(run, peak))
    if run.bound is not None:
        step.take(*_alone(run.bound, peak, lost))
    step.take("products, computed again", (peak + lost) * least.recomputed, "recompute", LAW)
    step.take(ATTENTION_AT_PEAK, least.attention_s, None, LAW)
    step.take(MEMORY_AT_SPEED, least.memory_s, None, _memory_of(run))
    slower_s = run.mean_timed_s(COMPUTE) - sum(part.seconds for part in step.parts)
    for each in _recorded(run, least, step.left):
        step.take(each.part, each.seconds, each.cause, each.evidence)
    idle = Ledger(step.left)
    if run.on_gpu:  # the queue hides what the host does, unless the GPU stands still
        idle = Ledger(min(step.left, max((run.idle_of_telemetry_s or 0.0) - run.between_s, 0.0)))
    for part, wait, cause in _host_waits(run):
        if wait is not None:
            idle.take(part, wait.seconds, cause, wait.evidence)
    if run.on_gpu:
        idle.rest("no kernel: the host", "host", f"utilisation in {TELEMETRY_SUMMARY}")
    for each in idle.parts:
        step.take(each.part, each.seconds, each.cause, each.evidence)
    step.take(COMPUTING, slower_s, "unknown", f"the log's timers {' and '.join(COMPUTE)}")
    yield from step.parts
    if step.left > 0:
        names = f"{UNSEPARATED}: slower products and attention, memory-bound kernels, communication"
        yield Part(
            part=names,
            seconds=step.left,
            cause="unknown",
            evidence="the log's step less the parts above",
        )
