"""TrainingSpec -> this rank's part of the model, its optimizer and learning rate, on
megatron.core."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.activations import squared_relu
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.extensions.transformer_engine import HAVE_TE, fused_topk_with_score_function
from megatron.core.fusions.fused_bias_geglu import quick_gelu
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import (
    get_gpt_decoder_block_spec,
    get_gpt_decoder_layer_specs,
    get_gpt_mtp_block_spec,
)
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
from megatron.core.transformer import MLATransformerConfig, TransformerConfig
from megatron.core.transformer.identity_op import IdentityOp
from megatron.core.transformer.module import Float16Module
from megatron.core.transformer.moe import fused_a2a
from megatron.core.transformer.torch_norm import L2Norm

from benchrun.errors import UserError
from benchrun.runspec.megatron import TUPLE, Megatron, is_torch_type
from benchrun.runspec.spec import TrainingSpec
from benchrun.runspec.training import FP32_AT_A_TIME, Optimizer

from . import lora, offload, weights
from .fsdp import FUSES_GRADIENTS, cut_moments, fully_sharded
from .kernels import LateScale
from .layers import Attention, Norm, own_expert_outputs

YARN = "yarn_"
"""The arguments of lengthened rotary positions begin with this."""
BLACKWELL = (10, 0)
"""CUDA's compute capability."""


def refuse_impossible(spec: TrainingSpec) -> None:
    """UserError for what this process lacks: megatron.core would train FP8 without
    transformer-engine in BF16."""
    if not spec.transformer_engine:
        if spec.of_transformer_engine:
            hint = "use an image with it and transformer_impl=transformer_engine, or leave it out"
            raise UserError(
                f"{spec.of_transformer_engine[0]} needs transformer-engine on a GPU", hint=hint
            )
    elif not HAVE_TE:
        hint = "use an image that has it, or transformer_impl=local, which is not representative of GPU speed"
        raise UserError(
            "training.transformer_impl is transformer_engine, and this process cannot import it",
            hint=hint,
        )
    elif _needs_blackwell(spec) and torch.cuda.get_device_capability() < BLACKWELL:
        hint = f"this GPU is {torch.cuda.get_device_name()}: use bf16, or fp8 with another recipe"
        raise UserError(f"{_needs_blackwell(spec)} needs a Blackwell GPU", hint=hint)
    elif (
        spec.training.cuda_graphs != "none"
        and "cuda_graph_modules" not in TransformerConfig.__dataclass_fields__
    ):
        raise UserError(
            "cuda_graphs need megatron-core 0.19 or later", hint="or set cuda_graphs=none"
        )
    elif _lacks_dispatcher(spec):
        name = spec.training.moe_dispatcher
        hint = "use an image that has it, or moe_dispatcher=alltoall"
        raise UserError(
            f"moe_dispatcher {name} needs DeepEP, which this process cannot import", hint=hint
        )


def _lacks_dispatcher(spec: TrainingSpec) -> bool:
    """Whether this process has no kernels for ``moe_dispatcher``."""
    flag = {"deepep": "HAVE_DEEP_EP", "hybridep": "HAVE_HYBRIDEP"}.get(spec.training.moe_dispatcher)
    return flag is not None and not getattr(fused_a2a, flag, False)


def _needs_blackwell(spec: TrainingSpec) -> str | None:
    """Setting of ``spec`` that only Blackwell has; None if older GPUs have all of them."""
    if spec.precision == "nvfp4":
        return "precision nvfp4"
    if spec.precision == "fp8" and spec.training.fp8.recipe == "mxfp8":
        return "fp8.recipe mxfp8"
    return None


def configuration(spec: TrainingSpec) -> Megatron:
    """The Megatron configuration of ``spec``. UserError if an older version wrote
    spec.json without one."""
    if spec.megatron is None:
        raise UserError(
            "spec.json holds no Megatron configuration",
            hint="an older version wrote it: render it again",
        )
    return spec.megatron


def transformer_config(spec: TrainingSpec) -> TransformerConfig:
    """The configuration of megatron.core for ``spec``."""
    core = configuration(spec)
    of_layers = (
        core.transformer,
        core.attention,
        core.experts,
        core.parallel,
        core.precision,
        core.fp8,
        core.fp4,
    )
    of_stages = ("tp_comm_overlap", "overlap_p2p_comm", "batch_p2p_comm")
    values = {name: core.communication[name] for name in of_stages}
    for group in (*of_layers, core.fusion, core.recompute, core.worker):
        values |= group or {}
    # Only of the layers before megatron-core 0.19.
    if "qk_l2_norm" not in TransformerConfig.__dataclass_fields__:
        values.pop("qk_l2_norm", None)
    if spec.model.mla:
        values["rotary_base"] = core.gpt["rotary_base"]
        values["rotary_percent"] = core.gpt["rotary_percent"]
    if spec.layout.fsdp > 1 and not FUSES_GRADIENTS:
        values["gradient_accumulation_fusion"] = False
    if values.get("moe_router_fusion"):
        values["moe_router_fusion"] = fused_topk_with_score_function is not None
    kind = MLATransformerConfig if spec.model.mla else TransformerConfig
    config = kind(**_arguments(values))
    for name, value in core.gpt.items():
        # GPTModel reads these from the configuration, which has no fields for them.
        if name.startswith(YARN):
            setattr(config, name, value)
    return config


def _arguments(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _argument(name, value) for name, value in values.items()}


def _argument(name: str, value: Any) -> Any:
    """torch's type or function if ``value`` is its name; a list for a tuple, because
    megatron.core changes some."""
    if name == "activation_func":
        own = {"squared_relu": squared_relu, "quick_gelu": quick_gelu}
        return own.get(value) or getattr(torch.nn.functional, value)
    if is_torch_type(name):
        return getattr(torch, value)
    if name == TUPLE:
        return tuple(value)
    if isinstance(value, tuple):
        return list(value)
    return value


def build_model(spec: TrainingSpec, config: TransformerConfig) -> list[Any]:
    """The model chunks of this rank, one per virtual pipeline stage, each wrapped for
    data parallelism."""
    chunks = []
    for stage in range(spec.layout.vp):
        chunks.append(_chunk(spec, config, stage if spec.layout.vp > 1 else None))
    if weights.layout_independent(spec):
        weights.initialise(spec, chunks)
    _change(spec, chunks)
    if spec.gpu != "CPU":
        chunks = [chunk.cuda() for chunk in chunks]
    if spec.precision != "fp32":
        chunks = [Float16Module(config, chunk) for chunk in chunks]
    if spec.layout.fsdp > 1:
        chosen = []
        for chunk in chunks:
            chosen.append(fully_sharded(spec, config, configuration(spec), chunk))
        return chosen
    ddp = DistributedDataParallelConfig(**configuration(spec).ddp)
    # Only the first chunk's backward ends the step: bucketing the others would delay
    # their communication.
    found = []
    for chunk in chunks:
        found.append(
            DistributedDataParallel(config, ddp, chunk, disable_bucketing=chunk is not chunks[0])
        )
    return found


def _change(spec: TrainingSpec, chunks: list[Any]) -> None:
    """Change the modules of ``chunks`` as ``spec`` asks: adapters, a late scale of the
    loss, offloading."""
    if spec.task == "lora":
        for chunk in chunks:
            lora.install(spec, chunk)
    if spec.training.late_loss_scale and chunks[-1].post_process:
        LateScale().install(chunks[-1].output_layer)
    if not spec.transformer_engine and spec.model.moe and spec.model.bias:
        for chunk in chunks:
            own_expert_outputs(chunk)
    if spec.training.offload_activations and not spec.transformer_engine:
        offload.install(chunks[0].decoder.layers, gpu=spec.gpu != "CPU")


def _chunk(spec: TrainingSpec, config: TransformerConfig, vp_stage: int | None) -> GPTModel:
    gpt = configuration(spec).gpt
    around_the_model = ("seq_length", "make_vocab_size_divisible_by")
    layers = _layer_spec(spec, config, vp_stage)
    return GPTModel(
        config=config,
        transformer_layer_spec=layers,
        mtp_block_spec=_prediction_spec(spec, config, vp_stage),
        max_sequence_length=spec.model.max_position_embeddings,
        pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=vp_stage),
        post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=vp_stage),
        vp_stage=vp_stage,
        **{
            name: value
            for name, value in gpt.items()
            if name not in around_the_model and not name.startswith(YARN)
        },
    )


def _layer_spec(spec: TrainingSpec, config: TransformerConfig, vp_stage: int | None) -> Any:
    """transformer-engine's layers, or megatron.core's own with the norm and attention
    of this package."""
    block = get_gpt_decoder_block_spec(
        config,
        use_transformer_engine=spec.transformer_engine,
        qk_l2_norm=spec.model.qk_norm == "l2",
        vp_stage=vp_stage,
    )
    if not spec.transformer_engine:
        block.layer_norm = Norm
        for layer in block.layer_specs:
            _own_layers(layer)
    return block


def _own_layers(layer: Any) -> None:
    """Put this package's norm and attention in place of megatron.core's own, which know
    no sequence parallelism."""
    parts = layer.submodules
    attention = layer.submodules.self_attention.submodules
    parts.input_layernorm = parts.pre_mlp_layernorm = Norm
    attention.core_attention = Attention
    for name in ("q_layernorm", "k_layernorm", "kv_layernorm"):
        if getattr(attention, name, None) not in (None, IdentityOp, L2Norm):
            setattr(attention, name, Norm)


def _prediction_spec(spec: TrainingSpec, config: TransformerConfig, vp_stage: int | None) -> Any:
    """The layers of the multi-token predictions if this stage has them; else None."""
    if not spec.model.mtp_layers:
        return None
    whole = get_gpt_decoder_layer_specs(
        config, spec.transformer_engine, None, spec.model.qk_norm == "l2"
    )
    last = whole[-1]
    if not spec.transformer_engine:
        _own_layers(last)
    block = get_gpt_mtp_block_spec(
        config, last, use_transformer_engine=spec.transformer_engine, vp_stage=vp_stage
    )
    if block is not None and not spec.transformer_engine:
        for layer in block.layer_specs:
            layer.submodules.enorm = layer.submodules.hnorm = layer.submodules.layer_norm = Norm
    return block


def build_optimizer(spec: TrainingSpec, model: list[Any]) -> Any:
    """Adam with the states of ``training.optimizer``."""
    core = configuration(spec)
    states = spec.training.optimizer
    values = _arguments(core.optimizer)
    config = OptimizerConfig(**values, overlap_param_gather=core.ddp["overlap_param_gather"])
    optimizer = get_megatron_optimizer(config, model, use_gloo_process_groups=False)
    if states.precision_aware and states != Optimizer(precision_aware=True):
        for part in parts(optimizer):
            part.param_groups[:] = [*chain.from_iterable(map(split, part.param_groups))]
    if spec.layout.fsdp > 1 and spec.gpu != "CPU":  # on a CPU torch's own Adam knows the parts
        for part in parts(optimizer):
            cut_moments(part)
    # FP8 weights keep their first value in BF16 in host memory; the optimizer has
    # copied it.
    for parameter in chain.from_iterable(chunk.parameters() for chunk in model):
        if hasattr(parameter, "clear_high_precision_init_val"):
            parameter.clear_high_precision_init_val()
    return optimizer


def parts(optimizer: Any) -> list[Any]:
    """The optimizers of torch or transformer-engine inside: one, or one for dense
    weights and one for experts."""
    chained = getattr(optimizer, "chained_optimizers", [optimizer])
    found = []
    for part in chained:
        if getattr(part, "optimizer", None) is not None:
            found.append(part.optimizer)
    return found


def split(group: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a group into pieces of about FP32_AT_A_TIME parameters, so that FP32 copies
    of one piece exist at a time.
    """
    pieces: list[list[Any]] = [[]]
    size = 0
    for parameter in group["params"]:
        if pieces[-1] and size + parameter.numel() > FP32_AT_A_TIME:
            pieces.append([])
            size = 0
        pieces[-1].append(parameter)
        size += parameter.numel()
    return [{**group, "params": piece} for piece in pieces]


def build_scheduler(spec: TrainingSpec, optimizer: Any) -> Any:
    """Cosine from lr to min_lr over the run, counted in samples."""
    training = spec.training
    schedule = configuration(spec).schedule
    return OptimizerParamScheduler(
        optimizer,
        init_lr=schedule["lr_warmup_init"],
        max_lr=training.lr,
        min_lr=training.min_lr,
        lr_warmup_steps=schedule["lr_warmup_iters"] * spec.gbs,
        lr_decay_steps=schedule["lr_decay_iters"] * spec.gbs,
        lr_decay_style=schedule["lr_decay_style"],
        start_wd=schedule["start_weight_decay"],
        end_wd=schedule["end_weight_decay"],
        wd_incr_steps=training.steps * spec.gbs,
        wd_incr_style=schedule["weight_decay_incr_style"],
    )
