"""Whether collectives are as fast as the links: bus bandwidths against the hardware table."""

from collections.abc import Iterator

from benchrun import hardware
from benchrun.explain import waits
from benchrun.explain.advice import advice
from benchrun.explain.buckets import Buckets
from benchrun.explain.evidence import Evidence
from benchrun.explain.model import Cause
from benchrun.explain.work import work
from benchrun.spec.artifacts import BREAKDOWN, CEILINGS

SLOW = 0.4
"""Of a link: healthy rings reach more. Two H200 reach 0.5 of NVLink in a reduce-scatter, 0.67 in an all-reduce."""
SLOW_IN_TRAINING = 0.33
"""Of the ceiling: a collective beside kernels is slower than alone, but not by so much."""
REACHED = 0.6
"""Of a link: what a cure would reach."""
RESTRICTING = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_MAX_NCHANNELS": "",
    "NCCL_MAX_CTAS": "",
    "NCCL_P2P_LEVEL": "",
    "NCCL_NTHREADS": "",
}
"""Variables that make NCCL slower, with the value that does so; any value where it is empty."""


def slow_links(known: Evidence, divided: Buckets | None) -> Iterator[Cause]:
    """One cause where a group's collectives are far slower than their links."""
    rates = [*_of_ceilings(known), *_of_trace(known), *_of_profile(known)]
    slow = [rate for rate in rates if rate[1] < rate[2]]
    if not slow or not known.on_gpu:
        return
    where, reached, limit, usual = min(slow, key=lambda rate: rate[1] / rate[3])
    exposed = _exposed(known, divided)
    evidence = f"{where}: {reached:.3g} GB/s bus bandwidth, {usual:.3g} expected (below {limit:.3g} is a fault)"
    if set_here := restrictions(known):
        evidence += f"; {', '.join(set_here)} set"
    seconds = exposed * (1 - reached / usual)
    yield Cause(
        cause="comm_bandwidth", kind="fault", seconds=seconds, evidence=evidence, advice=advice("comm_bandwidth")
    )


def restrictions(known: Evidence) -> list[str]:
    """Variables of the job that restrict NCCL."""
    return [
        f"{name}={value}"
        for name, value in known.env.items()
        if name in RESTRICTING and (not RESTRICTING[name] or value == RESTRICTING[name])
    ]


def link_gb_per_s(known: Evidence, ranks: float) -> float | None:
    """Bandwidth of a GPU's links to the others of a group in one direction; None where it is unknown."""
    gpu = hardware.gpu(known.spec.gpu)
    within = known.spec.num_nodes == 1 or ranks <= known.spec.cluster.gpus_per_node
    name = "nvlink_gb_per_s" if within else "nic_gb_per_s"
    value: float | None = getattr(gpu, name, None)
    return value or (NVLINK_GB_PER_S.get(known.spec.gpu) if within else None)


NVLINK_GB_PER_S = {"H100": 450.0, "H200": 450.0, "A100": 300.0, "A100-40GB": 300.0}
"""NVLink, one direction: half of what the data sheets state for both."""

Rate = tuple[str, float, float, float]
"""Where, bus bandwidth reached, the limit below which it is slow, what a healthy link reaches; GB/s."""


def _of_ceilings(known: Evidence) -> Iterator[Rate]:
    for each in known.ceilings.collectives if known.ceilings else ():
        if link := link_gb_per_s(known, each.ranks):
            yield f"{each.name} of {each.group} alone ({CEILINGS})", each.bus_gb_per_s, SLOW * link, REACHED * link


def _of_trace(known: Evidence) -> Iterator[Rate]:
    """Transfers of the trace; small messages are bound by latency and left out."""
    for each in known.fingerprint.collectives if known.fingerprint else ():
        large = each.bytes is not None and each.bytes / max(each.count, 1) > LARGE
        link = link_gb_per_s(known, len(each.ranks))
        if large and each.busbw_gb_s and link:
            usual = REACHED * link
            yield f"{each.name} of {each.group or 'a group'} (trace)", each.busbw_gb_s, SLOW_IN_TRAINING * usual, usual


LARGE = 32 << 20
"""Bytes of a message from which on the link's bandwidth counts."""


def _of_profile(known: Evidence) -> Iterator[Rate]:
    """All communication of a profiled step against what its groups send; waiting for a slow rank does not count."""
    if known.breakdown is None or known.spec.layout.pp > 1 or known.spec.model.moe or known.spec.task == "lora":
        return
    sent = work(known.spec, known.ceilings).bytes_sent
    spent = known.breakdown.communication_s + known.breakdown.hidden_s
    late = waits.late_rank(known)
    spent -= min(late.seconds, known.breakdown.communication_s) if late else 0.0
    ranks = max((size for size in (known.spec.layout.tp, known.spec.layout.cp, known.spec.dp) if size > 1), default=1)
    link = link_gb_per_s(known, ranks)
    if sent and link and spent > SMALL_SHARE * known.breakdown.step_s:
        reached = sum(sent.values()) / spent / 1e9
        yield f"all collectives ({BREAKDOWN})", reached, SLOW_BESIDE * link, REACHED * link


SMALL_SHARE = 0.1
"""Of the step: communication below it has no bandwidth to speak of."""
SLOW_BESIDE = 0.1
"""Of the link, where waiting for other ranks and latency are in the time."""


def _exposed(known: Evidence, divided: Buckets | None) -> float:
    """Communication of a step that no kernel hides."""
    if divided is not None:
        return divided.communication
    if known.ranks is not None:
        return min(rank.collective_time_s for rank in known.ranks.ranks)
    sent = work(known.spec, known.ceilings).bytes_sent
    rate = min((each.bus_gb_per_s for each in known.ceilings.collectives), default=0.0) if known.ceilings else 0.0
    return min(sum(sent.values()) / (rate * 1e9), known.typical_s) if rate else 0.0
