"""The one list of what a decoder-only transformer computes and communicates on one GPU.

Parameters (`ModelShape`), FLOPs (`flops`), memory (`benchrun.memory`), the products that the worker times before its
first step (`trainer.ceiling`) and the bound of a step (`metrics.bound`) are computed from this list.

Units: elements and bytes. An operator is that of one micro-batch on one GPU, the mean over pipeline stages: a stage has
num_layers / pp layers, and 1 / pp of the embedding, the final norm and the output layer. With the layout ``Layout()``
and one token the list describes the whole model, per token.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from benchrun.model import communication
from benchrun.model.communication import Collective, Sizes
from benchrun.model.layout import Layout
from benchrun.vocabulary import Task

if TYPE_CHECKING:
    from benchrun.model.shape import ModelShape

MULTIPLY_ADD = 2
"""FLOPs."""
Pass = Literal["forward", "input_gradient", "weight_gradient"]
PASSES: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")
"""Training computes each product three times; attention scores have two inputs in place of input and weight."""
WHOLE, USUAL_SIZES = Layout(), Sizes()


def weight_passes(task: Task) -> tuple[Pass, ...]:
    """The passes over a weight matrix; a frozen one has no weight gradient."""
    return PASSES[:2] if task == "lora" else PASSES


@dataclass(frozen=True)
class Product:
    """A linear layer: (m x k) times (k x n) in the forward pass."""

    name: str
    """qkv, proj, fc1, fc2 or logits."""
    rows: float
    """Tokens that enter the layer; with experts, the copies of tokens that enter all experts of this GPU."""
    outputs: tuple[float, ...]
    """Widths of the matrices that are multiplied as one: Q, K and V; gate and up-projection."""
    k: float
    """Inputs."""
    layers: float
    matrices: float = 1
    """Experts of this GPU in a layer; 1 in dense layers."""
    expert: bool = False
    bias: bool = False
    tied: bool = False
    """The matrix is the embedding's, and counts there."""
    low_precision: bool = True
    """FP8 training computes it in FP8; the output layer stays in BF16."""
    passes: tuple[Pass, ...] = PASSES

    @property
    def n(self) -> float:
        """Outputs."""
        return sum(self.outputs)

    @property
    def m(self) -> float:
        """Rows of one product; experts have an even share of the tokens."""
        return self.rows / self.matrices

    @property
    def count(self) -> float:
        """How often a GPU computes it in one pass of a micro-batch."""
        return self.layers * self.matrices

    @property
    def sizes(self) -> dict[Pass, tuple[int, int, int]]:
        """(m, n, k) of the product in each pass, in whole numbers."""
        m, n, k = (max(int(size), 1) for size in (self.m, self.n, self.k))
        return dict(zip(self.passes, ((m, n, k), (m, k, n), (n, k, m)), strict=False))

    @property
    def weights(self) -> float:
        """Elements of one matrix."""
        return self.n * self.k

    @property
    def params(self) -> float:
        """Parameters on this GPU."""
        return 0.0 if self.tied else self.count * (self.weights + (self.n if self.bias else 0))

    @property
    def flops(self) -> float:
        """FLOPs of the forward pass."""
        return MULTIPLY_ADD * self.layers * self.rows * self.n * self.k


@dataclass(frozen=True)
class Attention:
    """Q K^T and scores times V of every layer, after the split of heads over tp and of tokens over cp."""

    tokens: float
    seq_length: float
    """Positions that a token is scored against."""
    heads: float
    kv_channels: int
    """Width of one head."""
    layers: float

    @property
    def flops(self) -> float:
        """FLOPs of the forward pass over the whole score matrix; causal attention needs half of them."""
        return MULTIPLY_ADD * 2 * self.layers * self.heads * self.kv_channels * self.tokens * self.seq_length


@dataclass(frozen=True)
class MemoryBound:
    """An operator that memory bandwidth limits: one kernel reads each input and writes each output once."""

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
    """Everything that one GPU computes and communicates for a micro-batch, and for the end of a step."""

    products: tuple[Product, ...]
    attention: Attention
    memory_bound: tuple[MemoryBound, ...]
    collectives: tuple[Collective, ...]

    def product(self, name: str) -> Product:
        """The product called ``name``."""
        return next(product for product in self.products if product.name == name)

    @property
    def block(self) -> tuple[Product, ...]:
        """The products of a transformer layer: all but the output layer."""
        return self.products[:-1]

    @property
    def params(self) -> float:
        """Parameters on this GPU, the mean over pipeline stages."""
        return sum(each.params for each in self.products) + sum(each.params for each in self.memory_bound)


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

    ``tokens``: mbs * seq_length / cp, before sequence parallelism. ``seq_length``: the positions that a token is scored
    against. The options after ``task`` matter for memory-bound operators and collectives alone.
    """
    products = _products(model, tokens, layout, task)
    heads, layers = model.num_attention_heads / layout.tp, model.num_layers / layout.pp
    attention = Attention(tokens, seq_length, heads, model.kv_channels, layers)
    memory_bound = tuple(_memory_bound(model, layout, products, attention, sizes))
    routed = products[2].rows if model.moe else 0.0
    collectives = [*communication.of_a_micro_batch(model, layout, tokens, routed, sizes, cp_comm)]
    if task != "lora":  # the adapters' own gradients, below 1 %, are left out
        experts = sum(product.params for product in products if product.expert)
        dense = Operators(products, attention, memory_bound, ()).params - experts
        collectives += communication.of_data_parallel_ranks(layout, dp, dense, experts, sizes, distributed_optimizer)
        # Gradients read, states read and written, weights written, of this rank's share.
        ranks, expert_ranks = communication.optimizer_shards(layout, dp, distributed_optimizer)
        per_param, share = sizes.gradient + 2 * sizes.states + sizes.weight, dense / ranks + experts / expert_ranks
        memory_bound += (MemoryBound("adam", step_bytes=share * per_param),)
    needed = tuple(each for each in collectives if each.ranks > 1 and each.bytes)
    return Operators(products, attention, memory_bound, needed)


def _products(model: "ModelShape", tokens: float, layout: Layout, task: Task) -> tuple[Product, ...]:
    hidden, layers, tp = model.hidden_size, model.num_layers / layout.pp, layout.tp
    queries, keys = model.num_attention_heads * model.kv_channels / tp, model.num_query_groups * model.kv_channels / tp
    rows, inner, matrices = tokens, model.ffn_hidden_size / tp, 1.0
    if model.moe:
        # Each tp rank routes its part of the sequence; an expert that is split over etp ranks sees the tokens of all.
        rows = tokens * model.moe.topk * layout.etp / tp
        inner, matrices = model.moe.ffn_hidden_size / layout.etp, model.moe.num_experts / layout.ep
    expert, passes, bias, tied = model.moe is not None, weight_passes(task), model.bias, model.tied_embeddings
    gate_and_up, vocabulary = (inner, inner) if model.gated else (inner,), (model.vocab_size / tp,)
    return (
        Product("qkv", tokens, (queries, keys, keys), hidden, layers, bias=bias, passes=passes),
        Product("proj", tokens, (hidden,), queries, layers, bias=bias, passes=passes),
        Product("fc1", rows, gate_and_up, hidden, layers, matrices, expert, bias, passes=passes),
        Product("fc2", rows, (hidden,), inner, layers, matrices, expert, bias, passes=passes),
        Product("logits", tokens, vocabulary, hidden, 1 / layout.pp, tied=tied, low_precision=False, passes=passes),
    )


def _memory_bound(
    model: "ModelShape", layout: Layout, products: tuple[Product, ...], attention: Attention, sizes: Sizes
) -> Iterator[MemoryBound]:
    """Fused kernels, as transformer-engine has them."""
    qkv, _, fc1, fc2, logits = products
    size, ends, layers = sizes.activation, 1 / layout.pp, attention.layers
    hidden = attention.tokens / communication.sequence_split(layout) * model.hidden_size * size  # bytes of one tensor
    norm = model.hidden_size * (1 if model.normalization == "RMSNorm" else 2)
    norms = 2 * layers + ends
    yield MemoryBound("norm", 2 * norms * hidden, 3 * norms * hidden, params=norms * norm)
    yield MemoryBound("residual", 2 * layers * 3 * hidden, 2 * layers * 3 * hidden)
    if model.position_embedding == "rope":
        rotated = 2 * layers * qkv.rows * (qkv.outputs[0] + qkv.outputs[1]) * size
        yield MemoryBound("rope", rotated, rotated)
    gate, product = layers * fc1.rows * fc1.n * size, layers * fc2.rows * fc2.k * size
    yield MemoryBound("activation", gate + product, 2 * gate + product)
    if model.moe:
        copies, weights = layers * (1 + model.moe.topk) * hidden, layers * model.hidden_size * model.moe.num_experts
        yield MemoryBound("router", layers * hidden, 2 * layers * hidden, params=weights)
        yield MemoryBound("permute", 2 * copies, 2 * copies)  # to the experts and back
    table = ends * logits.weights  # of the same size as the output layer
    yield MemoryBound("embedding", ends * 2 * hidden, ends * 3 * hidden, params=table)
    if model.position_embedding == "learned":
        yield MemoryBound("positions", params=ends * model.max_position_embeddings * model.hidden_size)
    # Maximum and sum of the logits, then the gradient in their place.
    scores = logits.layers * logits.rows * logits.n * size
    yield MemoryBound("loss", 3 * scores, 2 * scores)
