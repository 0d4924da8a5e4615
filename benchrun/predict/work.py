"""What one GPU computes and sends, from the operator list: counts without any constant of a machine's efficiency.

Where no other unit is stated, a number is that of one transformer layer and one micro-batch, forward and backward.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from benchrun.model import communication
from benchrun.model.communication import Collective, Sizes
from benchrun.model.layers import layer_counts
from benchrun.model.operators import Operators, operators
from benchrun.model.products import OUTPUT
from benchrun.predict.software import MEGATRON_2022
from benchrun.predict.workload import Workload

Value = Any
"""A float for one workload, an array for many."""
HEAD = ("loss", "embedding")
"""Memory-bound operators of the first and the last stage."""
FUSED = ("swiglu",)
"""Activations that one kernel computes between the experts' products."""
FIRST = 2025.75
"""The first release that the published rows of one mixture of experts compare with later ones."""
HEAD_WIDTH = 128
"""Elements of a head for which attention kernels are fastest."""


@dataclass(frozen=True)
class Work:
    """Counts of one workload, or of many where each field is an array."""

    products: Value
    """Seconds of the block's matrix products at the peak of their precision."""
    grouped: Value
    """Seconds of the experts' products at that peak, over the tokens of one expert."""
    narrow: Value
    """Seconds of the products at that peak, each over its smallest side in elements."""
    calls: Value
    """Matrix products started."""
    logits: Value
    """Seconds of the output layer at the BF16 peak, per micro-batch."""
    scans: Value
    """Seconds of the scans of Mamba-2 layers at the BF16 peak."""
    attention: Value
    """Seconds of causal scores and values at the BF16 peak."""
    attention_length: Value
    """Tokens of a sequence on one GPU."""
    wide_heads: Value
    """How much wider than 128 elements the values of a head are, as a share: their sums fill the registers."""
    narrow_heads: Value
    """How often a head goes into 128 elements beyond the first time."""
    ringed: Value
    """1 where keys and values come in rounds from other ranks, else 0."""
    low_attention: Value
    """1 where attention is computed in FP8, else 0."""
    memory: Value
    """Seconds of memory-bound operators at the peak bandwidth, but for those of the next three fields."""
    permuted: Value
    """Seconds to sort tokens by experts and back at that bandwidth; once more where they come from other ranks."""
    unfused: Value
    """Seconds of the experts' activation at that bandwidth, where no fused kernel computes it."""
    latent: Value
    """Seconds to assemble queries, keys and values from latents, and their gradients back, at that bandwidth."""
    accumulated: Value
    """Seconds to write the gradients of the dense weights of a layer once, at that bandwidth; 0 of frozen weights."""
    balance: Value
    """Bytes that the memory moves in the time of one BF16 FLOP."""
    casts: Value
    """Seconds to read and write, once, what enters and leaves products of low precision."""
    scores: Value
    """Seconds to read and write the score matrix once, for stacks without fused attention."""
    memory_head: Value
    """Seconds of embedding and loss at the peak bandwidth, per micro-batch."""
    tp: Value
    """Seconds of tensor-parallel collectives at the link's peak."""
    tp_calls: Value
    """Tensor-parallel collectives, in those of four ranks: a ring of more takes longer to start. More than four that
    overlap with products are no ring."""
    cp: Value
    """Seconds of the context-parallel ring at the link's peak."""
    ep_nvlink: Value
    ep_nic: Value
    """Seconds of the experts' all-to-alls at each link's peak."""
    pp_nvlink: Value
    pp_nic: Value
    """Seconds to send a micro-batch to the next stage, forward and backward, at each link's peak; of one border."""
    dp_nvlink: Value
    dp_nic: Value
    """Seconds of reducing gradients and gathering weights at each link's peak, per step."""
    dp_nodes: Value
    """Nodes among which they are reduced."""
    fsdp_nvlink: Value
    fsdp_nic: Value
    """Seconds of FSDP's gathers and scatters at each link's peak, of all layers of a micro-batch."""
    optimizer: Value
    """Seconds of Adam at the memory's peak bandwidth, per step."""
    gradients: Value
    """Seconds to read the gradients of the GPU's weights once, at that bandwidth; with FSDP, those of its share."""
    layers: Value
    """Layers of a stage, the mean."""
    most_layers: Value
    """Layers of the fullest stage."""
    last_layers: Value
    """Layers of the stage with the output layer."""
    stages: Value
    virtual: Value
    """Virtual stages of a GPU."""
    microbatches: Value
    nodes: Value
    low: Value
    """1 where products are in FP8 or FP4, else 0."""
    plain: Value
    """1 where tensor-parallel communication overlaps with nothing, else 0."""
    repeated: Value
    """Share of the products that is recomputation."""
    offloaded: Value
    """Bytes of activations that a micro-batch keeps in the host's memory."""
    hooked: Value
    """1 where hooks of the worker compute adapters, else 0."""
    graphed: Value
    """1 where CUDA graphs start the kernels of a layer, else 0."""
    moe: Value
    """1 in a mixture of experts, else 0."""
    experts: Value
    """Experts of a layer on this GPU: the host starts the products of each."""
    sinkhorn: Value
    """1 where Sinkhorn's algorithm assigns tokens to experts, else 0: the host reads the error of each round."""
    years: Value
    """Of a mixture of experts: years from `FIRST` to the release of its software; 0 before, and if unknown."""
    legacy: Value
    """1 for stacks without fused attention and without a distributed optimizer, else 0."""

    @classmethod
    def joined(cls, works: "list[Work]") -> "Work":
        """One object of arrays."""
        return cls(*(np.array([getattr(work, field.name) for work in works]) for field in fields(cls)))


def work(load: Workload) -> Work:
    """The counts of ``load``."""
    layout, gpu, shape = load.layout, load.gpu, load.model.shape
    tokens = load.mbs * load.seq_length / layout.cp
    low_peak = dict.fromkeys(("fp8", "fp8_current", "mxfp8"), gpu.peak_fp8_tflops) | {"nvfp4": gpu.peak_fp4_tflops}
    low = load.number in low_peak
    sizes = Sizes(weight=1 if low else 2, gradient=load.gradient_bytes, states=load.state_bytes)
    legacy = load.stack == MEGATRON_2022
    listed = operators(
        shape,
        tokens,
        load.seq_length,
        layout,
        task=load.task,
        dp=load.dp,
        sizes=sizes,
        distributed_optimizer=not legacy,
    )
    peak = gpu.peak_bf16_tflops * 1e12
    peak_of_products = (low_peak.get(load.number) or gpu.peak_bf16_tflops) * 1e12
    bandwidth, layers = gpu.memory_gb_per_s * 1e9, _layers(load) / layout.pp
    again = 1 if load.recompute == "full" else 0
    blocks = listed.block
    flops = {each: (len(each.passes) + again) * each.flops / layers for each in blocks}
    experts = [each for each in blocks if each.expert]
    moved = _moved(load, listed, again)
    adam = sum(each.step_bytes for each in listed.memory_bound)
    trained = [each for each in blocks if "weight_gradient" in each.passes and not each.expert]
    weights = sum(each.layers / layers * each.matrices * each.weights for each in trained)
    values, head = listed.attention.value_channels, (listed.attention.kv_channels + listed.attention.value_channels) / 2
    # Read, written, and for the weight gradient written transposed.
    elements = sum((1 + len(each.passes)) / 4 * each.layers / layers * each.rows * (each.k + each.n) for each in blocks)
    if load.low_attention:  # queries, keys, values and results, and the gradients of all four
        inputs = next((each.rows * each.n for each in blocks if each.name == "qkv"), 0.0)
        elements += 2 * (inputs + listed.attention.heads * values * tokens)
    scores = listed.attention.heads * tokens * load.seq_length
    first, last = _ends(load)
    return Work(
        products=sum(flops.values()) / peak_of_products,
        scans=(3 + again) * listed.scan_flops / layers / peak,
        grouped=sum(flops[each] / max(1.0, each.m) for each in experts) / peak_of_products,
        narrow=sum(flops[each] / max(1.0, min(each.n, each.k)) for each in blocks) / peak_of_products,
        calls=sum((len(each.passes) + again) * each.layers / layers for each in blocks),
        logits=sum(len(each.passes) * each.flops for each in listed.products if each.name in OUTPUT) * layout.pp / peak,
        attention=(3 + again) / 2 * listed.attention.flops / layers / peak,
        attention_length=load.seq_length / layout.cp,
        wide_heads=max(0.0, values / HEAD_WIDTH - 1),
        narrow_heads=max(0.0, HEAD_WIDTH / head - 1),
        ringed=float(layout.cp > 1),
        low_attention=float(load.low_attention),
        memory=moved["rest"] / layers / bandwidth,
        permuted=moved["permute"] * (2 if layout.ep > 1 else 1) / layers / bandwidth,
        unfused=moved["unfused"] / layers / bandwidth,
        latent=_latent(load, listed) / bandwidth,
        accumulated=weights * load.gradient_bytes / bandwidth,
        balance=bandwidth / peak,
        casts=3 * elements * low / bandwidth,
        scores=4 * scores / bandwidth * (1 + 0.5 * (again or load.recompute == "selective")),
        memory_head=moved["head"] * layout.pp / bandwidth,
        **_links(load, listed, layers, again),
        optimizer=adam / bandwidth,
        gradients=(0 if load.task == "lora" else listed.params) * load.gradient_bytes / layout.fsdp / bandwidth,
        layers=layers,
        most_layers=first,
        last_layers=last,
        stages=float(layout.pp),
        virtual=float(layout.vp),
        microbatches=load.microbatches,
        nodes=max(1.0, load.num_gpus / load.gpus_per_node),
        low=float(low),
        plain=float(not load.tp_overlap),
        repeated=again / (3.0 + again),
        offloaded=load.offloaded_bytes,
        hooked=float(load.hooked),
        graphed=float(load.graphed),
        moe=float(shape.moe is not None),
        experts=max((each.matrices for each in experts), default=0.0),
        sinkhorn=float(shape.moe is not None and shape.moe.balance == "sinkhorn"),
        years=max(load.release - FIRST, 0.0) if load.release and shape.moe else 0.0,
        legacy=float(legacy),
    )


def _moved(load: Workload, listed: Operators, again: int) -> dict[str, float]:
    """Bytes that memory-bound operators of a micro-batch move, by the kernels that move them."""
    moe, fused = load.model.shape.moe is not None, load.model.shape.activation in FUSED
    bytes_of = dict.fromkeys(("head", "permute", "unfused", "rest"), 0.0)
    for each in listed.memory_bound:
        if each.name in HEAD:
            bytes_of["head"] += each.forward_bytes + each.backward_bytes
            if each.name == "embedding" and load.task != "lora":
                # PyTorch writes the gradient of the whole table, and DDP adds it to those of earlier micro-batches.
                bytes_of["head"] += each.params * (4 + 2 * load.gradient_bytes)
            continue
        kernel = "unfused" if moe and each.name == "activation" and not fused else each.name
        bytes_of[kernel if kernel in bytes_of else "rest"] += (1 + again) * each.forward_bytes + each.backward_bytes
    return bytes_of


def _latent(load: Workload, listed: Operators) -> float:
    """Bytes of a layer's queries, keys and values, read and written in both directions, where latents precede them."""
    attention = listed.attention
    width = 2 * attention.kv_channels + attention.value_channels
    return 4 * 2 * attention.tokens * attention.heads * width if load.model.shape.mla else 0.0


def _layers(load: Workload) -> float:
    """Layers of attention and an MLP: two of a hybrid's count as one, a multi-token prediction as another."""
    return layer_counts(load.model.shape).halves / 2


def _ends(load: Workload) -> tuple[float, float]:
    """Layers of the fullest stage, and of the last."""
    shape, layout = load.model.shape, load.layout
    layers, size = shape.num_layers, 0.5 if shape.mamba else 1.0
    predicted = _layers(load) - layers * size
    if layout.pp == 1:
        return _layers(load), _layers(load)
    chunks = layout.pp * layout.vp
    if layers % chunks and (layers + 2) % chunks == 0:  # embedding and output layer count as one layer each
        fullest, last = (layers + 2) / layout.pp, (layers + 2) / layout.pp - 1
    else:
        fullest = -(-layers // layout.pp)
        last = layers - (layout.pp - 1) * fullest if layers % layout.pp else fullest
    return fullest * size, last * size + predicted


def _links(load: Workload, listed: Operators, layers: float, again: int) -> dict[str, float]:
    """Seconds of each group's collectives at the peak of the links they use."""
    layout, gpu, domain = load.layout, load.gpu, load.domain
    nvlink, nic = gpu.nvlink_gb_per_s * 1e9, gpu.nic_gb_per_s * 1e9
    inner = layout.tp * layout.cp
    groups: dict[str, list[Collective]] = {}
    for each in listed.collectives:
        groups.setdefault(each.group, []).append(each)

    def bytes_of(group: str, *, step: bool = False) -> float:
        return sum(
            _on_the_wire(each) * (each.step if step else (1 + again) * each.forward + each.backward)
            for each in groups.get(group, [])
        )

    def of_ranks(wire: float, ranks: float, stride: float) -> tuple[float, float]:
        """A ring at the peak of NVLink, where ranks share a domain, and of their adapters between domains."""
        near = max(1.0, min(ranks, domain // max(1.0, stride)))
        if ranks <= 1:
            return 0.0, 0.0
        return (wire / nvlink if near > 1 else 0.0), (wire / (near * nic) if near < ranks else 0.0)

    shards = {"dp": layout.tp * layout.cp if layout.cp == 1 else layout.tp, "expert_dp": float(layout.ep * layout.etp)}
    ranks, expert_ranks = communication.replicas(layout, load.dp)
    dp = of_ranks(bytes_of("dp", step=True), ranks, shards["dp"])
    experts = of_ranks(bytes_of("expert_dp", step=True), expert_ranks, shards["expert_dp"])
    whole, whole_experts = communication.weight_shards(layout)
    fsdp = of_ranks(bytes_of("fsdp"), whole, shards["dp"])
    expert_fsdp = of_ranks(bytes_of("expert_fsdp"), whole_experts, shards["expert_dp"])
    exchange = bytes_of("ep") / layers
    near = min(1.0, domain / max(1.0, layout.ep * layout.etp))
    inside = layout.tp * layout.cp * load.dp * layout.pp <= domain
    size = next((each.bytes for each in listed.collectives if each.group == "pp"), 0.0)
    times_of_tp = sum(
        ((1 + again) * each.forward + each.backward) * (2 if each.name == "all_reduce" else 1)
        for each in groups.get("tp", [])
    )
    ring = (1 + layout.tp) / 5
    return {
        "tp": bytes_of("tp") / layers / (nvlink if layout.tp <= domain else min(nvlink, domain * nic)),
        "tp_calls": times_of_tp / layers * (min(1.0, ring) if load.tp_overlap else ring),
        "cp": bytes_of("cp") / layers / (nvlink if inner <= domain else nic),
        "ep_nvlink": exchange * near / nvlink,
        "ep_nic": exchange * (1 - near) / nic,
        "pp_nvlink": 2 * size / nvlink if inside else 0.0,
        "pp_nic": 0.0 if inside else 2 * size / nic,
        "dp_nvlink": dp[0] + experts[0],
        "dp_nic": dp[1] + experts[1],
        "dp_nodes": max(1.0, ranks * shards["dp"] / domain),
        "fsdp_nvlink": fsdp[0] + expert_fsdp[0],
        "fsdp_nic": fsdp[1] + expert_fsdp[1],
    }


def _on_the_wire(each: Collective) -> float:
    """Bytes that a rank sends."""
    share = (each.ranks - 1) / each.ranks
    if each.name == "all_reduce":
        return 2 * each.bytes * share
    return each.bytes * share if each.name != "send" else each.bytes
