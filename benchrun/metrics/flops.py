"""Floating-point operations of one training step, per token. One function, two named conventions.

Counted: matrix multiplications of attention, MLP (of the active experts), attention scores and logits; a multiply-add
is 2, forward and backward together 3 times the forward. Not counted: embedding look-up, router, norms, recomputation.
``full`` counts the whole S x S score matrix (Megatron-LM up to core 0.11, NeMo up to 2.3, torchtitan), ``causal`` the
half that is needed (Megatron-LM from core 0.12, NeMo from 2.4, Megatron-Bridge, MaxText).
"""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.model import ModelShape

FORWARD_AND_BACKWARD = 3
MULTIPLY_ADD = 2


@dataclass(frozen=True)
class FlopsPerToken:
    """FLOPs a token of pretraining, under both conventions."""

    full: float
    causal: float


def flops_per_token(model: ModelShape, seq_length: int) -> FlopsPerToken:
    """FLOPs a token of ``model`` at ``seq_length``; with the unpadded vocabulary."""
    experts = model.moe.topk if model.moe else 1
    weights = model.num_layers * (model.attention_params + experts * model.mlp_params)
    weights += model.vocab_size * model.hidden_size
    linear = FORWARD_AND_BACKWARD * MULTIPLY_ADD * weights
    # Two products a layer (scores, and scores with V), each of heads * head width over seq_length positions.
    width = model.num_attention_heads * model.kv_channels
    scores = FORWARD_AND_BACKWARD * MULTIPLY_ADD * 2 * model.num_layers * width * seq_length
    return FlopsPerToken(full=linear + scores, causal=linear + scores / 2)
