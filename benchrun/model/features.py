"""Features of a model beyond a plain Llama or Mixtral: frameworks name those that they
can train."""

from .shape import ModelShape

FEATURES: dict[str, str] = {
    "qk_norm": "norms of queries and keys (qk_norm weighted)",
    "qk_l2_norm": "norms of queries and keys without weights (qk_norm l2)",
    "qkv_bias": "biases of queries, keys and values alone (qkv_bias)",
    "sinks": "attention sinks (attention_sinks)",
    "window": "sliding windows (window)",
    "no_rope": "layers without rotary positions (no_rope_every)",
    "llama3_rope": "rotary positions lengthened as in Llama 3.1 (rope_scaling llama3)",
    "yarn": "rotary positions lengthened by YaRN (rope_scaling yarn)",
    "mla": "multi-head latent attention (mla)",
    "mtp": "multi-token prediction (mtp_layers)",
    "mamba": "Mamba-2 layers (mamba)",
    "clamped": "the activation of gpt-oss (activation clamped-swiglu)",
    "expert_biases": "experts with biases (bias with moe)",
    "dense_layers": "layers without experts among those with (moe.leading_dense_layers, moe.every)",
    "shared_experts": "shared experts (moe.shared_ffn_hidden_size)",
    "latent_experts": "experts in a latent space (moe.latent_size)",
    "sigmoid": "a router with a sigmoid (moe.sigmoid)",
    "sinkhorn": "tokens assigned by Sinkhorn's algorithm (moe.balance sinkhorn)",
    "router": "a router with groups of experts, a bias, a factor or another loss (moe.num_groups, expert_bias, "
    "scaling_factor, balance, probs_on_input)",
}
"""Name -> the feature in words, with the fields that state it."""
TRANSFORMER = frozenset(FEATURES) - {"mamba", "latent_experts"}
"""Every feature of a transformer."""


def features(model: ModelShape) -> list[str]:
    """The names of the features that ``model`` has, in the order of `FEATURES`."""
    moe = model.moe
    scaling = model.rope_scaling
    present = {
        "qk_norm": model.qk_norm == "weighted",
        "qk_l2_norm": model.qk_norm == "l2",
        "qkv_bias": model.qkv_bias,
        "sinks": model.attention_sinks,
        "window": model.window is not None,
        "no_rope": model.no_rope_every is not None,
        "llama3_rope": scaling is not None and scaling.kind == "llama3",
        "yarn": scaling is not None and scaling.kind == "yarn" and model.mla is None,
        "mla": model.mla is not None,
        "mtp": model.mtp_layers > 0,
        "mamba": model.mamba is not None,
        "clamped": model.clamped,
        "expert_biases": moe is not None and model.bias,
    }
    if moe is not None:
        present |= {
            "dense_layers": model.mamba is None
            and (moe.leading_dense_layers > 0 or moe.every is not None),
            "shared_experts": moe.shared_ffn_hidden_size is not None,
            "latent_experts": moe.latent_size is not None,
            "sigmoid": moe.sigmoid,
            "sinkhorn": moe.balance == "sinkhorn",
            "router": moe.expert_bias
            or moe.probs_on_input
            or moe.balance not in ("aux_loss", "sinkhorn")
            or not (moe.num_groups is moe.scaling_factor is None),
        }
    return list(filter(present.get, FEATURES))
