"""The training loop of one rank."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from megatron.core.extensions.transformer_engine import HAVE_TE

from benchrun.spec.runspec import RunSpec
from benchrun.trainer import breakdown, ceiling, cpu, fp8_weights, garbage, log, ranks, weights
from benchrun.trainer.config import configuration, refuse_impossible, transformer_config
from benchrun.trainer.data import batches, dataset
from benchrun.trainer.facts import in_use
from benchrun.trainer.layers import chunk_positions
from benchrun.trainer.model import build_model
from benchrun.trainer.optimizer import build_optimizer, build_scheduler
from benchrun.trainer.userbuffers import start_userbuffers


def train(spec: RunSpec) -> None:
    """Train ``spec`` as this process's rank."""
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.pipeline_parallel import get_forward_backward_func

    refuse_impossible(spec)
    if spec.gpu == "CPU":
        cpu.install()
    ranks.start_groups(spec)
    graphs = spec.training.cuda_graphs != "none"
    tensor_parallel.model_parallel_cuda_manual_seed(spec.training.seed, te_rng_tracker=graphs)
    if ranks.place().rank == 0:
        log.say(_configuration(spec))
    ceiling.measure(spec, ranks.groups())

    if spec.training.tp_comm_overlap:
        start_userbuffers(spec)
    config = transformer_config(spec)
    model = build_model(spec, config)
    optimizer = build_optimizer(spec, model)
    scheduler = build_scheduler(spec, optimizer)
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    _let_the_schedule_communicate(spec, config, model)

    cp_rank = parallel_state.get_context_parallel_rank()
    positions = chunk_positions(spec.seq_length, spec.layout.cp, cp_rank)
    dp_rank = parallel_state.get_data_parallel_rank()
    samples = dataset(spec)
    data = [batches(spec, samples, dp_rank, positions) for _ in model]
    step = partial(
        get_forward_backward_func(),
        forward_step_func=_forward_step,
        data_iterator=data if len(data) > 1 else data[0],
        model=model if len(model) > 1 else model[0],
        num_microbatches=spec.num_microbatches,
        seq_length=spec.seq_length,
        micro_batch_size=spec.mbs,
        decoder_seq_length=spec.seq_length,
        forward_only=False,
    )
    _loop(spec, model, optimizer, scheduler, step)
    ranks.leave_groups()


def _let_the_schedule_communicate(spec: RunSpec, config: Any, model: list[Any]) -> None:
    """Reduce gradients in the last micro-batch alone, and gather weights as the stages reach them.

    Megatron-LM's defaults (megatron/training/training.py), with --align-param-gather for interleaved stages.
    """

    def each(name: str) -> Any:
        functions = [getattr(chunk, name) for chunk in model]
        return functions if len(functions) > 1 else functions[0]

    if spec.training.overlap_grad_reduce:
        config.no_sync_func = each("no_sync")
        config.grad_sync_func = each("start_grad_sync")
    if configuration(spec).ddp.align_param_gather:
        config.param_sync_func = each("start_param_sync")


def _configuration(spec: RunSpec) -> str:
    te = spec.transformer_engine
    packages = {
        "megatron-core": log.version("megatron-core"),
        # megatron.core takes Adam and the gradients' norm from it even for its own layers.
        "transformer-engine": log.version("transformer-engine") if HAVE_TE else None,
    }
    return log.configuration(
        spec,
        layers="transformer-engine" if te else "megatron-core and torch",
        initial_weights="layout-independent" if weights.layout_independent(spec) else "megatron-core",
        packages=packages,
    )


def _loop(spec: RunSpec, model: list[Any], optimizer: Any, scheduler: Any, step: Callable[[], Any]) -> None:
    here = ranks.place()
    printer = here.rank == here.world_size - 1
    for chunk in model:
        chunk.train()
    garbage.hold(spec)

    def one() -> tuple[list[dict[str, Any]], bool, float | None]:
        for chunk in model:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        losses = step()
        return losses, *fp8_weights.update(spec, optimizer, model)

    started = ranks.synchronised()
    for number in range(1, spec.training.steps + 1):
        losses, updated, grad_norm = one()
        lr = optimizer.param_groups[0]["lr"] if optimizer.param_groups else 0.0
        if updated:
            scheduler.step(increment=spec.gbs)
        loss = _mean_loss(losses)
        # Reading the loss waits for the GPU: a step ends here, and the next begins.
        ended = time.perf_counter()
        result = log.StepResult(number, ended - started, lr, loss, grad_norm, skipped=not updated)
        started = ended
        if printer:
            log.say(log.step_line(spec, result))
            if number == 1:
                log.say(f"benchrun in use: {json.dumps(in_use(model, optimizer))}")
        garbage.collect(spec, number)
    if printer:
        log.say(log.usage(spec))
    breakdown.measure(spec, one)


def _forward_step(iterator: Iterator[dict[str, Any]], model: Any) -> tuple[Any, Any]:
    """One micro-batch forward: megatron.core's schedules call this."""
    batch = {name: value.cuda(non_blocking=True) for name, value in next(iterator).items()}
    output = model(batch["tokens"], batch["position_ids"], None, labels=batch["labels"])
    return output, _loss


def _loss(output: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Sum of the losses and number of tokens on the last stage; the schedules divide them."""
    total = output.float().sum()
    # Filled on the device: copying a number there would wait for the GPU's queue.
    tokens = torch.full((), output.numel(), dtype=torch.int, device=output.device)
    return total, tokens, {"lm loss": torch.stack([total.detach(), tokens.float()])}


def _mean_loss(losses: list[dict[str, Any]]) -> float:
    """Mean over every token of the global batch; NaN on ranks without a last stage.

    Called after the optimizer's step, on its stream: reading the number waits for the step.
    """
    from megatron.core import parallel_state

    if not losses:
        return float("nan")
    total = torch.stack([entry["lm loss"] for entry in losses]).sum(0)
    torch.distributed.all_reduce(total, group=parallel_state.get_data_parallel_group(with_context_parallel=True))
    return float(total[0] / total[1])
