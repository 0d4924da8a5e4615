"""RunSpec -> megatron.core: the model of this rank, its data parallelism, its optimizer."""

from __future__ import annotations

from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.extensions.transformer_engine import HAVE_TE
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module

from benchrun.errors import UserError
from benchrun.model import ModelShape
from benchrun.recipe.spec import RunSpec
from benchrun.trainer import weights
from benchrun.trainer.layers import Attention, Norm

VOCAB_MULTIPLE = 128
"""The vocabulary is padded to this, as Megatron-LM does; not to a multiple of tp, so that layouts stay comparable."""


def has_transformer_engine() -> bool:
    """Whether layers can come from transformer-engine: megatron.core could import it, and there is a GPU."""
    return torch.cuda.is_available() and bool(HAVE_TE)


def refuse_impossible(spec: RunSpec) -> None:
    """megatron.core takes fp8 without transformer-engine and trains in BF16 without a word: refuse it here."""
    if spec.gpu != "CPU" and not torch.cuda.is_available():
        raise UserError(f"the run is for {spec.gpu}, and this node has no usable GPU")
    if spec.precision == "fp8" and not has_transformer_engine():
        raise UserError(
            "precision fp8 needs a GPU and transformer-engine: without them it would silently be BF16",
            hint="use an image with transformer-engine, or --precision bf16",
        )


def transformer_config(spec: RunSpec) -> TransformerConfig:
    """The configuration of megatron.core for ``spec``."""
    model, layout, training = spec.model, spec.layout, spec.training
    gpu, te = spec.gpu != "CPU", has_transformer_engine()
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
        "use_cpu_initialization": not gpu,
        "recompute_granularity": None if recompute.granularity == "none" else recompute.granularity,
        "recompute_method": recompute.method,
        "recompute_num_layers": recompute.num_layers,
        "batch_p2p_comm": gpu,
        "batch_p2p_sync": gpu,
        "overlap_p2p_comm": False,
        "masked_softmax_fusion": False,
        "gradient_accumulation_fusion": False,
        "bias_activation_fusion": te and _fusible(model),
        "bias_dropout_fusion": te,
        "apply_rope_fusion": te and model.position_embedding == "rope",
        "persist_layer_norm": te,
        "cross_entropy_loss_fusion": te,
        "cross_entropy_fusion_impl": "te" if te else "native",
    }
    values |= _moe_values(spec, te) | _fp8_values(spec)
    return TransformerConfig(**values)


def _fusible(model: ModelShape) -> bool:
    """Whether megatron.core has one kernel for bias and activation: it raises where it has none."""
    if model.moe:
        return model.activation == "swiglu"
    return model.gated or (model.activation == "gelu" and model.bias)


def _moe_values(spec: RunSpec, te: bool) -> dict[str, Any]:
    moe = spec.model.moe
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
        "moe_grouped_gemm": te,
        "moe_permute_fusion": te,
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
    }


def _squared_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.pow(torch.nn.functional.relu(x), 2)


_ACTIVATIONS = {
    "swiglu": torch.nn.functional.silu,
    "geglu": torch.nn.functional.gelu,
    "gelu": torch.nn.functional.gelu,
    "squared-relu": _squared_relu,
}


def build_model(spec: RunSpec, config: TransformerConfig) -> list[Any]:
    """This rank's model: one chunk, or one a virtual pipeline stage, each wrapped for data parallelism."""
    chunks = [_chunk(spec, config, stage) for stage in range(spec.layout.vp)]
    if weights.layout_independent(spec):
        weights.initialise(spec, chunks)
    if spec.gpu != "CPU":
        chunks = [chunk.cuda() for chunk in chunks]
    if spec.precision != "fp32":
        chunks = [Float16Module(config, chunk) for chunk in chunks]
    training = spec.training
    ddp = DistributedDataParallelConfig(
        grad_reduce_in_fp32=training.grad_reduce_in_fp32,
        overlap_grad_reduce=training.overlap_grad_reduce,
        overlap_param_gather=training.overlap_param_gather,
        use_distributed_optimizer=training.distributed_optimizer,
        fp8_param_gather=spec.precision == "fp8" and training.fp8.param_gather,
    )
    # Only the first chunk's backward ends the step: bucketing the others would delay their communication.
    return [
        DistributedDataParallel(config, ddp, chunk, disable_bucketing=position > 0)
        for position, chunk in enumerate(chunks)
    ]


def _chunk(spec: RunSpec, config: TransformerConfig, stage: int) -> GPTModel:
    vp_stage = stage if spec.layout.vp > 1 else None
    pre = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=vp_stage)
    post = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=vp_stage)
    model = spec.model
    return GPTModel(
        config=config,
        transformer_layer_spec=_layer_spec(spec, config, vp_stage),
        vocab_size=-(-model.vocab_size // VOCAB_MULTIPLE) * VOCAB_MULTIPLE,
        max_sequence_length=model.max_position_embeddings,
        pre_process=pre,
        post_process=post,
        parallel_output=True,
        share_embeddings_and_output_weights=model.tied_embeddings,
        position_embedding_type="rope" if model.position_embedding == "rope" else "learned_absolute",
        rotary_percent=model.rotary_percent,
        rotary_base=model.rotary_base,
        vp_stage=vp_stage,
    )


def _layer_spec(spec: RunSpec, config: TransformerConfig, vp_stage: int | None) -> Any:
    """transformer-engine's layers where it is there; else megatron.core's own, with our norm and attention."""
    if has_transformer_engine():
        return get_gpt_decoder_block_spec(config, use_transformer_engine=True, vp_stage=vp_stage)
    normalization = "RMSNorm" if spec.model.normalization == "RMSNorm" else None
    block = get_gpt_decoder_block_spec(
        config, use_transformer_engine=False, normalization=normalization, vp_stage=vp_stage
    )
    block.layer_norm = Norm
    for layer in block.layer_specs:
        layer.submodules.input_layernorm = Norm
        layer.submodules.pre_mlp_layernorm = Norm
        layer.submodules.self_attention.submodules.core_attention = Attention
    return block


def build_optimizer(spec: RunSpec, model: list[Any]) -> Any:
    """Adam with FP32 states over this rank's parameters."""
    training = spec.training
    config = OptimizerConfig(
        optimizer="adam",
        lr=training.lr,
        min_lr=training.min_lr,
        weight_decay=training.weight_decay,
        adam_beta1=0.9,
        adam_beta2=0.95,
        clip_grad=training.clip_grad,
        bf16=spec.precision != "fp32",
        params_dtype=torch.float32 if spec.precision == "fp32" else torch.bfloat16,
        use_distributed_optimizer=training.distributed_optimizer,
        overlap_param_gather=training.overlap_param_gather,
    )
    return get_megatron_optimizer(config, model, use_gloo_process_groups=False)
