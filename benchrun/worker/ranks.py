"""The process group, and what all ranks do together."""

import gc
import os
import time
from datetime import timedelta
from typing import Any

import torch

from benchrun.errors import UserError
from benchrun.runspec.spec import RunSpec, TrainingSpec

TIMEOUT_S = 600
"""Time limit of a collective."""


def refuse_without_gpu(spec: RunSpec) -> None:
    """UserError if the run is for GPUs and this rank has none: NCCL's own error comes
    late and is long."""
    if spec.gpu == "CPU":
        return
    if not torch.cuda.is_available():
        raise UserError(f"the run is for {spec.gpu}, and this node has no usable GPU")
    local = int(os.environ["LOCAL_RANK"])
    visible = torch.cuda.device_count()
    # srun may show each rank only its own GPU; torchrun shows all of them to each.
    if local >= visible and (visible > 1 or "LOCAL_WORLD_SIZE" in os.environ):
        hint = "start fewer ranks per node, or check CUDA_VISIBLE_DEVICES"
        raise UserError(f"local rank {local} has no GPU: this node has {visible}", hint=hint)


def start_process_group(spec: TrainingSpec) -> Any:
    """Join all ranks; this rank's device."""
    timeout = timedelta(seconds=TIMEOUT_S)
    if spec.gpu == "CPU":
        torch.distributed.init_process_group("gloo", timeout=timeout)
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl", timeout=timeout)
    return device


def synchronised() -> float:
    """Wait for all ranks and their GPUs; the time by `time.perf_counter`."""
    if torch.distributed.get_backend() == "nccl":
        torch.cuda.synchronize()
    torch.distributed.barrier()
    return time.perf_counter()


def at_first_rank(own: Any) -> tuple[Any, ...]:
    """Arguments of each rank, in order, on rank 0; empty on the others."""
    if torch.distributed.get_rank() != 0:
        torch.distributed.gather_object(own)
        return ()
    every = [None] * torch.distributed.get_world_size()
    torch.distributed.gather_object(own, every)
    return tuple(every)


def leave(graphs: bool = False) -> None:
    """Leave the process group together, so that no rank sees a closed connection.

    ``graphs``: CUDA graphs hold NCCL's communicators, which would wait for them without
    end; the process ends both.
    """
    torch.distributed.barrier()
    if not graphs:
        torch.distributed.destroy_process_group()


def collect_garbage(spec: TrainingSpec, step: int) -> None:
    """Collect Python's garbage on all ranks after every ``manual_gc_interval`` steps;
    automatically if that is 0.

    Called with step 0 first, which switches the automatic collection off: one rank that
    collects delays all.
    """
    interval = spec.training.manual_gc_interval
    if interval and step % interval == 0:
        gc.disable()
        gc.collect()
