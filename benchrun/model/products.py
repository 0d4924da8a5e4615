"""The matrix products of a decoder-only model on one GPU: every linear layer, each
once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from benchrun.vocabulary import Task

from .communication import sequence_split
from .layers import layer_counts
from .layout import Layout

if TYPE_CHECKING:
    from .parts import Mamba, Mla, Moe
    from .shape import ModelShape

MULTIPLY_ADD = 2
"""FLOPs."""
Pass = Literal["forward", "input_gradient", "weight_gradient"]
PASSES: tuple[Pass, ...] = ("forward", "input_gradient", "weight_gradient")
"""Training computes each product three times; attention scores have two inputs in place
of input and weight."""
OUTPUT = ("logits", "mtp_logits")
"""Products of the vocabulary, outside the layers."""


def weight_passes(task: Task) -> tuple[Pass, ...]:
    """The passes over a weight matrix; a frozen one has no weight gradient."""
    if task != "lora":
        return PASSES
    return PASSES[:2]


@dataclass(frozen=True)
class Product:
    """A linear layer: (m x k) times (k x n) in the forward pass."""

    name: str
    """qkv, proj, fc1, fc2, logits; in some models also those of `products`."""
    rows: float
    """Tokens that enter the layer; with experts, the copies of tokens that enter all
    experts of this GPU."""
    outputs: tuple[float, ...]
    """Widths of the matrices that are multiplied as one: Q, K and V; gate and
    up-projection."""
    k: float
    """Inputs."""
    layers: float
    matrices: float = 1
    """Experts of this GPU in a layer; 1 in dense layers."""
    expert: bool = False
    bias: bool = False
    tied: bool = False
    """The matrix is another one's, and counts there."""
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
        """Matrices that a GPU multiplies in one pass of a micro-batch."""
        return self.layers * self.matrices

    @property
    def sizes(self) -> dict[Pass, tuple[int, int, int]]:
        """(m, n, k) of the product in each pass, in whole numbers."""
        m, n, k = max(int(self.m), 1), max(int(self.n), 1), max(int(self.k), 1)
        return dict(zip(self.passes, ((m, n, k), (m, k, n), (n, k, m)), strict=False))

    @property
    def weights(self) -> float:
        """Elements of one matrix."""
        return self.n * self.k

    @property
    def params(self) -> float:
        """Parameters on this GPU."""
        if self.tied:
            return 0.0
        return self.count * (self.weights + self.n * self.bias)

    @property
    def flops(self) -> float:
        """FLOPs of the forward pass."""
        return MULTIPLY_ADD * self.layers * self.rows * self.n * self.k


def products(model: "ModelShape", tokens: float, layout: Layout, task: Task) -> tuple[Product, ...]:
    """Attention, MLP and experts, Mamba-2, multi-token prediction, and the output layer
    as the last ones."""
    counts = layer_counts(model)
    pp = layout.pp
    tp = layout.tp
    moe = model.moe
    attention = _attention(model, tokens, layout)
    if model.mla:
        attention = _latent(model, model.mla, tokens, layout)
    linear = [replace(each, layers=counts.attention / pp) for each in attention]
    if counts.dense:
        # Layers with a plain MLP beside experts have names of their own.
        name = "dense_" if moe else ""
        linear += _mlp(name, model, tokens, model.ffn_hidden_size / tp, counts.dense / pp)
    if moe and counts.experts:
        linear += _experts(model, moe, tokens, layout, counts.experts / pp)
    if model.mamba and counts.mamba:
        for each in _mamba(model, model.mamba, tokens, tp):
            linear.append(replace(each, layers=counts.mamba / pp))
    linear = [replace(each, bias=each.bias or model.bias) for each in linear]
    logits = Product(
        "logits", tokens, (model.vocab_size / tp,), model.hidden_size, 1 / pp, low_precision=False
    )
    linear += [replace(logits, tied=model.tied_embeddings)]
    if model.mtp_layers:
        # The embedding of the next token and the layer's input, side by side;
        # Megatron-LM splits its output over tp.
        mtp = model.mtp_layers / pp
        both = 2 * model.hidden_size
        linear.insert(-1, Product("mtp_proj", tokens, (model.hidden_size / tp,), both, mtp))
        linear += [replace(logits, name="mtp_logits", layers=mtp, tied=True)]
    return tuple(replace(each, passes=weight_passes(task)) for each in linear)


def _attention(model: "ModelShape", tokens: float, layout: Layout) -> Iterator[Product]:
    hidden = model.hidden_size
    width = model.kv_channels / layout.tp
    queries = model.num_attention_heads * width
    keys = model.num_query_groups * width
    yield Product("qkv", tokens, (queries, keys, keys), hidden, 1, bias=model.qkv_bias)
    yield Product("proj", tokens, (hidden,), queries, 1)


def _latent(model: "ModelShape", mla: "Mla", tokens: float, layout: Layout) -> Iterator[Product]:
    """Every tensor-parallel rank has the projections into the latents whole; those out
    of them are split by heads."""
    hidden = model.hidden_size
    heads = model.num_attention_heads / layout.tp
    rows = tokens / sequence_split(layout)
    if mla.q_lora_rank:
        yield Product("q_down", rows, (mla.q_lora_rank,), hidden, 1)
    yield Product("q_up", tokens, (heads * mla.qk_width,), mla.q_lora_rank or hidden, 1)
    yield Product("kv_down", rows, (mla.kv_lora_rank, mla.qk_pos_emb_head_dim), hidden, 1)
    yield Product(
        "kv_up", tokens, (heads * mla.qk_head_dim, heads * mla.v_head_dim), mla.kv_lora_rank, 1
    )
    yield Product("proj", tokens, (hidden,), heads * mla.v_head_dim, 1)


def _mlp(
    name: str, model: "ModelShape", rows: float, inner: float, layers: float, experts: float = 0
) -> Iterator[Product]:
    """Yield both products of an MLP, or of ``experts`` experts."""
    width = model.expert_width if experts else model.hidden_size
    gate_and_up = (inner, inner) if model.gated else (inner,)
    own = experts or 1
    expert = experts > 0
    yield Product(f"{name}fc1", rows, gate_and_up, width, layers, own, expert)
    yield Product(f"{name}fc2", rows, (width,), inner, layers, own, expert)


def _experts(
    model: "ModelShape", moe: "Moe", tokens: float, layout: Layout, layers: float
) -> Iterator[Product]:
    # Each tp rank routes its part of the sequence; an expert that is split over etp
    # ranks sees the tokens of all.
    routed = tokens * moe.topk * layout.etp / layout.tp
    inner = moe.ffn_hidden_size / layout.etp
    own = moe.num_experts / layout.ep
    rows = tokens / sequence_split(layout)
    width = model.expert_width
    if moe.latent_size:
        yield Product("latent_down", rows, (width,), model.hidden_size, layers)
    yield from _mlp("", model, routed, inner, layers, own)
    if moe.latent_size:
        yield Product("latent_up", rows, (model.hidden_size,), width, layers)
    if moe.shared_ffn_hidden_size:
        yield from _mlp("shared_", model, tokens, moe.shared_ffn_hidden_size / layout.tp, layers)


def _mamba(model: "ModelShape", mamba: "Mamba", tokens: float, tp: int) -> Iterator[Product]:
    """The gate and the input of the convolution, and a step size for each head; then
    back."""
    widths = (mamba.inner / tp, mamba.convolved / tp, mamba.num_heads / tp)
    yield Product("in_proj", tokens, widths, model.hidden_size, 1)
    yield Product("out_proj", tokens, (model.hidden_size,), mamba.inner / tp, 1)
