"""From the GPU's peak to the measured step: parts that add up to it."""

from collections.abc import Iterator

from benchrun.explain import waits
from benchrun.explain.buckets import Buckets, buckets
from benchrun.explain.evidence import Evidence
from benchrun.explain.model import Name, Part
from benchrun.explain.work import Work, weights_of_groups, work
from benchrun.metrics.bound import Bound
from benchrun.spec.artifacts import CEILINGS, TELEMETRY_SUMMARY

LAW = "operator list and data sheet"
OF_GROUP: dict[str, Name] = {
    "tp": "exposed_tp",
    "cp": "exposed_cp",
    "ep": "exposed_ep",
    "dp": "exposed_dp",
    "pp": "bubble",
}


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


def waterfall(known: Evidence) -> list[Part]:
    """The parts of the mean step, in the order of the contract; they add up to it."""
    least, divided = work(known.spec, known.ceilings), buckets(known)
    parts = list(_profiled(known, least, divided) if divided else _of_log(known, least))
    slower = known.step_s - known.typical_s
    if slower > 0:
        parts.append(Part(part="slower steps", seconds=slower, cause="jitter", evidence="mean less median of the log"))
    return parts


def _profiled(known: Evidence, least: Work, divided: Buckets) -> Iterator[Part]:
    source = divided.source
    yield from _products(known, least, divided.matmul, source)
    attention = Ledger(divided.attention)
    again = least.recomputed_attention
    attention.take("attention, computed again", divided.attention * again / (1 + again), "recompute", source)
    attention.take("attention at the GPU's peak", least.attention_s, None, LAW)
    attention.rest("attention below the peak", "attention", source)
    yield from attention.parts
    memory = Ledger(divided.memory_bound)
    memory.take("memory-bound kernels at the memory's speed", least.memory_s, None, CEILINGS)
    memory.rest("memory-bound kernels beyond it", "memory_bound", source)
    yield from memory.parts
    yield from _waiting(known, least, divided)
    if divided.other:
        differs = "the measured step is longer than the profiled one"
        yield Part(part="not in the profiled step", seconds=divided.other, cause="unknown", evidence=differs)


def _products(known: Evidence, least: Work, seconds: float, source: str) -> Iterator[Part]:
    """The products: at the peak, at the clock, alone, beside the rest of the step, again."""
    products = Ledger(seconds)
    products.take("products, computed again", seconds * least.recomputed / (1 + least.recomputed), "recompute", source)
    peak = products.take("matmul at the GPU's peak", least.matmul_s, None, LAW)
    lost = products.take(*_clocks(known, peak))
    if known.bound is not None:
        products.take(*_alone(known.bound, peak, lost))
        products.rest("matmul in training below that alone", "matmul", source)
    else:
        products.rest("matmul below the peak" if peak else "matmul", "matmul" if peak else None, source)
    yield from products.parts


def _clocks(known: Evidence, peak_s: float) -> tuple[str, float, Name, str]:
    """What the products lose at the measured clock against that of the peak."""
    clock = known.samples.over_all.sm_clock_mhz if known.samples else None
    if not clock or known.clock is None:
        return "clocks and power", 0.0, "clocks", ""
    evidence = f"{clock:.0f} MHz, the peak holds at {known.clock.peak_clock_mhz:.0f} ({TELEMETRY_SUMMARY})"
    capped = known.samples is not None and known.samples.over_all.reasons.get("power_cap", 0) > 0.5
    lost = peak_s * (known.clock.peak_clock_mhz / clock - 1)
    return "clocks and power", lost, "power" if capped else "clocks", evidence


def _alone(bound: Bound, peak_s: float, lost_s: float) -> tuple[str, float, Name | None, str]:
    """What the products take alone beyond the peak, at the clock; all of it where no peak is known."""
    if not peak_s:
        return "matmul as fast as alone", bound.matmul_s, None, CEILINGS
    return "matmul alone below the peak", bound.matmul_s - peak_s - lost_s, "matmul", CEILINGS


def _waiting(known: Evidence, least: Work, divided: Buckets) -> Iterator[Part]:
    """Exposed communication and idle time: a slow rank, the pipeline, groups, data, host."""
    sent, idle, source = Ledger(divided.communication), Ledger(divided.idle), divided.source
    if late := waits.late_rank(known):
        sent.take(f"waiting for rank {late.rank}", late.seconds, "slow_rank", late.evidence)
    bubble = divided.busy * least.bubble
    words = f"(pp - 1) / (vp * micro-batches) = {least.bubble:.3g} of computing"
    taken = sent.take("pipeline bubble", bubble, "bubble", words)
    idle.take("pipeline bubble, no kernel", bubble - taken, "bubble", words)
    exposed = sent.left
    for group, weight in weights_of_groups(known.spec, least.bytes_sent).items():
        sent.take(f"exposed {group} communication", exposed * weight, OF_GROUP[group], source)
    sent.rest("exposed communication", "unknown", source)
    yield from sent.parts
    yield from _idle(known, idle, source)


def _idle(known: Evidence, idle: Ledger, source: str) -> Iterator[Part]:
    for words, wait, cause in _host_waits(known):
        if wait is not None:
            idle.take(words, wait.seconds, cause, wait.evidence)
    idle.rest("no kernel: the host", "host", source)
    yield from idle.parts


def _host_waits(known: Evidence) -> list[tuple[str, waits.Wait | None, Name]]:
    return [
        ("waiting for data", waits.data_wait(known), "data"),
        ("garbage collection", waits.garbage(known), "host"),
        ("waiting for a core", waits.queue(known), "host"),
        ("launches too late", waits.launching(known), "host"),
        ("synchronising", waits.synchronising(known), "host"),
    ]


def _of_log(known: Evidence, least: Work) -> Iterator[Part]:
    """Without a profile: what the work takes at the least, what was recorded, and the rest."""
    step = Ledger(known.typical_s)
    peak = step.take("matmul at the GPU's peak", least.matmul_s, None, LAW)
    lost = step.take(*_clocks(known, peak))
    if known.bound is not None:
        step.take(*_alone(known.bound, peak, lost))
    step.take("products, computed again", (peak + lost) * least.recomputed, "recompute", LAW)
    step.take("attention at the GPU's peak", least.attention_s, None, LAW)
    step.take("memory-bound kernels at the memory's speed", least.memory_s, None, CEILINGS)
    if late := waits.late_rank(known):
        step.take(f"waiting for rank {late.rank}", late.seconds, "slow_rank", late.evidence)
    words = f"(pp - 1) / (vp * micro-batches) = {least.bubble:.3g} of computing"
    step.take("pipeline bubble", known.typical_s * least.bubble / (1 + least.bubble), "bubble", words)
    idle = Ledger(step.left)
    if known.on_gpu:  # the queue hides what the host does, unless the GPU stands still
        idle = Ledger(min(step.left, known.idle_of_telemetry_s or 0.0))
    for part, wait, cause in _host_waits(known):
        if wait is not None:
            idle.take(part, wait.seconds, cause, wait.evidence)
    if known.on_gpu:
        idle.rest("no kernel: the host", "host", f"utilisation in {TELEMETRY_SUMMARY}")
    for each in idle.parts:
        step.take(each.part, each.seconds, each.cause, each.evidence)
    yield from step.parts
    if step.left > 0:
        names = "not separated: slower products and attention, memory-bound kernels, communication"
        yield Part(part=names, seconds=step.left, cause="unknown", evidence="the log's step less the parts above")
