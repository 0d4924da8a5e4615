"""The Megatron configuration of a run: arguments of megatron-core's classes, in groups, by megatron-core's own names.

`benchrun.frameworks.megatron_config` computes it and spec.json holds it; the worker and four templates read it. Types
and functions are names of torch's (``bfloat16``, ``silu``), as JSON holds no others.
"""

from __future__ import annotations

from typing import Any, Literal

from benchrun.model import Frozen

Dtype = Literal["float32", "bfloat16", "float16"]
"""A type of numbers, as torch names it."""


class Values(Frozen):
    """One group of arguments."""

    @property
    def values(self) -> dict[str, Any]:
        """Argument by name, in the order of the fields."""
        return {name: getattr(self, name) for name in type(self).model_fields}


class Sparse(Values):
    """A group in which None leaves an argument to megatron-core's default."""

    @property
    def values(self) -> dict[str, Any]:
        """Argument by name, without those that keep megatron-core's default."""
        return {name: value for name, value in super().values.items() if value is not None}


class Transformer(Values):
    """TransformerConfig: dimensions and kinds of the layers."""

    num_layers: int
    hidden_size: int
    ffn_hidden_size: int
    num_attention_heads: int
    num_query_groups: int
    kv_channels: int
    activation_func: Literal["silu", "gelu", "squared_relu"]
    gated_linear_unit: bool
    add_bias_linear: bool
    normalization: Literal["RMSNorm", "LayerNorm"]
    layernorm_zero_centered_gamma: bool
    layernorm_epsilon: float
    init_method_std: float
    attention_dropout: float
    hidden_dropout: float


class Gpt(Values):
    """GPTModel: what stands around the layers."""

    seq_length: int
    vocab_size: int
    """Rows of the embedding: the vocabulary, padded."""
    make_vocab_size_divisible_by: int
    position_embedding_type: Literal["rope", "learned_absolute"]
    rotary_base: int
    rotary_percent: float
    share_embeddings_and_output_weights: bool


class Experts(Values):
    """TransformerConfig: the mixture of experts."""

    num_moe_experts: int
    moe_router_topk: int
    moe_ffn_hidden_size: int
    moe_router_load_balancing_type: Literal["aux_loss"]
    moe_aux_loss_coeff: float
    moe_router_force_load_balancing: bool
    moe_expert_capacity_factor: float | None
    moe_pad_expert_input_to_capacity: bool
    moe_token_dispatcher_type: Literal["alltoall"]
    moe_grouped_gemm: bool
    moe_permute_fusion: bool


class Parallel(Values):
    """ModelParallelConfig: how the model is spread over the ranks."""

    tensor_model_parallel_size: int
    pipeline_model_parallel_size: int
    virtual_pipeline_model_parallel_size: int | None
    """None without interleaved stages."""
    context_parallel_size: int
    expert_model_parallel_size: int
    expert_tensor_parallel_size: int | None
    """None where megatron-core takes that of the whole model."""
    sequence_parallel: bool
    account_for_embedding_in_pipeline_split: bool
    account_for_loss_in_pipeline_split: bool


class Communication(Values):
    """Which communication overlaps with computation; NeMo's and Megatron-Bridge's overlap settings have all of it."""

    tp_comm_overlap: bool
    overlap_p2p_comm: bool
    batch_p2p_comm: bool
    overlap_grad_reduce: bool
    overlap_param_gather: bool
    align_param_gather: bool
    bucket_size: int | None
    """Parameters whose gradients are reduced together; None leaves it to megatron-core."""


class Precision(Values):
    """Types of weights, and of what stages of a pipeline send each other."""

    bf16: bool
    params_dtype: Dtype
    pipeline_dtype: Dtype


class Fp8(Values):
    """TransformerConfig: FP8 by transformer-engine."""

    fp8: Literal["hybrid", "e4m3"]
    fp8_recipe: Literal["delayed", "tensorwise", "blockwise", "mxfp8"]
    fp8_amax_history_len: int
    fp8_amax_compute_algo: Literal["max", "most_recent"]
    fp8_param: bool
    fp8_dot_product_attention: bool
    activation_func_fp8_input_store: bool
    tp_only_amax_red: bool


class Fusion(Values):
    """TransformerConfig: several operations in one kernel."""

    bias_activation_fusion: bool
    bias_dropout_fusion: bool
    masked_softmax_fusion: bool
    apply_rope_fusion: bool
    persist_layer_norm: bool
    gradient_accumulation_fusion: bool
    cross_entropy_loss_fusion: bool
    cross_entropy_fusion_impl: Literal["native", "te"]


class Recompute(Values):
    """TransformerConfig: activations computed again in the backward pass."""

    recompute_granularity: Literal["selective", "full"] | None
    recompute_method: Literal["uniform", "block"] | None
    recompute_num_layers: int | None


class Optimizer(Sparse):
    """OptimizerConfig."""

    optimizer: Literal["adam"] = "adam"
    lr: float
    min_lr: float
    weight_decay: float
    adam_beta1: float
    adam_beta2: float
    adam_eps: float
    clip_grad: float
    bf16: bool
    params_dtype: Dtype
    use_distributed_optimizer: bool
    use_precision_aware_optimizer: bool
    main_grads_dtype: Dtype | None = None
    main_params_dtype: Dtype | None = None
    exp_avg_dtype: Dtype | None = None
    exp_avg_sq_dtype: Dtype | None = None
    fp8_recipe: Literal["delayed", "tensorwise", "blockwise", "mxfp8"] | None = None
    store_param_remainders: bool | None = None
    """16 bits beside a BF16 weight make its FP32 copy. An FP8 weight calls itself BF16, and has no such bits."""


class Schedule(Values):
    """Learning rate and weight decay over the run, in iterations, as Megatron-LM's arguments name them."""

    lr_decay_style: Literal["cosine"] = "cosine"
    lr_decay_iters: int
    """megatron-core wants at least one iteration after the warm-up."""
    lr_warmup_iters: int
    lr_warmup_init: float = 0.0
    start_weight_decay: float
    end_weight_decay: float
    weight_decay_incr_style: Literal["constant"] = "constant"


class DataParallel(Values):
    """DistributedDataParallelConfig."""

    use_distributed_optimizer: bool
    grad_reduce_in_fp32: bool
    overlap_grad_reduce: bool
    overlap_param_gather: bool
    align_param_gather: bool
    """The schedule, not each layer, starts the gathering of weights: so do all stages of an interleaved one."""
    fp8_param_gather: bool


class Sharding(Values):
    """DistributedDataParallelConfig: whether weights, gradients and states are cut over the ranks (FSDP)."""

    average_in_collective: bool
    data_parallel_sharding_strategy: Literal["no_shard", "optim_grads_params"]


class Worker(Sparse):
    """TransformerConfig: what the worker of this repository states beyond the others."""

    transformer_impl: Literal["transformer_engine", "local"]
    use_cpu_initialization: bool
    batch_p2p_sync: bool
    deallocate_pipeline_outputs: bool
    recompute_modules: tuple[str, ...] | None
    cp_comm_type: str | None
    moe_router_fusion: bool | None
    cuda_graph_impl: Literal["local"] | None
    cuda_graph_modules: tuple[str, ...] | None
    use_te_rng_tracker: bool | None


class Megatron(Frozen):
    """The whole configuration, group by group."""

    transformer: Transformer
    gpt: Gpt
    experts: Experts | None
    parallel: Parallel
    communication: Communication
    precision: Precision
    fp8: Fp8 | None
    fusion: Fusion
    recompute: Recompute
    optimizer: Optimizer
    schedule: Schedule
    ddp: DataParallel
    sharding: Sharding
    worker: Worker | None
