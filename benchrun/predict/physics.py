"""Seconds of a step, in parts that add up: each count of `work` over what the machine
reaches of its peak.

Every function takes numbers or arrays, so one workload and the whole table of the fit
go the same way.
"""

from collections.abc import Callable

import numpy as np

from benchrun.model import costs
from benchrun.predict.work import Value, Work

PARTS = ("matmul", "attention", "memory_bound", "tp", "cp", "ep", "bubble", "dp", "optimizer", "host", "jitter")
"""Names of the parts in ``predict --json``."""
LARGE = 6
"""Exponent that joins host and GPU: where both take the same time, a layer takes 1.12
times as long."""


def seconds(work: Work, of: Callable[[str], Value]) -> dict[str, Value]:
    """The parts of a step in s. ``of`` gives a constant by the name of `names`."""
    own = _block_parts(work, of)
    layer = sum(own.values())
    head = {
        "matmul": work.logits / of("products.16"),
        "memory_bound": of("head.bytes") * work.memory_head * _slower(work, of),
    }
    at_head = sum(head.values())
    # Every micro-batch passes the slowest stage; the others wait for it.
    mean = work.layers * layer + at_head / work.stages
    slowest = np.maximum(work.most_layers * layer, work.last_layers * layer + at_head)
    sent = of("pp.near") * work.pp_nvlink / of("link.nvlink") + of("pp.exposed") * work.pp_nic / of("link.nic")
    border = sent * work.virtual * np.where(work.stages > 1, 1, 0)
    fill = costs.bubble(work.stages, work.virtual) * mean
    bubble = of("bubble.exposed") * (work.microbatches * (slowest - mean) + fill) + work.microbatches * border
    parts = {name: work.microbatches * work.layers * own.get(name, 0.0 * layer) for name in PARTS}
    for name, value in head.items():
        parts[name] = parts[name] + work.microbatches * value / work.stages
    parts["bubble"] = bubble
    parts["dp"] = _data_parallel(work, of, mean)
    updated = of("optimizer.bytes") * work.optimizer + of("optimizer.gradients") * work.gradients
    parts["optimizer"] = updated * _slower(work, of) + of("optimizer.recast") * work.recast
    doublings = np.log2(work.nodes)
    copied = work.microbatches * work.offloaded / of("offload.rate")
    parts["host"] = parts["host"] + copied + of("host.step")
    parts["jitter"] = of("jitter.nodes") * doublings * sum(parts.values())
    return parts


def _block_parts(work: Work, of: Callable[[str], Value]) -> dict[str, Value]:
    """Seconds of one layer and micro-batch."""
    efficiency = of("products")
    repeated = 1 - work.repeated * (1 - of("recompute.share"))
    sizes = work.products + of("grouped.tokens") * work.grouped + of("narrow.side") * work.narrow
    scans = work.scans / of("scan")
    matmul = repeated * sizes / efficiency + scans + work.calls * np.where(work.low > 0, of("call.8"), of("call.16"))
    low = np.where(work.low_attention > 0, of("attention.low"), 1.0)
    heads = 1 + of("attention.wide") * work.wide_heads + of("attention.narrow") * work.narrow_heads
    attention = work.attention * (1 + of("attention.length") / work.attention_length) * heads * low / of("attention")
    progress = np.exp(-of("experts.progress") * work.years)
    moved = (
        of("memory.bytes") * of("stack.memory") * work.memory
        + of("memory.permute") * work.permuted * progress
        + of("memory.unfused") * work.unfused
        + of("memory.latent") * work.latent
        + of("memory.accumulate") * work.accumulated
        + work.copied
        + of("cast") * work.casts
        + of("score.passes") * work.legacy * work.scores
    )
    memory = moved * _slower(work, of)
    narrower = np.where((work.low > 0) & (work.plain == 0), of("tp.low"), 1.0)
    exposed = np.where(work.plain > 0, of("tp.plain"), of("tp.exposed"))
    tp = narrower * exposed * work.tp / of("link.nvlink") + of("tp.call") * work.tp_calls
    # A ring computes attention in rounds and merges their results; attention hides what
    # the next round needs.
    ring = of("cp.rounds") * work.ringed * attention + np.maximum(0, work.cp / of("link.nvlink") - attention)
    sent = of("ep.exposed") * work.ep_nvlink / of("link.nvlink") + of("ep.nic") * work.ep_nic / of("link.nic")
    ep = sent * progress
    gpu = matmul + attention + memory + tp + ring + ep
    return {
        "matmul": matmul,
        "attention": attention,
        "memory_bound": memory,
        "tp": tp,
        "cp": ring,
        "ep": ep,
        "host": _host(work, of, gpu, progress),
    }


def _host(work: Work, of: Callable[[str], Value], gpu: Value, progress: Value) -> Value:
    """Seconds in which the GPU, busy for ``gpu`` seconds of a layer, waits for the host
    that starts its kernels.

    ``progress``: what newer software needs of the time that the first one took for
    experts.
    """
    of_experts = of("host.experts") * progress + of("host.expert") * work.experts
    floor: Value = np.where(work.moe > 0, of_experts, of("host.layer"))
    floor = floor * np.where(work.low > 0, of("host.low"), 1.0) + work.hooked * of("host.hooks")
    floor = floor * np.where(work.graphed > 0, of("host.graphs"), 1.0)
    waits = (gpu**LARGE + floor**LARGE) ** (1 / LARGE) - gpu
    return waits + of("host.gaps") + work.sinkhorn * of("host.sinkhorn")


def _slower(work: Work, of: Callable[[str], Value]) -> Value:
    """Time of a memory-bound kernel over that at the peak bandwidth: the memory's part
    and that of the cores."""
    return 1 / of("memory") + of("memory.cores") * work.balance


def _data_parallel(work: Work, of: Callable[[str], Value], microbatch: Value) -> Value:
    """Gradients are reduced behind the last backward pass, weights gathered behind the
    first forward pass.

    A ring over nodes passes NVLink and the adapters at once: the slower one counts.
    """
    slower = 1 + of("dp.scale") * np.log2(np.maximum(1, work.dp_nodes))
    near, far = work.dp_nvlink / of("link.nvlink"), slower * work.dp_nic / of("link.nic")
    # Near ranks wait for one another too: the share may be above 1.
    exposed = np.maximum(of("dp.exposed") * near, np.minimum(1, of("dp.nic")) * far)
    half = (np.maximum(near, far) - exposed) / 2  # behind the last backward pass, as much behind the first forward pass
    beyond = np.maximum(0, half - microbatch * 2 / 3) + np.maximum(0, half - microbatch / 3)
    shards = np.maximum(work.fsdp_nvlink / of("link.nvlink"), slower * work.fsdp_nic / of("link.nic"))
    each = of("fsdp.exposed") * shards + np.maximum(0, shards * (1 - of("fsdp.exposed")) - microbatch)
    return exposed + beyond + work.microbatches * each
