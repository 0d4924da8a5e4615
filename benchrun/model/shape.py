"""A model's dimensions: the one description from which flags, memory, FLOPs and the
worker's model come."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from benchrun.vocabulary import MOST_LAYERS

from .layers import EXPERTS, layer_counts
from .layout import Frozen, Size
from .operators import operators
from .parts import Mamba, Mla, Moe, RopeScaling, Window

Activation = Literal["swiglu", "geglu", "gelu", "squared-relu", "clamped-swiglu"]
GATED: frozenset[Activation] = frozenset({"swiglu", "geglu", "clamped-swiglu"})
VOCAB_MULTIPLE = 128
"""Megatron-LM pads a vocabulary to a multiple of this, by default of this times tp."""


class ModelShape(Frozen):
    """Dimensions of a decoder-only model, named as Megatron-LM names them."""

    init_method_std: ClassVar[float] = 0.02
    """Standard deviation of a matrix, as GPT-2 and Llama begin."""
    layernorm_epsilon: ClassVar[float] = 1e-5
    num_layers: Annotated[Size, Field(le=MOST_LAYERS)]
    """Transformer layers."""
    hidden_size: Size
    """Width of the residual stream."""
    ffn_hidden_size: Size
    """Inner width of the MLP (of one expert if all layers have experts)."""
    num_attention_heads: Size
    """Query heads."""
    num_query_groups: Size
    """Key/value heads; equal to ``num_attention_heads`` without grouped-query
    attention."""
    kv_channels: Size
    """Width of one attention head."""
    vocab_size: Size
    """Tokens of the vocabulary, unpadded."""
    max_position_embeddings: Size
    """Longest sequence; the rows of a learned position table."""
    activation: Activation = "swiglu"
    """Activation of the MLP; swiglu and geglu have a gate; clamped-swiglu is that of
    gpt-oss."""
    normalization: Literal["RMSNorm", "LayerNorm", "LayerNorm1p"] = "RMSNorm"
    """Kind of norm; LayerNorm1p centers its weight at zero."""
    position_embedding: Literal["rope", "learned", "none"] = "rope"
    """Rotary positions, a learned table, or none (if Mamba-2 layers see the
    order)."""
    rotary_base: Size = 10000
    """Base of the rotary frequencies."""
    rotary_percent: PositiveFloat = 1.0
    """Fraction of each head that is rotated."""
    bias: bool = False
    """Bias terms in the linear layers."""
    tied_embeddings: bool = False
    """Input and output embedding share one matrix."""
    moe: Moe | None = None
    """Experts in place of the MLP; null for a dense model."""
    qkv_bias: bool = False
    """Bias terms in the projections of queries, keys and values alone."""
    qk_norm: Literal["weighted", "l2"] | None = None
    """Norm of each query and key head, with a learned weight or without one."""
    mla: Mla | None = None
    """Queries, keys and values through narrow latents; ``kv_channels`` and
    ``num_query_groups`` are then not used."""
    attention_sinks: bool = False
    """A learned score of each head takes probability and gives no value."""
    window: Window | None = None
    """Sliding-window attention; null: all positions."""
    rope_scaling: RopeScaling | None = None
    """How rotary positions were lengthened; null: they were not."""
    no_rope_every: Size | None = None
    """Each n-th layer has no rotary positions; null: all have."""
    mtp_layers: Annotated[NonNegativeInt, Field(le=MOST_LAYERS)] = 0
    """Multi-token predictions: layers at the end that each predict one token further
    ahead."""
    mamba: Mamba | None = None
    """Mamba-2 layers among the others; null for a transformer."""

    @model_validator(mode="after")
    def _whole(self) -> "ModelShape":
        mamba = self.mamba
        moe = self.moe
        if mamba and self.num_layers > len(mamba.pattern):
            raise ValueError(
                f"num_layers ({self.num_layers}) must be at most {len(mamba.pattern)}, as mamba.pattern has"
            )
        if mamba and (EXPERTS in mamba.pattern) != (moe is not None):
            raise ValueError(
                "mamba.pattern has layers with experts (E) exactly where the model has moe"
            )
        if self.mla and (self.qk_norm or self.qkv_bias or self.window or self.attention_sinks):
            raise ValueError(
                "mla has norms of its own, and no qk_norm, qkv_bias, window or attention_sinks"
            )
        if moe and (moe.num_groups is None) != (moe.topk_groups is None):
            raise ValueError("moe.num_groups and moe.topk_groups belong together")
        return self

    @property
    def gated(self) -> bool:
        """Whether the MLP has a gate (three matrices instead of two)."""
        return self.activation in GATED

    @property
    def key_channels(self) -> int:
        """Width of one query or key head."""
        if self.mla:
            return self.mla.qk_width
        return self.kv_channels

    @property
    def value_channels(self) -> int:
        """Width of one value head."""
        if self.mla:
            return self.mla.v_head_dim
        return self.kv_channels

    @property
    def key_heads(self) -> int:
        """Key and value heads."""
        if self.mla:
            return self.num_attention_heads
        return self.num_query_groups

    @property
    def expert_width(self) -> int:
        """Width of what enters and leaves a routed expert."""
        if self.moe and self.moe.latent_size:
            return self.moe.latent_size
        return self.hidden_size

    @property
    def clamped(self) -> bool:
        """Whether the MLP's gate is that of gpt-oss."""
        return self.activation == "clamped-swiglu"

    @property
    def padded_vocab_size(self) -> int:
        """Rows of the worker's embedding; not a multiple of tp as well, so that layouts
        stay comparable."""
        return -(-self.vocab_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE

    @property
    def params_total(self) -> int:
        """All parameters, with the unpadded vocabulary."""
        return int(operators(self).params)

    @property
    def params_active(self) -> int:
        """Parameters that one token uses; equal to ``params_total`` in a dense
        model."""
        if self.moe is None or not layer_counts(self).experts:
            return self.params_total
        experts = int(sum(product.params for product in operators(self).products if product.expert))
        idle = self.moe.num_experts - self.moe.topk
        return self.params_total - experts // self.moe.num_experts * idle
