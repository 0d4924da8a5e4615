"""A model's dimensions: the one description from which flags, memory, FLOPs and the worker's model come."""

from typing import ClassVar, Literal

from pydantic import PositiveFloat, PositiveInt

from benchrun.model.layout import Frozen
from benchrun.model.operators import operators

Activation = Literal["swiglu", "geglu", "gelu", "squared-relu"]
GATED: frozenset[Activation] = frozenset({"swiglu", "geglu"})
VOCAB_MULTIPLE = 128
"""Megatron-LM pads a vocabulary to a multiple of this, by default of this times tp."""


class Moe(Frozen):
    """Mixture of experts: every layer's MLP becomes ``num_experts`` of them, of which a token uses ``topk``."""

    num_experts: PositiveInt
    """Experts per layer."""
    topk: PositiveInt
    """Experts per token."""
    ffn_hidden_size: PositiveInt
    """Inner width of one expert's MLP."""
    aux_loss_coeff: float = 0.01
    """Weight of the load-balancing loss."""
    capacity_factor: PositiveFloat | None = None
    """Largest number of tokens of an expert, in multiples of the even share; null drops none."""
    force_balance: bool = False
    """Route at random so that every expert gets the same load: steady timing, meaningless loss."""


class ModelShape(Frozen):
    """Dimensions of a decoder-only transformer, named as Megatron-LM names them."""

    init_method_std: ClassVar[float] = 0.02
    """Standard deviation of a matrix, as GPT-2 and Llama begin."""
    layernorm_epsilon: ClassVar[float] = 1e-5
    num_layers: PositiveInt
    """Transformer layers."""
    hidden_size: PositiveInt
    """Width of the residual stream."""
    ffn_hidden_size: PositiveInt
    """Inner width of the MLP (of one expert in a mixture of experts)."""
    num_attention_heads: PositiveInt
    """Query heads."""
    num_query_groups: PositiveInt
    """Key/value heads; equal to ``num_attention_heads`` without grouped-query attention."""
    kv_channels: PositiveInt
    """Width of one attention head."""
    vocab_size: PositiveInt
    """Tokens of the vocabulary, unpadded."""
    max_position_embeddings: PositiveInt
    """Longest sequence; the rows of a learned position table."""
    activation: Activation = "swiglu"
    """Activation of the MLP; swiglu and geglu have a gate."""
    normalization: Literal["RMSNorm", "LayerNorm", "LayerNorm1p"] = "RMSNorm"
    """Kind of norm; LayerNorm1p centers its weight at zero."""
    position_embedding: Literal["rope", "learned"] = "rope"
    """Rotary positions, or a learned table."""
    rotary_base: PositiveInt = 10000
    """Base of the rotary frequencies."""
    rotary_percent: PositiveFloat = 1.0
    """Fraction of each head that is rotated."""
    bias: bool = False
    """Bias terms in the linear layers."""
    tied_embeddings: bool = False
    """Input and output embedding share one matrix."""
    moe: Moe | None = None
    """Experts in place of the MLP; null for a dense model."""

    @property
    def gated(self) -> bool:
        """Whether the MLP has a gate (three matrices instead of two)."""
        return self.activation in GATED

    @property
    def padded_vocab_size(self) -> int:
        """Rows of the worker's embedding; not a multiple of tp as well, so that layouts stay comparable."""
        return -(-self.vocab_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE

    @property
    def params_total(self) -> int:
        """All parameters, with the unpadded vocabulary."""
        return int(operators(self).params)

    @property
    def params_active(self) -> int:
        """Parameters that one token uses; equal to ``params_total`` in a dense model."""
        if self.moe is None:
            return self.params_total
        experts = int(sum(product.params for product in operators(self).products if product.expert))
        return self.params_total - experts // self.moe.num_experts * (self.moe.num_experts - self.moe.topk)
