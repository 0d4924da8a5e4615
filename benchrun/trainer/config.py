"""RunSpec -> megatron.core's TransformerConfig, and what of it this process cannot have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from megatron.core.activations import squared_relu
from megatron.core.extensions.transformer_engine import HAVE_TE, fused_topk_with_score_function
from megatron.core.transformer import TransformerConfig

from benchrun.errors import UserError
from benchrun.spec.runspec import RunSpec
from benchrun.trainer import ranks


def refuse_impossible(spec: RunSpec) -> None:
    """What this process lacks. megatron.core takes fp8 without transformer-engine and trains in BF16, silently."""
    ranks.refuse_without_gpu(spec)
    if spec.transformer_engine:
        if not HAVE_TE:
            raise UserError(
                "training.transformer_impl is transformer_engine, and this process cannot import it",
                hint="use an image that has it, or transformer_impl=local, whose speed says little of a GPU",
            )
        known = {field.name for field in fields(TransformerConfig)}
        if spec.training.cuda_graphs != "none" and "cuda_graph_modules" not in known:
            raise UserError(
                "cuda_graphs need megatron-core 0.19 or later", hint="take such an image, or cuda_graphs=none"
            )
        return
    if spec.precision == "fp8":
        raise UserError(
            "precision fp8 needs a GPU and transformer-engine: without them it would silently be BF16",
            hint="use an image with it and transformer_impl=transformer_engine, or --precision bf16",
        )
    if asked := spec.training.of_transformer_engine:
        raise UserError(
            f"training.{asked[0]} needs a GPU and transformer-engine", hint="leave transformer_impl transformer_engine"
        )


def transformer_config(spec: RunSpec) -> TransformerConfig:
    """The configuration of megatron.core for ``spec``."""
    model, layout, training = spec.model, spec.layout, spec.training
    gpu, te = spec.gpu != "CPU", spec.transformer_engine
    fused = te and training.fused_kernels
    dtype = torch.float32 if spec.precision == "fp32" else torch.bfloat16
    recompute = training.recompute
    values: dict[str, Any] = {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "ffn_hidden_size": model.ffn_hidden_size,
        "num_attention_heads": model.num_attention_heads,
        "num_query_groups": model.num_query_groups,
        "kv_channels": model.kv_channels,
        "normalization": "RMSNorm" if model.normalization == "RMSNorm" else "LayerNorm",
        "layernorm_zero_centered_gamma": model.normalization == "LayerNorm1p",
        "gated_linear_unit": model.gated,
        "activation_func": _ACTIVATIONS[model.activation],
        "add_bias_linear": model.bias,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "tensor_model_parallel_size": layout.tp,
        "sequence_parallel": layout.sequence_parallel,
        "pipeline_model_parallel_size": layout.pp,
        "virtual_pipeline_model_parallel_size": layout.vp if layout.vp > 1 else None,
        "account_for_embedding_in_pipeline_split": layout.account_for_embedding_and_loss,
        "account_for_loss_in_pipeline_split": layout.account_for_embedding_and_loss,
        "context_parallel_size": layout.cp,
        "expert_model_parallel_size": layout.ep,
        "expert_tensor_parallel_size": layout.etp,
        "params_dtype": dtype,
        "pipeline_dtype": dtype,
        "bf16": spec.precision != "fp32",
        "transformer_impl": "transformer_engine" if te else "local",
        "use_cpu_initialization": not gpu,
        "recompute_granularity": None if recompute.granularity == "none" else recompute.granularity,
        "recompute_method": recompute.method,
        "recompute_num_layers": recompute.num_layers,
        "recompute_modules": list(recompute.modules) or None,
        # Interleaved stages send while they compute; then one message at a time, each with its own handle.
        "overlap_p2p_comm": gpu and layout.vp > 1,
        "batch_p2p_comm": gpu and layout.vp == 1,
        "batch_p2p_sync": gpu,
        "deallocate_pipeline_outputs": gpu and layout.pp > 1,
        "tp_comm_overlap": te and training.tp_comm_overlap,
        "masked_softmax_fusion": False,
        "gradient_accumulation_fusion": te,
        "bias_activation_fusion": fused and spec.bias_activation_fusion,
        "bias_dropout_fusion": fused,
        "apply_rope_fusion": fused and model.position_embedding == "rope",
        "persist_layer_norm": te,
        "cross_entropy_loss_fusion": fused,
        "cross_entropy_fusion_impl": "te" if fused else "native",
    }
    if layout.cp > 1:
        values["cp_comm_type"] = training.cp_comm
    values |= _moe_values(spec) | _fp8_values(spec) | _graph_values(spec)
    return TransformerConfig(**values)


def _moe_values(spec: RunSpec) -> dict[str, Any]:
    moe, training, te = spec.model.moe, spec.training, spec.transformer_engine
    if moe is None:
        return {}
    return {
        "num_moe_experts": moe.num_experts,
        "moe_router_topk": moe.topk,
        "moe_ffn_hidden_size": moe.ffn_hidden_size,
        "moe_router_load_balancing_type": "aux_loss",
        "moe_aux_loss_coeff": moe.aux_loss_coeff,
        "moe_expert_capacity_factor": moe.capacity_factor,
        "moe_pad_expert_input_to_capacity": moe.capacity_factor is not None,
        "moe_router_force_load_balancing": moe.force_balance,
        "moe_token_dispatcher_type": "alltoall",
        "moe_grouped_gemm": te and training.moe_grouped_gemm,
        "moe_permute_fusion": te and training.moe_permute_fusion,
        "moe_router_fusion": te and training.fused_kernels and fused_topk_with_score_function is not None,
    }


def _fp8_values(spec: RunSpec) -> dict[str, Any]:
    if spec.precision != "fp8":
        return {}
    fp8 = spec.training.fp8
    return {
        "fp8": fp8.format,
        "fp8_recipe": fp8.recipe,
        "fp8_amax_history_len": fp8.amax_history_len,
        "fp8_amax_compute_algo": fp8.amax_compute_algo,
        "fp8_param": fp8.param_gather,
        "fp8_dot_product_attention": fp8.dot_product_attention,
        "activation_func_fp8_input_store": fp8.store_activation_input,
        "tp_only_amax_red": fp8.tp_only_amax_reduction,
    }


def _graph_values(spec: RunSpec) -> dict[str, Any]:
    """One graph a layer, captured by megatron.core after the first step. An expert's tokens vary: no graph there."""
    if spec.training.cuda_graphs == "none":
        return {}
    modules = ["attn"] if spec.model.moe else []
    return {"cuda_graph_impl": "local", "cuda_graph_modules": modules, "use_te_rng_tracker": True}


_ACTIVATIONS = {
    "swiglu": torch.nn.functional.silu,
    "geglu": torch.nn.functional.gelu,
    "gelu": torch.nn.functional.gelu,
    "squared-relu": squared_relu,
}
