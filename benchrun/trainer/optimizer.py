"""RunSpec -> Adam over this rank's parameters, and its learning rate."""

from __future__ import annotations

from typing import Any

import torch
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

from benchrun.spec.runspec import RunSpec
from benchrun.spec.training import FP32_AT_A_TIME, Optimizer

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def build_optimizer(spec: RunSpec, model: list[Any]) -> Any:
    """Adam, its states as ``training.optimizer`` says."""
    training = spec.training
    states, fp8 = training.optimizer, spec.precision == "fp8"
    values: dict[str, Any] = {}
    if states.precision_aware:
        values = {
            "use_precision_aware_optimizer": True,
            "main_grads_dtype": torch.float32 if training.grad_reduce_in_fp32 else torch.bfloat16,
            "main_params_dtype": DTYPES[states.main_params],
            "exp_avg_dtype": DTYPES[states.exp_avg],
            "exp_avg_sq_dtype": DTYPES[states.exp_avg_sq],
            # 16 bits beside a BF16 weight make its FP32 copy. An FP8 weight calls itself BF16, and has no such bits.
            "store_param_remainders": not (fp8 and training.fp8.param_gather),
        }
    config = OptimizerConfig(
        optimizer="adam",
        lr=training.lr,
        min_lr=training.min_lr,
        weight_decay=training.weight_decay,
        adam_beta1=0.9,
        adam_beta2=0.95,
        clip_grad=training.clip_grad,
        bf16=spec.precision != "fp32",
        fp8_recipe=training.fp8.recipe if fp8 else None,
        params_dtype=torch.float32 if spec.precision == "fp32" else torch.bfloat16,
        use_distributed_optimizer=training.distributed_optimizer,
        overlap_param_gather=training.overlap_param_gather,
        **values,
    )
    optimizer = get_megatron_optimizer(config, model, use_gloo_process_groups=False)
    if states != Optimizer(precision_aware=True) and states.precision_aware:
        for part in parts(optimizer):
            part.param_groups[:] = [small for group in part.param_groups for small in split(group)]
    _forget_initial_values(model)
    return optimizer


def parts(optimizer: Any) -> list[Any]:
    """The optimizers of torch or transformer-engine inside: one, or one for dense weights and one for experts."""
    chained = getattr(optimizer, "chained_optimizers", [optimizer])
    return [part.optimizer for part in chained if getattr(part, "optimizer", None) is not None]


def split(group: dict[str, Any]) -> list[dict[str, Any]]:
    """The same group in pieces of about FP32_AT_A_TIME parameters, so that FP32 copies of one piece exist at a time."""
    pieces: list[list[Any]] = [[]]
    size = 0
    for parameter in group["params"]:
        if pieces[-1] and size + parameter.numel() > FP32_AT_A_TIME:
            pieces.append([])
            size = 0
        pieces[-1].append(parameter)
        size += parameter.numel()
    return [{**group, "params": piece} for piece in pieces]


def _forget_initial_values(model: list[Any]) -> None:
    """FP8 weights keep their first value in BF16 in the host's memory; the optimizer has taken it by now."""
    for chunk in model:
        for parameter in chunk.parameters():
            if hasattr(parameter, "clear_high_precision_init_val"):
                parameter.clear_high_precision_init_val()


def build_scheduler(spec: RunSpec, optimizer: Any) -> Any:
    """Cosine from lr to min_lr over the run, counted in samples."""
    training = spec.training
    return OptimizerParamScheduler(
        optimizer,
        init_lr=0.0,
        max_lr=training.lr,
        min_lr=training.min_lr,
        lr_warmup_steps=training.lr_warmup_steps * spec.gbs,
        lr_decay_steps=max(training.steps, training.lr_warmup_steps + 1) * spec.gbs,
        lr_decay_style="cosine",
        start_wd=training.weight_decay,
        end_wd=training.weight_decay,
        wd_incr_steps=training.steps * spec.gbs,
        wd_incr_style="constant",
    )
