"""The rank of this process, its process group, and what all ranks do together."""

from __future__ import annotations

import gc
import os
import sys
import time
import warnings
from datetime import timedelta
from typing import Any

from benchrun.errors import UserError
from benchrun.spec.runspec import TrainingSpec

TIMEOUT_S = 600
"""Time limit of a collective."""


def place(ranks_per_node: int) -> tuple[int, int, int]:
    """Rank, number of ranks and local rank by torchrun's variables, else by srun's; without either a single rank.

    A launcher that sets no local rank fills the nodes in order.
    """
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        # Not SLURM_NTASKS: a batch script has it too, without being a rank.
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    ):
        rank, size, local = (os.environ.get(name) for name in names)
        if rank and size:
            return int(rank), int(size), int(local or int(rank) % ranks_per_node)
    return 0, 1, 0


def prepare_process(spec: TrainingSpec) -> None:
    """Set the variables that torch and megatron.core read when they are imported. UserError for wrong ranks."""
    rank, size, local = place(spec.cluster.gpus_per_node)
    if size != spec.num_gpus:
        hint = "start it through its job.sh, or with as many ranks by srun or torchrun"
        raise UserError(f"{size} ranks were started, the run needs {spec.num_gpus}", hint=hint)
    if spec.num_nodes > 1 and "MASTER_ADDR" not in os.environ:
        # Otherwise the ranks of each node wait for rank 0 on their own node, until the timeout.
        hint = "start it through its job.sh, or export the first node's name as MASTER_ADDR"
        raise UserError(f"the run has {spec.num_nodes} nodes, and MASTER_ADDR is not set", hint=hint)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(local))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    # A single rank takes any free port, so that two such runs on one machine do not collide.
    os.environ.setdefault("MASTER_PORT", "0" if size == 1 else "29500")
    if spec.gpu == "CPU":
        _prepare_cpu()


def _prepare_cpu() -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # megatron.core would use the GPUs of the machine
    for package in ("transformer_engine", "transformer_engine_torch", "apex", "amp_C"):
        sys.modules[package] = None  # type: ignore[assignment]  # their Adam and norms run on GPUs alone
    # megatron.core compiles small functions by torch.compile, which on a CPU needs a C++ compiler.
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Missing packages, which the log's versions show; a default of megatron.core 0.16.
    warnings.filterwarnings("ignore", message=r".*(Apex|Transformer Engine).*not installed")
    warnings.filterwarnings("ignore", message="full scope is deprecated")
    warnings.filterwarnings("ignore", message=r"The \.grad attribute of a Tensor that is not a leaf")
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed")


def refuse_without_gpu(spec: TrainingSpec) -> None:
    """UserError where the run is for GPUs and this rank has none: NCCL's own error comes late and is long."""
    import torch

    if spec.gpu == "CPU":
        return
    if not torch.cuda.is_available():
        raise UserError(f"the run is for {spec.gpu}, and this node has no usable GPU")
    local, visible = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
    # srun may show each rank only its own GPU; torchrun shows all of them to each.
    if local >= visible and (visible > 1 or "LOCAL_WORLD_SIZE" in os.environ):
        hint = "start fewer ranks per node, or check CUDA_VISIBLE_DEVICES"
        raise UserError(f"local rank {local} has no GPU: this node has {visible}", hint=hint)


def start_process_group(spec: TrainingSpec) -> Any:
    """Join all ranks; this rank's device."""
    import torch

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
    import torch

    if torch.distributed.get_backend() == "nccl":
        torch.cuda.synchronize()
    torch.distributed.barrier()
    return time.perf_counter()


def leave() -> None:
    """Leave the process group together, so that no rank sees a closed connection."""
    import torch

    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def collect_garbage(spec: TrainingSpec, step: int) -> None:
    """Collect Python's garbage on all ranks after every ``manual_gc_interval`` steps; automatically if that is 0.

    Called with step 0 first, which switches the automatic collection off: one rank that collects delays all.
    """
    interval = spec.training.manual_gc_interval
    if interval and step % interval == 0:
        gc.disable()
        gc.collect()
