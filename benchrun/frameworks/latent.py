"""DeepSeek's model: names that MaxText and torchtitan give to its parts -> those of
Megatron-core.
"""

from collections.abc import Mapping

LATENT = {
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "qk_nope_head_dim": "qk_head_dim",
    "qk_rope_head_dim": "qk_pos_emb_head_dim",
    "v_head_dim": "v_head_dim",
}
"""Sizes of latent attention."""


def latent_attention(stated: Mapping[str, str]) -> dict[str, str]:
    """The sizes of latent attention among what a log states."""
    return {name: stated[printed] for printed, name in LATENT.items() if printed in stated}


def experts_beside(shared: int, dense: int, layers: int) -> dict[str, str]:
    """The width of the shared experts, and which layers have experts: the first
    ``dense`` ones have none.
    """
    with_experts = [0] * dense + [1] * max(layers - dense, 0)
    return {
        "moe_shared_expert_intermediate_size": str(shared),
        "moe_layer_freq": str(with_experts),
    }
