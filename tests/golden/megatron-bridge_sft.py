# llama3-8b-sft: sft, fp8, megatron-bridge, 32 x H100
"""Rendered by benchrun. Random weights; no checkpoint, no validation, no profiling."""

import sys

import torch
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.peft.lora import LoRA
from megatron.bridge.training import config as bridge
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import MixedPrecisionConfig
from megatron.bridge.training.pretrain import pretrain
from megatron.core.activations import squared_relu


def main():
    config = bridge.ConfigContainer(
        model=GPTModelProvider(
            num_layers=32,
            hidden_size=4096,
            ffn_hidden_size=14336,
            num_attention_heads=32,
            num_query_groups=8,
            kv_channels=128,
            activation_func=torch.nn.functional.silu,
            gated_linear_unit=True,
            add_bias_linear=False,
            normalization='RMSNorm',
            layernorm_zero_centered_gamma=False,
            layernorm_epsilon=1e-05,
            init_method_std=0.02,
            attention_dropout=0.0,
            hidden_dropout=0.0,
            seq_length=4096,
            vocab_size=128256,
            make_vocab_size_divisible_by=128,
            position_embedding_type='rope',
            rotary_base=500000,
            rotary_percent=1.0,
            share_embeddings_and_output_weights=False,
            tensor_model_parallel_size=1,
            pipeline_model_parallel_size=1,
            virtual_pipeline_model_parallel_size=None,
            context_parallel_size=1,
            expert_model_parallel_size=1,
            expert_tensor_parallel_size=None,
            sequence_parallel=False,
            account_for_embedding_in_pipeline_split=False,
            account_for_loss_in_pipeline_split=False,
            bias_activation_fusion=True,
            bias_dropout_fusion=True,
            masked_softmax_fusion=True,
            apply_rope_fusion=True,
            persist_layer_norm=True,
            gradient_accumulation_fusion=True,
            cross_entropy_loss_fusion=True,
            cross_entropy_fusion_impl='te',
            recompute_granularity=None,
            recompute_method=None,
            recompute_num_layers=None,
            init_model_with_meta_device=False,
            cuda_graph_impl='none',
            use_te_rng_tracker=False,
            disable_parameter_transpose_cache=True,
            pipeline_dtype=torch.bfloat16,
        ),
        mixed_precision=MixedPrecisionConfig(
            bf16=True,
            # Megatron's own BF16: weights in BF16, FP32 copies in the optimizer.
            params_dtype=torch.bfloat16,
            pipeline_dtype=torch.bfloat16,
            grad_reduce_in_fp32=False,
            autocast_enabled=False,
            fp8='hybrid',
            fp8_recipe='tensorwise',
            fp8_amax_history_len=1024,
            fp8_amax_compute_algo='max',
            fp8_param_gather=True,
            fp8_margin=0, fp8_wgrad=True, first_last_layers_bf16=False,
        ),
        train=bridge.TrainingConfig(
            micro_batch_size=1, global_batch_size=128, train_iters=50,
            eval_iters=0, eval_interval=51,
            manual_gc=True, manual_gc_interval=100, manual_gc_eval=False,
        ),
        optimizer=bridge.OptimizerConfig(
            optimizer='adam',
            lr=5e-06,
            min_lr=0.0,
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
            overlap_grad_reduce=False,
            overlap_param_gather=False,
            align_param_gather=False,
            fp8_param_gather=True,
            average_in_collective=False,
            data_parallel_sharding_strategy='no_shard',
            use_megatron_fsdp=False,
            check_for_nan_in_grad=False,
        ),
        comm_overlap=None,
        dataset=bridge.GPTDatasetConfig(
            blend=None, split="1,1,1",  # mock tokens
            random_seed=1234, sequence_length=4096,
            reset_position_ids=False, reset_attention_mask=False, eod_mask_loss=False,
            mmap_bin_files=False, num_dataset_builder_threads=1,
            dataloader_type="single", data_sharding=True, num_workers=1,
        ),
        tokenizer=bridge.TokenizerConfig(tokenizer_type="NullTokenizer", vocab_size=128256),
        logger=bridge.LoggerConfig(log_interval=1, timing_log_level=0),  # a line for every step
        checkpoint=bridge.CheckpointConfig(save=None, load=None),
        dist=bridge.DistributedInitConfig(
            distributed_timeout_minutes=30,
            use_megatron_fsdp=False,
        ),
        rng=bridge.RNGConfig(seed=1234, te_rng_tracker=False),
        rerun_state_machine=bridge.RerunStateMachineConfig(rerun_mode="disabled", check_for_nan_in_loss=False),
        profiling=bridge.ProfilingConfig(use_nsys_profiler=False, use_pytorch_profiler=False),
    )
    pretrain(config, forward_step)


if __name__ == "__main__":
    main()
