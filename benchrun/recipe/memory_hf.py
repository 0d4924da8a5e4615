"""Memory of the Hugging Face fine-tune: FSDP over all ranks, what is trained in FP32, the output layer whole.

Held to peaks that were measured on H200 in tests/recipe/test_hf.py.
"""

from __future__ import annotations

from benchrun.model import ModelShape
from benchrun.recipe import activations
from benchrun.spec.runspec import RunSpec


def fully_sharded(spec: RunSpec) -> dict[str, float]:
    """Bytes a GPU by part: its share of everything, and what is gathered for the computation just now."""
    model, wide = spec.model, spec.precision == "fp32"
    total = model.params_total
    trained = adapter_params(spec) if spec.task == "lora" else total
    frozen = total if spec.task == "lora" else 0
    narrow = 4 if wide else 2
    layer = model.attention_params + model.mlp_params
    # Two layers (one computes, the next arrives), and the output layer from its forward to its backward pass.
    gathered = 2 * layer + model.vocab_size * model.hidden_size
    return {
        "weights": (frozen * narrow + trained * 4) / spec.num_gpus,
        "gathered": gathered * narrow,
        "gradients": trained * 4 / spec.num_gpus + (0 if frozen else layer * narrow),
        "optimizer": trained * 8 / spec.num_gpus,
        "activations": activations.kept(spec, first=True, more=_eager_bytes(spec)),
        "logits": _logits(spec, narrow),
        "placeholders": 0,
        "step": 0,
    }


def adapter_params(spec: RunSpec) -> int:
    """Parameters of LoRA's adapters: rank x (inputs + outputs) of each layer that has one."""
    lora, widths = spec.training.lora, _linears(spec.model)
    return spec.model.num_layers * lora.rank * sum(sum(widths[name]) for name in lora.target_modules or widths)


def _linears(model: ModelShape) -> dict[str, tuple[int, int]]:
    """Inputs and outputs of a Llama's linear layers, as transformers names them."""
    query, key = model.num_attention_heads * model.kv_channels, model.num_query_groups * model.kv_channels
    hidden, inner = model.hidden_size, model.ffn_hidden_size
    return {
        "q_proj": (hidden, query),
        "k_proj": (hidden, key),
        "v_proj": (hidden, key),
        "o_proj": (query, hidden),
        "gate_proj": (hidden, inner),
        "up_proj": (hidden, inner),
        "down_proj": (inner, hidden),
    }


def _logits(spec: RunSpec, narrow: int) -> float:
    """transformers keeps them as computed, in FP32 and as a gradient in FP32; gone when a layer is recomputed."""
    tokens = spec.mbs * spec.seq_length
    logits = float(tokens * spec.model.vocab_size * (narrow + 8))
    if spec.training.recompute.granularity != "full":
        return logits
    return max(logits - tokens * (activations.layer(spec) + _eager_bytes(spec)), 0.0)


def _eager_bytes(spec: RunSpec) -> float:
    """Bytes a token and layer that transformers keeps on top, having no fused kernels."""
    model, lora = spec.model, spec.training.lora
    rotated = 2 * (model.num_attention_heads + model.num_query_groups) * model.kv_channels
    extra = 2 * 4 * model.hidden_size + rotated  # both norms compute in FP32
    if spec.task == "lora" and lora.dropout:
        # Each adapter keeps its own dropped copy and a mask; the frozen layer keeps nothing of its input.
        widths = _linears(model)
        extra += 3 * sum(widths[name][0] for name in lora.target_modules or widths)
        extra -= 2 * (2 * model.hidden_size + model.ffn_hidden_size)
    return extra
