"""RunSpec -> Adam over this rank's parameters, and its learning rate."""

from __future__ import annotations

from typing import Any

from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler

from benchrun.spec.runspec import RunSpec
from benchrun.spec.training import FP32_AT_A_TIME, Optimizer
from benchrun.trainer.config import configuration, of_torch


def build_optimizer(spec: RunSpec, model: list[Any]) -> Any:
    """Adam, its states as ``training.optimizer`` says."""
    core, states = configuration(spec), spec.training.optimizer
    config = OptimizerConfig(**of_torch(core.optimizer.values), overlap_param_gather=core.ddp.overlap_param_gather)
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
    training, schedule = spec.training, configuration(spec).schedule
    return OptimizerParamScheduler(
        optimizer,
        init_lr=schedule.lr_warmup_init,
        max_lr=training.lr,
        min_lr=training.min_lr,
        lr_warmup_steps=schedule.lr_warmup_iters * spec.gbs,
        lr_decay_steps=schedule.lr_decay_iters * spec.gbs,
        lr_decay_style=schedule.lr_decay_style,
        start_wd=schedule.start_weight_decay,
        end_wd=schedule.end_weight_decay,
        wd_incr_steps=training.steps * spec.gbs,
        wd_incr_style=schedule.weight_decay_incr_style,
    )
