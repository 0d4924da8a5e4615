"""The collectives of one GPU, by group: bytes, and number of times in a micro-batch and
in a step.

Sources: Shoeybi et al. 2019 (arXiv:1909.08053) for tensor parallelism, Korthikanti et
al. 2022 (arXiv:2205.05198) for sequence parallelism, Narayanan et al. 2021
(arXiv:2104.04473) for pipelines, Megatron-LM core 0.19 for the rest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .costs import bus_factor
from .layers import layer_counts
from .layout import Layout

if TYPE_CHECKING:
    from .shape import ModelShape

Name = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
Group = Literal["tp", "cp", "pp", "ep", "etp", "dp", "expert_dp", "fsdp", "expert_fsdp"]


@dataclass(frozen=True)
class Collective:
    """Communication among the ranks of a group."""

    name: Name
    group: Group
    ranks: float
    bytes: float
    """The whole tensor, as nccl-tests counts: the result of an all-gather, the input of
    a reduce-scatter, what a rank of an all-to-all sends to all ranks and itself; the
    message of a send."""
    forward: float = 0.0
    """Number of times in the forward pass of a micro-batch."""
    backward: float = 0.0
    step: float = 0.0
    """Number of times per step."""

    @property
    def bus_bytes(self) -> float:
        """Bytes that a rank sends, each time."""
        return self.bytes * bus_factor(self.name, self.ranks)


@dataclass(frozen=True)
class Sizes:
    """Bytes per element."""

    activation: float = 2
    weight: float = 2
    """Weight as data-parallel ranks gather it: 1 for FP8."""
    gradient: float = 2
    states: float = 12
    """States of Adam, per parameter."""


def of_a_micro_batch(
    model: "ModelShape", layout: Layout, tokens: float, routed: float, sizes: Sizes, cp_comm: str
) -> Iterator[Collective]:
    """All collectives except those of data-parallel ranks. ``routed``: tokens per layer
    for the experts of this GPU."""
    counts = layer_counts(model)
    ends = 1 / layout.pp
    attention = counts.attention / layout.pp
    experts = counts.experts / layout.pp
    # Around attention, a dense MLP and Mamba-2, at the embedding and at the output
    # layer. With sequence parallelism a gather before and a reduce-scatter after each;
    # backward the same, and the inputs are gathered once more for the gradients of the
    # weights. Without it, an all-reduce forward and one backward.
    split = counts.attention + counts.dense + counts.mamba + model.mtp_layers
    if model.moe and model.moe.shared_ffn_hidden_size:
        split += counts.experts
    tp = layout.tp
    times = split / layout.pp + ends
    size = tokens * (model.hidden_size * sizes.activation)
    if layout.sequence_parallel:
        yield Collective("all_gather", "tp", tp, size, times, 2 * times)
        yield Collective("reduce_scatter", "tp", tp, size, times, times)
    else:
        yield Collective("all_reduce", "tp", tp, size, times, times)
    # The loss over a divided vocabulary: maximum, the label's logit, sum of
    # exponentials; in FP32.
    yield Collective("all_reduce", "tp", tp, 4 * tokens, 3 * ends)
    # Keys and values in a ring (p2p), gathered, or exchanged for heads together with
    # queries and outputs (a2a).
    cp = layout.cp
    head = tokens * sizes.activation / tp
    head *= model.key_channels + model.value_channels
    pair = model.key_heads * head
    if cp_comm == "p2p":
        yield Collective("send", "cp", cp, pair, attention * (cp - 1), 2 * attention * (cp - 1))
    elif cp_comm == "a2a":
        both = pair + model.num_attention_heads * head
        yield Collective("all_to_all", "cp", cp, both, attention, attention)
    else:
        yield Collective("all_gather", "cp", cp, cp * pair, attention, attention)
        yield Collective("reduce_scatter", "cp", cp, cp * pair, backward=attention)
    # Tokens go to their experts and come back, forward and backward.
    etp = layout.etp
    copies = routed * (model.expert_width * sizes.activation)
    yield Collective("all_to_all", "ep", layout.ep, copies / etp, 2 * experts, 2 * experts)
    yield Collective("all_gather", "etp", etp, copies, experts, experts)
    yield Collective("reduce_scatter", "etp", etp, copies, experts, experts)
    # A tensor crosses each border between (virtual) stages, forward and backward.
    borders = (layout.pp * layout.vp - 1) / layout.pp
    yield Collective("send", "pp", layout.pp, size / sequence_split(layout), borders, borders)


def of_data_parallel_ranks(
    layout: Layout, dp: int, dense: float, experts: float, sizes: Sizes, distributed_optimizer: bool
) -> Iterator[Collective]:
    """Gradients are reduced and weights gathered once per step; with FSDP in every
    micro-batch.

    ``dense`` and ``experts``: parameters on this GPU before FSDP.
    """
    ranks, expert_ranks = replicas(layout, dp)
    shards, expert_shards = weight_shards(layout)
    groups: tuple[tuple[Group, float, Group, float, float], ...] = (
        ("dp", ranks, "fsdp", shards, dense),
        ("expert_dp", expert_ranks, "expert_fsdp", expert_shards, experts),
    )
    for group, size, shard_group, shard_size, params in groups:
        weights = params * sizes.weight
        gradients = params * sizes.gradient
        if layout.fsdp > 1:
            yield Collective("all_gather", shard_group, shard_size, weights, 1, 1)
            yield Collective("reduce_scatter", shard_group, shard_size, gradients, backward=1)
            yield Collective("all_reduce", group, size / shard_size, gradients / shard_size, step=1)
        elif distributed_optimizer:
            yield Collective("reduce_scatter", group, size, gradients, step=1)
            yield Collective("all_gather", group, size, weights, step=1)
        else:
            yield Collective("all_reduce", group, size, gradients, step=1)


def replicas(layout: Layout, dp: int) -> tuple[float, float]:
    """Ranks that hold the same dense weights, and ranks that hold the same experts."""
    ranks = float(dp * layout.cp)
    return ranks, layout.tp * ranks / (layout.ep * layout.etp)


def weight_shards(layout: Layout) -> tuple[float, float]:
    """Ranks that share dense weights and gradients under FSDP, and ranks that share
    those of experts."""
    return layout.fsdp, max(1.0, layout.fsdp / layout.ep)


def optimizer_shards(layout: Layout, dp: int, distributed_optimizer: bool) -> tuple[float, float]:
    """Ranks that share the optimizer's states of dense weights, and of experts."""
    if distributed_optimizer and layout.fsdp == 1:
        return replicas(layout, dp)
    return weight_shards(layout)


def sequence_split(layout: Layout) -> int:
    """Parts into which sequence parallelism cuts what tensor parallelism leaves
    whole."""
    if not layout.sequence_parallel:
        return 1
    return layout.tp
