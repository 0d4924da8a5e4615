"""The configuration of a DeepSeek-V3: enough for a server that makes random weights
itself."""

from typing import Any

from benchrun.model.shape import ModelShape
from benchrun.runspec.inference import InferenceSpec


def deepseek_config(spec: InferenceSpec) -> Any:
    """transformers' configuration of the model, in FP8 with DeepSeek's scales of 128 x
    128 weights."""
    from transformers import DeepseekV3Config

    model = spec.model
    moe = model.moe
    mla = model.mla
    assert moe is not None and mla is not None
    config = DeepseekV3Config(
        architectures=["DeepseekV3ForCausalLM"],
        vocab_size=model.vocab_size,
        hidden_size=model.hidden_size,
        intermediate_size=model.ffn_hidden_size,
        num_hidden_layers=model.num_layers,
        num_attention_heads=model.num_attention_heads,
        num_key_value_heads=model.num_attention_heads,
        max_position_embeddings=model.max_position_embeddings,
        rope_parameters=_positions(model),
        q_lora_rank=mla.q_lora_rank,
        kv_lora_rank=mla.kv_lora_rank,
        qk_nope_head_dim=mla.qk_head_dim,
        qk_rope_head_dim=mla.qk_pos_emb_head_dim,
        v_head_dim=mla.v_head_dim,
        n_routed_experts=moe.num_experts,
        num_experts_per_tok=moe.topk,
        moe_intermediate_size=moe.ffn_hidden_size,
        n_shared_experts=(moe.shared_ffn_hidden_size or 0) // moe.ffn_hidden_size,
        first_k_dense_replace=moe.leading_dense_layers,
        n_group=moe.num_groups or 1,
        topk_group=moe.topk_groups or 1,
        routed_scaling_factor=moe.scaling_factor,
        bos_token_id=None,
        eos_token_id=None,
        dtype="bfloat16",
    )
    config.topk_method, config.scoring_func = "noaux_tc", "sigmoid"
    config.num_nextn_predict_layers = 0
    if spec.precision == "fp8":
        scales = {"activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [128, 128]}
        config.quantization_config = {"quant_method": "fp8", **scales}
    return config


def _positions(model: ModelShape) -> dict[str, Any]:
    """Positions of the model: RoPE, which YaRN scales if the model states it."""
    positions = {"rope_type": "default", "rope_theta": float(model.rotary_base)}
    if (rope := model.rope_scaling) is not None:
        positions |= {
            "rope_type": "yarn",
            "factor": rope.factor,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        }
        positions["original_max_position_embeddings"] = rope.original_positions
    return positions
