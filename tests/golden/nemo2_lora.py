# llama3-8b-lora: lora, fp8, nemo2, 32 x H100
"""Rendered by benchrun. Random weights; no checkpoint, no validation, no profiling."""

import sys

import torch
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig
from nemo import lightning as nl
from nemo.collections import llm
from nemo.collections.llm.fn.activation import squared_relu
from nemo.collections.llm.gpt.data.packed_sequence import PackedSequenceSpecs
from nemo.collections.nlp.modules.common.tokenizer_utils import get_nmt_tokenizer
from nemo.lightning.pytorch.callbacks.garbage_collection import GarbageCollectionCallback
from nemo.lightning.pytorch.callbacks.megatron_comm_overlap import MegatronCommOverlapCallback
from nemo.lightning.pytorch.optim import CosineAnnealingScheduler, MegatronOptimizerModule
from nemo.lightning.pytorch.plugins import MegatronMixedPrecision
from nemo.utils.exp_manager import TimingCallback


def main():
    trainer = nl.Trainer(
        accelerator="gpu", devices=8, num_nodes=4,
        max_steps=50, accumulate_grad_batches=1, use_distributed_sampler=False,
        val_check_interval=50, limit_val_batches=0, limit_test_batches=0, num_sanity_val_steps=0,
        log_every_n_steps=1, logger=False, enable_checkpointing=False,
        plugins=MegatronMixedPrecision(
            precision="bf16-mixed",
            # Megatron's own BF16: weights in BF16, FP32 copies in the optimizer.
            params_dtype=torch.bfloat16,
            pipeline_dtype=torch.bfloat16,
            grad_reduce_in_fp32=False,
            autocast_enabled=False,
            fp8='hybrid',
            fp8_recipe='delayed',
            fp8_amax_history_len=1024,
            fp8_amax_compute_algo='max',
            fp8_param_gather=True,
            fp8_margin=0, fp8_wgrad=True, first_last_layers_bf16=False,
        ),
        strategy=nl.MegatronStrategy(
            tensor_model_parallel_size=1,
            pipeline_model_parallel_size=1,
            virtual_pipeline_model_parallel_size=None,
            context_parallel_size=1,
            expert_model_parallel_size=1,
            expert_tensor_parallel_size=None,
            sequence_parallel=False,
            account_for_embedding_in_pipeline_split=False,
            account_for_loss_in_pipeline_split=False,
            pipeline_dtype=torch.bfloat16,
            ddp=DistributedDataParallelConfig(
                use_distributed_optimizer=True,
                grad_reduce_in_fp32=False,
                overlap_grad_reduce=True,
                overlap_param_gather=True,
                align_param_gather=False,
                fp8_param_gather=True,
                average_in_collective=False,
                data_parallel_sharding_strategy='no_shard',
                check_for_nan_in_grad=True,
            ),
            fsdp=None,
            use_te_rng_tracker=False, use_sharp=False, replace_progress_bar=True, progress_interval=1,
        ),
        callbacks=[
            # The time of each step, including the GPU's work.
            TimingCallback(timer_kwargs={"sync_cuda": True, "buffer_size": 1}),
            GarbageCollectionCallback(gc_interval_train=100, gc_interval_val=100),
            MegatronCommOverlapCallback(
                tp_comm_overlap=False,
                overlap_p2p_comm=False,
                batch_p2p_comm=False,
                overlap_grad_reduce=True,
                overlap_param_gather=True,
                align_param_gather=False,
                bucket_size=134217728,
                overlap_param_gather_with_optimizer_step=False,
                defer_embedding_wgrad_compute=False,
                tp_comm_bootstrap_backend="nccl",
            ),
        ],
    )
    # Adds one token, the end of a document, to the vocabulary.
    tokens = get_nmt_tokenizer(library="null", model_name="NullTokenizer", vocab_size=128255)
    model = llm.GPTConfig(
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
        bias_activation_fusion=True,
        bias_dropout_fusion=True,
        masked_softmax_fusion=True,
        apply_rope_fusion=True,
        persist_layer_norm=True,
        gradient_accumulation_fusion=True,
        cross_entropy_loss_fusion=False,
        cross_entropy_fusion_impl='te',
        recompute_granularity=None,
        recompute_method=None,
        recompute_num_layers=None,
        init_model_with_meta_device=False,
        enable_cuda_graph=False,
        disable_parameter_transpose_cache=True,
    )
    data = llm.MockDataModule(
        num_train_samples=6400, create_attention_mask=False,
        tokenizer=tokens, seq_length=4096,
        micro_batch_size=1, global_batch_size=128, num_workers=1,
    )
    optimizer = MegatronOptimizerModule(
        config=OptimizerConfig(
            optimizer='adam',
            lr=0.0001,
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
        lr_scheduler=CosineAnnealingScheduler(
            min_lr=0.0,
            warmup_steps=0,
            max_steps=50, constant_steps=0,
        ),
    )
    llm.train(
        model=llm.GPTModel(model, tokenizer=tokens), data=data, trainer=trainer, optim=optimizer, resume=None,
        log=nl.NeMoLogger(explicit_log_dir="nemo2-log", log_global_rank_0_only=True, ckpt=None),
        model_transform=llm.peft.LoRA(
            target_modules=['linear_qkv'],
            dim=8, alpha=16.0, dropout=0.0,
        ),
    )


if __name__ == "__main__":
    main()
