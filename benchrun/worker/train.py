"""The training loop of one rank."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import finalize_model_grads
from megatron.core.pipeline_parallel import get_forward_backward_func

from benchrun.runspec.spec import TrainingSpec

from . import (
    breakdown,
    build,
    ceiling,
    cpu,
    kernels,
    log,
    profiling,
    ranks,
    te,
    weights,
)
from .clock import StepClock
from .data import at_positions, dataset, loader
from .host import HostClock
from .layers import chunk_positions


def train(spec: TrainingSpec) -> None:
    """Train ``spec`` as this process's rank."""
    _start(spec)
    if spec.training.cuda_graphs == "full_iteration":
        # Autograd remembers the stream on which a weight was made, and no graph can hold
        # work of CUDA's default stream.
        torch.cuda.set_stream(torch.cuda.Stream())
    if torch.distributed.get_rank() == 0:
        # megatron.core uses transformer-engine's Adam and gradient norm even with its
        # own layers.
        packages = {"megatron-core": "megatron.core", "transformer-engine": "transformer_engine"}
        layers = "megatron-core and torch"
        if spec.transformer_engine:
            layers = "transformer-engine"
        initial_weights = "megatron-core"
        if weights.layout_independent(spec):
            initial_weights = "layout-independent"
        log.say(log.configuration(spec, packages, layers=layers, initial_weights=initial_weights))
    data_group = parallel_state.get_data_parallel_group(with_context_parallel=True)
    ceiling.measure(
        spec, {"dp": data_group, "tp": parallel_state.get_tensor_model_parallel_group()}
    )

    kernels.install(spec)
    if spec.training.tp_comm_overlap:
        te.start_userbuffers(spec)
    config = build.transformer_config(spec)
    model = build.build_model(spec, config)
    optimizer = build.build_optimizer(spec, model)
    scheduler = build.build_scheduler(spec, optimizer)
    _connect(spec, config, model, optimizer)

    positions = chunk_positions(
        spec.seq_length, spec.layout.cp, parallel_state.get_context_parallel_rank()
    )
    rank = parallel_state.get_data_parallel_rank()
    steps = spec.training.steps + profiling.steps_made(spec)
    micro_batches = loader(
        spec, dataset(spec), rank, steps + spec.training.breakdown, partial(at_positions, positions)
    )
    host = HostClock(spec)
    gradients = _gradients(spec, model, positions, [host.timed(micro_batches) for _ in model])
    _loop(spec, model, optimizer, scheduler, gradients, host)
    host.keep()


def _start(spec: TrainingSpec) -> None:
    """Join the other ranks: the groups of the layout, and the seeds."""
    build.refuse_impossible(spec)
    if spec.gpu == "CPU":
        cpu.install()
    ranks.start_process_group(spec)
    parallel_state.initialize_model_parallel(
        **{
            name: size
            for name, size in build.configuration(spec).parallel.items()
            if name.endswith("_parallel_size")
        },
        create_gloo_process_groups=False,
        distributed_timeout_minutes=ranks.TIMEOUT_S // 60,
    )
    seed = spec.training.seed
    graphs = spec.training.cuda_graphs
    tensor_parallel.model_parallel_cuda_manual_seed(seed, te_rng_tracker=graphs != "none")


def _connect(spec: TrainingSpec, config: Any, model: list[Any], optimizer: Any) -> None:
    """Tell megatron.core's schedules how to scale the loss, and when to communicate
    gradients and weights.

    Megatron-LM's defaults (megatron/training/training.py), with --align-param-gather
    for interleaved stages: reduce gradients only in the last micro-batch, and gather
    weights as the stages reach them.
    """
    config.grad_scale_func = optimizer.scale_loss
    config.finalize_model_grads_func = finalize_model_grads
    ddp = build.configuration(spec).ddp
    if ddp["overlap_grad_reduce"]:
        config.no_sync_func = _one_or_all([chunk.no_sync for chunk in model])
        config.grad_sync_func = _one_or_all([chunk.start_grad_sync for chunk in model])
    if ddp["align_param_gather"]:
        config.param_sync_func = _one_or_all([chunk.start_param_sync for chunk in model])


def _gradients(
    spec: TrainingSpec, model: list[Any], positions: torch.Tensor, batches: list[Iterator[Any]]
) -> Callable[[], Any]:
    """A function that passes the next global batch forward and backward and returns the
    losses of its micro-batches.

    ``batches``: the micro-batches of each chunk of the model.
    """
    passes = get_forward_backward_func()
    if spec.training.cuda_graphs == "full_iteration":
        # Here, because megatron.core 0.16 lacks what it imports.
        from megatron.core.full_cuda_graph import FullCudaGraphWrapper

        passes = FullCudaGraphWrapper(passes)
    return partial(
        passes,
        # On the device before the first step: a copy from other memory would wait for
        # the GPU's queue.
        forward_step_func=partial(_forward_step, positions.expand(spec.mbs, -1).cuda()),
        data_iterator=_one_or_all(batches),
        model=_one_or_all(model),
        num_microbatches=spec.num_microbatches,
        seq_length=spec.seq_length,
        micro_batch_size=spec.mbs,
        decoder_seq_length=spec.seq_length,
        forward_only=False,
    )


def _one_or_all(items: list[Any]) -> Any:
    """megatron.core's schedules take a list only for several chunks of the model."""
    if len(items) > 1:
        return items
    return items[0]


def _loop(
    spec: TrainingSpec,
    model: list[Any],
    optimizer: Any,
    scheduler: Any,
    gradients: Callable[[], Any],
    host: HostClock,
) -> None:
    """Make the steps of the run: first the measured ones, then those that a profiler
    records."""
    printer = torch.distributed.get_rank() == torch.distributed.get_world_size() - 1
    for chunk in model:
        chunk.train()
    ranks.collect_garbage(spec, step=0)
    step = partial(_step, spec, model, optimizer, gradients)
    with StepClock(spec) as clock:
        started = ranks.synchronised()
        clock.start()
        for number in range(1, spec.training.steps + 1):
            host.begin_step()
            losses, updated, grad_norm = step()
            lr = 0.0
            if optimizer.param_groups:
                lr = optimizer.param_groups[0]["lr"]
            if updated:
                scheduler.step(increment=spec.gbs)
            clock.read()
            loss = _mean_loss(losses)
            # Reading the loss waits for the GPU: a step ends here, and the next begins.
            ended = time.perf_counter()
            clock.end_step(number)
            host.end_step()
            seconds = ended - started
            started = ended
            if printer:
                line = log.step_line(
                    spec,
                    number,
                    seconds,
                    lr=lr,
                    loss=loss,
                    grad_norm=grad_norm,
                    skipped=not updated,
                )
                log.say(line)
            ranks.collect_garbage(spec, number)
    if printer:
        log.say(log.usage(spec))
    clock.keep(parallel_state.get_pipeline_model_parallel_rank())
    profiling.profile(spec, lambda: _mean_loss(step()[0]))
    breakdown.measure(spec, step, host)


def _step(
    spec: TrainingSpec, model: list[Any], optimizer: Any, gradients: Callable[[], Any]
) -> tuple[list[dict[str, Any]], bool, float | None]:
    """Make a step: its losses, whether the weights were updated, and the norm of the
    gradients."""
    for chunk in model:
        chunk.zero_grad_buffer()
    optimizer.zero_grad()
    losses = gradients()
    return losses, *te.optimizer_step(spec, optimizer, model)


def _forward_step(
    position_ids: Any, iterator: Iterator[dict[str, Any]], model: Any
) -> tuple[Any, Any]:
    """One micro-batch forward: megatron.core's schedules call this."""
    batch = {}
    for name, value in next(iterator).items():
        batch[name] = value.cuda(non_blocking=True)
    output = model(batch["tokens"], position_ids, None, labels=batch["labels"])
    return output, _loss


def _loss(output: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Sum of the losses and number of tokens on the last stage; the schedules divide
    them."""
    total = output.float().sum()
    # Filled on the device: copying a number there would wait for the GPU's queue.
    tokens = torch.full((), output.numel(), dtype=torch.int, device=output.device)
    return total, tokens, {"lm loss": torch.stack([total.detach(), tokens.float()])}


def _mean_loss(losses: list[dict[str, Any]]) -> float:
    """Mean over every token of the global batch; NaN on ranks without a last stage.

    Called after the optimizer's step, on its stream: reading the number waits for the
    step.
    """
    if not losses:
        return float("nan")
    total = torch.stack([entry["lm loss"] for entry in losses]).sum(0)
    torch.distributed.all_reduce(
        total, group=parallel_state.get_data_parallel_group(with_context_parallel=True)
    )
    return float(total[0] / total[1])
