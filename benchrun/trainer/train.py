"""The training loop of one rank."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import finalize_model_grads
from megatron.core.pipeline_parallel import get_forward_backward_func

from benchrun.spec.runspec import TrainingSpec
from benchrun.trainer import breakdown, build, ceiling, cpu, kernels, log, profiling, ranks, te, weights
from benchrun.trainer.clock import StepClock
from benchrun.trainer.data import at_positions, dataset, loader
from benchrun.trainer.facts import in_use
from benchrun.trainer.host import HostClock
from benchrun.trainer.layers import chunk_positions


def train(spec: TrainingSpec) -> None:
    """Train ``spec`` as this process's rank."""
    build.refuse_impossible(spec)
    if spec.gpu == "CPU":
        cpu.install()
    ranks.start_process_group(spec)
    layout, training, core = spec.layout, spec.training, build.configuration(spec)
    parallel_state.initialize_model_parallel(
        **{name: size for name, size in core.parallel.items() if name.endswith("_parallel_size")},
        create_gloo_process_groups=False,
        distributed_timeout_minutes=ranks.TIMEOUT_S // 60,
    )
    tensor_parallel.model_parallel_cuda_manual_seed(training.seed, te_rng_tracker=training.cuda_graphs != "none")
    if torch.distributed.get_rank() == 0:
        # megatron.core uses transformer-engine's Adam and gradient norm even with its own layers.
        packages = {"megatron-core": "megatron.core", "transformer-engine": "transformer_engine"}
        layers = "transformer-engine" if spec.transformer_engine else "megatron-core and torch"
        initial_weights = "layout-independent" if weights.layout_independent(spec) else "megatron-core"
        log.say(log.configuration(spec, packages, layers=layers, initial_weights=initial_weights))
    data_group = parallel_state.get_data_parallel_group(with_context_parallel=True)
    ceiling.measure(spec, {"dp": data_group, "tp": parallel_state.get_tensor_model_parallel_group()})

    kernels.install(spec)
    if training.tp_comm_overlap:
        te.start_userbuffers(spec)
    config = build.transformer_config(spec)
    model = build.build_model(spec, config)
    optimizer = build.build_optimizer(spec, model)
    scheduler = build.build_scheduler(spec, optimizer)
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    # Megatron-LM's defaults (megatron/training/training.py), with --align-param-gather for interleaved stages: reduce
    # gradients only in the last micro-batch, and gather weights as the stages reach them.
    if core.ddp["overlap_grad_reduce"]:
        config.no_sync_func = _one_or_all([chunk.no_sync for chunk in model])
        config.grad_sync_func = _one_or_all([chunk.start_grad_sync for chunk in model])
    if core.ddp["align_param_gather"]:
        config.param_sync_func = _one_or_all([chunk.start_param_sync for chunk in model])

    positions = chunk_positions(spec.seq_length, layout.cp, parallel_state.get_context_parallel_rank())
    rank, steps = parallel_state.get_data_parallel_rank(), training.steps + profiling.steps_made(spec)
    micro_batches = loader(spec, dataset(spec), rank, steps + training.breakdown, partial(at_positions, positions))
    host = HostClock(spec)
    gradients = partial(
        get_forward_backward_func(),
        # On the device before the first step: a copy from other memory would wait for the GPU's queue.
        forward_step_func=partial(_forward_step, positions.expand(spec.mbs, -1).cuda()),
        data_iterator=_one_or_all([host.timed(micro_batches) for _ in model]),
        model=_one_or_all(model),
        num_microbatches=spec.num_microbatches,
        seq_length=spec.seq_length,
        micro_batch_size=spec.mbs,
        decoder_seq_length=spec.seq_length,
        forward_only=False,
    )
    _loop(spec, model, optimizer, scheduler, gradients, host)
    host.keep()


def _one_or_all(items: list[Any]) -> Any:
    """megatron.core's schedules take a list only for several chunks of the model."""
    return items if len(items) > 1 else items[0]


def _loop(
    spec: TrainingSpec,
    model: list[Any],
    optimizer: Any,
    scheduler: Any,
    gradients: Callable[[], Any],
    host: HostClock,
) -> None:
    printer = torch.distributed.get_rank() == torch.distributed.get_world_size() - 1
    for chunk in model:
        chunk.train()
    ranks.collect_garbage(spec, step=0)

    def step() -> tuple[list[dict[str, Any]], bool, float | None]:
        for chunk in model:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        losses = gradients()
        return losses, *te.optimizer_step(spec, optimizer, model)

    with StepClock(spec) as clock:
        started = ranks.synchronised()
        clock.start()
        for number in range(1, spec.training.steps + 1):
            host.begin_step()
            losses, updated, grad_norm = step()
            lr = optimizer.param_groups[0]["lr"] if optimizer.param_groups else 0.0
            if updated:
                scheduler.step(increment=spec.gbs)
            clock.read()
            loss = _mean_loss(losses)
            # Reading the loss waits for the GPU: a step ends here, and the next begins.
            ended = time.perf_counter()
            clock.end_step(number)
            host.end_step()
            seconds, started = ended - started, ended
            if printer:
                line = log.step_line(spec, number, seconds, lr=lr, loss=loss, grad_norm=grad_norm, skipped=not updated)
                log.say(line)
                if number == 1:
                    log.say(f"benchrun in use: {json.dumps(in_use(model, optimizer))}")
            ranks.collect_garbage(spec, number)
    if printer:
        log.say(log.usage(spec))
    clock.keep(parallel_state.get_pipeline_model_parallel_rank())
    profiling.profile(spec, lambda: _mean_loss(step()[0]))
    breakdown.measure(spec, step, host)


def _forward_step(position_ids: Any, iterator: Iterator[dict[str, Any]], model: Any) -> tuple[Any, Any]:
    """One micro-batch forward: megatron.core's schedules call this."""
    batch = {name: value.cuda(non_blocking=True) for name, value in next(iterator).items()}
    output = model(batch["tokens"], position_ids, None, labels=batch["labels"])
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
    if not losses:
        return float("nan")
    total = torch.stack([entry["lm loss"] for entry in losses]).sum(0)
    torch.distributed.all_reduce(total, group=parallel_state.get_data_parallel_group(with_context_parallel=True))
    return float(total[0] / total[1])
