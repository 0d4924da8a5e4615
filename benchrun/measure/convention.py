"""The FLOPs convention of a reported TFLOPS: TFLOPS over tokens/s, compared with every
known way to count.

Programs that train equally fast report TFLOPS up to a third apart because they count
differently, so a reported TFLOPS means nothing without its convention.
"""

from collections.abc import Callable, Iterable

from benchrun.model import ModelShape
from benchrun.model.flops import PASSES, attention_scores, flops_per_token, logits
from benchrun.model.shape import GATED

TOLERANCE = 0.005
"""Relative tolerance.

Published numbers have three digits or more, and a vocabulary padded to 128 * tp moves
the count less.
"""


def _megatron_05(model: ModelShape, seq_length: float) -> float:
    """60 L h^2 (1 + g/5n + s/5h + V/10Lh): assumes an MLP of width 4 h without gate or
    experts; wrong for Llama.
    """
    layers, hidden = model.num_layers, model.hidden_size
    groups = model.num_query_groups / model.num_attention_heads
    terms = 1 + groups / 5 + seq_length / (5 * hidden) + model.vocab_size / (10 * layers * hidden)
    return 60 * layers * hidden**2 * terms


def _megatron_deepspeed(model: ModelShape, seq_length: float) -> float:
    """72 L h^2 (1 + s/6h + V/16Lh), of Megatron-DeepSpeed before it counted gates and
    groups.
    """
    layers, hidden = model.num_layers, model.hidden_size
    return (
        72
        * layers
        * hidden**2
        * (1 + seq_length / (6 * hidden) + model.vocab_size / (16 * layers * hidden))
    )


def _megatron_deepspeed_grouped(model: ModelShape, seq_length: float) -> float:
    """Count ``full`` as Megatron-DeepSpeed does: it rounds the widths of keys and
    values down to whole hidden sizes.
    """
    group = model.num_attention_heads // model.num_query_groups
    lost = (2 / group - 2 // group) * model.hidden_size**2
    return flops_per_token(model, seq_length).full - PASSES * 2 * model.num_layers * lost


def _causal_ungated(model: ModelShape, seq_length: float) -> float:
    """Count ``causal`` without the gate: Megatron-LM and Bridge count the third product
    of SwiGLU alone.

    A log says that there is a gate, and not of which function, so that every gated
    model may be counted so.
    """
    gated = model.activation in GATED
    return flops_per_token(
        model.model_copy(update={"activation": "gelu"}) if gated else model, seq_length
    ).causal


def _unwindowed(model: ModelShape) -> ModelShape:
    """The model as Megatron-LM before core 0.19 and Bridge before 0.6 count it: every
    layer scores all positions.
    """
    return model.model_copy(update={"window": None})


CONVENTIONS: dict[str, Callable[[ModelShape, float], float]] = {
    "full": lambda model, s: flops_per_token(model, s).full,
    "causal": lambda model, s: flops_per_token(model, s).causal,
    # Megatron-DeepSpeed counts the recomputed forward pass: four passes instead of
    # three.
    "full_with_recompute": lambda model, s: flops_per_token(model, s).full * 4 / 3,
    # Megatron-LM core 0.5.
    "megatron_0.5": _megatron_05,
    # The rule of thumb: 6 x active parameters, embeddings among them, scores not.
    "six_n": lambda model, s: 6.0 * model.params_active,
    # PaLM, appendix B: 6N + 12 L H Q T.
    "palm": lambda model, s: 6.0 * model.params_active + PASSES * attention_scores(model, s),
    "causal_no_logits": lambda model, s: flops_per_token(model, s).causal - PASSES * logits(model),
    # Adapters alone are trained; Megatron-Bridge reports most LoRA runs as `causal` all
    # the same.
    "lora_full": lambda model, s: flops_per_token(model, s, task="lora").full,
    "lora_causal": lambda model, s: flops_per_token(model, s, task="lora").causal,
}
"""Name -> FLOPs per token of a model at a sequence length (see `flops_per_token`); the
usual ones first.
"""
PRINTED: dict[str, Callable[[ModelShape, float], float]] = {
    "full_with_recomputed_scores": lambda model, s: (
        CONVENTIONS["full"](model, s) + attention_scores(model, s)
    ),
    "megatron_deepspeed": _megatron_deepspeed,
    "megatron_deepspeed_with_recompute": lambda model, s: _megatron_deepspeed(model, s) * 4 / 3,
    "megatron_deepspeed_grouped": _megatron_deepspeed_grouped,
    "megatron_deepspeed_grouped_with_recompute": lambda model, s: (
        _megatron_deepspeed_grouped(model, s) * 4 / 3
    ),
    "causal_ungated": _causal_ungated,
    "causal_unwindowed": lambda model, s: CONVENTIONS["causal"](_unwindowed(model), s),
    "causal_ungated_unwindowed": lambda model, s: _causal_ungated(_unwindowed(model), s),
}
"""Conventions that a dialect names besides."""


def identify(
    tflops_per_gpu: float | None,
    tokens_per_s_per_gpu: float | None,
    model: ModelShape | None,
    seq_length: float | None,
    conventions: Iterable[str] = tuple(CONVENTIONS),
    *,
    tolerance: float = TOLERANCE,
) -> str | None:
    """The convention that turns the tokens/s into the TFLOPS; None if one is missing,
    or none fits.

    It is the nearest one, or an earlier one within ``tolerance`` of it: the report
    cannot tell them apart.
    """
    if not (tflops_per_gpu and tokens_per_s_per_gpu and model and seq_length):
        return None
    implied = tflops_per_gpu * 1e12 / tokens_per_s_per_gpu
    counts = {name: (CONVENTIONS | PRINTED)[name](model, seq_length) for name in conventions}
    fitting = {}
    for name, count in counts.items():
        if abs(implied / count - 1) <= tolerance:
            fitting[name] = count
    nearest = min(fitting.values(), key=lambda count: abs(implied / count - 1), default=None)
    return next(
        (
            name
            for name, count in fitting.items()
            if nearest and abs(count / nearest - 1) <= tolerance
        ),
        None,
    )
