"""Floating-point operations of one training step, per token. One function per quantity,
two named conventions.

Counted: the products, the attention and the scans of Mamba-2 of the operator list
(`operators`), of the active experts alone; a multiply-add is 2. Training makes three
passes over them. Not counted: memory-bound operators, the router, recomputation. A
sliding window counts the positions that it sees, under both conventions. ``full``
counts the whole S x S score matrix (Megatron-LM up to core 0.11, NeMo up to 2.4,
torchtitan, MaxText up to January 2025), ``causal`` the half that is needed (Megatron-LM
from core 0.12, NeMo from 2.5, Megatron-Bridge, MaxText since).
"""

from dataclasses import dataclass

from benchrun.vocabulary import Task

from . import operators
from .shape import ModelShape

PASSES = len(operators.PASSES)


@dataclass(frozen=True)
class FlopsPerToken:
    """FLOPs per token of training, under both conventions."""

    full: float
    causal: float


def flops_per_token(
    model: ModelShape, seq_length: float, *, task: Task = "pretrain"
) -> FlopsPerToken:
    """FLOPs per token at ``seq_length`` tokens, with the unpadded vocabulary.

    Where documents share a sequence and no token looks into another one, the length
    that counts for the scores is the mean of the squared lengths over the mean length.

    ``sft`` trains every weight, so it costs what pretraining does. ``lora`` freezes
    them all, the output layer too (as Megatron-Bridge counts; NeMo's published LoRA
    numbers fit). The adapters themselves, below 1 %, are left out.
    """
    listed = operators.operators(model, seq_length=seq_length)
    linear = len(operators.weight_passes(task)) * sum(product.flops for product in listed.products)
    linear += PASSES * listed.scan_flops
    scores = PASSES * listed.attention.flops
    return FlopsPerToken(full=linear + scores, causal=linear + scores / 2)


def attention_scores(model: ModelShape, seq_length: float) -> float:
    """Forward FLOPs per token: Q K^T and scores times V in all layers, a token against
    all positions."""
    return operators.operators(model, seq_length=seq_length).attention.flops


def logits(model: ModelShape) -> float:
    """Forward FLOPs per token: the output layer, over the unpadded vocabulary."""
    return operators.operators(model).product("logits").flops
