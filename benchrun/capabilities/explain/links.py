"""Whether collectives are as fast as the links: bus bandwidths against the hardware
table.
"""

from collections.abc import Iterator
from typing import NamedTuple

from benchrun import hardware
from benchrun.rundir.artifacts import BREAKDOWN, CEILINGS

from .advice import fault
from .buckets import Buckets
from .evidence import Evidence
from .model import Cause
from .saving import between, filled

SLOW = 0.4
"""Share of a link's bandwidth that healthy rings exceed.

Two H200 reach 0.5 of NVLink in a reduce-scatter, 0.67 in an all-reduce.
"""
SLOW_NETWORK = 0.2
"""Share of the usual network adapter's bandwidth: sites have smaller ones too."""
IN_TRAINING = 0.5
"""Factor on these limits beside kernels, where a collective is slower than alone."""
REACHED = 0.6
"""Share of a link's bandwidth that a cure would reach."""
RESTRICTING = {
    "NCCL_P2P_DISABLE": "1",
    "NCCL_SHM_DISABLE": "1",
    "NCCL_IB_DISABLE": "1",
    "NCCL_MAX_NCHANNELS": "",
    "NCCL_MAX_CTAS": "",
    "NCCL_P2P_LEVEL": "",
    "NCCL_NTHREADS": "",
}
"""Variables that make NCCL slower, with the value that does so; any value if it is
empty.
"""


def slow_links(run: Evidence, divided: Buckets | None) -> Iterator[Cause]:
    """One cause if a group's collectives are far slower than their links."""
    if not run.on_gpu:
        return
    alone = [*_of_ceilings(run), *_of_trace(run)]
    rates = alone or [*_of_profile(run)]
    slow = [rate for rate in rates if rate[1] < rate[2]]
    shared = _host_memory(run)
    if slow:
        where, reached, limit, usual = min(slow, key=lambda rate: rate[1] / rate[3])
        evidence = f"{where}: {reached:.3g} GB/s bus bandwidth, {usual:.3g} expected (below {limit:.3g} is a fault)"
        seconds = _exposed(run, divided) * (1 - reached / usual)
        busy = divided.busy / run.typical_s if divided else 1.0
        least = filled(_exposed(run, divided) * (1 - reached / limit), busy).low
    elif shared and not rates:
        evidence = f"{HOST_GB_S:.0f} GB/s at most through the memory of the host, beside NVLink"
        seconds = min(_by_host_s(run), run.collective_s or run.typical_s)
        least = 0.0
    else:
        return
    if shared:
        evidence += f"; NCCL sends via {shared} within a node"
    if set_here := restrictions(run):
        evidence += f"; {', '.join(set_here)} set"
    yield fault("comm_bandwidth", seconds, evidence, saving=between(least, seconds))


HOST_GB_S = 50.0
"""The most that a rank sends through the memory of the host, in one direction: PCIe 5.0 x16."""


def _host_memory(run: Evidence) -> str | None:
    """NCCL's name for the host's memory if all ranks of a node send through it, though
    NVLink joins them.
    """
    within = run.network.within if run.network else ()
    nearest = link(run, "tp")
    if nearest is None or nearest.usual <= HOST_GB_S:
        return None
    return within[0] if within and all(each.startswith("SHM/") for each in within) else None


def _by_host_s(run: Evidence) -> float:
    """Seconds of a step that the memory of the host costs at least, in place of NVLink."""
    seconds = 0.0
    nearest = link(run, "tp")
    for group, sent in run.least.bytes_sent.items():
        if nearest and link(run, group) == nearest:
            seconds += sent / 1e9 * (1 / HOST_GB_S - 1 / nearest.usual)
    return seconds


def restrictions(run: Evidence) -> list[str]:
    """Variables of the job that restrict NCCL."""
    found = []
    for name, value in run.env.items():
        if name in RESTRICTING and (not RESTRICTING[name] or value == RESTRICTING[name]):
            found.append(f"{name}={value}")
    return found


class Link(NamedTuple):
    """Link that joins the ranks of a group; GB/s in one direction."""

    usual: float
    """Bus bandwidth that a healthy one reaches."""
    slow: float
    """Bandwidth below which the link is at fault."""


def link(run: Evidence, group: str | None) -> Link | None:
    """The links of a group of ranks: NVLink, or the network if the group spans more
    GPUs than NVLink joins.
    """
    gpu = hardware.gpu(run.spec.gpu)
    layout = run.spec.layout
    ranks = run.spec.num_gpus
    if gpu is None or "PCIe" in gpu.name:  # a bridge of NVLink is an option
        return None
    # Ranks of a group are so far apart: tp is innermost, then cp, then dp with ep in
    # it.
    span = {
        "tp": layout.tp,
        "cp": layout.tp * layout.cp,
        "ep": layout.tp * layout.ep,
        "dp": ranks // layout.pp,
    }
    if span.get(group or "", ranks) <= min(gpu.nvlink_domain, run.spec.cluster.gpus_per_node):
        return Link(REACHED * gpu.nvlink_gb_per_s, SLOW * gpu.nvlink_gb_per_s)
    return Link(REACHED * gpu.nic_gb_per_s, SLOW_NETWORK * gpu.nic_gb_per_s)


Rate = tuple[str, float, float, float]
"""Name of the link, bus bandwidth reached, limit below which it is slow, bandwidth of a
healthy link; GB/s.
"""


def _of_ceilings(run: Evidence) -> Iterator[Rate]:
    for each in run.ceilings.collectives if run.ceilings else ():
        if own := link(run, each.group):
            yield (
                f"{each.name} of {each.group} alone ({CEILINGS})",
                each.bus_gb_per_s,
                own.slow,
                own.usual,
            )


def _of_trace(run: Evidence) -> Iterator[Rate]:
    """Transfers of the trace; small messages are bound by latency and left out."""
    for each in run.fingerprint.collectives if run.fingerprint else ():
        large = each.bytes is not None and each.bytes / max(each.count, 1) > LARGE
        own = link(run, each.group)
        if large and each.busbw_gb_s and own:
            where = f"{each.name} of {each.group or 'a group'} (trace)"
            yield where, each.busbw_gb_s, IN_TRAINING * own.slow, own.usual


LARGE = 32 << 20
"""Bytes of a message from which on the link's bandwidth counts."""


def _of_profile(run: Evidence) -> Iterator[Rate]:
    """All communication of a profiled step against what its groups send; the time of the rank
    that spends least, because the others wait for it. While the GPU of one has no kernel, the
    others may wait for its host: that time counts as no transfer.
    """
    if (
        run.breakdown is None
        or run.spec.layout.pp > 1
        or run.spec.model.moe
        or run.spec.task == "lora"
    ):
        return
    least = run.least
    profiled = run.breakdown
    sent = sum(least.bytes_sent.values())
    own = link(run, max(least.bytes_sent, key=lambda group: least.bytes_sent[group], default=""))
    of_ranks = profiled.communication_of_ranks_s
    communicated = min(of_ranks, default=profiled.communication_s) + profiled.hidden_s
    spent = communicated - profiled.idle_s
    if sent and own and least.message_bytes > MESSAGE and spent > SMALL_SHARE * profiled.step_s:
        yield f"all collectives ({BREAKDOWN})", sent / spent / 1e9, BESIDE * own.slow, own.usual


MESSAGE = 8 << 20
"""Bytes: smaller messages take their latency."""
SMALL_SHARE = 0.1
"""Share of the step below which communication is too short to speak of a bandwidth."""
BESIDE = 0.25
"""Factor on the limit if the time includes latency and waiting for other ranks."""


def _exposed(run: Evidence, divided: Buckets | None) -> float:
    """Communication of a step that no kernel hides."""
    if divided is not None:
        return divided.communication
    if run.collective_s is not None:
        return run.collective_s
    sent = run.least.bytes_sent
    rate = 0.0
    if run.ceilings:
        rate = min((each.bus_gb_per_s for each in run.ceilings.collectives), default=0.0)
    if not rate:
        return 0.0
    return min(sum(sent.values()) / (rate * 1e9), run.typical_s)
