"""A model's dimensions: the one description from which flags, memory, FLOPs and the worker's model come."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

Activation = Literal["swiglu", "geglu", "gelu", "squared-relu"]
GATED: frozenset[Activation] = frozenset({"swiglu", "geglu"})
VOCAB_MULTIPLE = 128
"""Megatron-LM pads a vocabulary to a multiple of this, by default of this times tp."""


class Frozen(BaseModel):
    """Base of every model that crosses an edge: unknown keys are refused, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Moe(Frozen):
    """Mixture of experts: every layer's MLP becomes ``num_experts`` of them, ``topk`` used a token."""

    num_experts: PositiveInt
    """Experts a layer."""
    topk: PositiveInt
    """Experts a token is routed to."""
    ffn_hidden_size: PositiveInt
    """Inner width of one expert's MLP."""
    aux_loss_coeff: float = 0.01
    """Weight of the load-balancing loss."""
    capacity_factor: PositiveFloat | None = None
    """Tokens an expert may take, in multiples of the even share; null drops none."""
    force_balance: bool = False
    """Route at random so that every expert gets the same load: steady timing, meaningless loss."""


class ModelShape(Frozen):
    """Dimensions of a decoder-only transformer, named as Megatron-LM names them."""

    init_method_std: ClassVar[float] = 0.02
    """Standard deviation of a matrix, as GPT-2 and Llama begin."""
    layernorm_epsilon: ClassVar[float] = 1e-5
    num_layers: PositiveInt
    hidden_size: PositiveInt
    ffn_hidden_size: PositiveInt
    """Inner width of the MLP (of one expert in a mixture of experts)."""
    num_attention_heads: PositiveInt
    num_query_groups: PositiveInt
    """Key/value heads; equal to ``num_attention_heads`` without grouped-query attention."""
    kv_channels: PositiveInt
    """Width of one attention head."""
    vocab_size: PositiveInt
    max_position_embeddings: PositiveInt
    activation: Activation = "swiglu"
    normalization: Literal["RMSNorm", "LayerNorm", "LayerNorm1p"] = "RMSNorm"
    position_embedding: Literal["rope", "learned"] = "rope"
    rotary_base: PositiveInt = 10000
    rotary_percent: PositiveFloat = 1.0
    bias: bool = False
    """Bias terms in the linear layers."""
    tied_embeddings: bool = False
    """Input and output embedding share one matrix."""
    moe: Moe | None = None

    @property
    def gated(self) -> bool:
        """Whether the MLP has a gate (three matrices instead of two)."""
        return self.activation in GATED

    @property
    def padded_vocab_size(self) -> int:
        """Rows of the worker's embedding; not a multiple of tp as well, so that layouts stay comparable."""
        return -(-self.vocab_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE

    @property
    def attention_params(self) -> int:
        """Weights of one layer's attention: Q, K, V and the output projection."""
        width = self.kv_channels * (2 * self.num_attention_heads + 2 * self.num_query_groups)
        return self.hidden_size * width

    @property
    def mlp_params(self) -> int:
        """Weights of one MLP (of one expert in a mixture of experts)."""
        inner = self.moe.ffn_hidden_size if self.moe else self.ffn_hidden_size
        return (3 if self.gated else 2) * self.hidden_size * inner

    def _params(self, experts: int) -> int:
        """Parameters when ``experts`` MLPs a layer count."""
        norms = 2 * self.hidden_size * (1 if self.normalization == "RMSNorm" else 2)
        router = self.hidden_size * self.moe.num_experts if self.moe else 0
        layer = self.attention_params + experts * self.mlp_params + router + norms
        layer += self._bias_params(experts) if self.bias else 0
        embedding = self.vocab_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        if self.position_embedding == "learned":
            embedding += self.max_position_embeddings * self.hidden_size
        return self.num_layers * layer + embedding + norms // 2

    def _bias_params(self, experts: int) -> int:
        qkv = self.kv_channels * (self.num_attention_heads + 2 * self.num_query_groups)
        inner = self.moe.ffn_hidden_size if self.moe else self.ffn_hidden_size
        mlp = (2 if self.gated else 1) * inner + self.hidden_size
        return qkv + self.hidden_size + experts * mlp

    @property
    def params_total(self) -> int:
        """All parameters, with the unpadded vocabulary."""
        return self._params(self.moe.num_experts if self.moe else 1)

    @property
    def params_active(self) -> int:
        """Parameters that one token meets; equal to ``params_total`` in a dense model."""
        return self._params(self.moe.topk if self.moe else 1)
