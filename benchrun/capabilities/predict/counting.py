"""A workload -> its counts, from the operator list: products, attention, memory traffic
and communication of a GPU."""

from dataclasses import dataclass

from benchrun.model.communication import Sizes, sequence_split
from benchrun.model.layers import layer_counts
from benchrun.model.operators import Operators, operators
from benchrun.model.products import OUTPUT

from . import software
from .choice import BITS
from .links import link_times
from .recomputation import Recomputation
from .software import MEGATRON_2022
from .work import Counts
from .workload import Workload

HEAD = ("loss", "embedding")
"""Memory-bound operators of the first and the last stage."""
FUSED = ("swiglu",)
"""Activations that one kernel computes between the experts' products."""
FIRST_RELEASE = 2025.75
"""The first release that the published rows of one mixture of experts compare with
later ones."""
HEAD_WIDTH = 128
"""Elements of a head for which attention kernels are fastest."""
GATHERED_INPUTS = ("qkv", "fc1", "dense_fc1", "shared_fc1", "in_proj")
GATHERED_GRADIENTS = ("proj", "fc2", "dense_fc2", "shared_fc2", "out_proj")
"""Products whose inputs, or whose outputs' gradients, sequence parallelism gathers."""
WEIGHT = 2
"""Bytes of a weight, and of its gradient before it is added to those of earlier
micro-batches."""
EAGER_ROPE = 6
"""Reads and writes of queries and keys if no fused kernel rotates them: products
with cosines and sines, the rotated copy, the sum, the result."""
WEIGHED_INPUTS, BIASES = 46, 60
"""Bytes that megatron-core moves for each element that enters an expert, to weigh it
before the experts; and for each that leaves one, to add the expert's bias. Both are
computed in FP32, forward and backward."""


def count(load: Workload) -> Counts:
    """The counts of ``load``."""
    counting = Counting.of(load)
    layout = load.layout
    layers = counting.layers
    first, last = _ends(load)
    return Counts(
        **_products(counting),
        **_attention(counting),
        **_memory(counting),
        **link_times(load, counting.listed, layers, counting.again.whole),
        layers=layers,
        most_layers=first,
        last_layers=last,
        stages=float(layout.pp),
        virtual=float(layout.vp),
        microbatches=load.microbatches,
        nodes=max(1.0, load.num_gpus / load.gpus_per_node),
        low=float(counting.low),
        plain=float(not load.tp_overlap),
        offloaded=load.offloaded_bytes,
        graphed=float(load.graphed),
        **_mixture(counting),
        legacy=float(counting.legacy),
    )


@dataclass(frozen=True)
class Counting:
    """A workload with its operators and its GPU's peaks: what every group of counts is
    computed from."""

    load: Workload
    listed: Operators
    layers: float
    """Layers of a stage, the mean."""
    again: Recomputation
    low: bool
    """Products are in FP8 or FP4."""
    legacy: bool
    """The stack has neither fused attention nor a distributed optimizer."""
    peak: float
    """BF16 FLOPs per second."""
    peak_of_products: float
    """FLOPs per second in the precision of the products."""
    bandwidth: float
    """Bytes per second of the memory."""

    @classmethod
    def of(cls, load: Workload) -> "Counting":
        """The operators of ``load`` on one GPU, and that GPU's peaks."""
        gpu = load.gpu
        legacy = load.stack == MEGATRON_2022
        low = load.number in BITS
        listed = operators(
            load.model.shape,
            load.mbs * load.seq_length / load.layout.cp,
            load.seq_length,
            load.layout,
            task=load.task,
            dp=load.dp,
            sizes=Sizes(
                weight=1 if low else 2, gradient=load.gradient_bytes, states=load.state_bytes
            ),
            distributed_optimizer=not legacy,
        )
        return cls(
            load,
            listed,
            layers=_layers(load) / load.layout.pp,
            again=Recomputation(load, low),
            low=low,
            legacy=legacy,
            peak=gpu.peak_bf16_tflops * 1e12,
            peak_of_products=(load.products_peak_tflops or gpu.peak_bf16_tflops) * 1e12,
            bandwidth=gpu.memory_gb_per_s * 1e9,
        )


def _products(counting: Counting) -> dict[str, float]:
    """Matrix products and the scans of Mamba-2 layers."""
    listed = counting.listed
    layers = counting.layers
    peak = counting.peak
    peak_of_products = counting.peak_of_products
    whole = repeated = grouped = narrow = calls = output = 0.0
    for each in listed.products:
        if each.name in OUTPUT:
            output += len(each.passes) * each.flops
            continue
        again = counting.again.product(each)
        passes = len(each.passes) + again
        flops = passes * each.flops / layers
        whole += flops
        repeated += again * each.flops
        if each.expert:
            grouped += flops / max(1.0, each.m)
        narrow += flops / max(1.0, min(each.n, each.k))
        calls += passes * each.layers / layers
    return {
        "products": whole / peak_of_products,
        "grouped": grouped / peak_of_products,
        "narrow": narrow / peak_of_products,
        "repeated": repeated / layers / max(1.0, whole),
        "calls": calls,
        "logits": output * counting.load.layout.pp / peak,
        "scans": (3 + counting.again.whole) * listed.scan_flops / layers / peak,
    }


def _attention(counting: Counting) -> dict[str, float]:
    """Scores and values of attention, and how its kernels differ from the fastest
    ones."""
    load = counting.load
    attention = counting.listed.attention
    again = counting.again.attention
    values = attention.value_channels
    head = (attention.kv_channels + attention.value_channels) / 2
    return {
        "attention": (3 + again) / 2 * attention.flops / counting.layers / counting.peak,
        "attention_length": load.seq_length / load.layout.cp,
        "wide_heads": max(0.0, values / HEAD_WIDTH - 1),
        "narrow_heads": max(0.0, HEAD_WIDTH / head - 1),
        "ringed": float(load.layout.cp > 1),
        "low_attention": float(load.low_attention),
    }


def _memory(counting: Counting) -> dict[str, float]:
    """Memory-bound operators, casts to low precision, and the optimizer."""
    load = counting.load
    listed = counting.listed
    layers = counting.layers
    bandwidth = counting.bandwidth
    layout = load.layout
    moved = _moved(load, listed, counting.again.memory)
    trained = 0 if load.task == "lora" else listed.params
    scores = listed.attention.heads * listed.attention.tokens * load.seq_length
    passes = 1 + 0.5 * (counting.again.whole or load.recompute == "selective")
    return {
        "memory": moved["rest"] / layers / bandwidth,
        "permuted": moved["permute"] * (2 if layout.ep > 1 else 1) / layers / bandwidth,
        "unfused": moved["unfused"] / layers / bandwidth,
        "latent": _latent(load, listed) / bandwidth,
        "copied": _copied(load, listed) / layers / bandwidth,
        "accumulated": _trained_weights(listed, layers) * WEIGHT / bandwidth,
        "balance": bandwidth / counting.peak,
        "casts": 3 * _cast_elements(load, listed, layers) * counting.low / bandwidth,
        "scores": 4 * scores / bandwidth * passes,
        "memory_head": moved["head"] * layout.pp / bandwidth,
        "optimizer": sum(each.step_bytes for each in listed.memory_bound) / bandwidth,
        "recast": sum(each.params for each in listed.block) / load.dp if load.recast else 0.0,
        "gradients": trained * load.gradient_bytes / layout.fsdp / bandwidth,
    }


def _mixture(counting: Counting) -> dict[str, float]:
    """Causes of a slow host in a mixture of experts."""
    load = counting.load
    moe = counting.load.model.shape.moe
    return {
        "moe": float(moe is not None),
        "experts": max(each.matrices if each.expert else 0.0 for each in counting.listed.block),
        "sinkhorn": float(moe is not None and moe.balance == "sinkhorn"),
        "years": max((load.release or 0.0) - FIRST_RELEASE, 0.0) if moe else 0.0,
    }


def _trained_weights(listed: Operators, layers: float) -> float:
    """Dense weights of a layer that get gradients."""
    weights = 0.0
    for each in listed.block:
        if "weight_gradient" in each.passes and not each.expert:
            weights += each.layers / layers * each.matrices * each.weights
    return weights


def _copied(load: Workload, listed: Operators) -> float:
    """Bytes of a micro-batch that PyTorch's FSDP moves for weights and gradients, in
    all layers.

    Two gathers write each weight to its place; of trained weights a shard is cast to
    BF16 before, and the gradients are cast to FP32, reduced, and added to those of
    earlier micro-batches.
    """
    if not software.has("copied_shards", load.stack):
        return 0.0
    gathered = 2 * 2 * WEIGHT
    if load.task == "lora":
        return listed.params * gathered
    shards = max(1, load.layout.fsdp, load.dp)
    trained = 2 * (4 + WEIGHT) / shards + (WEIGHT + 4) + 12 / shards
    return listed.params * (gathered + trained)


def _cast_elements(load: Workload, listed: Operators, layers: float) -> float:
    """Elements of a layer that are cast to a low precision."""
    attention = listed.attention
    gathered = _cast_of_gathered(load)
    elements = 0.0
    for each in listed.block:
        inputs = 1.0
        gradients = 1.0
        if not each.expert and each.name in GATHERED_INPUTS:
            inputs = gathered
        if not each.expert and each.name in GATHERED_GRADIENTS:
            gradients = gathered
        # Read, written, and for the weight gradient written transposed.
        share = (1 + len(each.passes)) / 4 * each.layers / layers
        elements += share * each.rows * (inputs * each.k + gradients * each.n)
    if load.low_attention:  # queries, keys, values and results, and the gradients of all four
        entering = next((each.rows * each.n for each in listed.block if each.name == "qkv"), 0.0)
        elements += 2 * (entering + attention.heads * attention.value_channels * attention.tokens)
    return elements


def _cast_of_gathered(load: Workload) -> float:
    """Share of a cast's bytes that remains for what sequence parallelism gathers.

    A rank casts its part of the sequence before it is gathered. Products on Hopper need
    the transpose too, made of the whole: two of the four bytes of a cast.
    """
    split = sequence_split(load.layout)
    if split == 1:
        return 1.0
    if load.gpu.family == "blackwell":
        return 1 / split
    return (3 / split + 2) / 4


def _moved(load: Workload, listed: Operators, again: int) -> dict[str, float]:
    """Bytes that memory-bound operators of a micro-batch move, by the kernels that move
    them."""
    moe = load.model.shape.moe is not None
    fused = load.model.shape.activation in FUSED
    bytes_of = dict.fromkeys(("head", "permute", "unfused", "rest"), 0.0)
    bytes_of["rest"] += _around_experts(load, listed)
    for each in listed.memory_bound:
        if each.name in HEAD:
            bytes_of["head"] += each.forward_bytes + each.backward_bytes
            if each.name == "embedding" and load.task != "lora":
                # PyTorch writes the gradient of the whole table, and DDP adds it to
                # those of earlier micro-batches.
                bytes_of["head"] += each.params * (4 + 2 * load.gradient_bytes)
                if load.model.shape.tied_embeddings and load.layout.pp == 1:
                    # The output layer has a gradient of its own, zeros if its
                    # product is added in place: the sum.
                    bytes_of["head"] += each.params * 4 * WEIGHT
            continue
        kernel = "unfused" if moe and each.name == "activation" and not fused else each.name
        times = 1
        if each.name == "rope" and load.model.shape.no_rope_every:
            times = EAGER_ROPE
        moved = times * ((1 + again) * each.forward_bytes + each.backward_bytes)
        bytes_of[kernel if kernel in bytes_of else "rest"] += moved
    return bytes_of


def _around_experts(load: Workload, listed: Operators) -> float:
    """Bytes of a micro-batch to weigh what enters the experts, and to add the biases of
    what leaves them."""
    shape = load.model.shape
    per_element = 0
    if shape.moe and shape.moe.probs_on_input:
        per_element += WEIGHED_INPUTS
    if shape.bias:
        per_element += BIASES
    moved = 0.0
    for each in listed.block:
        if each.expert and each.name.endswith("fc2"):
            moved += per_element * each.layers * each.rows * each.n
    return moved


def _latent(load: Workload, listed: Operators) -> float:
    """Bytes of a layer's queries, keys and values, read and written in both directions,
    if latents precede them."""
    if load.model.shape.mla is None:
        return 0.0
    attention = listed.attention
    width = 2 * attention.kv_channels + attention.value_channels
    return 4 * 2 * attention.tokens * attention.heads * width


def _layers(load: Workload) -> float:
    """Layers of attention and an MLP: two of a hybrid's count as one, a multi-token
    prediction as another."""
    return layer_counts(load.model.shape).halves / 2


def _ends(load: Workload) -> tuple[float, float]:
    """Layers of the fullest stage, and of the last."""
    shape = load.model.shape
    layout = load.layout
    layers = shape.num_layers
    size = 0.5 if shape.mamba else 1.0
    predicted = _layers(load) - layers * size
    if layout.pp == 1:
        return _layers(load), _layers(load)
    chunks = layout.pp * layout.vp
    if layers % chunks and (layers + 2) % chunks == 0:
        # Embedding and output layer count as one layer each.
        fullest = (layers + 2) / layout.pp
        last = (layers + 2) / layout.pp - 1
    else:
        fullest = -(-layers // layout.pp)
        last = layers - (layout.pp - 1) * fullest
        if last < 0:  # the others cannot all be full
            last = layers // layout.pp
    return fullest * size, last * size + predicted
