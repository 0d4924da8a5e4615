"""Memory of a fine-tune by transformers: FSDP over all ranks, trained weights in FP32, the whole output layer.

Compared with peaks that were measured on H200 in tests/recipe/test_hf.py.
"""

from __future__ import annotations

from benchrun.memory import activations
from benchrun.model.adapters import TRANSFORMERS, adapted
from benchrun.model.adapters import adapter_params as layer_adapters
from benchrun.model.operators import operators
from benchrun.spec.runspec import TrainingSpec


def parts(spec: TrainingSpec) -> dict[str, float]:
    """Bytes per GPU by part: its share of everything, and what FSDP has gathered for the layer that computes."""
    listed, total, lora = operators(spec.model), spec.model.params_total, spec.task == "lora"
    trained, frozen = (adapter_params(spec), total) if lora else (total, 0)
    narrow, tokens = 4 if spec.precision == "fp32" else 2, spec.mbs * spec.seq_length
    layer, eager = sum(product.weights for product in listed.block), _eager_bytes(spec)
    # transformers stores logits as computed, in FP32 and as a gradient in FP32; it frees them before it recomputes.
    logits = float(tokens * spec.model.vocab_size * (narrow + 8))
    if spec.training.recompute.granularity == "full":
        logits = max(logits - tokens * (activations.layer(spec) + eager), 0.0)
    return {
        "weights": (frozen * narrow + trained * 4) / spec.num_gpus,
        # Two layers (one computes, the next arrives), and the output layer from its forward to its backward pass.
        "gathered": (2 * layer + listed.product("logits").weights) * narrow,
        "gradients": trained * 4 / spec.num_gpus + (0 if frozen else layer * narrow),
        "optimizer": trained * 8 / spec.num_gpus,
        "activations": activations.stored(spec, first=True, extra=eager),
        "logits": logits,
    }


def adapter_params(spec: TrainingSpec) -> int:
    """Parameters of all adapters of the model."""
    lora = spec.training.lora
    return spec.model.num_layers * int(layer_adapters(spec.model, TRANSFORMERS, lora.target_modules, lora.rank))


def _eager_bytes(spec: TrainingSpec) -> float:
    """Extra bytes per token and layer that transformers stores, as it has no fused kernels."""
    lora, (queries, keys, _) = spec.training.lora, operators(spec.model).product("qkv").outputs
    extra = 2 * 4 * spec.model.hidden_size + 2 * (queries + keys)  # both norms compute in FP32; what RoPE rotates
    if spec.task == "lora" and lora.dropout:
        # Each adapter stores its own dropped copy and a mask; the frozen layer stores nothing of its input.
        extra += 3 * sum(inputs for inputs, _ in adapted(spec.model, TRANSFORMERS, lora.target_modules))
        extra -= 2 * (2 * spec.model.hidden_size + spec.model.ffn_hidden_size)
    return extra
