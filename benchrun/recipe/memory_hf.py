"""Memory of the Hugging Face fine-tune: FSDP over all ranks, what is trained in FP32, the output layer whole."""

from __future__ import annotations

from benchrun.recipe import activations
from benchrun.recipe.spec import RunSpec


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
        "activations": activations.kept(spec, first=True),
        # transformers keeps them as computed, in FP32 and as a gradient in FP32.
        "logits": spec.mbs * spec.seq_length * model.vocab_size * (narrow + 8),
    }


def adapter_params(spec: RunSpec) -> int:
    """Parameters of LoRA's adapters: rank x (inputs + outputs) of each layer that has one."""
    model, lora = spec.model, spec.training.lora
    query, key = model.num_attention_heads * model.kv_channels, model.num_query_groups * model.kv_channels
    hidden, inner = model.hidden_size, model.ffn_hidden_size
    widths = {
        "q_proj": hidden + query,
        "k_proj": hidden + key,
        "v_proj": hidden + key,
        "o_proj": query + hidden,
        "gate_proj": hidden + inner,
        "up_proj": hidden + inner,
        "down_proj": inner + hidden,
    }
    return model.num_layers * lora.rank * sum(widths[name] for name in lora.target_modules or widths)
