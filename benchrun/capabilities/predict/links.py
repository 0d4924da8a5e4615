"""Communication of one GPU: seconds of each group's collectives at the peak of the
links they use."""

from dataclasses import dataclass

from benchrun.model import communication, costs
from benchrun.model.communication import Collective, Group
from benchrun.model.operators import Operators

from .workload import Workload


def link_times(load: Workload, listed: Operators, layers: float, again: int) -> dict[str, float]:
    """The fields of `Counts` that count communication.

    ``layers``: of a stage, the mean; ``again``: 1 if the forward pass is repeated,
    else 0.
    """
    traffic = Traffic.of(load, listed, again)
    return {
        **_tensor_parallel(load, traffic, layers),
        **_context_parallel(load, traffic, layers),
        **_exchange_of_experts(load, traffic, layers),
        **_border(load, traffic),
        **_data_parallel(load, traffic),
    }


@dataclass(frozen=True)
class Traffic:
    """Collectives of a GPU, and the peaks of the links that carry them."""

    groups: dict[str, list[Collective]]
    again: int
    """1 if the forward pass is repeated, else 0."""
    nvlink: float
    """Bytes per second."""
    nic: float
    """Bytes per second of one GPU's network adapter."""
    domain: int
    """GPUs that NVLink joins."""

    @classmethod
    def of(cls, load: Workload, listed: Operators, again: int) -> "Traffic":
        """The collectives of ``listed`` by group, and the peaks of the GPU's links."""
        groups: dict[str, list[Collective]] = {}
        for each in listed.collectives:
            groups.setdefault(each.group, []).append(each)
        return cls(
            groups, again, load.gpu.nvlink_gb_per_s * 1e9, load.gpu.nic_gb_per_s * 1e9, load.domain
        )

    def of_group(self, group: Group) -> list[Collective]:
        """The collectives of a group; empty if it has one rank."""
        return self.groups.get(group, [])

    def times(self, each: Collective) -> float:
        """Number of runs of a collective in a micro-batch."""
        return (1 + self.again) * each.forward + each.backward

    def bytes_of(self, group: Group, *, step: bool = False) -> float:
        """Bytes that a rank sends in a group: in a micro-batch, or once per step."""
        total = 0.0
        for each in self.of_group(group):
            total += each.bus_bytes * (each.step if step else self.times(each))
        return total

    def ring(self, wire: float, ranks: float, stride: float) -> tuple[float, float]:
        """Seconds on NVLink, if ranks share a domain, and on their adapters between
        domains.

        ``wire``: bytes that a rank sends; ``stride``: GPUs from one rank of the ring to
        the next.
        """
        near = max(1.0, min(ranks, self.domain // max(1.0, stride)))
        nvlink = 0.0
        nic = 0.0
        if near > 1:
            nvlink = wire / self.nvlink
        if near < ranks:
            nic = wire / (near * self.nic)
        return nvlink, nic


def _tensor_parallel(load: Workload, traffic: Traffic, layers: float) -> dict[str, float]:
    tp = load.layout.tp
    link = traffic.nvlink
    if tp > traffic.domain:
        link = min(link, traffic.domain * traffic.nic)
    # An all-reduce passes the ring twice, as a reduce-scatter and an all-gather.
    rounds = 0.0
    for each in traffic.of_group("tp"):
        rounds += traffic.times(each) * costs.FACTORS.get(each.name, 1)
    ring = (1 + tp) / 5
    if load.tp_overlap:
        ring = min(1.0, ring)
    return {"tp": traffic.bytes_of("tp") / layers / link, "tp_calls": rounds / layers * ring}


def _context_parallel(load: Workload, traffic: Traffic, layers: float) -> dict[str, float]:
    inside = load.layout.tp * load.layout.cp <= traffic.domain
    link = traffic.nvlink if inside else traffic.nic
    return {"cp": traffic.bytes_of("cp") / layers / link}


def _exchange_of_experts(load: Workload, traffic: Traffic, layers: float) -> dict[str, float]:
    exchange = traffic.bytes_of("ep") / layers
    near = min(1.0, traffic.domain / max(1.0, load.layout.ep * load.layout.etp))
    return {
        "ep_nvlink": exchange * near / traffic.nvlink,
        "ep_nic": exchange * (1 - near) / traffic.nic,
    }


def _border(load: Workload, traffic: Traffic) -> dict[str, float]:
    """Sends over one border between pipeline stages; on NVLink only if a domain
    holds all GPUs."""
    layout = load.layout
    inside = layout.tp * layout.cp * load.dp * layout.pp <= traffic.domain
    size = next((each.bytes for each in traffic.of_group("pp")), 0.0)
    if inside:
        return {"pp_nvlink": 2 * size / traffic.nvlink, "pp_nic": 0.0}
    return {"pp_nvlink": 0.0, "pp_nic": 2 * size / traffic.nic}


def _data_parallel(load: Workload, traffic: Traffic) -> dict[str, float]:
    """Gradients and weights among the ranks that hold the same ones, and among those of
    FSDP that share them."""
    layout = load.layout
    stride = float(layout.tp)
    expert_stride = float(layout.ep * layout.etp)
    ranks, expert_ranks = communication.replicas(layout, load.dp)
    shards, expert_shards = communication.weight_shards(layout)
    dp = traffic.ring(traffic.bytes_of("dp", step=True), ranks, stride)
    expert_dp = traffic.ring(traffic.bytes_of("expert_dp", step=True), expert_ranks, expert_stride)
    fsdp = traffic.ring(traffic.bytes_of("fsdp"), shards, stride)
    expert_fsdp = traffic.ring(traffic.bytes_of("expert_fsdp"), expert_shards, expert_stride)
    return {
        "dp_nvlink": dp[0] + expert_dp[0],
        "dp_nic": dp[1] + expert_dp[1],
        "dp_nodes": max(1.0, ranks * stride / traffic.domain),
        "fsdp_nvlink": fsdp[0] + expert_fsdp[0],
        "fsdp_nic": fsdp[1] + expert_fsdp[1],
    }
