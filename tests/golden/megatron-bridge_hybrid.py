# nemotron-3-super: pretrain, nvfp4, megatron-bridge, 64 x GB300
"""Rendered by benchrun. Random weights; no checkpoint, no validation, no profiling."""

import sys

import torch
from megatron.bridge.models.mamba.mamba_provider import MambaModelProvider
from megatron.bridge.peft.lora import LoRA
from megatron.bridge.training import config as bridge
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import MixedPrecisionConfig
from megatron.bridge.training.pretrain import pretrain
from megatron.core.activations import squared_relu
from megatron.core.quantization.quant_config import GlobMatcher, RecipeConfig


def main():
    config = bridge.ConfigContainer(
        model=MambaModelProvider(
            num_layers=88,
            hidden_size=4096,
            ffn_hidden_size=2688,
            num_attention_heads=32,
            num_query_groups=2,
            kv_channels=128,
            activation_func=squared_relu,
            gated_linear_unit=False,
            add_bias_linear=False,
            normalization='RMSNorm',
            layernorm_zero_centered_gamma=False,
            layernorm_epsilon=1e-05,
            init_method_std=0.02,
            attention_dropout=0.0,
            hidden_dropout=0.0,
            seq_length=8192,
            vocab_size=131072,
            make_vocab_size_divisible_by=128,
            position_embedding_type='none',
            rotary_base=10000,
            rotary_percent=1.0,
            share_embeddings_and_output_weights=False,
            mtp_num_layers=2,
            mtp_loss_scaling_factor=0.3,
            mtp_use_repeated_layer=True,
            hybrid_layer_pattern='MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME/*E/*E',
            is_hybrid_model=True,
            mamba_num_heads=128,
            mamba_head_dim=64,
            mamba_state_dim=128,
            mamba_num_groups=8,
            num_moe_experts=512,
            moe_router_topk=22,
            moe_ffn_hidden_size=2688,
            moe_aux_loss_coeff=0.0001,
            moe_router_load_balancing_type='seq_aux_loss',
            moe_router_force_load_balancing=True,
            moe_expert_capacity_factor=None,
            moe_pad_expert_input_to_capacity=False,
            moe_token_dispatcher_type='flex',
            moe_grouped_gemm=True,
            moe_permute_fusion=True,
            moe_flex_dispatcher_backend='hybridep',
            moe_hybridep_num_sms=32,
            moe_shared_expert_intermediate_size=5376,
            moe_shared_expert_overlap=False,
            moe_latent_size=1024,
            moe_router_score_function='sigmoid',
            moe_router_dtype='fp32',
            moe_router_enable_expert_bias=True,
            moe_router_topk_scaling_factor=5.0,
            tensor_model_parallel_size=1,
            pipeline_model_parallel_size=1,
            virtual_pipeline_model_parallel_size=None,
            context_parallel_size=1,
            expert_model_parallel_size=64,
            expert_tensor_parallel_size=1,
            sequence_parallel=False,
            account_for_embedding_in_pipeline_split=False,
            account_for_loss_in_pipeline_split=False,
            bias_activation_fusion=False,
            bias_dropout_fusion=True,
            masked_softmax_fusion=True,
            apply_rope_fusion=False,
            persist_layer_norm=True,
            gradient_accumulation_fusion=True,
            cross_entropy_loss_fusion=True,
            cross_entropy_fusion_impl='te',
            recompute_granularity=None,
            recompute_method=None,
            recompute_num_layers=None,
            init_model_with_meta_device=False,
            cuda_graph_impl='transformer_engine',
            use_te_rng_tracker=True,
            cuda_graph_scope=['attn', 'mamba', 'moe_router', 'moe_preprocess'],
            moe_router_num_groups=1,
            moe_router_group_topk=1,
            keep_mtp_spec_in_bf16=True,
            calculate_per_token_loss=True,
            use_fused_weighted_squared_relu=True,
            moe_router_padding_for_quantization=True,
            num_layers_at_end_in_bf16=14,
            # Layers of another precision: the first pattern that fits.
            quant_recipe=RecipeConfig(
                [
                    GlobMatcher('*.linear_qkv', 'bf16'),
                    GlobMatcher('*.linear_proj', 'bf16'),
                    GlobMatcher('*mlp.fc[12]_latent_proj', 'bf16'),
                    GlobMatcher('mtp.*', 'bf16'),
                    GlobMatcher('*mixer.out_proj', 'mxfp8'),
                ],
                {
                    "bf16": {"transformer_engine_config_type": "TEQuantizationParams", "training_recipe": {}},
                    "mxfp8": {
                        "transformer_engine_config_type": "TEQuantizationParams",
                        "training_recipe": {"fp8_quantization_recipe": "mxfp8"},
                    },
                },
            ),
            pipeline_dtype=torch.bfloat16,
        ),
        mixed_precision=MixedPrecisionConfig(
            bf16=True,
            # Megatron's own BF16: weights in BF16, FP32 copies in the optimizer.
            params_dtype=torch.bfloat16,
            pipeline_dtype=torch.bfloat16,
            grad_reduce_in_fp32=False,
            autocast_enabled=False,
            fp4='e2m1',
            fp4_recipe='nvfp4',
            fp8=None, fp8_recipe=None, fp8_param_gather=False,
            num_layers_at_end_in_bf16=14,
            first_last_layers_bf16=True,
        ),
        train=bridge.TrainingConfig(
            micro_batch_size=1, global_batch_size=512, train_iters=50,
            eval_iters=0, eval_interval=51,
            manual_gc=True, manual_gc_interval=100, manual_gc_eval=False,
        ),
        optimizer=bridge.OptimizerConfig(
            optimizer='adam',
            lr=3e-06,
            min_lr=3e-07,
            weight_decay=0.1,
            adam_eps=1e-08,
            clip_grad=1.0,
            adam_beta1=0.9,
            adam_beta2=0.95,
            bf16=True,
            params_dtype=torch.bfloat16,
            use_distributed_optimizer=True,
            use_precision_aware_optimizer=False,
        ),
        scheduler=bridge.SchedulerConfig(
            lr_decay_style='cosine',
            lr_decay_iters=50,
            lr_warmup_iters=0,
            lr_warmup_init=0.0,
            start_weight_decay=0.1,
            end_weight_decay=0.1,
            weight_decay_incr_style='constant',
        ),
        ddp=bridge.DistributedDataParallelConfig(
            use_distributed_optimizer=True,
            grad_reduce_in_fp32=False,
            overlap_grad_reduce=True,
            overlap_param_gather=True,
            align_param_gather=False,
            fp8_param_gather=False,
            average_in_collective=False,
            data_parallel_sharding_strategy='no_shard',
            use_megatron_fsdp=False,
            check_for_nan_in_grad=False,
        ),
        comm_overlap=None,
        dataset=bridge.GPTDatasetConfig(
            blend=None, split="1,1,1",  # mock tokens
            random_seed=1234, sequence_length=8192,
            reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
            mmap_bin_files=False, num_dataset_builder_threads=1,
            dataloader_type="single", data_sharding=True, num_workers=1,
        ),
        tokenizer=bridge.TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=131072),
        logger=bridge.LoggerConfig(log_interval=1, timing_log_level=0),  # a line for every step
        checkpoint=bridge.CheckpointConfig(save=None, load=None),
        dist=bridge.DistributedInitConfig(
            distributed_timeout_minutes=30,
            use_megatron_fsdp=False,
        ),
        rng=bridge.RNGConfig(seed=1234, te_rng_tracker=True),
        rerun_state_machine=bridge.RerunStateMachineConfig(rerun_mode="disabled", check_for_nan_in_loss=False),
        profiling=bridge.ProfilingConfig(use_nsys_profiler=False, use_pytorch_profiler=False),
    )
    pretrain(config, forward_step)


if __name__ == "__main__":
    main()
