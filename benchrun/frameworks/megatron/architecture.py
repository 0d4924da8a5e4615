"""The part of the Megatron configuration that is the model: layers, attention, experts."""

from typing import Any

from benchrun.model import VOCAB_MULTIPLE, ModelShape
from benchrun.model.layers import has_experts
from benchrun.runspec.megatron import Values
from benchrun.runspec.spec import TrainingSpec

WORKER = "megatron-core"
HYBRIDEP_PROCESSORS = 32
"""Processors of a GPU that HybridEP's kernels take, in Megatron-Bridge's own
configurations.
"""
ACTIVATIONS = {"swiglu": "silu", "geglu": "gelu", "gelu": "gelu", "squared-relu": "squared_relu"}
ACTIVATIONS |= {"clamped-swiglu": "quick_gelu"}
YARN_POSITIONS = 4096
"""megatron-core's own length before YaRN."""


def fields_of(source: object, *names: str, prefix: str = "") -> dict[str, Any]:
    """The fields that megatron-core calls the same, apart from a prefix."""
    return {prefix + name: getattr(source, name) for name in names}


def without_none(**values: Any) -> Values:
    """The values except None, which stands for megatron-core's default."""
    return {name: value for name, value in values.items() if value is not None}


def transformer(spec: TrainingSpec) -> Values:
    """Dimensions and kinds of the layers."""
    model = spec.model
    return Values(
        **fields_of(model, "num_layers", "hidden_size", "ffn_hidden_size"),
        **fields_of(model, "num_attention_heads", "num_query_groups", "kv_channels"),
        activation_func=ACTIVATIONS[model.activation],
        gated_linear_unit=model.gated,
        add_bias_linear=model.bias,
        normalization=model.normalization.removesuffix("1p"),
        layernorm_zero_centered_gamma=model.normalization == "LayerNorm1p",
        **fields_of(model, "layernorm_epsilon", "init_method_std"),
        attention_dropout=0.0,
        hidden_dropout=0.0,
        # gpt-oss: gate and up-projection are limited, and the latter has one added.
        **(Values(activation_func_clamp_value=7.0, glu_linear_offset=1.0) if model.clamped else {}),
    )


def gpt(spec: TrainingSpec) -> Values:
    """The worker pads the vocabulary alike in every layout, so that layouts stay
    comparable; Megatron-LM by tp too.
    """
    model = spec.model
    multiple = VOCAB_MULTIPLE * (1 if spec.framework == WORKER else spec.layout.tp)
    return Values(
        seq_length=spec.seq_length,
        vocab_size=-(-model.vocab_size // multiple) * multiple,
        make_vocab_size_divisible_by=VOCAB_MULTIPLE,
        position_embedding_type="learned_absolute"
        if model.position_embedding == "learned"
        else model.position_embedding,
        **fields_of(model, "rotary_base", "rotary_percent"),
        share_embeddings_and_output_weights=model.tied_embeddings,
    ) | _lengthened(spec)


def _lengthened(spec: TrainingSpec) -> Values:
    """How rotary positions were lengthened; latent attention has arguments of its own
    for it.
    """
    scaling = spec.model.rope_scaling
    if scaling is None or spec.model.mla:
        return Values()
    if scaling.kind == "llama3":
        return Values(rope_scaling=True, rope_scaling_factor=scaling.factor)
    return Values(
        position_embedding_type="yarn",
        yarn_rotary_scaling_factor=scaling.factor,
        yarn_original_max_position_embeddings=scaling.original_positions,
        yarn_beta_fast=32.0,
        yarn_beta_slow=1.0,
        yarn_correction_range_round_to_int=False,
        yarn_mscale=None,
        yarn_mscale_all_dim=None,
    )


def attention(spec: TrainingSpec) -> Values:
    """Values that only some models have; nothing is stated for the others."""
    model, mla, window = spec.model, spec.model.mla, spec.model.window
    stated = without_none(
        add_qkv_bias=model.qkv_bias or None,
        qk_layernorm=True if mla or model.qk_norm == "weighted" else None,
        qk_l2_norm=True if model.qk_norm == "l2" else None,
        softmax_type="learnable" if model.attention_sinks else None,
        window_size=window and [window.size - 1, 0],
        window_attn_skip_freq=window and window.full_every,
        no_rope_freq=model.no_rope_every,
        mtp_num_layers=model.mtp_layers or None,
        mtp_loss_scaling_factor=0.1 if model.mtp_layers else None,
    )
    if mla is None:
        return stated
    # YaRN by a factor of 1 is plain RoPE; not every release has a name for that.
    scaling = model.rope_scaling
    original = scaling.original_positions if scaling else YARN_POSITIONS
    return stated | without_none(
        multi_latent_attention=True,
        **fields_of(
            mla, "q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"
        ),
        rotary_scaling_factor=scaling.factor if scaling else 1.0,
        original_max_position_embeddings=original if original != YARN_POSITIONS else None,
        mscale=1.0,
        mscale_all_dim=1.0,
    )


def mamba(spec: TrainingSpec) -> Values:
    """The pattern of the layers, then that of each multi-token prediction, which all
    have the same weights.
    """
    model, mamba = spec.model, spec.model.mamba
    assert mamba is not None
    repeated = without_none(mtp_use_repeated_layer=True if model.mtp_layers else None)
    return repeated | Values(
        hybrid_layer_pattern="/".join(
            [mamba.pattern[: model.num_layers], *[mamba.mtp_pattern] * model.mtp_layers]
        ),
        is_hybrid_model=True,
        **fields_of(mamba, "num_heads", "head_dim", "state_dim", "num_groups", prefix="mamba_"),
    )


def experts(spec: TrainingSpec) -> Values:
    """NeMo 1's own Mixtral has neither kernel: megatron-core 0.7 groups no experts in
    FP8.
    """
    moe, training = spec.model.moe, spec.training
    assert moe is not None
    kernels = spec.transformer_engine and spec.framework != "nemo1"
    return Values(
        num_moe_experts=moe.num_experts,
        moe_router_topk=moe.topk,
        **fields_of(moe, "ffn_hidden_size", "aux_loss_coeff", prefix="moe_"),
        moe_router_load_balancing_type=moe.balance,
        moe_router_force_load_balancing=moe.force_balance,
        moe_expert_capacity_factor=moe.capacity_factor,
        moe_pad_expert_input_to_capacity=moe.capacity_factor is not None,
        moe_token_dispatcher_type="alltoall" if training.moe_dispatcher == "alltoall" else "flex",
        moe_grouped_gemm=kernels and training.moe_grouped_gemm,
        moe_permute_fusion=kernels and training.moe_permute_fusion,
    ) | without_none(
        moe_flex_dispatcher_backend=training.moe_dispatcher
        if training.moe_dispatcher != "alltoall"
        else None,
        moe_hybridep_num_sms=HYBRIDEP_PROCESSORS if training.moe_dispatcher == "hybridep" else None,
        moe_layer_freq=_with_experts(spec.model),
        moe_shared_expert_intermediate_size=moe.shared_ffn_hidden_size,
        # On streams of its own beside the exchange of tokens; those are of CUDA.
        moe_shared_expert_overlap=_overlaps_shared_experts(spec)
        if moe.shared_ffn_hidden_size
        else None,
        moe_latent_size=moe.latent_size,
        moe_router_score_function="sigmoid" if moe.sigmoid else None,
        moe_router_dtype="fp32" if moe.sigmoid else None,  # as each of these models was trained
        moe_router_enable_expert_bias=moe.expert_bias or None,
        moe_router_num_groups=moe.num_groups,
        moe_router_group_topk=moe.topk_groups,
        moe_router_topk_scaling_factor=moe.scaling_factor,
        moe_apply_probs_on_input=moe.probs_on_input or None,
    )


def _overlaps_shared_experts(spec: TrainingSpec) -> bool:
    alone = spec.training.moe_dispatcher == "alltoall" and not spec.training.moe_overlap
    return spec.gpu != "CPU" and alone and "shared_experts" not in spec.training.recompute.modules


def _with_experts(model: ModelShape) -> list[int] | None:
    """1 for each layer with experts, 0 for the others; None if all have some, and in a
    hybrid, by its pattern.
    """
    layers = [int(has_experts(model, layer)) for layer in range(model.num_layers)]
    if model.mamba or all(layers):
        return None
    return layers
