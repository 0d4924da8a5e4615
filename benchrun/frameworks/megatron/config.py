"""TrainingSpec -> the Megatron configuration: every rule about megatron-core's
arguments, once.

Where frameworks differ, or a release of one of them, the rule names it and the reason.
Options of the worker have their default in other frameworks (base.WORKER_OPTIONS), so
rules about them need no framework.
"""

from benchrun.runspec.image_names import nemo_release
from benchrun.runspec.megatron import Megatron, Values
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import RESIDENT_LAYERS

from .architecture import (
    WORKER,
    attention,
    experts,
    fields_of,
    gpt,
    mamba,
    transformer,
    without_none,
)
from .graphs import worker_graphs

BRIDGE = "megatron-bridge"
DRIVERS = ("nemo2", "megatron-bridge")
"""Frameworks that a Python file drives through NeMo's or Megatron-Bridge's own
configuration classes.
"""
BUCKET_SIZE = 128 * 1024 * 1024
"""Parameters per bucket of gradients, in NeMo's own recipes."""
DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def megatron_config(spec: TrainingSpec) -> Megatron:
    """The Megatron configuration of ``spec``, whose framework trains Megatron's model."""
    training, recompute, bf16 = spec.training, spec.training.recompute, spec.precision != "fp32"
    dtype = DTYPES["bf16" if bf16 else "fp32"]
    return Megatron(
        transformer=transformer(spec),
        gpt=gpt(spec),
        attention=attention(spec) or None,
        mamba=mamba(spec) if spec.model.mamba else None,
        experts=experts(spec) if spec.model.moe else None,
        parallel=_parallel(spec),
        communication=_communication(spec),
        precision=Values(bf16=bf16, params_dtype=dtype, pipeline_dtype=dtype),
        fp8=_fp8(spec) if spec.precision == "fp8" else None,
        fp4=Values(fp4="e2m1", fp4_recipe="nvfp4") if spec.precision == "nvfp4" else None,
        fusion=_fusion(spec),
        recompute=Values(
            recompute_granularity=None
            if recompute.granularity == "none"
            else recompute.granularity,
            **fields_of(recompute, "method", "num_layers", prefix="recompute_"),
        )
        | without_none(recompute_modules=[*recompute.modules] or None),
        optimizer=_optimizer(spec, dtype),
        schedule=Values(
            lr_decay_style="cosine",
            lr_decay_iters=max(
                training.steps, training.lr_warmup_steps + 1
            ),  # at least one after the warm-up
            lr_warmup_iters=training.lr_warmup_steps,
            lr_warmup_init=0.0,
            start_weight_decay=training.weight_decay,
            end_weight_decay=training.weight_decay,
            weight_decay_incr_style="constant",
        ),
        ddp=_data_parallel(spec),
        sharding=Values(
            average_in_collective=spec.layout.fsdp == 1,
            data_parallel_sharding_strategy="optim_grads_params"
            if spec.layout.fsdp > 1
            else "no_shard",
        ),
        worker=_worker(spec) if spec.framework == WORKER else None,
        bridge=_bridge(spec) if spec.framework == BRIDGE else None,
    )


def _parallel(spec: TrainingSpec) -> Values:
    """Sizes of the layout.

    None stands for megatron-core's default: no interleaved stages, the experts' tp that
    of the whole model.
    """
    layout = spec.layout
    ends = layout.account_for_embedding_and_loss
    return Values(
        tensor_model_parallel_size=layout.tp,
        pipeline_model_parallel_size=layout.pp,
        virtual_pipeline_model_parallel_size=layout.vp if layout.vp > 1 else None,
        context_parallel_size=layout.cp,
        expert_model_parallel_size=layout.ep,
        expert_tensor_parallel_size=layout.etp
        if spec.model.moe or spec.framework == WORKER
        else None,
        sequence_parallel=layout.sequence_parallel,
        account_for_embedding_in_pipeline_split=ends,
        account_for_loss_in_pipeline_split=ends,
    ) | without_none(pipeline_model_parallel_layout=layout.stages)


def _communication(spec: TrainingSpec) -> Values:
    """Interleaved stages send while they compute; then one message at a time, each with
    its own handle.

    The drivers batch only if there is a pipeline, and overlap with data-parallel ranks
    only if there are any.
    """
    layout, training, gpu = spec.layout, spec.training, spec.gpu != "CPU"
    ranks = training.distributed_optimizer and spec.dp * layout.cp > 1
    return Values(
        tp_comm_overlap=training.tp_comm_overlap and spec.transformer_engine,
        overlap_p2p_comm=gpu and layout.vp > 1,
        batch_p2p_comm=gpu and layout.vp == 1 and (layout.pp > 1 or spec.framework not in DRIVERS),
        overlap_grad_reduce=training.overlap_grad_reduce and ranks,
        overlap_param_gather=training.overlap_param_gather and ranks,
        align_param_gather=layout.vp > 1 and ranks,
        bucket_size=BUCKET_SIZE if ranks else None,
    )


def _fp8(spec: TrainingSpec) -> Values:
    fp8 = spec.training.fp8
    return Values(
        fp8=fp8.format,
        **fields_of(
            fp8,
            "recipe",
            "amax_history_len",
            "amax_compute_algo",
            "dot_product_attention",
            prefix="fp8_",
        ),
        fp8_param=fp8.param_gather,
        activation_func_fp8_input_store=fp8.store_activation_input,
        tp_only_amax_red=fp8.tp_only_amax_reduction,
    )


def _fusion(spec: TrainingSpec) -> Values:
    """NeMo's and Megatron-Bridge's own LoRA recipes fuse no loss; NeMo 24.05 (core 0.7)
    has no such kernel.
    """
    te, fused = spec.transformer_engine, spec.transformer_engine and spec.training.fused_kernels
    adapters = spec.task == "lora" and spec.framework != WORKER
    without_loss = adapters or (spec.framework == "nemo1" and nemo_release(spec.image) == "24.05")
    return Values(
        bias_activation_fusion=fused and _bias_activation_fusion(spec),
        # Its kernel adds no bias of grouped experts: megatron-core raises.
        bias_dropout_fusion=fused
        and not (spec.model.moe and spec.model.bias and spec.training.moe_grouped_gemm),
        masked_softmax_fusion=spec.framework != WORKER,
        apply_rope_fusion=fused
        and spec.model.position_embedding == "rope"
        and not _rotates_in_parts(spec),
        persist_layer_norm=te,
        gradient_accumulation_fusion=te and (spec.layout.fsdp == 1 or spec.framework == WORKER),
        cross_entropy_loss_fusion=fused and not without_loss,
        cross_entropy_fusion_impl="te" if fused else "native",
    )


def _bias_activation_fusion(spec: TrainingSpec) -> bool:
    """Whether megatron-core has one kernel for bias and activation of this model: it
    raises if it has none.

    For experts that is SwiGLU alone, since the router's weight is part of the kernel
    (core 0.13); the cores of NeMo 1 (0.7 to 0.10) compute an expert like a dense MLP.
    """
    model = spec.model
    if model.clamped:
        return True
    if model.moe and spec.framework != "nemo1":
        return model.activation == "swiglu"
    return model.gated or (model.activation == "gelu" and model.bias)


def _rotates_in_parts(spec: TrainingSpec) -> bool:
    """Whether some of what enters attention is not rotated: the fused kernel for whole
    heads does not apply there.

    Megatron-Bridge's own configurations use the other kernel, of latent attention.
    """
    latent = spec.model.mla is not None and spec.framework != BRIDGE
    return spec.model.no_rope_every is not None or latent


def _optimizer(spec: TrainingSpec, dtype: str) -> Values:
    """Adam. What only a precision-aware one reads is stated for it alone; the worker
    states the FP8 recipe always.
    """
    training, states, fp8 = spec.training, spec.training.optimizer, spec.precision == "fp8"
    aware, reduced = states.precision_aware, "fp32" if training.grad_reduce_in_fp32 else "bf16"
    beta1, beta2 = training.adam_betas
    return without_none(
        optimizer="adam",
        **fields_of(training, "lr", "min_lr", "weight_decay", "adam_eps", "clip_grad"),
        adam_beta1=beta1,
        adam_beta2=beta2,
        bf16=spec.precision != "fp32",
        params_dtype=dtype,
        use_distributed_optimizer=training.distributed_optimizer and not shards_by_torch(spec),
        use_precision_aware_optimizer=aware,
        main_grads_dtype=DTYPES[states.main_grads or reduced] if aware else None,
        main_params_dtype=DTYPES[states.main_params] if aware else None,
        exp_avg_dtype=DTYPES[states.exp_avg] if aware else None,
        exp_avg_sq_dtype=DTYPES[states.exp_avg_sq] if aware else None,
        fp8_recipe=training.fp8.recipe if fp8 and (aware or spec.framework == WORKER) else None,
        # 16 bits beside a BF16 weight make its FP32 copy; an FP8 weight has no such
        # bits, though its type reads BF16.
        store_param_remainders=not (fp8 and training.fp8.param_gather) if aware else None,
    )


def _data_parallel(spec: TrainingSpec) -> Values:
    """Interleaved stages gather weights together, when the schedule starts them, not
    layer by layer.

    torch's FSDP2 overlaps its communication by itself and needs no distributed
    optimizer.
    """
    training, interleaved, torchs = spec.training, spec.layout.vp > 1, shards_by_torch(spec)
    return Values(
        use_distributed_optimizer=training.distributed_optimizer and not torchs,
        grad_reduce_in_fp32=training.grad_reduce_in_fp32,
        overlap_grad_reduce=training.overlap_grad_reduce and not torchs,
        overlap_param_gather=training.overlap_param_gather and not torchs,
        align_param_gather=interleaved
        and (training.overlap_param_gather or spec.framework in DRIVERS),
        fp8_param_gather=spec.precision == "fp8" and training.fp8.param_gather,
    ) | without_none(reuse_grad_buf_for_mxfp8_param_ag=True if _gathers_mxfp8(spec) else None)


def _gathers_mxfp8(spec: TrainingSpec) -> bool:
    fp8 = spec.training.fp8
    return spec.precision == "fp8" and fp8.recipe == "mxfp8" and fp8.param_gather


def shards_by_torch(spec: TrainingSpec) -> bool:
    """Whether torch's FSDP2 cuts the weights over the ranks: megatron-core's own FSDP
    runs on GPUs alone.
    """
    return spec.layout.fsdp > 1 and spec.gpu == "CPU"


def _bridge(spec: TrainingSpec) -> Values:
    """Graphs, and inputs of modules in host memory. Random numbers inside a graph come
    from transformer-engine.
    """
    training = spec.training
    graphs = training.cuda_graphs != "none"
    values = Values(cuda_graph_impl="none", use_te_rng_tracker=graphs)
    if training.cuda_graphs == "layers":
        values |= Values(
            cuda_graph_impl="transformer_engine", cuda_graph_scope=[*training.graph_scopes]
        )
    elif graphs:
        values |= Values(cuda_graph_impl="local", cuda_graph_scope=["full_iteration"])
    if training.offload_modules:
        values |= Values(
            fine_grained_activation_offloading=True, offload_modules=[*training.offload_modules]
        )
    return values


def _worker(spec: TrainingSpec) -> Values:
    """Arguments that only megatron.core's own configuration has."""
    layout, training, gpu, te = (
        spec.layout,
        spec.training,
        spec.gpu != "CPU",
        spec.transformer_engine,
    )
    offloads = training.offload_activations and te
    return without_none(
        transformer_impl="transformer_engine" if te else "local",
        use_cpu_initialization=not gpu,
        batch_p2p_sync=gpu,
        deallocate_pipeline_outputs=gpu and layout.pp > 1,
        cp_comm_type=training.cp_comm if layout.cp > 1 else None,
        moe_router_fusion=te and training.fused_kernels if spec.model.moe else None,
        **worker_graphs(spec),
        # Without transformer-engine the worker offloads by itself. With one layer less
        # on the GPU, transformer-engine would copy a layer back only when its backward
        # pass begins.
        cpu_offloading=True if offloads else None,
        cpu_offloading_num_layers=spec.model.num_layers - RESIDENT_LAYERS if offloads else None,
        cpu_offloading_weights=False if offloads else None,
    )
