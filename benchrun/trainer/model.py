"""RunSpec -> this rank's part of the model, wrapped for data parallelism."""

from __future__ import annotations

from typing import Any

from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module

from benchrun.spec.runspec import RunSpec
from benchrun.trainer import weights
from benchrun.trainer.config import configuration
from benchrun.trainer.layers import Attention, Norm


def build_model(spec: RunSpec, config: TransformerConfig) -> list[Any]:
    """This rank's model: one chunk, or one a virtual pipeline stage, each wrapped for data parallelism."""
    chunks = [_chunk(spec, config, stage) for stage in range(spec.layout.vp)]
    if weights.layout_independent(spec):
        weights.initialise(spec, chunks)
    if spec.gpu != "CPU":
        chunks = [chunk.cuda() for chunk in chunks]
    if spec.precision != "fp32":
        chunks = [Float16Module(config, chunk) for chunk in chunks]
    ddp = DistributedDataParallelConfig(**configuration(spec).ddp.values)
    # Only the first chunk's backward ends the step: bucketing the others would delay their communication.
    return [
        DistributedDataParallel(config, ddp, chunk, disable_bucketing=position > 0)
        for position, chunk in enumerate(chunks)
    ]


def _chunk(spec: RunSpec, config: TransformerConfig, stage: int) -> GPTModel:
    vp_stage = stage if spec.layout.vp > 1 else None
    pre = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=vp_stage)
    post = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=vp_stage)
    gpt = configuration(spec).gpt
    return GPTModel(
        config=config,
        transformer_layer_spec=_layer_spec(spec, config, vp_stage),
        vocab_size=gpt.vocab_size,
        max_sequence_length=spec.model.max_position_embeddings,
        pre_process=pre,
        post_process=post,
        parallel_output=True,
        share_embeddings_and_output_weights=gpt.share_embeddings_and_output_weights,
        position_embedding_type=gpt.position_embedding_type,
        rotary_percent=gpt.rotary_percent,
        rotary_base=gpt.rotary_base,
        vp_stage=vp_stage,
    )


def _layer_spec(spec: RunSpec, config: TransformerConfig, vp_stage: int | None) -> Any:
    """transformer-engine's layers, or megatron.core's own with our norm and attention."""
    if spec.transformer_engine:
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
