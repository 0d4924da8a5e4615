"""Seconds of a step, in parts that add up: each count of `counts` over what the machine
reaches of its peak.

Every function takes numbers or arrays, so one workload and the whole table of the fit
go the same way.
"""

from collections.abc import Callable

import numpy as np

from benchrun.model import costs

from .work import Counts, Value

PARTS = (
    "matmul",
    "attention",
    "memory_bound",
    "tp",
    "cp",
    "ep",
    "bubble",
    "dp",
    "optimizer",
    "host",
    "jitter",
)
"""Names of the parts in ``predict --json``."""
HOST = ("host.layer", "host.experts", "host.expert")
"""Constants in proportion to the time in which a host starts kernels."""
LARGE = 6
"""Exponent that joins host and GPU: if both take the same time, a layer takes 1.12
times as long."""


def on_slow_host(of: Callable[[str], Value]) -> Callable[[str], Value]:
    """Constants of a host that is slower than 19 of 20."""
    return lambda name: of(name) * (of("own.slow") if name in HOST else 1.0)


def seconds(counts: Counts, of: Callable[[str], Value]) -> dict[str, Value]:
    """The parts of a step in s. ``of`` gives a constant by the name of `names`."""
    own = _block_parts(counts, of)
    layer = sum(own.values())
    head = {
        "matmul": counts.logits / of("products.16"),
        "memory_bound": of("head.bytes") * counts.memory_head * _slower(counts, of),
    }
    at_head = sum(head.values())
    # Every micro-batch passes the slowest stage; the others wait for it.
    mean = counts.layers * layer + at_head / counts.stages
    slowest = np.maximum(counts.most_layers * layer, counts.last_layers * layer + at_head)
    sent = _sent(of, "pp.near", counts.pp_nvlink, "pp.exposed", counts.pp_nic)
    border = sent * counts.virtual * np.where(counts.stages > 1, 1, 0)
    fill = costs.bubble(counts.stages, counts.virtual) * mean
    waits = counts.microbatches * (slowest - mean) + fill
    bubble = of("bubble.exposed") * waits + counts.microbatches * border
    layers = counts.microbatches * counts.layers
    parts = {name: layers * own.get(name, 0.0 * layer) for name in PARTS}
    for name, value in head.items():
        parts[name] = parts[name] + counts.microbatches * value / counts.stages
    parts["bubble"] = bubble
    parts["dp"] = _data_parallel(counts, of, mean)
    updated = of("optimizer.bytes") * counts.optimizer
    updated = updated + of("optimizer.gradients") * counts.gradients
    parts["optimizer"] = updated * _slower(counts, of) + of("optimizer.recast") * counts.recast
    doublings = np.log2(counts.nodes)
    copied = counts.microbatches * counts.offloaded / of("offload.rate")
    parts["host"] = parts["host"] + copied + of("host.step")
    parts["jitter"] = of("jitter.nodes") * doublings * sum(parts.values())
    return parts


def _block_parts(counts: Counts, of: Callable[[str], Value]) -> dict[str, Value]:
    """Seconds of one layer and micro-batch."""
    efficiency = of("products")
    repeated = 1 - counts.repeated * (1 - of("recompute.share"))
    sizes = counts.products + of("grouped.tokens") * counts.grouped
    sizes = sizes + of("narrow.side") * counts.narrow
    scans = counts.scans / of("scan")
    call = np.where(counts.low > 0, of("call.8"), of("call.16"))
    matmul = repeated * sizes / efficiency + scans + counts.calls * call
    low = np.where(counts.low_attention > 0, of("attention.low"), 1.0)
    heads = 1 + of("attention.wide") * counts.wide_heads
    heads = heads + of("attention.narrow") * counts.narrow_heads
    short = 1 + of("attention.length") / counts.attention_length
    attention = counts.attention * short * heads * low / of("attention")
    progress = np.exp(-of("experts.progress") * counts.years)
    moved = (
        of("memory.bytes") * of("stack.memory") * counts.memory
        + of("memory.permute") * counts.permuted * progress
        + of("memory.unfused") * counts.unfused
        + of("memory.latent") * counts.latent
        + of("memory.accumulate") * counts.accumulated
        + counts.copied
        + of("cast") * counts.casts
        + of("score.passes") * counts.legacy * counts.scores
    )
    memory = moved * _slower(counts, of)
    narrower = np.where((counts.low > 0) & (counts.plain == 0), of("tp.low"), 1.0)
    exposed = np.where(counts.plain > 0, of("tp.plain"), of("tp.exposed"))
    tp = narrower * exposed * counts.tp / of("link.nvlink") + of("tp.call") * counts.tp_calls
    # A ring computes attention in rounds and merges their results; attention hides what
    # the next round needs.
    beyond = np.maximum(0, counts.cp / of("link.nvlink") - attention)
    ring = of("cp.rounds") * counts.ringed * attention + beyond
    ep = _sent(of, "ep.exposed", counts.ep_nvlink, "ep.nic", counts.ep_nic) * progress
    gpu = matmul + attention + memory + tp + ring + ep
    return {
        "matmul": matmul,
        "attention": attention,
        "memory_bound": memory,
        "tp": tp,
        "cp": ring,
        "ep": ep,
        "host": _host(counts, of, gpu, progress),
    }


def _sent(of: Callable[[str], Value], near: str, nvlink: Value, far: str, nic: Value) -> Value:
    """Exposed seconds on NVLink and on the adapters; ``near`` and ``far`` name the
    shares."""
    return of(near) * nvlink / of("link.nvlink") + of(far) * nic / of("link.nic")


def _host(counts: Counts, of: Callable[[str], Value], gpu: Value, progress: Value) -> Value:
    """Seconds in which the GPU, busy for ``gpu`` seconds of a layer, waits for the host
    that starts its kernels.

    ``progress``: what newer software needs of the time that the first one took for
    experts.
    """
    of_experts = of("host.experts") * progress + of("host.expert") * counts.experts
    floor = np.where(counts.moe > 0, of_experts, of("host.layer"))
    floor = floor * np.where(counts.low > 0, of("host.low"), 1.0)
    # Graphs hold no kernel of an expert, whose number of tokens varies.
    floor = floor * np.where((counts.graphed > 0) & (counts.moe == 0), of("host.graphs"), 1.0)
    waits = (gpu**LARGE + floor**LARGE) ** (1 / LARGE) - gpu
    return waits + of("host.gaps") + counts.sinkhorn * of("host.sinkhorn")


def _slower(counts: Counts, of: Callable[[str], Value]) -> Value:
    """Time of a memory-bound kernel over that at the peak bandwidth: the memory's part
    and that of the cores."""
    return 1 / of("memory") + of("memory.cores") * counts.balance


def _data_parallel(counts: Counts, of: Callable[[str], Value], microbatch: Value) -> Value:
    """Gradients are reduced behind the last backward pass, weights gathered behind the
    first forward pass.

    A ring over nodes passes NVLink and the adapters at once: the slower one counts.
    """
    slower = 1 + of("dp.scale") * np.log2(np.maximum(1, counts.dp_nodes))
    near = counts.dp_nvlink / of("link.nvlink")
    far = slower * counts.dp_nic / of("link.nic")
    # Near ranks wait for one another too: the share may be above 1.
    exposed = np.maximum(of("dp.exposed") * near, np.minimum(1, of("dp.nic")) * far)
    # Time after the last backward pass equals that after the first forward pass.
    half = (np.maximum(near, far) - exposed) / 2
    beyond = np.maximum(0, half - microbatch * 2 / 3) + np.maximum(0, half - microbatch / 3)
    nvlink = counts.fsdp_nvlink / of("link.nvlink")
    nic = slower * counts.fsdp_nic / of("link.nic")
    shards = np.maximum(nvlink, nic)
    hidden = shards * (1 - of("fsdp.exposed"))
    each = of("fsdp.exposed") * shards + np.maximum(0, hidden - microbatch)
    return exposed + beyond + counts.microbatches * each
