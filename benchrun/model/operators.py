"""The list of operators that a decoder-only transformer computes and communicates on
one GPU.

Parameters (`ModelShape`), FLOPs (`flops`), memory (`benchrun.memory`), the products
that the worker times before its first step (`worker.ceiling`) and the bound of a step
(`measure.bound`) are computed from this list.

Units: elements and bytes. An operator is that of one micro-batch on one GPU, the mean
over pipeline stages: a stage has num_layers / pp layers, and 1 / pp of the embedding,
the final norm and the output layer. With the layout ``Layout()`` and one token the list
describes the whole model, per token.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchrun.vocabulary import Task

from . import communication
from .communication import Collective, Sizes
from .layers import layer_counts
from .layout import Layout
from .products import (
    MULTIPLY_ADD,
    OUTPUT,
    PASSES,
    Pass,
    Product,
    products,
    weight_passes,
)

if TYPE_CHECKING:
    from .parts import Mamba
    from .shape import ModelShape

__all__ = ["MULTIPLY_ADD", "PASSES", "Operators", "Pass", "Product", "operators", "weight_passes"]
WHOLE, USUAL_SIZES = Layout(), Sizes()
SCAN = 7
"""FLOPs of a Mamba-2 layer for each token and element of its state, as Megatron-LM
counts them."""
CONVOLUTION = 4
"""Positions that the convolution of a Mamba-2 layer sees."""


@dataclass(frozen=True)
class Attention:
    """Q K^T and scores times V of every layer, after the split of heads over tp and of
    tokens over cp."""

    tokens: float
    seq_length: float
    """Positions that a token is scored against."""
    heads: float
    kv_channels: int
    """Width of one query or key head."""
    layers: float
    """Attention layers, with and without a window."""
    value_channels: int
    """Width of one value head."""
    windowed: float = 0
    """Layers with a sliding window."""
    window: int | None = None
    """Positions that a token is scored against in those."""

    @property
    def seen(self) -> float:
        """Twice the mean number of positions that a token of a windowed layer sees:
        with a window of the whole sequence it is ``seq_length``, so that half of the
        FLOPs is what causal attention needs."""
        size = min(self.window or self.seq_length, self.seq_length)
        return 2 * size - size * size / self.seq_length

    @property
    def flops(self) -> float:
        """FLOPs of the forward pass over the whole score matrix; causal attention needs
        half of them."""
        positions = (self.layers - self.windowed) * self.seq_length + self.windowed * self.seen
        widths = self.kv_channels + self.value_channels
        return MULTIPLY_ADD * self.heads * widths * self.tokens * positions


@dataclass(frozen=True)
class MemoryBound:
    """An operator that memory bandwidth limits: one kernel reads each input and writes
    each output once."""

    name: str
    forward_bytes: float = 0.0
    """Read and written in the forward pass of a micro-batch, all layers together."""
    backward_bytes: float = 0.0
    step_bytes: float = 0.0
    """Per step, not per micro-batch."""
    params: float = 0.0
    """Parameters on this GPU."""


@dataclass(frozen=True)
class Operators:
    """Everything that one GPU computes and communicates for a micro-batch, and for the
    end of a step."""

    products: tuple[Product, ...]
    attention: Attention
    memory_bound: tuple[MemoryBound, ...]
    collectives: tuple[Collective, ...]
    scan_flops: float = 0.0
    """FLOPs of the forward pass of the scans of Mamba-2 layers."""

    def product(self, name: str) -> Product:
        """The product called ``name``."""
        return next(product for product in self.products if product.name == name)

    @property
    def block(self) -> tuple[Product, ...]:
        """The products of the layers: all but the output layer."""
        return tuple(product for product in self.products if product.name not in OUTPUT)

    @property
    def params(self) -> float:
        """Parameters on this GPU, the mean over pipeline stages."""
        return sum(each.params for each in self.products) + sum(
            each.params for each in self.memory_bound
        )


@functools.lru_cache(maxsize=4096)
def operators(
    model: "ModelShape",
    tokens: float = 1,
    seq_length: float = 1,
    layout: Layout = WHOLE,
    *,
    task: Task = "pretrain",
    dp: int = 1,
    sizes: Sizes = USUAL_SIZES,
    distributed_optimizer: bool = True,
    cp_comm: str = "p2p",
) -> Operators:
    """The list for one GPU and micro-batch.

    ``tokens``: mbs * seq_length / cp, before sequence parallelism. ``seq_length``: the
    positions that a token is scored against. The options after ``task`` matter for
    memory-bound operators and collectives alone.
    """
    listed = products(model, tokens, layout, task)
    attention = _attention(model, tokens, seq_length, layout)
    memory_bound = tuple(_memory_bound(model, layout, listed, attention, sizes))
    routed = next((product.rows for product in listed if product.expert), 0.0)
    collectives = [*communication.of_a_micro_batch(model, layout, tokens, routed, sizes, cp_comm)]
    if task != "lora":  # the adapters' own gradients, below 1 %, are left out
        experts = sum(product.params for product in listed if product.expert)
        dense = Operators(listed, attention, memory_bound, ()).params - experts
        collectives += communication.of_data_parallel_ranks(
            layout, dp, dense, experts, sizes, distributed_optimizer
        )
        # Gradients read, states read and written, weights written, of this rank's
        # share.
        ranks, expert_ranks = communication.optimizer_shards(layout, dp, distributed_optimizer)
        per_param = sizes.gradient + 2 * sizes.states + sizes.weight
        share = dense / ranks + experts / expert_ranks
        memory_bound += (MemoryBound("adam", step_bytes=share * per_param),)
    needed = tuple(each for each in collectives if each.ranks > 1 and each.bytes)
    return Operators(listed, attention, memory_bound, needed, _scan_flops(model, tokens, layout))


def _attention(model: "ModelShape", tokens: float, seq_length: float, layout: Layout) -> Attention:
    counts = layer_counts(model)
    return Attention(
        tokens,
        seq_length,
        heads=model.num_attention_heads / layout.tp,
        kv_channels=model.key_channels,
        layers=counts.attention / layout.pp,
        value_channels=model.value_channels,
        windowed=counts.windowed / layout.pp,
        window=model.window.size if model.window else None,
    )


def _scan_flops(model: "ModelShape", tokens: float, layout: Layout) -> float:
    mamba = model.mamba
    if mamba is None:
        return 0.0
    layers = layer_counts(model).mamba / layout.pp
    return SCAN * layers * tokens * mamba.inner * mamba.state_dim / layout.tp


def _memory_bound(
    model: "ModelShape",
    layout: Layout,
    listed: tuple[Product, ...],
    attention: Attention,
    sizes: Sizes,
) -> Iterator[MemoryBound]:
    """Fused kernels, as transformer-engine has them."""
    counts = layer_counts(model)
    named = {product.name: product for product in listed}
    logits = named["logits"]
    pp = layout.pp
    size = sizes.activation
    ends = 1 / layout.pp
    rows = attention.tokens / communication.sequence_split(layout)
    hidden = rows * model.hidden_size * size  # bytes of one tensor
    norm = model.hidden_size * (1 if model.normalization == "RMSNorm" else 2)
    # A multi-token prediction has a norm for each of its two inputs, and a final one.
    norms = (counts.halves + 3 * model.mtp_layers) / pp + ends
    sums = counts.halves / pp
    yield MemoryBound("norm", 2 * norms * hidden, 3 * norms * hidden, params=norms * norm)
    yield MemoryBound("residual", sums * 3 * hidden, sums * 3 * hidden)
    yield from _around_attention(model, layout, named, attention, size)
    yield from _activations(listed, size)
    if model.moe:
        layers = counts.experts / pp
        copies = layers * (1 + model.moe.topk) * hidden * model.expert_width / model.hidden_size
        weights = layers * model.hidden_size * model.moe.num_experts
        yield MemoryBound("router", layers * hidden, 2 * layers * hidden, params=weights)
        yield MemoryBound("permute", 2 * copies, 2 * copies)  # to the experts and back
    if model.mamba:
        yield _mamba(model.mamba, counts.mamba / pp, attention.tokens, layout.tp, size)
    table = ends * logits.weights  # of the same size as the output layer
    yield MemoryBound("embedding", ends * 2 * hidden, ends * 3 * hidden, params=table)
    if model.position_embedding == "learned":
        yield MemoryBound(
            "positions", params=ends * model.max_position_embeddings * model.hidden_size
        )
    # Maximum and sum of the logits, then the gradient in their place.
    scores = (1 + model.mtp_layers) * logits.layers * logits.rows * logits.n * size
    yield MemoryBound("loss", 3 * scores, 2 * scores)


def _around_attention(
    model: "ModelShape",
    layout: Layout,
    named: dict[str, Product],
    attention: Attention,
    size: float,
) -> Iterator[MemoryBound]:
    """Rotary positions and norms of queries and keys, norms of latents, sinks."""
    layers = attention.layers
    mla = model.mla
    heads = attention.heads
    # The rotated part of latent keys is one for all heads.
    width = mla.qk_pos_emb_head_dim if mla else model.kv_channels
    queries_and_keys = heads + (1 if mla else model.num_query_groups / layout.tp)
    if model.position_embedding == "rope":
        with_rope = layers
        if model.no_rope_every:
            with_rope *= 1 - 1 / model.no_rope_every
        rotated = 2 * with_rope * attention.tokens * queries_and_keys * width * size
        yield MemoryBound("rope", rotated, rotated)
    if mla:
        latent = (mla.q_lora_rank or 0) + mla.kv_lora_rank
        moved = layers * named["kv_down"].rows * latent * size
        yield MemoryBound("latent_norm", 2 * moved, 3 * moved, params=layers * latent)
    elif model.qk_norm:
        moved = layers * attention.tokens * queries_and_keys * width * size
        weights = 2 * layers * model.kv_channels if model.qk_norm == "weighted" else 0
        yield MemoryBound("qk_norm", 2 * moved, 3 * moved, params=weights)
    if model.attention_sinks:
        yield MemoryBound("sinks", params=layers * heads)


def _activations(listed: tuple[Product, ...], size: float) -> Iterator[MemoryBound]:
    """The activation between the two products of an MLP, of an expert, and of the
    shared experts."""
    named = {product.name: product for product in listed}
    for name, up in named.items():
        if name.endswith("fc1"):
            down = named[name.replace("fc1", "fc2")]
            gate = up.layers * up.rows * up.n * size
            product = down.layers * down.rows * down.k * size
            yield MemoryBound("activation", gate + product, 2 * gate + product)


def _mamba(mamba: "Mamba", layers: float, tokens: float, tp: int, size: float) -> MemoryBound:
    """The convolution, the scan, and the norm of its output under a gate; states
    between chunks are left out."""
    inner = mamba.inner / tp
    convolved = mamba.convolved / tp
    moved = layers * tokens * (2 * convolved + 2 * convolved + 5 * inner) * size
    weights = (CONVOLUTION + 1) * convolved + 3 * mamba.num_heads / tp + inner
    return MemoryBound("mamba", moved, 2 * moved, params=layers * weights)
