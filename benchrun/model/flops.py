"""Floating-point operations of one training step, per token. One function a quantity, two named conventions.

Counted: matrix multiplications of attention, MLP (of the active experts), attention scores and logits; a multiply-add
is 2. Training makes three passes over them: forward, gradient of the inputs, gradient of the weights. Not counted:
embedding look-up, router, norms, recomputation.
``full`` counts the whole S x S score matrix (Megatron-LM up to core 0.11, NeMo up to 2.3, torchtitan), ``causal`` the
half that is needed (Megatron-LM from core 0.12, NeMo from 2.4, Megatron-Bridge, MaxText).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.model.shape import ModelShape
from benchrun.vocabulary import Task

MULTIPLY_ADD = 2
PASSES = 3
"""Forward, gradient of the inputs, gradient of the weights; scores have two inputs in place of the weights."""
FROZEN_PASSES = 2
"""A frozen weight still passes the gradient on to its input, but has none of its own."""


@dataclass(frozen=True)
class FlopsPerToken:
    """FLOPs a token of training, under both conventions."""

    full: float
    causal: float


def flops_per_token(model: ModelShape, seq_length: float, *, task: Task = "pretrain") -> FlopsPerToken:
    """FLOPs a token of ``model`` at ``seq_length`` tokens (`packed_length` for packed documents); unpadded vocabulary.

    ``sft`` trains every weight, so it costs what pretraining does. ``lora`` freezes them all, the output layer too
    (as Megatron-Bridge counts; NeMo's published LoRA numbers fit). The adapters themselves, below 1 %, are left out.
    """
    passes = FROZEN_PASSES if task == "lora" else PASSES
    linear = passes * (attention_linears(model) + mlp(model) + logits(model))
    scores = PASSES * attention_scores(model, seq_length)
    return FlopsPerToken(full=linear + scores, causal=linear + scores / 2)


def packed_length(document_lengths: Sequence[float]) -> float:
    """The sequence length, in tokens, that counts for the scores where documents of these lengths share a sequence.

    No token looks into another document, so one of d tokens makes d x d scores and a token, on average, the mean of
    the squared lengths over the mean length.
    """
    return sum(length**2 for length in document_lengths) / sum(document_lengths)


def attention_linears(model: ModelShape) -> float:
    """Forward FLOPs a token: Q, K, V and the output projection of all layers."""
    return MULTIPLY_ADD * model.num_layers * model.attention_params


def mlp(model: ModelShape) -> float:
    """Forward FLOPs a token: the MLPs of all layers, two matrices or three with a gate; those of the active experts."""
    experts = model.moe.topk if model.moe else 1
    return MULTIPLY_ADD * model.num_layers * experts * model.mlp_params


def attention_scores(model: ModelShape, seq_length: float) -> float:
    """Forward FLOPs a token: Q K^T and scores times V in all layers, a token against all positions."""
    width = model.num_attention_heads * model.kv_channels
    return MULTIPLY_ADD * 2 * model.num_layers * width * seq_length


def logits(model: ModelShape) -> float:
    """Forward FLOPs a token: the output layer, over the unpadded vocabulary."""
    return MULTIPLY_ADD * model.vocab_size * model.hidden_size
