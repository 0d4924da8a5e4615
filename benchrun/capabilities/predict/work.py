"""Counts of a step on one GPU: computing and sending at the peaks, without any constant
of efficiency.

Where no other unit is stated, a number is that of one transformer layer and one
micro-batch, forward and backward.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

Value = Any
"""A float for one workload, an array for many."""


@dataclass(frozen=True)
class Counts:
    """Counts of one workload, or of many if each field is an array."""

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
    """Width of the values of a head beyond 128 elements, as a share of 128: their sums
    fill the registers."""
    narrow_heads: Value
    """128 elements over the width of a head, minus 1; 0 for wider heads."""
    ringed: Value
    """1 if keys and values come in rounds from other ranks, else 0."""
    low_attention: Value
    """1 if attention is computed in FP8, else 0."""
    memory: Value
    """Seconds of memory-bound operators at the peak bandwidth, except those of the
    next three fields."""
    permuted: Value
    """Seconds to sort tokens by experts and back at that bandwidth; once more if
    they come from other ranks."""
    unfused: Value
    """Seconds of the experts' activation at that bandwidth, if no fused kernel
    computes it."""
    latent: Value
    """Seconds to assemble queries, keys and values from latents, and their gradients
    back, at that bandwidth."""
    copied: Value
    """Seconds to copy and cast weights and gradients that FSDP shares, at that
    bandwidth; 0 of other software."""
    accumulated: Value
    """Seconds to write BF16 gradients of the dense weights of a layer once, at that
    bandwidth; 0 of frozen weights."""
    balance: Value
    """Bytes that the memory moves in the time of one BF16 FLOP."""
    casts: Value
    """Seconds to read and write, once, what enters and leaves products of low
    precision."""
    scores: Value
    """Seconds to read and write the score matrix once, for stacks without fused
    attention."""
    memory_head: Value
    """Seconds of embedding and loss at the peak bandwidth, per micro-batch."""
    tp: Value
    """Seconds of tensor-parallel collectives at the link's peak."""
    tp_calls: Value
    """Tensor-parallel collectives, in those of four ranks: a ring of more takes longer
    to start. More than four that overlap with products are no ring."""
    cp: Value
    """Seconds of the context-parallel ring at the link's peak."""
    ep_nvlink: Value
    ep_nic: Value
    """Seconds of the experts' all-to-alls at each link's peak."""
    pp_nvlink: Value
    pp_nic: Value
    """Seconds to send a micro-batch to the next stage, forward and backward, at each
    link's peak; of one border."""
    dp_nvlink: Value
    dp_nic: Value
    """Seconds of reducing gradients and gathering weights at each link's peak, per
    step."""
    dp_nodes: Value
    """Nodes among which they are reduced."""
    fsdp_nvlink: Value
    fsdp_nic: Value
    """Seconds of FSDP's gathers and scatters at each link's peak, of all layers of a
    micro-batch."""
    optimizer: Value
    """Seconds of Adam at the memory's peak bandwidth, per step."""
    recast: Value
    """Weights that the optimizer casts to FP8 together with their transposes, per
    step."""
    gradients: Value
    """Seconds to read the gradients of the GPU's weights once, at that bandwidth; with
    FSDP, those of its share."""
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
    """1 if products are in FP8 or FP4, else 0."""
    plain: Value
    """1 if tensor-parallel communication overlaps with nothing, else 0."""
    repeated: Value
    """Share of the products that is recomputation."""
    offloaded: Value
    """Bytes of activations that a micro-batch keeps in the host's memory."""
    graphed: Value
    """1 if CUDA graphs start the kernels of a layer, else 0."""
    moe: Value
    """1 in a mixture of experts, else 0."""
    experts: Value
    """Experts of a layer on this GPU: the host starts the products of each."""
    sinkhorn: Value
    """1 if Sinkhorn's algorithm assigns tokens to experts, else 0: the host reads
    the error of each round."""
    years: Value
    """Years from `counting.FIRST_RELEASE` to the release of a mixture's software; 0
    before, and if unknown."""
    legacy: Value
    """1 for stacks without fused attention and without a distributed optimizer, else
    0."""

    @classmethod
    def joined(cls, each: "list[Counts]") -> "Counts":
        """One object of arrays."""
        return cls(*(np.array([getattr(one, field.name) for one in each]) for field in fields(cls)))
